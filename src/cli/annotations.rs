//! Annotations of tapes, to read and to print.

use std::path::Path;

use anyhow::Result;
use belljar::base::disk;
use belljar::tape::{Annotation, AnnotationFile, HypothesisStatus, annotations_path};

use super::exit::Usage;
use super::text::printable;

/// The annotations of a tape.
pub fn load(tape: &Path) -> Result<AnnotationFile> {
    let path = annotations_path(tape);
    Ok(AnnotationFile::load(&path).map_err(Usage::because)?)
}

/// The annotations of a tape, if it has any.
pub fn find(tape: &Path) -> Result<Option<AnnotationFile>> {
    let is_annotated = disk::symlink_metadata(&annotations_path(tape)).is_ok();
    if is_annotated { load(tape).map(Some) } else { Ok(None) }
}

/// An annotation on a line of its own, to stand below its record.
pub fn shown(said: &Annotation) -> String {
    let status = said.hypothesis_status.as_ref().map(HypothesisStatus::name);
    let what = status.or(said.friction_kind.as_deref()).map(|what| format!(", {what}"));
    let mut line = format!("{}{} ({})", said.kind, what.unwrap_or_default(), said.author.id);
    let evidence = said.evidence.as_ref().map(|evidence| format!(": {evidence}"));
    let fix = said.suggested_fix.as_ref().map(|fix| format!("; instead: {fix}"));
    let links = (!said.links.is_empty()).then(|| format!("; see {}", said.links.join(", ")));
    line.extend([evidence, fix, links].into_iter().flatten());
    format!("       # {}", printable(&line))
}
