//! Server-sent events, as chat endpoints use them.

use std::io::{self, BufRead};

/// An iterator over the data of events.
pub(super) struct Events<R> {
    lines: R,
}

impl<R: BufRead> Events<R> {
    /// Reads events from `lines`, which must be bounded, as a line may be endless.
    pub(super) fn new(lines: R) -> Self {
        Self { lines }
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = io::Result<Vec<u8>>;

    /// The data of the next event that has any. An incomplete last event is skipped.
    fn next(&mut self) -> Option<Self::Item> {
        let mut data: Option<Vec<u8>> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.lines.read_until(b'\n', &mut line) {
                Err(error) => return Some(Err(error)),
                Ok(0) => return None,
                Ok(_) => {}
            }
            line.pop_if(|last| *last == b'\n')?;
            line.pop_if(|last| *last == b'\r');
            if line.is_empty() {
                match data.take() {
                    Some(data) => return Some(Ok(data)),
                    None => continue,
                }
            }
            let Some(value) = line.strip_prefix(b"data:") else { continue };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut data {
                None => data = Some(value.to_vec()),
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<String> {
        let events = Events::new(text.as_bytes());
        events.map(|data| String::from_utf8(data.unwrap()).unwrap()).collect()
    }

    #[test]
    fn events_end_at_empty_lines() {
        assert_eq!(events("data: a\n\ndata:b\r\n\r\n"), ["a", "b"]);
        assert_eq!(events(": hi\nevent: x\ndata: a\ndata:  b\nid: 1\n\n\n\n"), ["a\n b"]);
        assert_eq!(events("datum: a\n\ndata\n\n: \n\ndata: cut off\n"), [""; 0]);
        assert_eq!(events("data:\n\n"), [""]);
    }
}
