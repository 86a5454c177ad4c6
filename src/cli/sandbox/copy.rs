//! `belljar sandbox cp`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::disk::tell_all;
use super::{home, or_explain, waiting};
use crate::base::disk;
use crate::cli::args::sandbox::CpArgs;
use crate::cli::changes::journaled;
use crate::cli::exit::Usage;
use crate::cli::planted_links::Folders;
use crate::cli::recover::before_opening;
use crate::cli::text::printable;
use crate::sandbox::{Copied, check_session_id};

pub fn run(args: &CpArgs) -> Result<u8> {
    let copied = match (in_session(&args.from), in_session(&args.to)) {
        (Some((id, path)), None) => {
            let mut sandbox = or_explain(home()?.resume(id), id)?;
            let path = sandbox.absolute(path);
            let to = Path::new(&args.to);
            Folders::of_session(sandbox.mounts()).check("cp", to)?;
            before_opening(&folder_of(to), false)?;
            let copied = journaled(false, |journals, witness| {
                sandbox.copy_out_journaled(&path, to, journals, witness)
            });
            tell_all(&mut sandbox, id);
            copied?
        }
        (None, Some((id, path))) => {
            let home = home()?;
            let mut held = home.hold(id, || waiting(id))?;
            let mut sandbox = or_explain(held.resume(), id)?;
            let path = sandbox.absolute(path);
            let from = Path::new(&args.from);
            Folders::of_session(sandbox.mounts()).check("cp", from)?;
            before_opening(&folder_of(from), false)?;
            let copied = sandbox.copy_in(from, &path)?;
            held.save(&mut sandbox)?;
            copied
        }
        (Some(_), Some(_)) => {
            let message = "cp: FROM and TO are both in sessions; copy to the host first, or write ./ before a \
                           path of the host that has a colon";
            return Err(Usage(message.to_owned()).into());
        }
        (None, None) => {
            let message = "cp: neither FROM nor TO is in a session; write one of them as ID:/PATH";
            return Err(Usage(message.to_owned()).into());
        }
    };
    let Copied { files, directories, links, left_out } = copied;
    for path in &left_out {
        let why = if path.contains(char::REPLACEMENT_CHARACTER) {
            "its name is not UTF-8"
        } else {
            "it is not a file"
        };
        note!("belljar: note: left out {}: {why}", printable(path));
    }
    if args.json {
        let report = json!({
            "files": files, "directories": directories, "links": links, "left_out": left_out,
        });
        say!("{report}");
    }
    Ok(0)
}

/// `path`, if it is a directory, or else its parent.
fn folder_of(path: &Path) -> PathBuf {
    if disk::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return path.to_owned();
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// The session and the path of `ID:PATH`. On Windows a single letter is a drive.
fn in_session(text: &OsStr) -> Option<(&str, &str)> {
    let (id, path) = text.to_str()?.split_once(':')?;
    let is_drive = cfg!(windows) && id.len() == 1;
    (!is_drive && check_session_id(id).is_ok()).then_some((id, path))
}
