"""The plugin of pytest, in projects of its own."""

from __future__ import annotations

import shutil
import sys

import pytest

PROJECT = """
import subprocess

def test_version(belljar_tape):
    assert "Free Software" in belljar_tape.run(["cc", "--version"], text=True, check=True).stdout

def test_preprocessor(belljar_tape, tmp_path):
    (tmp_path / "a.c").write_text("#define X 42\\nint x = X;\\n")
    done = belljar_tape.run(["cc", "-E", "-P", "a.c"], cwd=tmp_path, text=True)
    assert done.returncode == 0 and "int x = 42;" in done.stdout

def test_code_that_calls_subprocess(belljar_subprocess):
    digest = subprocess.check_output(["git", "hash-object", "--stdin"], input="hello\\n", text=True)
    assert digest == "ce013625030ba8dba906f756967f9e9ca394464a\\n"
    done = subprocess.run(["git", "no-such-command"], capture_output=True)
    assert done.returncode == 1 and b"no-such-command" in done.stderr
"""

BUILD = """
import subprocess

SOURCE = "int main(void) { return 7; }\\n"

def test_object_file_is_left_behind(belljar_tape, tmp_path):
    (tmp_path / "main.c").write_text(SOURCE)
    belljar_tape.run(["cc", "-c", "main.c", "-o", "main.o"], check=True)
    code = (tmp_path / "main.o").read_bytes()
    belljar_tape.run(["cc", "main.o", "-o", "main"], check=True)
    assert belljar_tape.run(["./main"]).returncode == 7
    assert len(code) > 100 and (tmp_path / "main").stat().st_mode & 0o100
    assert belljar_tape.read("main.o") == code

def test_code_that_calls_the_compiler(belljar_subprocess, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.c").write_text(SOURCE)
    subprocess.run(["cc", "-S", "main.c"], check=True)
    assert "main" in (tmp_path / "main.s").read_text()

def test_repository(belljar_tape, tmp_path):
    (tmp_path / "a.txt").write_text("a\\n")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "-q", "."], ["add", "."], ["commit", "-qm", "first"]):
        belljar_tape.run([*git, *words], check=True)
    belljar_tape.run([*git, "mv", "a.txt", "b.txt"], check=True)
    assert (tmp_path / "b.txt").read_text() == "a\\n" and not (tmp_path / "a.txt").exists()
    assert (tmp_path / ".git").exists() or (".git/HEAD", "other tools may run or obey it") in belljar_tape.unmade
"""

needs_programs = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("git") is None, reason="needs cc and git"
)


@needs_programs
def test_project_records_once_and_replays_without_the_programs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_tools=PROJECT)
    pytester.runpytest_subprocess("--belljar-no-record").assert_outcomes(errors=3)
    pytester.runpytest_subprocess().assert_outcomes(passed=3)
    tapes = sorted(path.name for path in (pytester.path / "tapes" / "test_tools").iterdir())
    assert tapes == ["test_code_that_calls_subprocess.jsonl", "test_preprocessor.jsonl", "test_version.jsonl"]
    monkeypatch.setenv("PATH", "")
    pytester.runpytest_subprocess("--belljar-no-record").assert_outcomes(passed=3)
    failed = pytester.runpytest_subprocess("--belljar-record")
    failed.assert_outcomes(failed=3)
    failed.stdout.fnmatch_lines(["*ProgramNotFound*the host has no program \"cc\"*"])
    # A recording that fails leaves the tape as it was.
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


@needs_programs
def test_what_programs_wrote_is_there_again_without_them(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_build=BUILD)
    pytester.runpytest_subprocess().assert_outcomes(passed=3)
    monkeypatch.setenv("PATH", "")
    pytester.runpytest_subprocess("--belljar-no-record").assert_outcomes(passed=3)
    pytester.makepyfile(test_build=BUILD.replace("return 7", "return 8"))
    edited = pytester.runpytest_subprocess("--belljar-no-record")
    edited.assert_outcomes(passed=1, failed=2)
    edited.stdout.fnmatch_lines(
        [
            "*TapeMismatch: subprocess call 1 does not match *line 2:",
            "* file main.c (-: on the tape, +: now)",
            "* - a file of 29 bytes, *",
            "* + a file of 29 bytes, *",
        ]
    )


def test_files_in_the_folder_of_the_test_are_made_only_when_asked(pytester: pytest.Pytester) -> None:
    body = '''
    import pathlib
    script = "open('out', 'w').write('made')"
    belljar_tape.run([PYTHON, "-c", script], check=True)
    assert belljar_tape.read("out") == b"made"
    out = pathlib.Path(__file__).parent / "out"
    out.read_text()
'''
    out = pytester.path / "out"
    run(pytester, body).assert_outcomes(passed=1)
    out.unlink()
    missing = run(pytester, body)
    missing.assert_outcomes(failed=1)
    if sys.version_info >= (3, 11):
        missing.stdout.fnmatch_lines(["*belljar_make_files*"])
    assert not out.exists()
    pytester.makeini("[pytest]\nbelljar_make_files = true\n")
    for _ in range(2):
        run(pytester, body).assert_outcomes(passed=1)
        assert out.read_text() == "made"


def test_secret_is_warned_of_when_it_is_recorded(pytester: pytest.Pytester) -> None:
    body = '''
    belljar_tape.run([PYTHON, "-c", "open('key.pem', 'w').write('-----BEGIN EC PRIV' + 'ATE KEY-----')"], check=True)
'''
    recorded = run(pytester, body)
    recorded.assert_outcomes(passed=1, warnings=1)
    recorded.stdout.fnmatch_lines(["*key.pem holds a secret (rule private-key)*belljar_ignore*"])
    (pytester.path / "key.pem").unlink()
    run(pytester, body).assert_outcomes(failed=1)
    pytester.makeini("[pytest]\nbelljar_ignore = key.pem\n")
    run(pytester, body, "--belljar-record").assert_outcomes(passed=1)
    run(pytester, body).assert_outcomes(passed=1)


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    python = repr(sys.executable)
    pytester.makepyfile(test_own=f"import subprocess, pytest\nPYTHON = {python}\n\ndef test_it(belljar_tape):\n{body}\n")
    return pytester.runpytest_subprocess(*options)


def test_first_difference_is_shown_as_a_diff(pytester: pytest.Pytester) -> None:
    run(pytester, "    belljar_tape.run([PYTHON, '-c', 'print(1)'])").assert_outcomes(passed=1)
    other = run(pytester, "    belljar_tape.run([PYTHON, '-c', 'print(2)'])")
    other.assert_outcomes(failed=1)
    other.stdout.fnmatch_lines(
        [
            "*TapeMismatch: subprocess call 1 does not match *test_it.jsonl, line 2:",
            "* args (-: on the tape, +: now)",
            "* - *print(1)*",
            "* + *print(2)*",
            "*pytest --belljar-record*",
        ]
    )
    run(pytester, "    belljar_tape.run([PYTHON, '-c', 'print(2)'])", "--belljar-record").assert_outcomes(passed=1)
    run(pytester, "    belljar_tape.run([PYTHON, '-c', 'print(2)'])").assert_outcomes(passed=1)


def test_calls_that_are_left_over_or_hidden_fail_the_test(pytester: pytest.Pytester) -> None:
    call = "    belljar_tape.run([PYTHON, '-c', 'print(1)'])\n"
    run(pytester, call * 2).assert_outcomes(passed=1)
    fewer = run(pytester, call)
    fewer.assert_outcomes(failed=1)
    fewer.stdout.fnmatch_lines(["*was never called; entries left: 1*"])
    run(pytester, "    pass").assert_outcomes(failed=1)
    hidden = f"    try:\n    {call}        belljar_tape.run(['other'])\n    except Exception:\n        pass"
    run(pytester, hidden).assert_outcomes(failed=1)


def test_failing_test_records_nothing(pytester: pytest.Pytester) -> None:
    call = "    belljar_tape.run([PYTHON, '-c', 'print(1)'])\n"
    run(pytester, call + "    assert False").assert_outcomes(failed=1)
    assert not (pytester.path / "tapes" / "test_own" / "test_it.jsonl").exists()


def test_status_input_environment_and_timeout_are_taped(pytester: pytest.Pytester) -> None:
    body = """
    import os
    code = "import os, sys; print(sys.stdin.read() + os.environ['A']); sys.exit(3)"
    done = belljar_tape.run([PYTHON, "-c", code], input="in ", env={**os.environ, "A": "1"}, text=True)
    assert (done.returncode, done.stdout) == (3, "in 1\\n")
    with pytest.raises(subprocess.CalledProcessError):
        belljar_tape.run([PYTHON, "-c", "raise SystemExit(1)"], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        belljar_tape.run([PYTHON, "-c", "import time; time.sleep(3600)"], timeout=0.3)
    with pytest.raises(FileNotFoundError):
        belljar_tape.run(["no-such-program"])
"""
    run(pytester, body).assert_outcomes(passed=1)
    run(pytester, body, "--belljar-no-record").assert_outcomes(passed=1)


def test_functions_of_subprocess_are_taped(pytester: pytest.Pytester) -> None:
    text = """
    import subprocess, sys

    def test_it(belljar_subprocess, tmp_path):
        python = [sys.executable, "-c"]
        with subprocess.Popen([*python, "print(input() * 2)"], stdin=-1, stdout=-1, text=True) as process:
            process.stdin.write("ab\\n")
            process.stdin.close()
            assert list(process.stdout) == ["abab\\n"]
        assert process.returncode == 0
        assert subprocess.call([*python, "raise SystemExit(4)"]) == 4
        assert subprocess.run([*python, "print(1)"], stdout=subprocess.DEVNULL).stdout is None
        both = "import sys; print(1, flush=True); print(2, file=sys.stderr)"
        assert subprocess.check_output([*python, both], stderr=subprocess.STDOUT).split() == [b"1", b"2"]
        with open(tmp_path / "out", "wb") as out:
            subprocess.check_call([*python, "print(3)"], stdout=out)
        assert (tmp_path / "out").read_bytes().strip() == b"3"
        assert subprocess.getoutput("echo shell") == "shell"
    """
    pytester.makepyfile(test_own=text)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--belljar-no-record").assert_outcomes(passed=1)


@needs_programs
def test_frozen_clock_is_that_of_sandboxes_and_subprocesses(pytester: pytest.Pytester) -> None:
    text = """
    import os, pytest

    @pytest.mark.belljar_freeze("2024-02-29T12:00:00Z")
    def test_it(belljar_tape, belljar_sandbox, tmp_path):
        assert belljar_sandbox.sh("date -u +%F").text == "2024-02-29\\n"
        (tmp_path / "a.c").write_text("__DATE__")
        done = belljar_tape.run(["cc", "-E", "-P", "a.c"], text=True, check=True)
        assert done.stdout.strip() == '"Feb 29 2024"'
    """
    pytester.makepyfile(test_own=text)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--belljar-no-record").assert_outcomes(passed=1)


def test_sandboxes_of_tests_are_their_own(pytester: pytest.Pytester) -> None:
    text = """
    import pytest

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_it(belljar_sandbox, name):
        assert belljar_sandbox.list("/tmp") == []
        belljar_sandbox.write("/tmp/" + name, name)

    @pytest.mark.belljar_sandbox(env={"A": "1"})
    def test_settings(belljar_sandbox):
        assert belljar_sandbox.sh("echo $A").text == "1\\n"
    """
    pytester.makepyfile(test_own=text)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_options_exclude_each_other(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess("--belljar-record", "--belljar-no-record")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*exclude each other*"])
