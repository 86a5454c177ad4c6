//! Random programs over random trees, with random edits: what is known of a process is always what it would do, and an
//! edit of what was not read makes nothing run.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use belljar::results::{ResultCache, Results};
use belljar::{Command, HostDir, Machine, Mtimes, ToolchainPrograms, Toolchains};

use crate::support::plans::Chance;
use crate::support::{engine, number_from_env};

/// Cases; `BELLJAR_TEST_RESULT_CASES` overrides it.
const CASES: usize = 200;

/// Cases that share a cache. A cache for all would have millions of files.
const CASES_OF_CACHE: usize = 500;

/// What programs read and write; the last ones do not exist at first.
const PATHS: [&str; 12] =
    ["a", "b", "c", "d/a", "d/b", "e/a", "d", "e", "link", "e/link", "new", "d/new"];

const LINES: [&str; 6] = ["a\n", "b\n", "d/a\n", "new\n", "one two\n", "three\n"];

/// The time that all files show.
const TIME_NS: u64 = 1_000_000_000_000_000_000;

fn pick<'t>(chance: &mut Chance, from: &[&'t str]) -> &'t str {
    from[chance.below(from.len())]
}

fn text(chance: &mut Chance) -> String {
    (0..chance.below(4)).map(|_| pick(chance, &LINES)).collect()
}

/// Makes a file, a link or a directory of the entry `path`, or removes it.
fn edit(chance: &mut Chance, folder: &Path, path: &str) {
    let place = folder.join(path);
    if chance.below(3) != 0 || !place.is_file() {
        // What is there and cannot be removed stays.
        let _ = fs::remove_file(&place);
        let _ = fs::remove_dir_all(&place);
    }
    // A part of the path may be a file.
    let _ = match chance.below(8) {
        0 => Ok(()),
        1 => fs::create_dir(&place),
        #[cfg(unix)]
        2 => std::os::unix::fs::symlink(pick(chance, &["a", "d", "nowhere", "../b"]), &place),
        _ => fs::write(&place, text(chance)),
    };
}

pub fn plant(chance: &mut Chance, folder: &Path) {
    for name in ["d", "e", "apart"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for name in ["unread", "apart/unread"] {
        fs::write(folder.join(name), "old").unwrap();
    }
    for path in PATHS.iter().filter(|path| !path.ends_with("new")) {
        if path.len() > 1 && chance.below(4) != 0 {
            edit(chance, folder, path);
        }
    }
}

/// Changes what no program names: entries of a directory that none lists, and contents, unless these can be told from the
/// times of files.
fn edit_unread(chance: &mut Chance, folder: &Path, mtimes: Mtimes) {
    for name in ["unread", "apart/unread"] {
        if mtimes != Mtimes::Content && chance.below(2) == 0 {
            fs::write(folder.join(name), pick(chance, &["new", "abc"])).unwrap();
        }
    }
    let made = folder.join(format!("apart/{}", chance.below(3)));
    let _ =
        if chance.below(2) == 0 { fs::write(made, text(chance)) } else { fs::remove_file(made) };
}

/// A command; `depth` bounds the commands in it.
pub fn command(chance: &mut Chance, depth: usize) -> String {
    let [p, q, r] = [0; 3].map(|_| pick(chance, &PATHS));
    let word = pick(chance, &["a", "o", "e$", "x"]);
    if depth > 0 && chance.below(4) == 0 {
        let [one, two] = [0; 2].map(|_| command(chance, depth - 1));
        return match chance.below(5) {
            0 => format!("if {one}; then {two}; else cat {p}; fi"),
            1 => format!("{{ {one}; }} > {p}; {two}"),
            2 => format!("{{ {one}; }} | {{ {two}; }}"),
            3 => format!("for f in {p} {q}; do cat $f; {one}; done"),
            _ => format!("{one} && {two}"),
        };
    }
    match chance.below(30) {
        0 => format!("cat {p} {q}"),
        1 => format!("wc {p} {q}"),
        2 => format!("sort {p} {q} > {r}"),
        3 => format!("ls {p}"),
        4 => format!("ls -la {p}"),
        5 => format!("grep -n {word} {p} {q}"),
        6 => format!("cp {p} {q}"),
        7 => format!("cp -r {p} {q}"),
        8 => format!("mv {p} {q}"),
        9 => format!("rm -rf {p}"),
        10 => format!("mkdir -p {p}/made"),
        11 => format!("ln -s {p} {q}"),
        12 => format!("readlink {p}"),
        13 => format!("[ -e {p} ] && cksum {q}"),
        14 => format!("head -n 1 {p} | tr a-z A-Z"),
        15 => format!("cat {p} {q} | sort | uniq -c > {r}"),
        16 => format!("cksum < {p}"),
        17 => format!("tail -n 1 {p} >> {q}"),
        18 => format!("diff {p} {q}"),
        19 => format!("cmp {p} {q}"),
        20 => format!("touch {p}; stat {p}"),
        21 => format!("date +%s.%N; cat {p}"),
        22 => format!("sed s/{word}/X/ {p}"),
        23 => format!("yes {word} | head -n 2 | tee {p}"),
        24 => format!("find {p} -type f"),
        25 => format!("SETTING={word} env"),
        26 => format!("awk '{{ n[$1]++ }} END {{ for (w in n) print w, n[w] > \"{q}\" }}' {p}"),
        // What it opens depends on what it reads.
        27 | 28 => format!(
            "awk 'BEGIN {{ while ((getline f < \"{p}\") > 0) {{ if ((getline x < f) > 0) print f, x > \"{q}\"; else print \"no\", f }} }}'"
        ),
        _ => format!("xargs cat < {p}"),
    }
}

/// The machine of a run of `script` in `folder`, and all that can be seen of the run.
fn run(
    folder: &Path,
    mtimes: Mtimes,
    script: &str,
    programs: &Arc<ToolchainPrograms>,
    results: Option<&Arc<Results>>,
) -> String {
    let builder = Machine::builder().worktree(HostDir::open(folder).unwrap());
    let mut machine = builder.mtimes(mtimes).programs(programs.clone()).build().unwrap();
    machine.set_results(results.cloned());
    let output = Command::shell(script).output(&mut machine).unwrap();
    let diff = machine.vfs_mut().diff().unwrap();
    let mut seen = format!("{:?} after {:?}\n", output.status, machine.elapsed());
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    write!(seen, "{out}--\n{err}--\n{diff:#?}").unwrap();
    seen
}

#[test]
fn what_is_known_of_random_programs_is_what_they_do() {
    let programs = Arc::new(ToolchainPrograms::new(engine(), Toolchains::default()));
    let cases = number_from_env("BELLJAR_TEST_RESULT_CASES", CASES);
    let first = number_from_env("BELLJAR_TEST_RESULT_SEED", 1);
    let (mut hits, mut misses, mut unread) = (0, 0, 0);
    let mut cache = None;
    for case in 0..cases {
        if case % CASES_OF_CACHE == 0 {
            cache = Some(tempfile::tempdir().unwrap());
        }
        let cache = cache.as_ref().expect("the first case has made one").path();
        let results = Arc::new(Results::new(ResultCache::new(cache)));
        let seed = (first + case) as u64;
        let mut chance = Chance::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        plant(&mut chance, folder);
        let mtimes = [Mtimes::Fixed(TIME_NS), Mtimes::Content][chance.below(2)];
        let script: String =
            (0..=chance.below(4)).map(|_| command(&mut chance, 2) + "\n").collect();
        let plain = || run(folder, mtimes, &script, &programs, None);
        let known = || run(folder, mtimes, &script, &programs, Some(&results));
        let what = |step: &str| format!("BELLJAR_TEST_RESULT_SEED={seed}, {step}:\n{script}");

        let expected = plain();
        assert!(known() == expected, "{}", what("some of it known from other cases"));
        let before = results.statistics();
        edit_unread(&mut chance, folder, mtimes);
        let again = known();
        assert!(again == expected, "{}{expected}\n{again}", what("known"));
        let after = results.statistics();
        let ran = &after.differences[before.differences.len()..];
        assert!(ran.is_empty(), "{}{ran:?}", what("an edit of what was not read"));
        unread += after.hits - before.hits;
        for _ in 0..=chance.below(2) {
            let path = pick(&mut chance, &PATHS);
            edit(&mut chance, folder, path);
        }
        let (expected, edited) = (plain(), known());
        assert!(edited == expected, "{}{expected}\n{edited}", what("edited"));
        let statistics = results.statistics();
        assert_eq!((statistics.error, statistics.wrong), (None, Vec::new()));
        (hits, misses) = (hits + statistics.hits, misses + statistics.misses);
    }
    println!(
        "{cases} cases from {first}: {hits} hits, {misses} misses; {unread} hits after edits of what was not read"
    );
    assert!(hits > misses, "{hits} hits, {misses} misses");
}
