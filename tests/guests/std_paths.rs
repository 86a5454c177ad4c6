//! As paths.c, in the style of Rust's standard library: calls of generators and build tools.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// The result of a call, which may be empty.
fn call(name: &str, path: &str, other: &str) -> io::Result<String> {
    let none = |()| String::new();
    match name {
        "create_dir" => fs::create_dir(path).map(none),
        "create_dir_all" => fs::create_dir_all(path).map(none),
        "remove_dir" => fs::remove_dir(path).map(none),
        "remove_dir_all" => fs::remove_dir_all(path).map(none),
        "remove_file" => fs::remove_file(path).map(none),
        "rename" => fs::rename(path, other).map(none),
        "hard_link" => fs::hard_link(path, other).map(none),
        "write" => fs::write(path, other).map(none),
        "read" => fs::read_to_string(path),
        "read_link" => fs::read_link(path).map(|text| text.display().to_string()),
        "exists" => fs::exists(path).map(|is| is.to_string()),
        "is_dir" => Ok(Path::new(path).is_dir().to_string()),
        "copy" => fs::copy(path, other).map(|bytes| bytes.to_string()),
        "append" => {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
            file.write_all(b"more ")?;
            Ok(file.metadata()?.len().to_string())
        }
        "create_new" => fs::File::create_new(path)?.write_all(b"new").map(none),
        // Writes a temporary file beside the path, then renames it to the path.
        "persist" => {
            let temporary = Path::new(path).with_extension("tmp~");
            fs::write(&temporary, other)?;
            fs::rename(&temporary, path).map(none)
        }
        // As a generator does: creates the folder if it does not exist, and a file in it.
        "generate" => {
            if let Some(parent) = Path::new(path).parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, other).map(none)
        }
        "read_dir" => {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let kind = if entry.file_type()?.is_dir() { "/" } else { "" };
                names.push(format!("{}{kind}", entry.file_name().display()));
            }
            names.sort();
            Ok(names.join(" "))
        }
        "metadata" | "symlink_metadata" => {
            let found = if name == "metadata" { fs::metadata(path) } else { fs::symlink_metadata(path) }?;
            let len = if found.is_dir() { 0 } else { found.len() };
            Ok(format!("{} {} {len}", found.is_dir(), found.is_symlink()))
        }
        "begin" => begin(path).map(none),
        _ => Ok("what?".to_owned()),
    }
}

/// Changes to another folder. Only natively: inside, each folder has a process of its own.
fn begin(folder: &str) -> io::Result<()> {
    std::env::set_current_dir(folder)
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (name, _dir, path, other) = (next(), next(), next(), next());
        match call(name, path, other) {
            Ok(found) => writeln!(out, "ok {found}")?,
            Err(error) => match error.raw_os_error() {
                Some(number) => writeln!(out, "error {number}")?,
                None => writeln!(out, "error of std: {:?}", error.kind())?,
            },
        }
        out.flush()?;
    }
    Ok(())
}
