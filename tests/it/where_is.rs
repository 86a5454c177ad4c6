//! The tables of documents that name the places of things: everything that they name exists.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::support::package;

/// The protections, what was disabled in each, and the tests that then failed.
const SHOWN_TO_FAIL: (&str, &str, usize) =
    ("docs/internals/shown-to-fail.md", "## Shown to fail", 75);

/// What is promised, the tests that show it, and the minimum number of rows.
const BEHAVIOUR: (&str, usize) = ("docs/internals/behaviour.md", 140);

const DOCUMENT: &str = "docs/internals/where-everything-is.md";

/// The sections of the document, and the minimum number of rows in the tables of each: a section that is not found must
/// fail the test.
const SECTIONS: [(&str, usize); 3] = [
    ("## The testbench", 80),
    ("## What programs may ask of their host", 40),
    ("## Sandboxes", 30),
];

/// The text of `section`.
fn text_of<'a>(document: &'a str, section: &str) -> &'a str {
    let section = document.split(section).nth(1).expect("the section is there");
    section.split("\n## ").next().unwrap_or_default()
}

/// The cells of each row of the tables of `text`, without the heads.
fn rows<const CELLS: usize>(text: &str) -> Vec<[String; CELLS]> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells =
        rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    cells
        .filter(|cells| !["name or rule", "protection", "behaviour"].contains(&cells[0]))
        .map(|cells| {
            let cells: [&str; CELLS] = cells.try_into().expect("the same cells in each row");
            cells.map(str::to_owned)
        })
        .collect()
}

fn backticked(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn sources(at: &Path, found: &mut Vec<PathBuf>) {
    if at.is_dir() {
        for entry in std::fs::read_dir(at).unwrap() {
            sources(&entry.unwrap().path(), found);
        }
    } else if at.extension().is_some_and(|extension| extension == "rs") {
        found.push(at.to_owned());
    }
}

fn texts(at: &Path) -> Vec<String> {
    let mut found = Vec::new();
    sources(at, &mut found);
    found.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

fn matches(text: &str, pattern: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(text)
}

/// Whether `path`, such as `net::EgressPolicy::check`, names an item of `src/`: modules, then a public item, then
/// optionally one of its methods, fields or variants.
fn is_item(path: &str) -> bool {
    let mut at = package().join("src");
    let mut parts = path.split("::").peekable();
    // Modules have lower-case names; some disks would find a type's name among them.
    let is_module = |part: &&&str| part.starts_with(|first: char| first.is_lowercase());
    while let Some(part) = parts.peek().filter(is_module) {
        let (folder, file) = (at.join(part), at.join(part).with_extension("rs"));
        at = match (folder.is_dir(), file.is_file()) {
            (true, _) => folder,
            (_, true) => file,
            _ => break,
        };
        parts.next();
    }
    let [item, member @ ..] = &parts.collect::<Vec<_>>()[..] else { return false };
    let declares =
        format!(r"(?m)^\s*(pub (struct|enum|trait|type|fn|const) )?{item}\b[^(]*[;{{(=<]");
    let texts = texts(&at);
    let is_declared = texts.iter().any(|text| matches(text, &declares));
    let has = |member: &str| {
        let member =
            format!(r"(?m)^\s*(pub (const )?fn |fn |pub (async )?fn |pub )?{member}\b\s*[(:,<{{=]");
        let of_item = format!(r"\b{item}\b");
        texts.iter().any(|text| matches(text, &member) && matches(text, &of_item))
    };
    is_declared && member.len() <= 1 && member.iter().all(|member| has(member))
}

/// The names of all tests.
fn tests() -> Vec<String> {
    let test = Regex::new(r"#\[(?:tokio::)?test\][^{]*?fn (\w+)").unwrap();
    let all = texts(&package().join("src")).into_iter().chain(texts(&package().join("tests/it")));
    all.flat_map(|text| {
        test.captures_iter(&text).map(|found| found[1].to_owned()).collect::<Vec<_>>()
    })
    .collect()
}

/// Whether `path` names a test as `cargo test` prints it: the modules of its file in `tests/it/` or `src/`, perhaps one
/// within the file, and its name.
fn is_test(path: &str) -> bool {
    let modules: Vec<&str> = path.split("::").collect();
    let Some((name, modules)) = modules.split_last() else { return false };
    let declares = format!(r"#\[(?:tokio::)?test\][^{{]*?fn {name}\(");
    let has = |file: PathBuf, inner: &[&str]| {
        std::fs::read_to_string(file).is_ok_and(|text| {
            let is_there = |module: &&str| matches(&text, &format!(r"(?m)^mod {module} \{{"));
            inner.iter().all(is_there) && matches(&text, &declares)
        })
    };
    let is_in = |folder: &str, outer: usize| {
        let (outer, inner) = modules.split_at(outer);
        let at = package().join(folder).join(outer.join("/"));
        has(at.with_extension("rs"), inner) || has(at.join("mod.rs"), inner)
    };
    (modules.len().saturating_sub(1)..=modules.len())
        .any(|outer| is_in("tests/it", outer) || is_in("src", outer))
}

#[test]
fn places_and_tests_in_the_tables_exist() {
    let tests = tests();
    let mut wrong = Vec::new();
    let text = std::fs::read_to_string(package().join(DOCUMENT)).unwrap();
    for (section, rows_min) in SECTIONS {
        let rows = rows::<3>(text_of(&text, section));
        for [name, place, test] in &rows {
            let name = format!("{section}: {name}");
            let (places, named) = (backticked(place), backticked(test));
            if places.is_empty() || named.is_empty() {
                wrong.push(format!("{name}: no place, or no test"));
            }
            let gone = places.iter().filter(|at| !is_item(at));
            wrong.extend(gone.map(|at| format!("{name}: no {at}")));
            let is_test = |test: &&&str| tests.iter().any(|known| known == **test);
            let missing = named.iter().filter(|test| !is_test(test));
            wrong.extend(missing.map(|test| format!("{name}: no test {test}")));
        }
        assert!(rows.len() >= rows_min, "the tables of {section} have only {} rows", rows.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_that_were_shown_to_fail_are_there() {
    let (document, section, rows_min) = SHOWN_TO_FAIL;
    let tests = tests();
    let text = std::fs::read_to_string(package().join(document)).unwrap();
    let rows = rows::<3>(text_of(&text, section));
    for [protection, _, named] in &rows {
        let named = backticked(named);
        assert!(!named.is_empty(), "{document}: {protection}: no test");
        let gone = named.iter().find(|test| tests.iter().all(|known| known != **test));
        assert_eq!(gone, None, "{document}: {protection}");
    }
    assert!(rows.len() >= rows_min, "the table of {document} has only {} rows", rows.len());
}

#[test]
fn tests_that_show_what_is_promised_are_there() {
    let (document, rows_min) = BEHAVIOUR;
    let rows = rows::<2>(&std::fs::read_to_string(package().join(document)).unwrap());
    let mut wrong = Vec::new();
    for [behaviour, named] in &rows {
        let named = backticked(named);
        if named.is_empty() {
            wrong.push(format!("{behaviour}: no test"));
        }
        let gone = named.iter().filter(|path| !is_test(path));
        wrong.extend(gone.map(|path| format!("{behaviour}: no test {path}")));
    }
    assert!(rows.len() >= rows_min, "the tables of {document} have only {} rows", rows.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_names_are_detected() {
    assert!(is_item("net::EgressPolicy::check"));
    assert!(is_item("testbench::TestbenchFinalize::fs_diff"));
    assert!(is_item("tape::AnnotationKind::Mute"));
    for gone in [
        "kernel::egress",
        "net::EgressPolicy::forget",
        "net::Nothing",
        "nowhere::EgressPolicy",
        "testbench::TestbenchFinalize::fs_diff::path",
    ] {
        assert!(!is_item(gone), "{gone}");
    }
    assert!(tests().iter().any(|test| test == "missing_names_are_detected"));
    assert!(!tests().iter().any(|test| test == "is_item"));
    assert!(is_test("where_is::missing_names_are_detected"));
    assert!(is_test(
        "base::readable::tests::debug_output_of_an_error_is_its_message_and_its_causes"
    ));
    for gone in [
        "missing_names_are_detected",
        "where_is::is_item",
        "where_is::tests::missing_names_are_detected",
        "links::missing_names_are_detected",
        "base::readable::debug_output_of_an_error",
    ] {
        assert!(!is_test(gone), "{gone}");
    }
}
