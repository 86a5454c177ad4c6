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
