//! All records of a tape for a page: columns that a list and a timeline need at once, and blocks of fields, which the page
//! unpacks when they are looked at.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::deflate::compress_to_vec_zlib;
use serde::Serialize;
use serde_json::{Map, Value};

use super::shorten;

/// Records in a block.
pub const BLOCK_RECORDS: usize = 2048;

/// Records that a page lists.
pub const RECORDS_MAX: usize = 2_000_000;

/// Of a lookup that found nothing.
pub const ABSENT: u8 = 4;

/// Of what did not work.
pub const TROUBLE: u8 = 8;

/// Different kinds that have a name of their own. Others are shown as the last one.
const KINDS_MAX: usize = 250;

/// Bytes of the name of a kind.
const KIND_BYTES_MAX: usize = 60;

/// Level of compression: tapes repeat themselves, so that more effort gains little.
const LEVEL: u8 = 6;

/// `bytes`, compressed, as text.
pub fn packed(bytes: &[u8]) -> String {
    STANDARD.encode(compress_to_vec_zlib(bytes, LEVEL))
}

/// What the columns have of one record.
pub struct Row<'a> {
    /// The number on the tape.
    pub seq: u64,
    /// The kind.
    pub kind: &'a str,
    /// The session's monotonic clock.
    pub monotonic_ms: u64,
    /// The process: its place in the page's table, if known.
    pub process: Option<usize>,
    /// The path: its place in the page's table, if it has one.
    pub path: Option<usize>,
    /// The phase (0 to 2), and [`ABSENT`] or [`TROUBLE`].
    pub state: u8,
    /// The other fields.
    pub fields: Map<String, Value>,
}

/// The records of a tape.
#[derive(Default)]
pub struct Index {
    /// The names of kinds.
    kinds: Vec<String>,
    numbers: HashMap<String, u8>,
    kind: Vec<u8>,
    state: Vec<u8>,
    time: Vec<u8>,
    process: Vec<u8>,
    path: Vec<u8>,
    last_ms: u64,
    /// The block that is being filled.
    block: Vec<u8>,
    block_records: usize,
    blocks: Vec<String>,
    blocks_bytes: usize,
    bytes_max: usize,
    /// Records with fields.
    detailed: usize,
    is_full: bool,
}

/// What the page must know to unpack the columns.
#[derive(Serialize)]
pub struct Columns {
    kinds: Vec<String>,
    /// Records in the columns.
    shown: usize,
    /// Records with fields.
    detailed: usize,
    block_records: usize,
    /// Bytes of each column, in their order: kind, state, time, process, path.
    lens: [usize; 5],
}

/// An index that is complete.
pub struct Packed {
    pub columns: Columns,
    /// The columns, packed.
    pub bytes: String,
    /// The blocks, packed.
    pub blocks: Vec<String>,
}

impl Index {
    /// An index whose blocks have at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Number of records in the columns.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Adds a record, unless there are too many.
    pub fn push(&mut self, row: Row<'_>) {
        if self.len() >= RECORDS_MAX {
            return;
        }
        let at = self.len() as u64;
        let kind = self.number_of(row.kind);
        self.kind.push(kind);
        self.state.push(row.state);
        let now = row.monotonic_ms.min(shorten::NUMBER_MAX);
        // Only a hostile tape's clock runs backwards.
        let now = now.max(self.last_ms);
        number(&mut self.time, now - self.last_ms);
        self.last_ms = now;
        number(&mut self.process, row.process.map_or(0, |at| at as u64 + 1));
        number(&mut self.path, row.path.map_or(0, |at| at as u64 + 1));
        if self.is_full {
            return;
        }
        let mut fields = shorten::fields(row.fields);
        if row.seq != at {
            fields.insert("seq".to_owned(), row.seq.into());
        }
        self.block.push(if self.block.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut self.block, &fields).expect("a map of JSON values is JSON");
        self.block_records += 1;
        if self.block_records == BLOCK_RECORDS {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.block_records == 0 {
            return;
        }
        self.block.push(b']');
        let block = packed(&self.block);
        self.block.clear();
        let count = std::mem::take(&mut self.block_records);
        if self.blocks_bytes + block.len() > self.bytes_max {
            self.is_full = true;
            return;
        }
        self.blocks_bytes += block.len();
        self.detailed += count;
        self.blocks.push(block);
    }

    fn number_of(&mut self, kind: &str) -> u8 {
        if let Some(number) = self.numbers.get(kind) {
            return *number;
        }
        let number = self.kinds.len().min(KINDS_MAX);
        if number == KINDS_MAX {
            self.kinds.resize(KINDS_MAX + 1, "other kinds".to_owned());
        } else {
            self.kinds.push(shorten::text(kind, KIND_BYTES_MAX));
            self.numbers.insert(kind.to_owned(), number as u8);
        }
        number as u8
    }

    /// Completes the index.
    pub fn finish(mut self) -> Packed {
        if !self.is_full {
            self.end_block();
        }
        let parts = [&self.kind, &self.state, &self.time, &self.process, &self.path];
        let lens = parts.map(Vec::len);
        let bytes = packed(&parts.map(Vec::as_slice).concat());
        let columns = Columns {
            shown: self.kind.len(),
            detailed: self.detailed,
            block_records: BLOCK_RECORDS,
            kinds: self.kinds,
            lens,
        };
        Packed { columns, bytes, blocks: self.blocks }
    }
}

/// Appends `number`, seven bits in each byte, the lowest first.
fn number(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec_zlib;

    fn row(seq: u64, kind: &str, text: &str) -> (u64, String, Map<String, Value>) {
        (seq, kind.to_owned(), Map::from_iter([("text".to_owned(), text.into())]))
    }

    fn index(
        bytes_max: usize,
        rows: impl IntoIterator<Item = (u64, String, Map<String, Value>)>,
    ) -> Packed {
        let mut index = Index::new(bytes_max);
        for (seq, kind, fields) in rows {
            let (process, path) = (Some(300), None);
            index.push(Row {
                seq,
                kind: &kind,
                monotonic_ms: seq * 200,
                process,
                path,
                state: 1,
                fields,
            });
        }
        index.finish()
    }

    fn unpacked(text: &str) -> Vec<u8> {
        decompress_to_vec_zlib(&STANDARD.decode(text).unwrap()).unwrap()
    }

    #[test]
    fn columns_and_blocks_hold_every_record() {
        let found = index(usize::MAX, (0..5000).map(|n| row(n, "k", &n.to_string())));
        assert_eq!(
            (found.columns.shown, found.columns.detailed, found.blocks.len()),
            (5000, 5000, 3)
        );
        let last: Vec<Value> = serde_json::from_slice(&unpacked(&found.blocks[2])).unwrap();
        assert_eq!(last.last().unwrap(), &serde_json::json!({ "text": "4999" }));
        let columns = unpacked(&found.bytes);
        assert_eq!(columns.len(), found.columns.lens.iter().sum::<usize>());
        // 0, then a step of 200 ms for each further record; two bytes for process 300.
        assert_eq!(columns[10_000..10_003], [0, 200 - 128 + 128, 1]);
        assert_eq!(found.columns.lens[3], 10_000);
    }

    #[test]
    fn fields_end_where_the_page_is_full_and_the_list_goes_on() {
        let found =
            index(40_000, (0..20_000).map(|n| row(n, "k", &format!("{:x}", n * 0x9e37_79b9_7f4a))));
        assert_eq!(found.columns.shown, 20_000);
        assert!(found.columns.detailed > 0 && found.columns.detailed < 20_000);
        assert!(found.blocks.iter().map(String::len).sum::<usize>() <= 40_000);
    }

    #[test]
    fn kinds_beyond_the_limit_share_a_name() {
        let found = index(usize::MAX, (0..1000).map(|n| row(n, &"k".repeat(n as usize), "")));
        assert_eq!(found.columns.kinds.len(), KINDS_MAX + 1);
        assert!(found.columns.kinds.iter().all(|kind| kind.len() < 2 * KIND_BYTES_MAX));
    }
}
