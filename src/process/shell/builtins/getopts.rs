//! `getopts`.

use crate::process::shell::arithmetic;
use crate::process::shell::context::{Run, Shell};
use crate::process::shell::tree::is_name;

impl Shell {
    pub(super) async fn getopts(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let [options, name, rest @ ..] = args else {
            return self.fail("getopts: usage: getopts optstring var [arg...]").await;
        };
        if !is_name(name) {
            let name = String::from_utf8_lossy(name);
            return self.fail(&format!("getopts: {name}: bad variable name")).await;
        }
        let parameters = self.state.parameters.clone();
        let words = if rest.is_empty() { &parameters[..] } else { rest };
        let index = self.state.variables.get(b"OPTIND").and_then(|text| arithmetic::number(text));
        let mut index = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(1).max(1);
        let mut at = self.state.getopts_at;
        let is_silent = options.first() == Some(&b':');
        let word = words.get(index - 1).map_or(b"".as_slice(), Vec::as_slice);
        if at == 0 || at >= word.len() {
            at = 1;
            if word == b"--" {
                index += 1;
            }
            if word.len() < 2 || word[0] != b'-' || word == b"--" {
                self.next_option(name, b"?", None, index, 0).await?;
                return Ok(1);
            }
        }
        let letter = word[at];
        at += 1;
        if at == word.len() {
            (index, at) = (index + 1, 0);
        }
        let known = options.iter().position(|option| *option == letter && letter != b':');
        let Some(known) = known else {
            if is_silent {
                self.next_option(name, b"?", Some(&[letter]), index, at).await?;
            } else {
                self.say(&format!("Illegal option -{}", letter as char)).await?;
                self.next_option(name, b"?", None, index, at).await?;
            }
            return Ok(0);
        };
        if options.get(known + 1) != Some(&b':') {
            self.next_option(name, &[letter], None, index, at).await?;
            return Ok(0);
        }
        let argument =
            if at > 0 { Some(word[at..].to_vec()) } else { words.get(index - 1).cloned() };
        match argument {
            Some(argument) => {
                self.next_option(name, &[letter], Some(&argument), index + 1, 0).await?;
            }
            None if is_silent => {
                self.next_option(name, b":", Some(&[letter]), index, 0).await?;
            }
            None => {
                self.say(&format!("No arg for -{} option", letter as char)).await?;
                self.next_option(name, b"?", None, index, 0).await?;
            }
        }
        Ok(0)
    }

    async fn next_option(
        &mut self,
        name: &[u8],
        value: &[u8],
        argument: Option<&[u8]>,
        index: usize,
        at: usize,
    ) -> Run {
        match argument {
            Some(argument) => self.set(b"OPTARG", argument).await?,
            None => {
                // Unless it is read-only.
                let _ = self.state.variables.unset(b"OPTARG");
            }
        }
        self.set(b"OPTIND", index.to_string().into_bytes()).await?;
        self.state.getopts_at = at;
        self.set(name, value).await
    }
}
