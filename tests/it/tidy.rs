//! Rules of this project that the compiler does not check: ranks, length of files, forgotten files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum lines of a source file: one operation, one file.
const LINES_MAX: usize = 600;

/// Maximum lines of a function, including its signature.
const FUNCTION_LINES_MAX: usize = 80;

/// The ranks of `src/`: a file uses only lower ones, or its own folder.
const RANKS: &[(&str, u32)] = &[
    ("base", 0),
    ("store", 1),
    ("remote", 1),
    ("tape", 2),
    ("results", 2),
    ("kernel", 3),
    ("abi", 4),
    ("engine", 5),
    ("net", 3),
    ("process", 6),
    ("native", 7),
    ("sandbox", 9),
    ("actions", 9),
    ("toolchain", 6),
    ("llm", 6),
    ("host", 8),
    ("testbench", 9),
    ("mcp", 10),
    ("cli", 11),
];

/// The folders of Rust code.
const FOLDERS: [&str; 4] = ["src", "tests", "benches", "python/src"];

pub fn root() -> &'static Path {
    crate::support::package()
}

fn sources(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
}

pub fn rust_sources(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        sources(&root().join(folder), "rs", &mut found);
    }
    assert!(!found.is_empty());
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// The folders of `src/` that a source file names, as `crate::folder` or `belljar::folder`.
fn uses(text: &str) -> BTreeSet<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut used = BTreeSet::new();
    for line in code {
        for (at, prefix) in line.match_indices("crate::").chain(line.match_indices("belljar::")) {
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            used.insert(&rest[..end.unwrap_or(rest.len())]);
        }
    }
    used
}

#[test]
fn files_use_lower_ranks_only() {
    let rank_of =
        |name: &str| RANKS.iter().find(|(known, _)| *known == name).map(|(_, rank)| *rank);
    let mut wrong = Vec::new();
    for path in rust_sources(&["src"]) {
        let name = relative(&path);
        let Some((folder, _)) = name.trim_start_matches("src/").split_once('/') else { continue };
        let rank = rank_of(folder).unwrap_or_else(|| panic!("{name}: give {folder} a rank"));
        for used in uses(&std::fs::read_to_string(&path).unwrap()) {
            if let Some(other) = rank_of(used)
                && used != folder
                && other >= rank
            {
                wrong.push(format!("{name} (rank {rank}) uses {used} (rank {other})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn libraries_are_used_only_in_their_modules() {
    let homes: &[(&str, &[&str])] = &[
        ("cap_std", &["src/kernel/vfs/layer/host_"]),
        ("wasmtime::", &["src/engine/", "src/abi/"]),
        ("anyhow", &["src/cli/"]),
        ("ureq", &["src/net/", "src/llm/http.rs"]),
        ("rmcp", &["src/mcp/protocol.rs"]),
        ("tonic::", &["src/remote/"]),
        ("hyper", &["src/mcp/protocol.rs", "src/mcp/http.rs"]),
        ("println!", &["src/cli/"]),
        (
            "unsafe {",
            &[
                "src/abi/large_stack.rs",
                "src/base/acl.rs",
                "src/base/change_time.rs",
                "src/base/job.rs",
                "src/base/priority.rs",
                "src/base/std_handles.rs",
                "src/base/stopwatch.rs",
                "src/cli/optimize.rs",
                "src/cli/signals.rs",
                "src/engine/code_cache.rs",
                "src/engine/deadline.rs",
                "src/engine/precompiled.rs",
                "src/engine/stop_page.rs",
                "src/native/runner.rs",
                "src/native/profile/linux.rs",
            ],
        ),
    ];
    let mut wrong = Vec::new();
    for path in rust_sources(&["src"]) {
        let name = relative(&path);
        let text = std::fs::read_to_string(&path).unwrap();
        let code: Vec<&str> =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for (library, allowed) in homes {
            let is_home = allowed.iter().any(|home| name.starts_with(home));
            if !is_home && code.iter().any(|line| line.contains(library)) {
                wrong.push(format!("{name} names {library}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short() {
    let long: Vec<String> = rust_sources(&FOLDERS)
        .iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(path).unwrap().lines().count();
            (lines > LINES_MAX).then(|| format!("{} has {lines} lines", relative(path)))
        })
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Number of lines of the function that begins with the first of `lines`, if a function begins there. As formatted by
/// `rustfmt`, it ends at the first brace with the same indentation.
fn function_lines(lines: &[&str]) -> Option<usize> {
    let code = lines[0].trim_start();
    let qualifiers = ["pub", "async", "const", "unsafe", "extern"];
    let is_qualifier = |word: &&str| qualifiers.iter().any(|it| word.starts_with(it));
    if code.split(' ').find(|word| !is_qualifier(word) && !word.ends_with(')')) != Some("fn") {
        return None;
    }
    let indent = &lines[0][..lines[0].len() - code.len()];
    let rest = lines.iter().enumerate();
    let mut at_its_place = rest.filter_map(|(at, line)| Some((at, line.strip_prefix(indent)?)));
    let (at, end) = at_its_place
        .find(|(_, line)| *line == "}" || line.ends_with(';') && !line.starts_with(' '))?;
    (end == "}").then_some(at + 1)
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for path in rust_sources(&["src", "python/src"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            let count = function_lines(&lines[at..]).unwrap_or_default();
            if count > FUNCTION_LINES_MAX {
                long.push(format!("{}:{} has {count} lines", relative(&path), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
    let text = ["    pub(crate) async fn f(", "    ) -> T {", "        x;", "    }", "}"];
    assert_eq!(function_lines(&text), Some(4));
    assert_eq!(function_lines(&["    fn f() -> T;", "    }"]), None);
}

#[test]
fn modules_have_doc_comments() {
    let silent: Vec<String> = rust_sources(&FOLDERS)
        .iter()
        .filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("//!"))
        .map(|path| relative(path))
        .collect();
    assert!(silent.is_empty(), "no words at the top of: {}", silent.join(", "));
}

/// What the library's errors print with `{:?}` is what `unwrap` and `?` in `main` show: `base::readable`.
#[test]
fn debug_output_of_every_error_is_readable() {
    let (mut errors, mut wrong) = (0, Vec::new());
    for path in rust_sources(&["src"]).iter().filter(|path| !relative(path).starts_with("src/cli/"))
    {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if !(line.starts_with("#[derive(") && line.contains("thiserror::Error")) {
                continue;
            }
            errors += 1;
            let is_named = |line: &&&str| line.contains("enum ") || line.contains("struct ");
            let declared = lines[number..].iter().find(is_named).unwrap();
            let mut words = declared.split(|it: char| !it.is_alphanumeric());
            words.find(|word| ["enum", "struct"].contains(word));
            let name = words.next().unwrap();
            if line.contains("Debug") || !text.contains(&format!("readable!({name})")) {
                wrong.push(format!("{}:{}: {name}", relative(path), number + 1));
            }
        }
    }
    assert!(errors > 50, "only {errors} errors were found");
    assert!(wrong.is_empty(), "not made readable: {}", wrong.join(", "));
}

#[test]
fn no_todo_marks_remain() {
    // Split in two, so that this file does not contain the marks.
    let marks =
        [("todo", "!("), ("unimplemented", "!("), ("FIX", "ME"), ("#[ig", "nore"), ("dbg", "!(")];
    let mut found = Vec::new();
    for path in rust_sources(&FOLDERS) {
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            for (a, b) in marks {
                if line.contains(&format!("{a}{b}")) {
                    found.push(format!("{}:{}: {}", relative(&path), number + 1, line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A file that no `mod` names is not compiled, and causes no error.
#[test]
fn no_file_is_forgotten() {
    let mut forgotten = Vec::new();
    for path in rust_sources(&["src", "tests/it"]) {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let folder = path.parent().unwrap();
        let parents: Vec<PathBuf> = match stem {
            "main" | "lib" => continue,
            "mod" => {
                let above = folder.parent().unwrap();
                vec![above.join("mod.rs"), above.join("lib.rs"), above.join("main.rs")]
            }
            _ => vec![folder.join("mod.rs"), folder.join("lib.rs"), folder.join("main.rs")],
        };
        let module =
            if stem == "mod" { folder.file_name().unwrap().to_str().unwrap() } else { stem };
        let declares = |parent: &PathBuf| {
            std::fs::read_to_string(parent)
                .is_ok_and(|text| text.contains(&format!("mod {module};")))
        };
        if !parents.iter().any(declares) {
            forgotten.push(relative(&path));
        }
    }
    assert!(forgotten.is_empty(), "no `mod` names {}", forgotten.join(", "));
}
