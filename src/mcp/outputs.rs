//! Outputs of programs: captured while they run, and kept to read on.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::bounds::OUTPUTS_MAX;
use super::call::Call;
use super::error::ToolError;
use crate::OutputStream;

/// Captures one stream of a program, and counts its bytes for the call that runs it.
#[derive(Clone)]
pub(super) struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    call: Call,
}

impl Capture {
    pub(super) fn new(call: &Call) -> Self {
        Self { bytes: Arc::default(), call: call.clone() }
    }

    pub(super) fn stream(&self) -> OutputStream {
        OutputStream::Writer(Box::new(self.clone()))
    }

    /// What was captured.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Capture {
    /// The machine bounds what a program writes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut captured = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        captured.try_reserve(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        captured.extend_from_slice(bytes);
        self.call.add_output(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output of one exec.
#[derive(Debug)]
pub(super) struct Output {
    pub number: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Output {
    fn len(&self) -> u64 {
        (self.stdout.len() + self.stderr.len()) as u64
    }
}

/// The last outputs of a sandbox.
#[derive(Default)]
pub(super) struct Outputs {
    kept: VecDeque<Output>,
    made: u64,
}

impl Outputs {
    /// Keeps an output, and drops the oldest ones while more than [`OUTPUTS_MAX`] or `bytes_max` are kept; returns its
    /// number.
    pub(super) fn keep(&mut self, stdout: Vec<u8>, stderr: Vec<u8>, bytes_max: u64) -> &Output {
        self.made += 1;
        self.kept.push_back(Output { number: self.made, stdout, stderr });
        while self.kept.len() > 1 && (self.kept.len() > OUTPUTS_MAX || self.bytes() > bytes_max) {
            self.kept.pop_front();
        }
        self.kept.back().expect("it was just kept")
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.kept.iter().map(Output::len).sum()
    }

    /// The output with this number.
    ///
    /// # Errors
    /// It was never there, or is gone.
    pub(super) fn get(&self, number: u64) -> Result<&Output, ToolError> {
        self.kept.iter().find(|output| output.number == number).ok_or_else(|| {
            let numbers: Vec<String> =
                self.kept.iter().map(|output| output.number.to_string()).collect();
            let kept = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            ToolError::not_found(format!(
                "output {number} is not kept; kept are: {kept}. Run the program again, and write what is long to a file"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_bounded_in_number_and_bytes() {
        let mut outputs = Outputs::default();
        for number in 1..=20 {
            assert_eq!(outputs.keep(vec![0; 10], vec![], 100).number, number);
        }
        assert_eq!(outputs.bytes(), 80);
        assert!(outputs.get(12).is_err());
        assert!(outputs.get(13).is_ok());
        outputs.keep(vec![0; 95], vec![], 100);
        assert_eq!(outputs.bytes(), 95);
        assert!(outputs.get(20).unwrap_err().message.contains("kept are: 21"));
    }
}
