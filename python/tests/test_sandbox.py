"""Sandboxes: programs, files, forks, changes, limits, errors."""

from __future__ import annotations

import subprocess
import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest

import belljar
from belljar import Sandbox


def test_program_reads_and_writes_files_of_the_sandbox() -> None:
    with Sandbox() as box:
        box.write("/data/deep/note", "one\n")
        done = box.exec("wc", "-l", "/data/deep/note")
        assert done.ok and done.text == "1 /data/deep/note\n"
        box.sh("cat /data/deep/note > /tmp/copy; ln -s copy /tmp/link", check=True)
        assert box.read("/tmp/copy") == b"one\n"
        assert [(entry.name, entry.file_type, entry.size) for entry in box.list("/tmp")] == [
            ("copy", "file", 4),
            ("link", "symlink", 4),
        ]
        box.remove("/tmp/link")
        box.remove("/tmp/copy")
        assert box.list("/tmp") == []


def test_written_program_runs_from_its_path(guests: Path) -> None:
    with Sandbox() as box:
        box.write("/bin/hello.wasm", (guests / "hello.wasm").read_bytes())
        assert box.exec("/bin/hello.wasm").text == "hello, world\n"
        box.write("/bin/script", "#!/bin/sh\necho $1\n", executable=True)
        assert box.exec("/bin/script", "x").text == "x\n"


def test_arguments_streams_directory_and_environment_reach_the_program() -> None:
    with Sandbox(env={"A": "1", "B": "2"}) as box:
        done = box.sh('echo "$A $B $1 $PWD"; cat; echo error >&2; exit 3', "arg", stdin="in\n", cwd="/tmp", env={"B": "3"})
        assert (done.exit_code, done.stdout, done.stderr) == (3, b"1 3 arg /tmp\nin\n", b"error\n")
        assert not done.ok and done.error_text == "error\n"


def test_fork_is_independent() -> None:
    with Sandbox() as box:
        box.write("/tmp/note", "one")
        fork = box.fork()
        fork.sh("echo two > /tmp/note; sleep 60", check=True)
        assert (box.read_text("/tmp/note"), fork.read_text("/tmp/note")) == ("one", "two\n")
        assert (box.elapsed, fork.elapsed) == (0.0, 60.0)
        box.close()
        assert fork.read_text("/tmp/note") == "two\n"


def test_changes_are_shown_and_written_when_asked(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_bytes(b"a\n")
    (tmp_path / "gone.txt").write_text("b\n")
    with Sandbox(worktree=tmp_path) as box:
        box.sh("echo c >> kept.txt; rm gone.txt; mkdir d; echo new > d/new.txt; chmod +x d/new.txt", check=True)
        changes = {change.path: change for change in box.diff()}
        assert {path: (change.kind, change.file_type) for path, change in changes.items()} == {
            "/worktree/kept.txt": ("modified", "file"),
            "/worktree/gone.txt": ("deleted", "file"),
            "/worktree/d": ("added", "directory"),
            "/worktree/d/new.txt": ("added", "file"),
        }
        kept, new = changes["/worktree/kept.txt"], changes["/worktree/d/new.txt"]
        assert (kept.before, kept.after, kept.relative) == (b"a\n", b"a\nc\n", "kept.txt")
        assert (new.before, new.after, new.executable) == (None, b"new\n", True)
        assert "+c\n" in box.patch()
        assert (tmp_path / "kept.txt").read_text() == "a\n"
        applied = box.apply()
        assert (applied.written, applied.removed, applied.dirs_created) == (2, 1, 1)
    assert (tmp_path / "kept.txt").read_text() == "a\nc\n"
    assert not (tmp_path / "gone.txt").exists()


def test_fork_is_compared_with_its_origin(tmp_path: Path) -> None:
    with Sandbox(worktree=tmp_path) as box:
        box.write("first", "1")
        fork = box.fork()
        fork.write("second", "2")
        assert [change.path for change in fork.diff(box)] == ["/worktree/second"]
        assert [change.kind for change in box.diff(fork)] == ["deleted"]
        assert box.diff(box) == []


def test_fork_is_compared_with_its_origin_in_memory() -> None:
    with Sandbox(mounts={"/work": None}) as box:
        box.sh("echo 1 > /tmp/kept; echo 1 > /tmp/old; echo 1 > /work/changed; ln -s a /tmp/link; mkdir /tmp/d", check=True)
        assert box.diff() == []
        fork = box.fork()
        assert fork.diff(box) == []
        fork.sh("rm /tmp/old /tmp/link; ln -s b /tmp/link; echo 2 > /work/changed; rmdir /tmp/d; echo 1 > /tmp/d", check=True)
        fork.write("/root/deep/new", "3")
        shown = [(change.path, change.kind, change.file_type, change.before, change.after) for change in fork.diff(box)]
        assert shown == [
            ("/root", "added", "directory", None, None),
            ("/root/deep", "added", "directory", None, None),
            ("/root/deep/new", "added", "file", None, b"3"),
            ("/tmp/d", "deleted", "directory", None, None),
            ("/tmp/d", "added", "file", None, b"1\n"),
            ("/tmp/link", "modified", "symlink", b"a", b"b"),
            ("/tmp/old", "deleted", "file", b"1\n", None),
            ("/work/changed", "modified", "file", b"1\n", b"2\n"),
        ]


def test_conflict_with_the_disk_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    with Sandbox(worktree=tmp_path) as box:
        box.sh("cat a; echo 2 > a; echo 3 > b", check=True)
        (tmp_path / "a").write_text("other")
        with pytest.raises(belljar.Conflict) as caught:
            box.apply()
        assert len(caught.value.conflicts) == 1 and "a" in caught.value.conflicts[0]
        assert not (tmp_path / "b").exists()


def test_read_only_mount_refuses_writes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    mounts: dict[str, belljar.Mount | str | Path | None] = {
        "/ro": belljar.Mount(tmp_path, read_only=True),
        "/rw": tmp_path,
        "/new": None,
    }
    with Sandbox(mounts=mounts) as box:
        assert not box.sh("echo 2 > /ro/a").ok
        assert box.sh("echo 2 > /rw/a; echo 3 > /new/b; cat /ro/a /rw/a /new/b").text == "12\n3\n"
        box.mount("/later", belljar.Mount(tmp_path, read_only=True))
        assert box.read("/later/a") == b"1"
        with pytest.raises(belljar.Error, match="already exists"):
            box.mount("/later")


def test_snapshot_is_resumed(tmp_path: Path) -> None:
    with Sandbox(env={"A": "1"}) as box:
        box.sh("echo one > /tmp/note; sleep 10", check=True)
        saved = box.snapshot(tmp_path / "snapshots")
        box.sh("rm /tmp/note", check=True)
    for _ in range(2):
        with Sandbox.resume(saved) as resumed:
            assert resumed.sh("cat /tmp/note; echo $A", check=True).text == "one\n1\n"
            assert resumed.elapsed == 10.0
    with pytest.raises(belljar.Error, match="snapshot"):
        Sandbox.resume(belljar.Snapshot(saved.directory, "0" * 64))


def test_files_are_copied_between_host_and_sandbox(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1")
    with Sandbox() as box:
        assert box.copy_in(tmp_path / "in", "/tmp/tree") == 1
        box.write("/tmp/tree/b", "2")
        assert box.copy_out("/tmp/tree", tmp_path / "out") == 2
    assert (tmp_path / "out" / "b").read_text() == "2"


def test_clock_is_virtual_or_starts_when_it_is_told() -> None:
    with Sandbox() as box:
        assert box.sh("sleep 86400; date -u +%F").text == "2037-01-02\n"
    with Sandbox(clock=datetime(2024, 2, 29, 12, tzinfo=timezone.utc)) as box:
        assert box.sh("date -u +%FT%T").text == "2024-02-29T12:00:00\n"


def test_same_seed_gives_the_same_random_numbers(guests: Path) -> None:
    texts = [belljar.run(guests / "random.wasm", seed=seed).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_failed_program_is_a_result_or_an_exception() -> None:
    with Sandbox() as box:
        assert box.sh("exit 7").exit_code == 7
        with pytest.raises(belljar.ProgramFailed) as caught:
            box.sh("echo out; echo why >&2; exit 7", check=True)
        error = caught.value
        assert (error.returncode, error.stdout, error.stderr) == (7, b"out\n", b"why\n")
        assert isinstance(error, subprocess.CalledProcessError) and "why" in str(error)


def test_trap_names_the_active_functions(guests: Path) -> None:
    done = belljar.run(guests / "trap.wasm", ["unreachable"])
    assert (done.outcome, done.exit_code) == ("trapped", 134)
    assert done.message is not None and "unreachable" in done.message
    assert done.backtrace


def test_unknown_program_is_not_found() -> None:
    with Sandbox() as box, pytest.raises(belljar.ProgramNotFound) as caught:
        box.exec("no-such-program")
    assert caught.value.program == "no-such-program" and isinstance(caught.value, FileNotFoundError)
    with pytest.raises(belljar.ProgramNotFound):
        belljar.run("no-such-program")
    with pytest.raises(belljar.ProgramNotFound):
        belljar.run("./no-such.wasm")


@pytest.mark.parametrize(
    ("limits", "script", "limit"),
    [
        (belljar.Limits(timeout=0.05), "echo begun; while :; do :; done", "timeout"),
        (belljar.Limits(virtual_timeout=5), "echo begun; sleep 60", "virtual_timeout"),
        (belljar.Limits(fuel=100_000), "echo begun; while :; do :; done", "fuel"),
        (belljar.Limits(output_bytes_max=1000), "echo begun; while :; do echo x; done", "output"),
    ],
)
def test_limit_is_an_exception_with_the_output_until_then(limits: belljar.Limits, script: str, limit: str) -> None:
    with Sandbox(limits=limits) as box:
        with pytest.raises(belljar.LimitReached) as caught:
            box.sh(script)
        error = caught.value
        assert error.limit == limit and error.value in (0.05, 5, 100_000, 1000)
        assert error.stdout.startswith(b"begun\n")
        assert isinstance(error, TimeoutError) == (limit != "output")
        assert error.exit_code == (134 if limit == "output" else 124)
        assert box.sh("echo still there").text == "still there\n"


def test_write_that_fails_changes_nothing() -> None:
    with Sandbox(limits=belljar.Limits(upper_bytes_max=100_000)) as box:
        box.write("/tmp/mine", "precious")
        for path in ("/tmp/mine", "/tmp/p/q/new", "/tmp/x/mine/"):
            with pytest.raises(belljar.PathError):
                box.write(path, b"x" * 200_000)
        assert box.read_text("/tmp/mine") == "precious"
        assert box.sh("ls /tmp").text == "mine\n"


def test_memory_of_programs_is_limited(guests: Path) -> None:
    done = belljar.run(guests / "alloc_bomb.wasm", limits=belljar.Limits(memory_bytes_max=64 << 20))
    assert done.exit_code == 3 and int(done.text.split()[0]) <= 64


def test_timeout_of_one_program() -> None:
    with Sandbox() as box:
        with pytest.raises(belljar.TimedOut):
            box.sh("sleep 60", timeout=5)
        assert box.sh("sleep 60", timeout=5, virtual_timeout=100).ok


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(belljar.InvalidArgument, match="absolute path"):
        Sandbox(mounts={"relative": None})
    with pytest.raises(belljar.InvalidArgument, match="mtimes"):
        Sandbox(mtimes="wrong")  # type: ignore[arg-type]
    with pytest.raises(belljar.InvalidArgument, match="not a count"):
        Sandbox(limits=belljar.Limits(memory_bytes_max=-1))
    with pytest.raises(belljar.InvalidArgument, match="URL"):
        Sandbox(allow_net=["https://example.com"])
    with pytest.raises(ValueError, match="clock"):
        Sandbox(clock="wrong")  # type: ignore[arg-type]
    with Sandbox() as box:
        with pytest.raises(belljar.InvalidArgument, match="neither bytes nor text"):
            box.write("/tmp/a", 5)  # type: ignore[arg-type]
        with pytest.raises(belljar.InvalidArgument, match="not a directory"):
            box.exec("true", cwd="/nowhere")
        with pytest.raises(belljar.PathNotFound) as caught:
            box.read("/tmp/missing")
        assert caught.value.filename == "/tmp/missing"
        with pytest.raises(belljar.PathError):
            box.read("/tmp")


def test_closed_sandbox_says_so() -> None:
    box = Sandbox()
    box.close()
    box.close()
    assert box.closed
    for use in (lambda: box.read("/tmp"), lambda: box.exec("true"), box.fork, box.diff):
        with pytest.raises(belljar.SandboxClosed):
            use()


def test_threads_take_turns_in_one_sandbox() -> None:
    with Sandbox() as box:
        failures: list[BaseException] = []

        def work(name: int) -> None:
            try:
                for _ in range(20):
                    box.sh(f"echo {name} >> /tmp/log", check=True)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(box.read("/tmp/log").splitlines()) == 80




def test_other_threads_go_on_while_a_program_runs_and_closing_ends_it(guests: Path) -> None:
    """If the caller of the program kept the interpreter for itself, this would never end."""
    started = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            box.sh("ask test.started; exec loop")
        except BaseException as error:
            errors.append(error)

    box = Sandbox(toolchains=[guests], host={"test.started": lambda params: started.set()})
    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    assert sum(range(100_000)) == 4_999_950_000
    box.close()
    thread.join()
    assert [type(error) for error in errors] == [belljar.SandboxClosed]


def test_output_is_streamed_while_the_program_runs() -> None:
    with Sandbox() as box:
        with box.exec_stream("sh", "-c", "echo one; echo two >&2; exit 4") as stream:
            chunks = [(chunk.stream, chunk.text) for chunk in stream]
            assert chunks == [("stdout", "one\n"), ("stderr", "two\n")]
            assert stream.result().exit_code == 4
        with box.exec_stream("sh", "-c", "while :; do echo more; done") as stream:
            assert next(iter(stream)).data == b"more\n"
        assert box.sh("echo free").text == "free\n"


def test_network_is_closed_until_rules_open_it() -> None:
    with Sandbox() as box:
        with pytest.raises(belljar.HostCallError) as caught:
            box.host_call("net.http", {"url": "http://127.0.0.1:9/"})
        assert caught.value.kind == "egress_blocked"
        box.set_network(allow=["127.0.0.1:9"])
        with pytest.raises(belljar.HostCallError) as caught:
            box.host_call("net.http", {"url": "http://127.0.0.1:9/"})
        assert caught.value.kind == "failed"


def test_toolchain_folder_is_searched_first(guests: Path) -> None:
    with Sandbox(toolchains=[guests]) as box:
        assert box.exec("hello").text == "hello, world\n"
    assert "hello" in belljar.programs([guests]) and "wc" in belljar.programs()
