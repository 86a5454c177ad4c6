//! Rank 2: the record of everything that crosses the boundary of a machine: recording, reading,
//! comparing. `docs/tape-format.md` has the format.

#[cfg(feature = "annotations")]
mod annotations;
mod content_diff;
mod desync;
mod fidelity;
mod file;
mod header;
mod launch;
mod leaks;
pub(crate) mod lines;
mod native;
mod pack;
mod payload;
mod player;
mod record;
#[cfg(test)]
mod record_tests;
mod recorder;
mod redact;
mod store;
mod texts;

#[cfg(feature = "annotations")]
pub use annotations::{
    Annotation, AnnotationError, AnnotationFile, AnnotationHeader, AnnotationKind, Author,
    AuthorKind, HypothesisStatus, Problem, Span, annotations_path,
};
pub use content_diff::{ContentDiff, ContentDiffs};
pub use desync::{Desync, Withheld};
pub use fidelity::{
    CompareError, ContentDifference, Divergence, FidelityMode, FidelityReport, FieldDifference,
    PairRun, Paired, TapeSource, compare, compare_paired,
};
pub use file::{FileTape, Tape, TapeReader};
pub use header::{Header, Version};
pub use launch::{Launch, LaunchTree};
pub use leaks::{ClockLeak, ClockLeakKind, ClockLeaks};
pub use native::NativeEvent;
pub use payload::{INLINE_BYTES_MAX, Payload};
pub use player::Player;
pub use record::{Found, Kind, Phase, Preopened, Record};
pub use recorder::{MemoryTape, ReadAt, Recorder, TapeError, TapeSink, TapedContent};
#[cfg(feature = "mcp")]
pub(crate) use redact::SECRET_VALUE_BYTES_MIN;
pub use redact::{BadRule, REDACTED, Redaction};
pub use store::{Content, TapeStore, cas_dir};
