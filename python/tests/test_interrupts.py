"""Ctrl-C, and tasks that are cancelled, end programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import belljar

PROGRAM = """
import sys, belljar
box = belljar.Sandbox()
box.write("/loop.wasm", open(sys.argv[1], "rb").read())
try:
    with box.exec_stream("sh", "-c", sys.argv[2]) as stream:
        for chunk in stream:
            print(chunk.text, end="", flush=True)
            {then}
except KeyboardInterrupt:
    print("interrupted", box.sh("echo usable").text, end="")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of a process of its own group")
@pytest.mark.parametrize("script", ["echo ready; while :; do :; done", "echo ready; exec /loop.wasm"])
@pytest.mark.parametrize("then", ["pass", "stream.result()"])
def test_ctrl_c_ends_the_program(guests: Path, script: str, then: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(then=then), str(guests / "loop.wasm"), script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted usable\n"
    assert process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="signals of a process of its own group")
def test_ctrl_c_ends_exec() -> None:
    """The signal comes from a callback, so that the program certainly runs."""

    def call(params: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return None

    with belljar.Sandbox(host={"db.query": call}, toolchains=[Path(__file__).parents[2] / "guest-examples"]) as box:
        with pytest.raises(KeyboardInterrupt):
            box.sh("ask db.query; while :; do :; done")
        assert box.sh("echo usable").text == "usable\n"


@pytest.mark.skipif(os.name == "nt", reason="signals of a process of its own group")
def test_second_ctrl_c_does_not_wait_for_a_callback() -> None:
    goes_on = threading.Event()

    def call(params: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        return goes_on.wait()

    guests = Path(__file__).parents[2] / "guest-examples"
    with belljar.Sandbox(host={"db.query": call}, toolchains=[guests]) as box:
        with pytest.raises(KeyboardInterrupt):
            box.sh("ask db.query")
        goes_on.set()
        # The program ends now, and the sandbox is free again.
        assert box.sh("echo usable").text == "usable\n"


def test_cancelled_task_ends_its_program(guests: Path) -> None:
    async def main() -> None:
        async with belljar.aio.Sandbox(toolchains=[guests]) as box:
            task = asyncio.create_task(box.exec("loop"))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await box.sh("echo usable")).text == "usable\n"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.exec("loop"), 0.1)
            assert (await box.sh("echo usable")).text == "usable\n"

    asyncio.run(main())


def test_stream_that_is_left_ends_its_program() -> None:
    async def main() -> None:
        async with belljar.aio.Sandbox() as box:
            stream = box.exec_stream("sh", "-c", "while :; do echo more; done")
            assert (await stream.__anext__()).data == b"more\n"
            await stream.aclose()
            chunks = [chunk.text async for chunk in box.exec_stream("seq", "2")]
            assert "".join(chunks) == "1\n2\n"
            with pytest.raises(belljar.ProgramFailed):
                async for _ in box.exec_stream("false", check=True):
                    pass

    asyncio.run(main())


def test_sandboxes_run_at_once(guests: Path) -> None:
    """Each program waits for the other's callback: one after the other, they would never end."""
    both = threading.Barrier(2, timeout=60)

    async def main() -> None:
        meet = {"test.meet": lambda params: both.wait()}
        async with belljar.aio.Sandbox(toolchains=[guests], host=meet) as one:
            two = await one.fork()
            done = await asyncio.gather(one.exec("ask", "test.meet"), two.exec("ask", "test.meet"))
            assert sorted(output.json()["ok"] for output in done) == [0, 1]

    asyncio.run(main())


def test_aio_has_the_files_and_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with belljar.aio.Sandbox(worktree=tmp_path) as box:
            await box.write("a", "1")
            assert await box.read("a") == b"1" and await box.read_text("a") == "1"
            assert [entry.name for entry in await box.list()] == ["a"]
            assert [change.path for change in await box.diff()] == ["/worktree/a"]
            assert (await box.apply()).written == 1
            assert (await box.host_call("workspace.project_root")) == "/worktree"
        done = await belljar.aio.run("wc", ["-c", "f"], {"f": "12345"})
        assert done.text == "5 f\n"
        with pytest.raises(belljar.TimedOut):
            await belljar.aio.run("sh", ["-c", "while :; do :; done"], limits=belljar.Limits(timeout=0.05))

    asyncio.run(main())
    assert (tmp_path / "a").read_text() == "1"
