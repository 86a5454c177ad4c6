//! The cause that `belljar verify` names for the first difference between two runs.

use crate::tape::Divergence;

/// The cause of `divergence`, and the option that removes it. `timed_out` tells whether
/// `--timeout` ended one of the runs.
pub fn cause(divergence: &Divergence, timed_out: bool) -> &'static str {
    let has = |field: &str| divergence.fields.iter().any(|known| known.field.starts_with(field));
    let kind = divergence.category.split('.').next().unwrap_or_default();
    match kind {
        "machine" if has("config.seed") => "the random numbers differ: use the same --seed",
        "machine" if has("config.start_ns") => {
            "the machine uses the host's clock: omit --clock real"
        }
        "machine" => "the settings of the machine differ, and no option explains it",
        "clock_read" | "clock_sleep" => "the program reads the host's clock: omit --clock real",
        "process_spawn" if has("module_hash") => {
            "the program's module changed between the runs: run a copy of it"
        }
        "process_spawn" if has("env") => {
            "a variable depends on the host (--env): give it a value that is the same everywhere, \
             --env NAME=VALUE"
        }
        "process_spawn" if has("args") => {
            "an argument contains the path of a directory of the host: use the path that the program \
             sees, relative, below /worktree, or where --dir mounts it"
        }
        // From here on, the time at which a run was ended can explain what is missing.
        _ if timed_out => {
            "real time ended the program (--timeout): use a longer one, or --virtual-timeout or --fuel"
        }
        "dir_list" => {
            "a mounted directory has other names, or lists them in another order: directories of \
             --worktree and --dir must not change during the runs"
        }
        "file_stat" | "link_read" | "file_read" => {
            "a mounted file differs, or the program uses another one: directories of --worktree and \
             --dir must not change during the runs"
        }
        "random" => "the program asks for other random bytes: use the same --seed",
        "stream_read" => {
            "standard input differs: use a file that does not change (--stdin FILE), or --stdin null"
        }
        "process_exit" => "the program ends differently, and no option explains it",
        _ => "the program behaves differently, and no option explains it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;
    use crate::tape::{
        FidelityMode, Kind, MemoryTape, Payload, Record, Recorder, Redaction, compare,
    };

    fn tape(kind: Kind) -> Vec<Record> {
        let tape = MemoryTape::default();
        Recorder::new(tape.clone(), Redaction::default()).push(kind);
        tape.records()
    }

    fn between(one: Kind, other: Kind) -> &'static str {
        let (one, other) = (tape(one), tape(other));
        let mode = FidelityMode::ByteIdentical;
        let report = compare(one.as_slice(), other.as_slice(), mode).unwrap();
        cause(&report.divergences[0], false)
    }

    /// As a layer that does not sort would make them: `replay.rs` among the tests has one.
    #[test]
    fn a_listing_in_another_order_is_named() {
        let list = |text: &str| Kind::DirList {
            path: "/worktree".into(),
            entries: Payload::Inline { text: text.into() },
        };
        let cause = between(list("f \"a\"\nf \"b\"\n"), list("f \"b\"\nf \"a\"\n"));
        assert!(cause.contains("in another order") && cause.contains("--worktree"), "{cause}");
    }

    #[test]
    fn other_chance_is_named() {
        let machine = |seed: u64| Kind::Machine { config: serde_json::json!({ "seed": seed }) };
        assert!(between(machine(0), machine(1)).contains("--seed"));
        let random = |bytes: &[u8]| Kind::Random {
            content_hash: Digest::of(bytes),
            len_bytes: bytes.len() as u64,
        };
        assert!(between(random(b"one"), random(b"two")).contains("--seed"));
    }
}
