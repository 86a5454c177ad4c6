//! What the processes of a tape read from and wrote to the standard streams, for a page.

use std::collections::VecDeque;

use serde::Serialize;

use crate::tape::{Kind, Payload, TapeStore};

/// Bytes of the beginning and of the end of all streams that are shown. What is between is left out.
const HEAD_BYTES_MAX: u64 = 768 << 10;
const TAIL_BYTES_MAX: u64 = 256 << 10;

/// Bytes of a piece: of a longer one the beginning is shown.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Pieces of the beginning, and of the end.
const PIECES_MAX: usize = 20_000;

/// Bytes that a piece counts at least.
const LEAST_BYTES: u64 = 16;

struct Piece {
    at: usize,
    process: Option<usize>,
    fd: u32,
    bytes: Payload,
}

impl Piece {
    fn cost(&self) -> u64 {
        self.bytes.len_bytes().clamp(LEAST_BYTES, PIECE_BYTES_MAX as u64)
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
        let piece = Piece { at, process, fd, bytes: bytes.clone() };
        self.bytes = self.bytes.saturating_add(bytes.len_bytes());
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
            self.left_out_bytes = self.left_out_bytes.saturating_add(first.bytes.len_bytes());
        }
    }

    /// The streams with their bytes, which are in `store`.
    pub fn show(self, store: &TapeStore) -> Shown {
        let show = |pieces: Vec<Piece>| pieces.iter().map(|piece| shown(piece, store)).collect();
        Shown {
            head: show(self.head),
            tail: show(self.tail.into()),
            bytes: self.bytes,
            left_out_bytes: self.left_out_bytes,
        }
    }
}

fn shown(piece: &Piece, store: &TapeStore) -> ShownPiece {
    let Piece { at, process, fd, .. } = *piece;
    match piece.bytes.bytes(store) {
        Ok(bytes) => {
            let kept = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
            let rest = bytes.len() - kept.len();
            let note = (rest > 0).then(|| format!("{rest} more bytes are left out"));
            ShownPiece { at, process, fd, text: String::from_utf8_lossy(kept).into_owned(), note }
        }
        Err(error) => {
            let len = piece.bytes.len_bytes();
            let note = Some(format!("{len} bytes are not shown: {error}"));
            ShownPiece { at, process, fd, text: String::new(), note }
        }
    }
}
