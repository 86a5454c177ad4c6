//! The annotations of a tape, for commands that print records.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

#[cfg(feature = "annotations")]
use {
    super::exit::Usage,
    super::text::printable,
    crate::base::disk,
    crate::tape::{Annotation, AnnotationFile, HypothesisStatus, annotations_path},
};

/// The annotations of a tape, if there are any. Without the feature `annotations` there are none.
pub struct TapeAnnotations {
    #[cfg(feature = "annotations")]
    file: Option<AnnotationFile>,
}

#[cfg(not(feature = "annotations"))]
#[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "it is used as the other one")]
impl TapeAnnotations {
    /// No annotations.
    pub fn nothing() -> Self {
        Self {}
    }

    /// The annotations of the tape.
    pub fn of(_tape: &Path) -> Result<Self> {
        Ok(Self::nothing())
    }

    /// Whether there are none.
    pub fn is_nothing(&self) -> bool {
        true
    }

    /// All annotations, as JSON.
    pub fn to_json(&self) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// The annotations of the record `seq`, as JSON.
    pub fn of_record_to_json(&self, _seq: u64) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// The annotations of the record `seq`, a line each, to print below it.
    pub fn lines_of_record(&self, _seq: u64) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(feature = "annotations")]
impl TapeAnnotations {
    /// No annotations.
    pub fn nothing() -> Self {
        Self { file: None }
    }

    /// The annotations of the tape.
    ///
    /// # Errors
    /// [`Usage`] if its file of annotations cannot be read.
    pub fn of(tape: &Path) -> Result<Self> {
        let is_annotated = disk::symlink_metadata(&annotations_path(tape)).is_ok();
        Ok(Self { file: if is_annotated { Some(load(tape)?) } else { None } })
    }

    /// Whether there are none.
    pub fn is_nothing(&self) -> bool {
        self.file.is_none()
    }

    /// All annotations, as JSON.
    pub fn to_json(&self) -> Result<Vec<Value>> {
        let all = self.file.iter().flat_map(AnnotationFile::annotations);
        Ok(all.map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// The annotations of the record `seq`, as JSON.
    pub fn of_record_to_json(&self, seq: u64) -> Result<Vec<Value>> {
        Ok(self.of_record(seq).map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// The annotations of the record `seq`, a line each, to print below it.
    pub fn lines_of_record(&self, seq: u64) -> Vec<String> {
        self.of_record(seq).map(line).collect()
    }

    fn of_record(&self, seq: u64) -> impl Iterator<Item = &Annotation> {
        self.file.iter().flat_map(move |file| file.for_event(seq))
    }
}

/// The annotations of a tape.
///
/// # Errors
/// [`Usage`] if they cannot be read.
#[cfg(feature = "annotations")]
pub fn load(tape: &Path) -> Result<AnnotationFile> {
    let path = annotations_path(tape);
    Ok(AnnotationFile::load(&path).map_err(Usage::because)?)
}

#[cfg(feature = "annotations")]
fn line(said: &Annotation) -> String {
    let status = said.hypothesis_status.as_ref().map(HypothesisStatus::name);
    let what = status.or(said.friction_kind.as_deref()).map(|what| format!(", {what}"));
    let mut line = format!("{}{} ({})", said.kind, what.unwrap_or_default(), said.author.id);
    let evidence = said.evidence.as_ref().map(|evidence| format!(": {evidence}"));
    let fix = said.suggested_fix.as_ref().map(|fix| format!("; instead: {fix}"));
    let links = (!said.links.is_empty()).then(|| format!("; see {}", said.links.join(", ")));
    line.extend([evidence, fix, links].into_iter().flatten());
    format!("       # {}", printable(&line))
}
