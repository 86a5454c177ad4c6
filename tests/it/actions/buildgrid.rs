//! `--remote-exec` with BuildGrid, whose worker calls `belljar runner`.

use std::fs;

use super::remote_exec::{run, state};
use super::runner_script;
use crate::support::buildgrid::BuildGrid;
use crate::support::{stderr, stdout};

#[test]
fn runs_on_a_worker_of_buildgrid_do_what_they_do_here() {
    let Some(mut buildgrid) = BuildGrid::start() else { return };
    let home = tempfile::tempdir().unwrap();
    buildgrid.add_worker(&runner_script(home.path()), 2);
    let remote = format!("--remote-exec={}", buildgrid.address);
    let cases: [&[&str]; 4] = [
        &["run", "sort", "letters"],
        &[
            "sh",
            "--apply",
            "-c",
            "sort letters >sorted; rm letters; mkdir d; ln -s ../sorted d/l; exit 3",
        ],
        &["sh", "--apply", "-c", "echo n >new; kill -TERM $$"],
        &["sh", "--apply", "-c", "seq 100000 >many; cat many | tail -n 1; no-such-program"],
    ];
    for words in cases {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            fs::write(folder.path().join("letters"), "b\na\n").unwrap();
        }
        let [here_in, there_in] = folders.each_ref().map(tempfile::TempDir::path);
        let (here, expected) = run(here_in, words);
        let (there, elsewhere) = run(there_in, &[&words[..1], &[&remote], &words[1..]].concat());
        assert_eq!(stdout(&here), stdout(&there), "{words:?}: {}", stderr(&there));
        assert_eq!(here.status, there.status, "{words:?}: {}", stderr(&there));
        assert_eq!(expected, elsewhere, "{words:?}");
        assert_eq!(state(here_in), state(there_in), "{words:?}");
    }
}
