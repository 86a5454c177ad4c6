"""Single runs, tapes, and their comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

import belljar


def test_run_takes_files_and_returns_those_that_were_written() -> None:
    done = belljar.run("sh", ["-c", "sort in.txt > out/sorted; rm gone"], {"in.txt": "b\na\n", "gone": b"", "out/x": b""})
    assert done.ok and done.files == {"out/sorted": b"a\nb\n"}
    assert [(change.path, change.kind) for change in done.changes] == [
        ("/worktree/gone", "deleted"),
        ("/worktree/out/sorted", "added"),
    ]
    assert belljar.run("sh", ["-c", "pwd; echo new > new"]).files == {"new": b"new\n"}


def test_run_of_a_worktree_writes_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n")
    done = belljar.run("sh", ["-c", "cat a; echo 2 > a"], worktree=tmp_path)
    assert (done.text, done.files) == ("1\n", {"a": b"2\n"})
    assert (tmp_path / "a").read_text() == "1\n"
    belljar.run("sh", ["-c", "echo 2 > a"], worktree=tmp_path, apply=True)
    assert (tmp_path / "a").read_text() == "2\n"


def test_paths_out_of_the_worktree_are_refused() -> None:
    for path in ("../x", "/x", "a/../../x", ""):
        with pytest.raises(belljar.InvalidArgument, match="relative path"):
            belljar.run("true", files={path: b""})
    with pytest.raises(belljar.InvalidArgument, match="not both"):
        belljar.run("true", files={"a": b""}, worktree=".")


def test_run_is_the_same_every_time(guests: Path) -> None:
    script = "ls -l --full-time; sleep 1; date; cat /proc/self/environ"
    done = [belljar.run("sh", ["-c", script], {"a": b"1"}) for _ in range(2)]
    assert (done[0].stdout, done[0].stderr) == (done[1].stdout, done[1].stderr)


def test_fuel_is_counted_with_a_limit(guests: Path) -> None:
    done = belljar.run(guests / "hello.wasm", limits=belljar.Limits(fuel=10_000_000))
    assert done.fuel_used is not None and 0 < done.fuel_used < 10_000_000
    assert belljar.run(guests / "hello.wasm").fuel_used is None


def test_recorded_run_is_replayed_without_its_files(tmp_path: Path, guests: Path) -> None:
    tape = tmp_path / "run.tape"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note").write_text("hello\n")
    done = belljar.record(tape, "sh", ["-c", "cat note; wc -l note; echo x > new"], worktree=tmp_path / "work")
    assert done.files == {"new": b"x\n"} and done.records
    (tmp_path / "work" / "note").unlink()
    replayed = belljar.replay(tape)
    assert (replayed.stdout, replayed.exit_code, replayed.records) == (done.stdout, 0, done.records)


def test_embedded_module_is_replayed_from_the_tape(tmp_path: Path, guests: Path) -> None:
    module = tmp_path / "own.wasm"
    module.write_bytes((guests / "cat.wasm").read_bytes())
    for embed in (False, True):
        tape = tmp_path / f"{embed}.tape"
        belljar.record(tape, module, ["a"], {"a": "text"}, embed=embed)
    module.unlink()
    assert belljar.replay(tmp_path / "True.tape").stdout == b"text"
    with pytest.raises(belljar.TapeError, match="modules="):
        belljar.replay(tmp_path / "False.tape")
    assert belljar.replay(tmp_path / "False.tape", modules=[guests / "cat.wasm"]).stdout == b"text"


def test_changed_tape_is_a_mismatch(tmp_path: Path) -> None:
    tape = tmp_path / "run.tape"
    belljar.record(tape, "sh", ["-c", "echo hello"])
    text = tape.read_text()
    assert "hello" in text
    tape.write_text(text.replace('"hello\\n"', '"jello\\n"'))
    with pytest.raises(belljar.TapeMismatch) as caught:
        belljar.replay(tape)
    assert caught.value.differences and "hello" in str(caught.value)


def test_damaged_tapes_are_errors(tmp_path: Path) -> None:
    (tmp_path / "bad.tape").write_text("{}\n")
    for use in (
        lambda: belljar.replay(tmp_path / "bad.tape"),
        lambda: belljar.replay(tmp_path / "missing.tape"),
        lambda: belljar.fidelity(tmp_path / "bad.tape", tmp_path / "bad.tape"),
        lambda: belljar.record(tmp_path / "no" / "folder.tape", "true"),
    ):
        with pytest.raises(belljar.TapeError):
            use()


def test_fidelity_compares_tapes(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        belljar.record(tmp_path / name, "sh", ["-c", f"cat f"], {"f": text})
    same = belljar.fidelity(tmp_path / "a", tmp_path / "b", "byte-identical")
    assert same.faithful and same.score == 1.0
    other = belljar.fidelity(tmp_path / "a", tmp_path / "c")
    assert not other.faithful and other.score < 1.0 and other.report["divergences"]
    assert str(other) == other.text != ""
