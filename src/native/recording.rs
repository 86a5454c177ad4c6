//! A process tape being recorded.

use std::path::{Path, PathBuf};

use super::file_recording::{FileRecording, RecordedFiles};
use super::{
    FilesError, MakeFiles, PROCESS_TAPE_BYTES_MAX, ProcessTape, SubprocessError, SubprocessFiles,
    SubprocessRequest, TapeEntry,
};
use crate::kernel::machine::Machine;
use crate::tape::{Redaction, TapeError};

/// Entries of a tape, in the order in which their programs started.
pub(super) struct Recording {
    path: PathBuf,
    slots: Vec<Slot>,
    room_bytes: u64,
    /// Begun with the first program, if files are recorded.
    files: Option<Box<FileRecording>>,
}

struct Slot {
    call: u64,
    program: String,
    /// `None` until the call has ended.
    entry: Option<TapeEntry>,
}

impl Recording {
    pub(super) fn new(path: PathBuf) -> Self {
        let room_bytes = PROCESS_TAPE_BYTES_MAX - ProcessTape::default().len_bytes();
        Self { path, slots: Vec::new(), room_bytes, files: None }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Notes the state of the files beneath `root` before the program of `call` starts.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(super) fn begin_files(
        &mut self,
        call: u64,
        request: &SubprocessRequest,
        root: &Path,
        settings: &SubprocessFiles,
        redaction: &Redaction,
    ) -> Result<(), FilesError> {
        if settings.make() == MakeFiles::Nowhere {
            return Ok(());
        }
        let files = match &mut self.files {
            Some(files) => files,
            none => none.insert(FileRecording::new(root, &self.path, settings, redaction)?.into()),
        };
        files.begin(call, request, root)
    }

    /// Returns what the program of `call`, which has ended, did to files, and shows it in the namespace of `machine`.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(super) fn end_files(
        &mut self,
        call: u64,
        machine: &mut Machine,
    ) -> Result<RecordedFiles, FilesError> {
        let Some(files) = &mut self.files else { return Ok(RecordedFiles::default()) };
        let recorded = files.end(call)?;
        files.show(&recorded.changes, machine)?;
        Ok(recorded)
    }

    /// Reserves the place of a call that begins.
    pub(super) fn begin(&mut self, call: u64, program: String) {
        self.slots.push(Slot { call, program, entry: None });
    }

    /// Fills the place of a call that has ended.
    ///
    /// # Errors
    /// [`TapeError::Full`].
    pub(super) fn end(&mut self, call: u64, entry: TapeEntry) -> Result<(), TapeError> {
        let left = self.room_bytes.checked_sub(entry.len_bytes());
        self.room_bytes = left.ok_or(TapeError::Full { limit_bytes: PROCESS_TAPE_BYTES_MAX })?;
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.call == call) {
            slot.entry = Some(entry);
        }
        Ok(())
    }

    /// The entries up to the first call that has not ended.
    pub(super) fn so_far(&self) -> ProcessTape {
        let ended = self.slots.iter().map_while(|slot| slot.entry.clone());
        ProcessTape { entries: ended.collect() }
    }

    /// Writes the tape and returns its entries.
    ///
    /// # Errors
    /// [`SubprocessError`]: `Unwaited`, `Tape`.
    pub(super) fn finish(self) -> Result<Vec<TapeEntry>, SubprocessError> {
        let entry = |Slot { call, program, entry }| {
            entry.ok_or(SubprocessError::Unwaited { call, program })
        };
        let tape =
            ProcessTape { entries: self.slots.into_iter().map(entry).collect::<Result<_, _>>()? };
        tape.save(&self.path)?;
        if let Some(files) = self.files {
            files.finish().map_err(TapeError::from)?;
        }
        Ok(tape.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The caller may have ignored the error.
    #[test]
    fn full_recording_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.tape");
        let mut recording = Recording::new(path.clone());
        recording.room_bytes = 40;
        recording.begin(1, "p".to_owned());
        let entry: TapeEntry = serde_json::from_str(r#"{"program":"p","exit_code":0}"#).unwrap();
        assert!(matches!(recording.end(1, entry), Err(TapeError::Full { .. })));
        assert!(matches!(recording.finish(), Err(SubprocessError::Unwaited { call: 1, .. })));
        assert!(!path.exists());
    }
}
