"""The exceptions of this package."""

from __future__ import annotations

import errno as _errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._output import Output


class Error(Exception):
    """The base of all exceptions of this package."""


class InvalidArgument(Error, ValueError):
    """An argument has a value that is not possible."""


class ProgramNotFound(Error, FileNotFoundError):
    """No toolchain, no mount and no built-in program has the program."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(_errno.ENOENT, message, program)
        self.program = program
        """The program."""

    def __str__(self) -> str:
        return str(self.strerror)


class ProgramFailed(Error, subprocess.CalledProcessError):
    """A program that was run with ``check=True`` did not exit with code 0.

    ``returncode``, ``cmd``, ``stdout`` and ``stderr`` are those of `subprocess.CalledProcessError`.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(output.exit_code, list(output.args), output.stdout, output.stderr)
        self.result = output
        """How it ended, with its output."""

    def __str__(self) -> str:
        result = self.result
        how = f"exit code {result.exit_code}" if result.message is None else result.message
        return f"{result.args[0]} failed: {how}{_last_lines(result.stderr)}"


class LimitReached(Error):
    """A program was ended by a limit. The output until then is kept."""

    def __init__(self, message: str, limit: str, value: float | None, output: Output) -> None:
        super().__init__(message)
        self.limit = limit
        """The name of the limit, such as ``memory``, ``fuel``, ``output``, ``timeout``."""
        self.value = value
        """Its value, in its unit (seconds, bytes, or a count); ``None`` if it is not a number."""
        self.result = output
        """The output until then."""

    @property
    def stdout(self) -> bytes:
        """Standard output until then."""
        return self.result.stdout

    @property
    def stderr(self) -> bytes:
        """Standard error until then."""
        return self.result.stderr

    @property
    def exit_code(self) -> int:
        """What a shell would show: 124 for limits of time, 134 for others."""
        return self.result.exit_code


class TimedOut(LimitReached, TimeoutError):
    """A program was ended by a limit of time: ``timeout``, ``virtual_timeout`` or ``fuel``."""


class PathError(Error, OSError):
    """A path of a sandbox cannot be used. ``errno`` and ``filename`` are those of `OSError`."""

    def __str__(self) -> str:
        return str(self.strerror)


class PathNotFound(PathError, FileNotFoundError):
    """A path of a sandbox does not exist."""


class Conflict(Error):
    """Changes were not written, because the disk changed as well. Nothing was written."""

    def __init__(self, message: str, conflicts: Sequence[str]) -> None:
        super().__init__(message)
        self.conflicts = list(conflicts)
        """What conflicts, a line each."""


class HostCallError(Error):
    """A host call failed."""

    def __init__(self, message: str, name: str, kind: str) -> None:
        super().__init__(message)
        self.name = name
        """The operation, such as ``process.exec``."""
        self.kind = kind
        """The kind of the error, such as ``unsupported``."""


class SandboxClosed(Error):
    """The sandbox was closed."""


class SandboxBusy(Error):
    """A callback used the sandbox whose program called it."""


class TapeError(Error):
    """A tape cannot be written, read or replayed."""


class TapeMismatch(TapeError):
    """What was run differs from its tape."""

    def __init__(
        self, message: str, tape: str | os.PathLike[str], differences: Sequence[tuple[str, str, str]]
    ) -> None:
        super().__init__(message)
        self.tape = Path(tape)
        """The tape."""
        self.differences = list(differences)
        """The fields that differ: name, value on the tape, value now."""


class ToolchainError(Error):
    """A toolchain cannot be installed, removed or packed."""


def path_error(operation: str, path: str, name: str, meaning: str) -> PathError:
    """The exception for the errno `name` (of WASI) of `operation` on `path`."""
    number = getattr(_errno, "E" + name.upper(), 0)
    make = PathNotFound if number == _errno.ENOENT else PathError
    return make(number, f"cannot {operation} {path}: {meaning}", path)


def _last_lines(stderr: bytes) -> str:
    """The end of standard error, for a message."""
    lines = stderr.decode("utf-8", "replace").rstrip().splitlines()[-10:]
    return "".join(f"\n  {line}" for line in lines)
