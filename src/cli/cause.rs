//! What `belljar verify` says of the first difference between two runs.

use crate::tape::Divergence;

/// In words, what `divergence` comes from, and which option changes that. `timed_out` tells whether
/// `--timeout` ended one of the runs.
pub fn cause(divergence: &Divergence, timed_out: bool) -> &'static str {
    let has = |field: &str| divergence.fields.iter().any(|known| known.field.starts_with(field));
    let kind = divergence.category.split('.').next().unwrap_or_default();
    match kind {
        "machine" if has("config.seed") => "the random numbers are others: use the same --seed",
        "machine" if has("config.start_ns") => {
            "the machine shows the host's time: leave out --clock real"
        }
        "machine" => "the machine is put together in another way, and no option says why",
        "clock_read" | "clock_sleep" => {
            "the program reads the host's clock: leave out --clock real"
        }
        "process_spawn" if has("module_hash") => {
            "the program itself has changed: leave its module alone, or name a copy of it"
        }
        "process_spawn" if has("env") => {
            "a variable is the host's (--env): give it a value that is the same everywhere, \
             --env NAME=VALUE"
        }
        "process_spawn" if has("args") => {
            "an argument holds the path of a folder of the host: give it as the program sees it, \
             relative or below /worktree, or where --dir mounts it"
        }
        // From here on the time at which a run was ended explains whatever is missing.
        _ if timed_out => {
            "the program was ended after real time, wherever it stood (--timeout): give it longer, \
             or end it by --virtual-timeout or --fuel"
        }
        "dir_list" => {
            "a folder below has other names, or lists them in another order: what is mounted with \
             --worktree or --dir must hold still"
        }
        "file_stat" | "link_read" | "file_read" => {
            "a file below is not the same, or another one is asked for: what is mounted with \
             --worktree or --dir must hold still"
        }
        "random" => "the program asks for other random bytes: use the same --seed",
        "stream_read" => {
            "standard input is not the same: give it a file that stays as it is (--stdin FILE), or \
             --stdin null"
        }
        "process_exit" => "the program ends in another way, and no option says why",
        _ => "the program itself does something else, and no option says why",
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
