//! Standard output and standard error for what programs write. A console of Windows takes UTF-8 and no other bytes, so that
//! there a program's other bytes are shown as `�`, as terminals elsewhere do it; files and pipes get the bytes.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

#[cfg(windows)]
use crate::base::{ambient, std_handles};

/// Prepares the standard streams of Windows: a console shows colours, and programs that are started do not keep them open.
pub fn prepare() {
    #[cfg(windows)]
    {
        std_handles::keep_from_children();
        if ambient::setting("NO_COLOR").is_none() {
            let _ = anstyle_query::windows::enable_ansi_colors();
        }
    }
}

/// Standard output.
pub struct Stdout;

/// Standard error.
pub struct Stderr;

static OUT: Mutex<Readable> = Mutex::new(Readable::new());
static ERR: Mutex<Readable> = Mutex::new(Readable::new());

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut to = io::stdout().lock();
        if takes_text_only(&to) { write_text(&OUT, &mut to, bytes) } else { to.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut to = io::stderr().lock();
        if takes_text_only(&to) { write_text(&ERR, &mut to, bytes) } else { to.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn takes_text_only(stream: &impl IsTerminal) -> bool {
    cfg!(windows) && stream.is_terminal()
}

fn write_text(state: &Mutex<Readable>, to: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let text = state.lock().unwrap_or_else(PoisonError::into_inner).text(bytes);
    to.write_all(text.as_bytes())?;
    Ok(bytes.len())
}

/// Makes text of bytes that come in pieces.
struct Readable {
    /// The beginning of a character, whose rest has not come yet.
    begun: Vec<u8>,
}

impl Readable {
    const fn new() -> Self {
        Self { begun: Vec::new() }
    }

    /// The text of what came before and of `bytes`, as far as it is complete.
    fn text(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut text = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let may_go_on = chunks.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_in_pieces_are_whole_and_other_bytes_are_replaced() {
        let pieces: [(&[&[u8]], &str); 6] = [
            (&[b"plain"], "plain"),
            (&["ü".as_bytes()], "ü"),
            (&[b"\xf0\x9f", b"\x98", b"\x80!"], "😀!"),
            (&[b"a\xffb"], "a\u{fffd}b"),
            (&[b"\xc3", b"a"], "\u{fffd}a"),
            (&[b"\xe2\x82", b""], ""),
        ];
        for (pieces, expected) in pieces {
            let mut readable = Readable::new();
            let text: String = pieces.iter().map(|piece| readable.text(piece)).collect();
            assert_eq!(text, expected, "{pieces:?}");
        }
    }
}
