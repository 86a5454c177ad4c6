"""What `subprocess.Popen` is in tests whose subprocesses are recorded."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

from ._errors import Error
from ._sandbox import as_bytes

# Options of Popen that change nothing that a tape has.
_IGNORED = (
    "bufsize",
    "close_fds",
    "creationflags",
    "pipesize",
    "restore_signals",
    "start_new_session",
    "startupinfo",
    "umask",
)


class Recorder(Protocol):
    """Runs programs, recorded or replayed."""

    def call(
        self, words: list[str], stdin: bytes, cwd: Any, env: Mapping[str, str] | None, timeout: float | None
    ) -> tuple[int, bytes, bytes, bool]:
        """Runs a program: its exit code (negative for a signal), its output, and whether `timeout` ended it."""
        ...


class TapedPopen:
    """As `subprocess.Popen`. The program runs to its end when it is first waited for, or when its output is read."""

    tape: ClassVar[Recorder]

    def __init__(
        self,
        args: Any,
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        shell: bool = False,
        cwd: Any = None,
        env: Mapping[str, str] | None = None,
        text: bool | None = None,
        universal_newlines: bool | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        **others: Any,
    ) -> None:
        refused = sorted(name for name, value in others.items() if value not in (None, (), -1) and name not in _IGNORED)
        if refused:
            raise Error(f"belljar_subprocess cannot record the option {refused[0]} of subprocess.Popen")
        self.args = args
        words: list[Any] = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
        self._words = [os.fsdecode(word) for word in words]
        if shell:
            self._words = (["cmd", "/c"] if os.name == "nt" else ["/bin/sh", "-c"]) + self._words
        self._cwd, self._env = cwd, env
        self._targets = (stdout, stderr)
        is_text = bool(text or universal_newlines or encoding or errors)
        self._encoding = (encoding or "utf-8", errors or "strict") if is_text else None
        self._output: tuple[bytes, bytes] | None = None
        self._input: list[Any] = []
        if stdin not in (None, subprocess.PIPE, subprocess.DEVNULL):
            self._input.append(stdin.read())
        self.stdin: Any = _Collected(self._input) if stdin == subprocess.PIPE else None
        self.stdout: Any = Late(self, 0) if stdout == subprocess.PIPE else None
        self.stderr: Any = Late(self, 1) if stderr == subprocess.PIPE else None
        self.pid = 0
        self.returncode: int | None = None

    def output(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Runs it, unless it has run; returns what it wrote."""
        if self._output is not None:
            return self._output
        stdin = b"".join(as_bytes(piece) for piece in self._input)
        cwd = os.getcwd() if self._cwd is None else self._cwd
        code, stdout, stderr, timed_out = self.tape.call(self._words, stdin, cwd, self._env, timeout)
        if self._targets[1] == subprocess.STDOUT:
            # The order of writing is not on the tape.
            stdout, stderr = stdout + stderr, b""
        _pass_on(stdout, self._targets[0], sys.stdout)
        _pass_on(stderr, self._targets[1], sys.stderr)
        self._output, self.returncode = (stdout, stderr), code
        if timed_out:
            self.returncode = -9
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0, stdout, stderr)
        return self._output

    def shown(self, data: bytes) -> Any:
        """`data` as text, if that was asked for."""
        if self._encoding is None:
            return data
        return data.decode(*self._encoding).replace("\r\n", "\n").replace("\r", "\n")

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """As that of `subprocess.Popen`."""
        if input:
            self._input.append(input)
        stdout, stderr = self.output(timeout)
        out = self.shown(stdout) if self._targets[0] == subprocess.PIPE else None
        err = self.shown(stderr) if self._targets[1] == subprocess.PIPE else None
        return (out, err)

    def wait(self, timeout: float | None = None) -> int:
        """As that of `subprocess.Popen`."""
        self.output(timeout)
        return self.returncode or 0

    def poll(self) -> int | None:
        """Waits for the end: a replay must not depend on how often it is asked."""
        return self.wait()

    def kill(self) -> None:
        """Does nothing: the program has ended, or has not begun."""

    def terminate(self) -> None:
        """As `kill`."""

    def send_signal(self, signal: int) -> None:
        """As `kill`."""

    def __enter__(self) -> TapedPopen:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.wait()


def _pass_on(data: bytes, target: Any, own: Any) -> None:
    """Writes output where it was asked to go: nowhere, to a file, or to the stream of this process."""
    if target is None:
        own.write(data.decode("utf-8", "replace"))
    elif hasattr(target, "write"):
        target.flush()
        os.write(target.fileno(), data)
    elif target >= 0:
        os.write(target, data)


class _Collected(io.RawIOBase):
    """Standard input that is kept until the program runs."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = pieces

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(data if isinstance(data, str) else bytes(data))
        return len(data)


class Late:
    """Output that is there once the program has run."""

    def __init__(self, process: TapedPopen, index: int) -> None:
        self._process, self._index = process, index
        self._data: Any = None
        self.closed = False

    def _open(self) -> Any:
        if self._data is None:
            shown = self._process.shown(self._process.output()[self._index])
            self._data = io.StringIO(shown) if isinstance(shown, str) else io.BytesIO(shown)
        return self._data

    def read(self, size: int = -1) -> Any:
        return self._open().read(size)

    def readline(self, size: int = -1) -> Any:
        return self._open().readline(size)

    def readlines(self) -> list[Any]:
        return list(self._open().readlines())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._open())

    def __enter__(self) -> Late:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
