//! What the processes of a tape read from and wrote to the standard streams, for a page.

use std::collections::VecDeque;
use std::io::Read;

use serde::Serialize;

use super::shorten;
use crate::tape::{Kind, Payload, TapeStore};

/// Bytes of the beginning and of the end of all streams that are shown. What is between is left out.
const HEAD_BYTES_MAX: u64 = 768 << 10;
const TAIL_BYTES_MAX: u64 = 256 << 10;

/// Bytes of a piece: of a longer one the beginning is shown.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Bytes of the name of a rule that withheld a piece.
const RULE_BYTES_MAX: usize = 200;

/// Bytes of contents that are read.
const READ_BYTES_MAX: u64 = 256 << 20;

/// Pieces of the beginning, and of the end.
const PIECES_MAX: usize = 20_000;

/// Bytes that a piece counts at least.
const LEAST_BYTES: u64 = 16;

struct Piece {
    at: usize,
    process: Option<usize>,
    fd: u32,
    len_bytes: u64,
    /// Of a long inline text the beginning.
    bytes: Payload,
}

impl Piece {
    fn cost(&self) -> u64 {
        self.len_bytes.clamp(LEAST_BYTES, PIECE_BYTES_MAX as u64)
    }
}

/// A piece as the page has it.
#[derive(Serialize)]
struct ShownPiece {
    /// The record.
    at: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<usize>,
    fd: u32,
    text: String,
    /// What of it is missing, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The streams of a tape.
#[derive(Default)]
pub struct Streams {
    head: Vec<Piece>,
    head_bytes: u64,
    tail: VecDeque<Piece>,
    tail_bytes: u64,
    bytes: u64,
    left_out_bytes: u64,
    is_head_full: bool,
}

/// The streams, as the page has them.
#[derive(Serialize)]
pub struct Shown {
    head: Vec<ShownPiece>,
    tail: Vec<ShownPiece>,
    /// Bytes of all pieces.
    bytes: u64,
    /// Bytes of those between head and tail.
    left_out_bytes: u64,
}

impl Streams {
    /// Takes note of record number `at`.
    pub fn note(&mut self, at: usize, process: Option<usize>, kind: &Kind) {
        let (fd, bytes) = match kind {
            Kind::StreamRead { bytes, .. } => (0, bytes),
            Kind::StreamWrite { fd, bytes, .. } => (*fd, bytes),
            _ => return,
        };
        let len_bytes = bytes.len_bytes();
        let piece = Piece { at, process, fd, len_bytes, bytes: bounded(bytes) };
        self.bytes = self.bytes.saturating_add(len_bytes);
        self.is_head_full |=
            self.head_bytes + piece.cost() > HEAD_BYTES_MAX || self.head.len() == PIECES_MAX;
        if !self.is_head_full {
            self.head_bytes += piece.cost();
            self.head.push(piece);
            return;
        }
        self.tail_bytes += piece.cost();
        self.tail.push_back(piece);
        while self.tail_bytes > TAIL_BYTES_MAX || self.tail.len() > PIECES_MAX {
            let Some(first) = self.tail.pop_front() else { break };
            self.tail_bytes -= first.cost();
            self.left_out_bytes = self.left_out_bytes.saturating_add(first.len_bytes);
        }
    }

    /// The streams with their bytes, which are in `store`.
    pub fn show(self, store: &TapeStore) -> Shown {
        let mut read_left = READ_BYTES_MAX;
        let mut show = |pieces: Vec<Piece>| {
            pieces.iter().map(|piece| shown(piece, store, &mut read_left)).collect()
        };
        Shown {
            head: show(self.head),
            tail: show(self.tail.into()),
            bytes: self.bytes,
            left_out_bytes: self.left_out_bytes,
        }
    }
}

/// `payload` without what a page does not show of it.
fn bounded(payload: &Payload) -> Payload {
    match payload {
        Payload::Inline { text } => {
            let end = text.floor_char_boundary(PIECE_BYTES_MAX);
            Payload::Inline { text: text[..end].to_owned() }
        }
        Payload::Stored { content_hash, len_bytes, withheld_by } => Payload::Stored {
            content_hash: *content_hash,
            len_bytes: *len_bytes,
            withheld_by: withheld_by.as_deref().map(|rule| shorten::text(rule, RULE_BYTES_MAX)),
        },
    }
}

/// The bytes that are shown, or why there are none.
fn beginning(payload: &Payload, store: &TapeStore, read_left: &mut u64) -> Result<Vec<u8>, String> {
    let (digest, len_bytes) = match payload {
        Payload::Inline { text } => return Ok(text.clone().into_bytes()),
        Payload::Stored { withheld_by: Some(rule), .. } => {
            return Err(format!("the rule {rule} withheld them"));
        }
        Payload::Stored { content_hash, len_bytes, .. } => (*content_hash, *len_bytes),
    };
    // All of a content is read, to check it.
    let left = read_left.checked_sub(len_bytes);
    *read_left = left.ok_or_else(|| format!("{READ_BYTES_MAX} bytes were read before"))?;
    let mut bytes = Vec::new();
    let content = store.open(digest, len_bytes).map_err(|error| error.to_string())?;
    let read = content.take(PIECE_BYTES_MAX as u64).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn shown(piece: &Piece, store: &TapeStore, read_left: &mut u64) -> ShownPiece {
    let Piece { at, process, fd, .. } = *piece;
    match beginning(&piece.bytes, store, read_left) {
        Ok(kept) => {
            let rest = piece.len_bytes.saturating_sub(kept.len() as u64);
            let note = (rest > 0).then(|| format!("{rest} more bytes are left out"));
            ShownPiece { at, process, fd, text: String::from_utf8_lossy(&kept).into_owned(), note }
        }
        Err(error) => {
            let note = Some(format!("{} bytes are not shown: {error}", piece.len_bytes));
            ShownPiece { at, process, fd, text: String::new(), note }
        }
    }
}
