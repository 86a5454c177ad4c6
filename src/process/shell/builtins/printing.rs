//! `echo`, and output of builtins.

use crate::process::shell::context::{Run, Shell};

impl Shell {
    /// Prints `text`; returns the status.
    pub(super) async fn print(&mut self, text: &[u8]) -> Run<u8> {
        let _memory = self.take_memory(text.len()).await?;
        let mut text = text.to_vec();
        match self.write(1, &mut text).await? {
            Ok(()) => Ok(0),
            Err(errno) => {
                self.say(&format!("I/O error: {}", errno.meaning())).await?;
                Ok(1)
            }
        }
    }

    pub(super) async fn echo(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let (args, ends) = match args.split_first() {
            Some((first, rest)) if first == b"-n" => (rest, false),
            _ => (args, true),
        };
        let joined = args.join(&b' ');
        if !joined.contains(&b'\\') {
            let mut text = joined;
            if ends {
                text.push(b'\n');
            }
            return self.print(&text).await;
        }
        let mut text = Vec::with_capacity(joined.len() + 1);
        let goes_on = unescape(&joined, true, &mut text);
        if ends && goes_on {
            text.push(b'\n');
        }
        self.print(&text).await
    }
}

/// Appends `text` with its escapes replaced. With `zero_first`, as in `echo` and `%b`, octal numbers begin
/// with a zero. Returns false if `\c` has ended it.
pub(super) fn unescape(text: &[u8], zero_first: bool, out: &mut Vec<u8>) -> bool {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((escape, after)) = rest.split_first() else {
            out.push(b'\\');
            break;
        };
        rest = after;
        match escape {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'c' if zero_first => return false,
            b'e' => out.push(27),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'\\' => out.push(b'\\'),
            b'0' if zero_first => rest = octal(rest, 0, 3, out),
            b'0'..=b'7' => rest = octal(rest, u32::from(escape - b'0'), 2, out),
            other => out.extend([b'\\', *other]),
        }
    }
    true
}

/// Appends the byte given by `value`, the octal digits read so far, and up to `digits_max` more digits.
fn octal<'t>(text: &'t [u8], value: u32, digits_max: usize, out: &mut Vec<u8>) -> &'t [u8] {
    let is_octal = |byte: &&u8| (b'0'..=b'7').contains(*byte);
    let len = text.iter().take(digits_max).take_while(is_octal).count();
    let value = text[..len].iter().fold(value, |value, byte| value * 8 + u32::from(byte - b'0'));
    out.push((value & 0xff) as u8);
    &text[len..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_posix() {
        let unescaped = |text: &str, zero_first| {
            let mut out = Vec::new();
            unescape(text.as_bytes(), zero_first, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(unescaped(r"a\tb\\\0101\q\c!", true), "a\tb\\A\\q");
        assert_eq!(unescaped(r"\101\60", false), "A0");
        assert_eq!(unescaped("\\", true), "\\");
    }
}
