//! The built-in programs, so that belljar is useful without toolchains. Their sources are beside them.

macro_rules! demo {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../toolchains/demo/", $name, ".wasm")).as_slice())),*]
    };
}

/// Programs with a module of their own.
const DEMO: [(&str, &[u8]); 4] = demo!["jsonfmt", "replace", "sha256sum", "wc"];

/// The tools that scripts call: one module, which acts by its `argv[0]`.
const BOX: &[u8] = include_bytes!("../../toolchains/box/box.wasm");

/// The names of the programs in [`BOX`].
const BOX_NAMES: [&str; 62] = [
    "awk", "base64", "basename", "box", "cat", "chmod", "cksum", "cmp", "comm", "cp", "cut",
    "date", "diff", "dirname", "echo", "egrep", "env", "expr", "false", "fgrep", "find", "fold",
    "grep", "gunzip", "gzip", "head", "install", "join", "ln", "ls", "md5sum", "mkdir", "mktemp",
    "mv", "nl", "od", "paste", "patch", "printf", "readlink", "realpath", "rm", "rmdir", "sed",
    "seq", "sleep", "sort", "split", "stat", "tac", "tail", "tar", "tee", "touch", "tr", "true",
    "uname", "uniq", "which", "xargs", "yes", "zcat",
];

/// Returns the static name and the module of the built-in program `name`.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static [u8])> {
    let in_box = BOX_NAMES.iter().find(|known| **known == name).map(|name| (*name, BOX));
    DEMO.into_iter().find(|(known, _)| *known == name).or(in_box)
}

/// The names of all built-in programs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    DEMO.into_iter().map(|(name, _)| name).chain(BOX_NAMES)
}
