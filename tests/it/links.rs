//! Links of the documentation: what a relative one names exists, with its heading; each page is on the site, and begins
//! with a command or code that works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::package;

/// The Markdown files of the repository, by their paths.
fn documents() -> BTreeMap<PathBuf, String> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"])
        .current_dir(package())
        .output()
        .unwrap();
    let names = String::from_utf8(listing.stdout).unwrap();
    let names = names.split_terminator('\0').filter(|name| package().join(name).is_file());
    names
        .map(|name| (name.into(), std::fs::read_to_string(package().join(name)).unwrap()))
        .collect()
}

/// The lines outside of blocks of code, without code in the line.
fn prose(text: &str) -> String {
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    // Links may be around code.
    Regex::new("`[^`\n]*`").unwrap().replace_all(&lines, "code").into_owned()
}

/// The anchors of headings, as GitHub and mdBook make them, and those that the text names.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_block = false;
    let link = Regex::new(r"\]\([^)]*\)").unwrap();
    let named = Regex::new(r#"<a id="([^"]+)"></a>"#).unwrap();
    for line in text.lines() {
        in_block ^= line.starts_with("```");
        found.extend(named.captures(line).map(|name| name[1].to_owned()));
        let title = line.trim_start_matches('#');
        if in_block || title == line || !title.starts_with(' ') {
            continue;
        }
        let title = link.replace_all(title.trim(), "").into_owned();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let slug: String = title.to_lowercase().chars().filter(kept).collect();
        let slug = slug.replace(' ', "-");
        let again = (1..).map(|count| format!("{slug}-{count}"));
        let free = std::iter::once(slug.clone()).chain(again).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                assert!(plain.pop(), "{} leaves the repository", path.display());
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// What is wrong with the links of `text`, which is at `path`.
fn mistakes(path: &Path, text: &str, documents: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut wrong = Vec::new();
    for found in link.captures_iter(&prose(text)) {
        let target = found.get(1).unwrap().as_str();
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = match file {
            "" => path.to_owned(),
            file => plain(&path.parent().unwrap().join(file)),
        };
        if !package().join(&to).exists() {
            wrong.push(format!("{}: nothing is at {target}", path.display()));
        } else if package().join(&to).is_dir() && !documents.contains_key(&to.join("README.md")) {
            // The site lists no directories.
            wrong.push(format!("{}: {target} is a directory without README.md", path.display()));
        } else if !anchor.is_empty()
            && documents.get(&to).is_some_and(|text| !anchors(text).contains(anchor))
        {
            wrong.push(format!("{}: no heading for {target}", path.display()));
        }
    }
    wrong
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() > 40, "{:?}", documents.keys());
    let wrong = documents.iter().flat_map(|(path, text)| mistakes(path, text, &documents));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dead_links_are_found() {
    let documents = documents();
    let text = "[a](cli.md#options) [b](cli.md#no-such) [c](nowhere.md) [`d`](../README.md) [j](../src)\n\
        ```\n[e](nowhere.md)\n```\n`[f](nowhere.md)` [g](#here)\n# Here\n# Here\n[h](#here-1) [i](#here-2)";
    let path = Path::new("docs/test.md");
    let mut documents = documents;
    documents.insert(path.to_owned(), text.to_owned());
    // The page itself is not on the disk.
    let wrong: Vec<String> = mistakes(path, text, &documents)
        .into_iter()
        .filter(|mistake| !mistake.contains("at #here"))
        .collect();
    let expected = [
        "no heading for cli.md#no-such",
        "nothing is at nowhere.md",
        "../src is a directory without README.md",
    ];
    assert_eq!(wrong, expected.map(|mistake| format!("docs/test.md: {mistake}")));
    assert!(anchors(text).contains("here-1") && !anchors(text).contains("here-2"));
}

#[test]
fn each_page_is_on_the_site() {
    let documents = documents();
    let summary = &documents[Path::new("docs/SUMMARY.md")];
    let link = Regex::new(r"\]\(([^)]+)\)").unwrap();
    let listed: Vec<PathBuf> = link
        .captures_iter(summary)
        .map(|found| plain(&Path::new("docs").join(&found[1])))
        .collect();
    // Those of packages are shown where the packages are.
    let elsewhere = ["docs/SUMMARY.md", "python/README.md", "npm/belljar/README.md"];
    let missing: Vec<&PathBuf> = documents
        .keys()
        .filter(|path| !listed.contains(path) && elsewhere.iter().all(|it| Path::new(it) != *path))
        .filter(|path| !path.starts_with("tests"))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
    let unique: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "docs/SUMMARY.md lists a page twice");
}

/// Pages about a trait or a policy, whose first example is further down.
const WITHOUT_A_COMMAND: [&str; 1] = ["docs/llm.md"];

#[test]
fn each_page_begins_with_a_command() {
    for (path, text) in documents() {
        let name = path.to_str().unwrap().replace('\\', "/");
        let is_page = path.parent() == Some(Path::new("docs")) && name != "docs/SUMMARY.md";
        if !is_page || WITHOUT_A_COMMAND.contains(&&*name) {
            continue;
        }
        let begin: Vec<&str> = text.lines().take(30).collect();
        let has = |fence: &str| begin.iter().any(|line| line.starts_with(fence));
        let fences = ["```console", "```sh", "```bat", "```python"];
        assert!(fences.into_iter().any(has), "{name} begins without one");
    }
}

#[cfg(unix)]
#[test]
fn picture_of_the_readme_is_what_belljar_prints() {
    let python = Command::new("python3")
        .args(["docs/terminal.py", "--check", env!("CARGO_BIN_EXE_belljar")])
        .env("BELLJAR_CACHE_DIR", crate::support::cache_dir())
        .current_dir(package())
        .output()
        .unwrap();
    assert!(python.status.success(), "{}", crate::support::stderr(&python));
}
