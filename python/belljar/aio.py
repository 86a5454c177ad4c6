"""The same for `asyncio`: a task that is cancelled ends its program. ::

    async with belljar.aio.Sandbox() as box:
        print((await box.exec("seq", "3")).text)

Programs run on threads of their own, so that any number of sandboxes run at once.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import _native, _run, _sandbox, _toolchains
from ._output import Change, Output, output_of
from ._sandbox import Applied, Chunk, Entry, Request, Snapshot
from ._settings import Clock, Given, HostFunction, Limits, MountLike, StrPath, Tool
from ._toolchains import Toolchain

_T = TypeVar("_T")


async def _wait(start: Callable[[Callable[[], object]], _native.Running]) -> _native.Ended:
    """Starts a program and waits for its end; a cancellation ends it."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    # Looking a program up may compile it.
    running = await asyncio.to_thread(start, lambda: _tell(loop, ended))
    try:
        await ended.wait()
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.to_thread(running.interrupt))
        raise
    return running.wait()


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(ended.set)
    except RuntimeError:
        # The loop was closed: nobody waits any more.
        pass


class Sandbox:
    """As `belljar.Sandbox`, for `asyncio`. Calls on one sandbox wait for each other."""

    def __init__(
        self,
        *,
        mounts: Mapping[str, MountLike] | None = None,
        worktree: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        clock: Clock = "virtual",
        seed: int = 0,
        mtimes: Literal["host", "content", "fixed"] = "host",
        allow_net: Iterable[str] | Literal["public"] = (),
        deny_net: Iterable[str] = (),
        toolchains: Iterable[StrPath] = (),
        policy: Mapping[str, Any] | None = None,
        host: Mapping[str, HostFunction] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
    ) -> None:
        self._sandbox = _sandbox.Sandbox(
            mounts=mounts,
            worktree=worktree,
            env=env,
            limits=limits,
            clock=clock,
            seed=seed,
            mtimes=mtimes,
            allow_net=allow_net,
            deny_net=deny_net,
            toolchains=toolchains,
            policy=policy,
            host=host,
            tools=tools,
        )
        self._turn = asyncio.Lock()

    @classmethod
    def of(cls, sandbox: _sandbox.Sandbox) -> Sandbox:
        """The same sandbox, for `asyncio`."""
        made = cls.__new__(cls)
        made._sandbox, made._turn = sandbox, asyncio.Lock()
        return made

    @property
    def sync(self) -> _sandbox.Sandbox:
        """The same sandbox, for code that is not asynchronous."""
        return self._sandbox

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it. What was not applied is gone."""
        await asyncio.to_thread(self._sandbox.close)

    async def exec(
        self,
        program: StrPath,
        *args: StrPath,
        stdin: bytes | str = b"",
        cwd: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        virtual_timeout: float | None = None,
        check: bool = False,
    ) -> Output:
        """As `belljar.Sandbox.exec`."""
        request = Request.of(program, args, stdin, cwd, env, timeout, virtual_timeout)
        native, start_dir = self._sandbox._native, self._sandbox._cwd
        async with self._turn:
            ended = await _wait(lambda done: request.start(native, start_dir, None, done))
        return output_of(ended, request.args, check)

    async def sh(
        self,
        script: str,
        *args: StrPath,
        stdin: bytes | str = b"",
        cwd: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        virtual_timeout: float | None = None,
        check: bool = False,
    ) -> Output:
        """As `belljar.Sandbox.sh`."""
        return await self.exec(
            "sh",
            "-c",
            script,
            "sh",
            *args,
            stdin=stdin,
            cwd=cwd,
            env=env,
            timeout=timeout,
            virtual_timeout=virtual_timeout,
            check=check,
        )

    async def exec_stream(
        self,
        program: StrPath,
        *args: StrPath,
        stdin: bytes | str = b"",
        cwd: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        virtual_timeout: float | None = None,
        check: bool = False,
    ) -> AsyncGenerator[Chunk, None]:
        """The output of a program while it runs. The end of the iteration raises what `exec` would. Leaving it early, with
        ``aclose()`` or by a cancellation, ends the program."""
        request = Request.of(program, args, stdin, cwd, env, timeout, virtual_timeout)
        native, start_dir = self._sandbox._native, self._sandbox._cwd
        loop = asyncio.get_running_loop()
        # Not bounded: the limit `output_bytes_max` is the bound.
        chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()

        def put(fd: int, data: bytes) -> None:
            loop.call_soon_threadsafe(chunks.put_nowait, Chunk("stdout" if fd == 1 else "stderr", data))

        def end() -> None:
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, None)
            except RuntimeError:
                # The loop was closed: nobody waits any more.
                pass

        async with self._turn:
            running = await asyncio.to_thread(request.start, native, start_dir, put, end)
            try:
                while (chunk := await chunks.get()) is not None:
                    yield chunk
            finally:
                if not running.has_ended():
                    await asyncio.shield(asyncio.to_thread(running.interrupt))
        output_of(running.wait(), request.args, check)

    async def _call(self, act: Callable[..., _T], *args: Any, **options: Any) -> _T:
        async with self._turn:
            return await asyncio.to_thread(act, *args, **options)

    async def read(self, path: StrPath) -> bytes:
        """As `belljar.Sandbox.read`."""
        return await self._call(self._sandbox.read, path)

    async def read_text(self, path: StrPath) -> str:
        """As `belljar.Sandbox.read_text`."""
        return await self._call(self._sandbox.read_text, path)

    async def write(self, path: StrPath, data: bytes | str, *, executable: bool = False) -> None:
        """As `belljar.Sandbox.write`."""
        await self._call(self._sandbox.write, path, data, executable=executable)

    async def remove(self, path: StrPath) -> None:
        """As `belljar.Sandbox.remove`."""
        await self._call(self._sandbox.remove, path)

    async def list(self, path: StrPath = ".") -> builtins.list[Entry]:
        """As `belljar.Sandbox.list`."""
        return await self._call(self._sandbox.list, path)

    async def copy_in(self, source: StrPath, target: StrPath) -> int:
        """As `belljar.Sandbox.copy_in`."""
        return await self._call(self._sandbox.copy_in, source, target)

    async def copy_out(self, source: StrPath, target: StrPath) -> int:
        """As `belljar.Sandbox.copy_out`."""
        return await self._call(self._sandbox.copy_out, source, target)

    async def fork(self) -> Sandbox:
        """As `belljar.Sandbox.fork`."""
        async with self._turn:
            # It takes microseconds: less than another thread would.
            return Sandbox.of(self._sandbox.fork())

    async def snapshot(self, directory: StrPath) -> Snapshot:
        """As `belljar.Sandbox.snapshot`."""
        return await self._call(self._sandbox.snapshot, directory)

    async def diff(self, since: Sandbox | None = None) -> builtins.list[Change]:
        """As `belljar.Sandbox.diff`."""
        return await self._call(self._sandbox.diff, None if since is None else since.sync)

    async def patch(self) -> str:
        """As `belljar.Sandbox.patch`."""
        return await self._call(self._sandbox.patch)

    async def apply(self) -> Applied:
        """As `belljar.Sandbox.apply`."""
        return await self._call(self._sandbox.apply)

    async def refresh(self, *, discard: bool = False) -> None:
        """As `belljar.Sandbox.refresh`."""
        await self._call(self._sandbox.refresh, discard=discard)

    async def host_call(self, name: str, params: Mapping[str, Any] | None = None) -> Any:
        """As `belljar.Sandbox.host_call`."""
        return await self._call(self._sandbox.host_call, name, params)


async def run(
    program: StrPath,
    args: Iterable[StrPath] = (),
    files: Mapping[str, bytes | str] | None = None,
    *,
    stdin: bytes | str = b"",
    worktree: StrPath | None = None,
    apply: bool = False,
    check: bool = False,
    cwd: str | None = None,
    mounts: Mapping[str, MountLike] | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    clock: Clock = "virtual",
    seed: int = 0,
    mtimes: Literal["host", "content", "fixed"] | None = None,
    allow_net: Iterable[str] | Literal["public"] = (),
    deny_net: Iterable[str] = (),
    toolchains: Iterable[StrPath] = (),
    policy: Mapping[str, Any] | None = None,
    host: Mapping[str, HostFunction] | None = None,
    tools: Iterable[Tool | Callable[..., Any]] = (),
) -> Output:
    """As `belljar.run`."""
    given = Given(
        mounts, None, env, limits, clock, seed, _run._mtimes(mtimes, files, clock), allow_net, deny_net, toolchains,
        policy, host, tools,
    )
    request = _run.request_of(program, args, files, stdin, worktree, apply, cwd)
    settings = given.settings()
    ended = await _wait(lambda done: _native.start_run(request, settings, done=done))
    return output_of(ended, _run.command_of(request), check)


async def install(*sources: StrPath, package: StrPath | None = None) -> list[Toolchain]:
    """As `belljar.install`. A cancellation does not end it."""
    return await asyncio.to_thread(_toolchains.install, *sources, package=package)
