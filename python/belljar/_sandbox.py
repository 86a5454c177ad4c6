"""Sandboxes."""

from __future__ import annotations

import builtins
import os
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from . import _native
from ._errors import InvalidArgument
from ._output import Change, Output, output_of
from ._settings import WORKTREE, Clock, Given, HostFunction, Limits, MountLike, StrPath, Tool, network


@dataclass(frozen=True)
class Entry:
    """An entry of a directory of a sandbox."""

    name: str
    """The name."""
    file_type: Literal["file", "directory", "symlink", "special"]
    """The type."""
    size: int
    """The length of a file, or of the text of a link, in bytes; 0 for a directory."""


@dataclass(frozen=True)
class Applied:
    """What was written to the disk."""

    written: int
    """Files and links that were created or replaced."""
    removed: int
    """Files and links that were removed."""
    dirs_created: int
    """Directories that were created."""
    dirs_removed: int
    """Directories that were removed."""


@dataclass(frozen=True)
class Chunk:
    """A piece of the output of a program."""

    stream: Literal["stdout", "stderr"]
    """The stream."""
    data: bytes
    """The bytes."""

    @property
    def text(self) -> str:
        """The bytes as text. Those that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Request:
    """A program to run in a sandbox."""

    args: tuple[str, ...]
    stdin: bytes
    cwd: str | None
    env: dict[str, str]
    timeout: float | None
    virtual_timeout: float | None

    @staticmethod
    def of(
        program: StrPath,
        args: Iterable[StrPath],
        stdin: bytes | str,
        cwd: StrPath | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
        virtual_timeout: float | None,
    ) -> Request:
        """The request that these arguments of `Sandbox.exec` make."""
        return Request(
            (os.fspath(program), *(os.fspath(arg) for arg in args)),
            as_bytes(stdin),
            None if cwd is None else os.fspath(cwd),
            dict(env or {}),
            timeout,
            virtual_timeout,
        )

    def start(
        self,
        sandbox: _native.Sandbox,
        default_cwd: str | None,
        on_output: Callable[[int, bytes], object] | None = None,
        done: Callable[[], object] | None = None,
    ) -> _native.Running:
        """Starts it."""
        cwd = self.cwd if self.cwd is None or self.cwd.startswith("/") else f"{default_cwd or '/'}/{self.cwd}"
        return sandbox.start(
            self.args[0],
            list(self.args[1:]),
            stdin=self.stdin,
            cwd=default_cwd if cwd is None else cwd,
            env=self.env,
            timeout=self.timeout,
            virtual_timeout=self.virtual_timeout,
            on_output=on_output,
            done=done,
        )


class Sandbox:
    """A session with its own files, clock, random numbers and rules, in which programs run one after another.

    A context manager. Any thread may use it; calls wait for each other, and other threads of Python go on meanwhile.

    Args:
        mounts: What programs see, by absolute path: a directory of the host (of which they change a copy), a `Mount`,
            or ``None`` for an empty directory. ``/tmp`` is always there.
        worktree: A directory of the host that programs see at ``/worktree``, where they start.
        env: Variables of every program.
        limits: Limits of every program; those of files hold for the whole sandbox.
        clock: ``"virtual"`` (which starts in 2037 and moves when a program sleeps), the time at which a virtual clock
            starts, or ``"host"``.
        seed: The seed of random numbers.
        mtimes: Times of unchanged files of mounted directories: those of the disk, times made from the contents, or
            the start of the clock.
        allow_net: Rules of hosts that programs may reach through ``net.http``, such as ``"*.example.com:443"``;
            ``"public"`` allows the public internet.
        deny_net: Rules of hosts that they may not reach, which win.
        toolchains: Folders of ``.wasm`` programs, besides those that are installed.
        policy: Which commands may run, as in a policy file of the command line.
        host: Functions that answer host calls, by operation: ``{"memory.embed": embed}``. They take the parameters. An
            `Exception` is the answer of a failed call; another exception, such as `KeyboardInterrupt`, ends the
            program and is raised by the call that runs it.
        tools: Functions that programs call by name with ``tool.call``.
    """

    __slots__ = ("_cwd", "_native", "__weakref__")

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
        given = Given(
            mounts, worktree, env, limits, clock, seed, mtimes, allow_net, deny_net, toolchains, policy, host, tools
        )
        self._native = _native.Sandbox(given.settings())
        has_worktree = worktree is not None or WORKTREE in (mounts or {})
        self._cwd: str | None = WORKTREE if has_worktree else None

    @classmethod
    def _of(cls, native: _native.Sandbox, cwd: str | None) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._native, sandbox._cwd = native, cwd
        return sandbox

    @classmethod
    def resume(
        cls,
        snapshot: Snapshot,
        *,
        toolchains: Iterable[StrPath] = (),
        policy: Mapping[str, Any] | None = None,
        host: Mapping[str, HostFunction] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
    ) -> Sandbox:
        """Resumes a snapshot, any number of times, in any process. Directories of the host are opened again.

        Raises:
            Error: it is missing or damaged, or what it was made from is gone.
        """
        given = Given(toolchains=toolchains, policy=policy, host=host, tools=tools)
        native = _native.Sandbox.resume(os.fspath(snapshot.directory), snapshot.id, given.settings())
        has_worktree = any(target == WORKTREE for target, _, _ in native.mounts())
        return cls._of(native, WORKTREE if has_worktree else None)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # Also of one that could not be made.
        is_open = hasattr(self, "_native") and not self.closed
        return f"<belljar.Sandbox{'' if is_open else ' (closed)'}>"

    def close(self) -> None:
        """Ends it, and a program that runs in it: its caller gets `SandboxClosed`. What was not applied is gone."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._native.is_closed()

    def exec(
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
        """Runs a program to its end.

        Args:
            program: The name of a program, or, with a slash, its path in the sandbox.
            *args: Its arguments.
            stdin: Its standard input.
            cwd: Its current directory. Default: ``/worktree`` if there is one, else ``/``.
            env: Variables besides those of the sandbox.
            timeout: Seconds after which it is ended, on the host's clock and on that of the sandbox.
            virtual_timeout: Seconds on the clock of the sandbox. Default: `timeout`.
            check: Raises `ProgramFailed` unless it exits with code 0.

        Raises:
            ProgramNotFound: there is no such program.
            LimitReached: a limit ended it; `TimedOut` for limits of time.
            ProgramFailed: it failed, with `check`.
            KeyboardInterrupt: Ctrl-C ends it.
        """
        request = Request.of(program, args, stdin, cwd, env, timeout, virtual_timeout)
        return output_of(request.start(self._native, self._cwd).wait(), request.args, check)

    def sh(
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
        """Runs a script in the POSIX shell of the sandbox. `args` are ``$1``, ``$2`` and so on; otherwise as `exec`."""
        return self.exec(
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

    def exec_stream(
        self,
        program: StrPath,
        *args: StrPath,
        stdin: bytes | str = b"",
        cwd: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        virtual_timeout: float | None = None,
        check: bool = False,
    ) -> Stream:
        """As `exec`; its output can be read while it runs. ::

            with box.exec_stream("make") as stream:
                for chunk in stream:
                    print(chunk.text, end="")
        """
        request = Request.of(program, args, stdin, cwd, env, timeout, virtual_timeout)
        return Stream(lambda on_output, done: request.start(self._native, self._cwd, on_output, done), request.args, check)

    def read(self, path: StrPath) -> bytes:
        """The content of a file. A relative path begins where programs start.

        Raises:
            PathError: it cannot be read; `PathNotFound` if it does not exist.
        """
        return self._native.read(self._absolute(path))

    def read_text(self, path: StrPath) -> str:
        """The content of a file, as UTF-8."""
        return self.read(path).decode()

    def write(self, path: StrPath, data: bytes | str, *, executable: bool = False) -> None:
        """Writes a file, and creates the directories that it needs. If it fails, nothing is changed.

        Raises:
            PathError: it cannot be written.
        """
        self._native.write(self._absolute(path), as_bytes(data), True, executable)

    def remove(self, path: StrPath) -> None:
        """Removes a file, a link, or an empty directory.

        Raises:
            PathError: it cannot be removed.
        """
        self._native.remove(self._absolute(path))

    def list(self, path: StrPath = ".") -> builtins.list[Entry]:
        """The entries of a directory, sorted by name.

        Raises:
            PathError: it cannot be read.
        """
        return [Entry(*entry) for entry in self._native.list(self._absolute(path))]

    def copy_in(self, source: StrPath, target: StrPath) -> int:
        """Copies a file or a tree of the host into the sandbox; returns the number of files."""
        return self._native.copy_in(os.fspath(source), self._absolute(target))

    def copy_out(self, source: StrPath, target: StrPath) -> int:
        """Copies a file or a tree of the sandbox to the host, all of it or nothing; returns the number of files."""
        return self._native.copy_out(self._absolute(source), os.fspath(target))

    def fork(self) -> Sandbox:
        """An independent copy, which takes microseconds, whatever the size."""
        return Sandbox._of(self._native.fork(), self._cwd)

    def snapshot(self, directory: StrPath) -> Snapshot:
        """Saves the state to a directory, for `Sandbox.resume`. Contents that are there are not written again.

        Raises:
            Error: it cannot be written.
        """
        return Snapshot(Path(directory), self._native.save(os.fspath(directory)))

    def diff(self, since: Sandbox | None = None) -> builtins.list[Change]:
        """What programs changed in mounted directories of the host, compared with the beginning or the last `apply`.

        With `since`, a sandbox that this is a fork of, or that is a fork of this: the changes that turn that one into this
        one, in mounted directories and in memory.
        """
        return self._native.diff() if since is None else self._native.diff_since(since._native)

    def patch(self) -> str:
        """What programs changed, as text that ``git apply`` takes."""
        return self._native.patch()

    def apply(self) -> Applied:
        """Writes what programs changed to the directories of the host, all of it or nothing.

        Raises:
            Conflict: the disk changed as well. Nothing was written.
        """
        return Applied(*self._native.apply())

    def refresh(self, *, discard: bool = False) -> None:
        """Takes in the present state of the directories of the host. `discard` gives up what programs changed."""
        self._native.refresh(discard)

    def mount(self, target: str, source: MountLike = None) -> None:
        """Adds a mount.

        Raises:
            Error: something is mounted there, or the directory cannot be opened.
        """
        settings = Given({target: source}).settings()
        for path, host, read_only in settings["mounts"]:
            self._native.mount(path, host, read_only)

    def set_network(self, allow: Iterable[str] | Literal["public"] = (), deny: Iterable[str] = ()) -> None:
        """Sets which hosts programs may reach; see `Sandbox`."""
        self._native.set_network(*network(allow, deny))

    def host_call(self, name: str, params: Mapping[str, Any] | None = None) -> Any:
        """Makes a host call, such as ``process.exec``, as a program would.

        Raises:
            HostCallError: it failed.
        """
        return self._native.host_call(name, dict(params or {}))

    @property
    def host_result(self) -> Any:
        """The value that a program set with ``runtime.set_result``; ``None`` without one."""
        return self._native.host_result()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, on the clock of the sandbox."""
        return self._native.elapsed()

    def _absolute(self, path: StrPath) -> str:
        text = os.fspath(path)
        if text.startswith("/"):
            return text
        start = self._cwd or ""
        return start + "/" + ("" if text == "." else text)


@dataclass(frozen=True)
class Snapshot:
    """A saved state of a sandbox."""

    directory: Path
    """The directory that has it."""
    id: str
    """Its id: the digest of all that it holds, so that a trusted id makes any directory safe."""


class Stream:
    """The output of a running program: an iterator over pieces, and a context manager that ends the program."""

    def __init__(
        self,
        start: Callable[[Callable[[int, bytes], object], Callable[[], object]], _native.Running],
        args: tuple[str, ...],
        check: bool,
    ) -> None:
        # Bounded, so that a program waits for a slow reader.
        self._chunks: queue.Queue[Chunk | None] = queue.Queue(maxsize=64)
        self._closed = False
        self._args, self._check = args, check
        self._output: Output | None = None
        self._running = start(self._put, self._end)

    def _put(self, fd: int, data: bytes) -> None:
        chunk = Chunk("stdout" if fd == 1 else "stderr", data)
        while not self._closed:
            try:
                return self._chunks.put(chunk, timeout=0.1)
            except queue.Full:
                pass

    def _end(self) -> None:
        while not self._closed:
            try:
                return self._chunks.put(None, timeout=0.1)
            except queue.Full:
                pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Chunk]:
        while not self._closed:
            try:
                # Not for ever: on Windows, Ctrl-C is noticed between two waits.
                chunk = self._chunks.get(timeout=0.5)
            except queue.Empty:
                continue
            if chunk is None:
                self._closed = True
                return
            yield chunk

    def result(self) -> Output:
        """Discards the output that was not read, and waits for the end. ``stdout`` and ``stderr`` are empty.

        Raises:
            LimitReached: a limit ended it.
            ProgramFailed: it failed, with ``check=True``.
        """
        if self._output is None:
            self._closed = True
            self._output = output_of(self._running.wait(), self._args, self._check)
        return self._output

    def close(self) -> None:
        """Ends the program if it still runs."""
        self._closed = True
        self._running.interrupt()


def as_bytes(data: bytes | str) -> bytes:
    """`data` as bytes; text as UTF-8."""
    if isinstance(data, str):
        return data.encode()
    try:
        # Not bytes(data): that takes a number for a length.
        return bytes(memoryview(data))
    except TypeError:
        raise InvalidArgument(f"{type(data).__name__} is neither bytes nor text") from None
