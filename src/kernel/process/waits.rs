//! What processes wait for, in words: for the message of a deadlock.

use std::fmt::Write as _;

use super::{Entry, Processes, State, Wait};
use crate::kernel::io::pipe::End;

impl Processes {
    /// Describes what each process waits for, a line each.
    pub(super) fn describe_waits(&self) -> String {
        let mut text = String::new();
        for (pid, Entry { name, state, .. }) in &self.entries {
            let State::Waiting(wait) = state else { continue };
            let _ =
                write!(text, "{}process {pid} ({name}) ", if text.is_empty() { "" } else { "\n" });
            let _ = match wait {
                Wait::Turn | Wait::Time => write!(text, "waits for its turn"),
                Wait::Readable(pipe) => {
                    write!(text, "waits to read pipe {}, which is empty", pipe.number())
                }
                Wait::Writable(pipe) => {
                    write!(text, "waits to write pipe {}, which is full", pipe.number())
                }
                Wait::Poll(pipes, children) => {
                    let pipes = pipes.iter().map(|(pipe, _)| format!("pipe {}", pipe.number()));
                    let children = children.iter().map(|child| format!("process {child}"));
                    let all: Vec<String> = pipes.chain(children).collect();
                    match &*all {
                        [] => write!(text, "polls what never comes"),
                        all => write!(text, "polls {}", all.join(", ")),
                    }
                }
                Wait::Host(None) => {
                    write!(text, "waits for the host, which has no more events")
                }
                Wait::Host(Some((pipe, end))) => {
                    let (waits, state) = match end {
                        End::Reader => ("read", "empty"),
                        End::Writer => ("write", "full"),
                    };
                    let pipe = pipe.number();
                    write!(
                        text,
                        "is a native program, and waits to {waits} pipe {pipe}, which is {state}"
                    )
                }
                Wait::Child(Some(child)) => write!(text, "waits for process {child} to end"),
                Wait::Child(None) => write!(text, "waits for a child to end"),
            };
        }
        text
    }
}
