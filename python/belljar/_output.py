"""The results of programs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _native
from ._errors import LimitReached, ProgramFailed, TimedOut

Change = _native.Change

Outcome = Literal["exited", "trapped", "signalled", "deadlock", "tape"]
"""How a program ended that no limit ended."""

_OF_TIME = ("timeout", "virtual_timeout", "fuel")


@dataclass(frozen=True)
class Output:
    """How a program ended, and what it wrote."""

    args: tuple[str, ...]
    """The program and its arguments."""
    exit_code: int
    """Its exit code. If it did not exit, what a shell would show: 128 plus the number of a signal, 134 after a trap."""
    stdout: bytes = field(repr=False)
    """Standard output."""
    stderr: bytes = field(repr=False)
    """Standard error."""
    outcome: str = "exited"
    """``exited``, ``trapped``, ``signalled``, ``deadlock``, ``tape``; in a `LimitReached`, the name of the limit."""
    message: str | None = None
    """How it ended, unless it exited."""
    backtrace: tuple[str, ...] = field(default=(), repr=False)
    """After a trap: the active functions, innermost first."""
    fuel_used: int | None = None
    """The instructions that it took, if they were counted: with a limit ``fuel``."""
    changes: tuple[Change, ...] = field(default=(), repr=False)
    """What it changed: only of `run` and `record`. A sandbox has `Sandbox.diff`."""
    records: int | None = field(default=None, repr=False)
    """The number of records on its tape: only of `record`."""

    @property
    def ok(self) -> bool:
        """Whether it exited with code 0."""
        return self.outcome == "exited" and self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Standard error as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")

    def json(self) -> Any:
        """Standard output, parsed as JSON."""
        return json.loads(self.stdout)

    @property
    def files(self) -> dict[str, bytes]:
        """The files that `run` or `record` created or changed in the worktree, by their paths relative to it."""
        root = "/worktree/"
        written = (change for change in self.changes if change.file_type == "file" and change.kind != "deleted")
        return {
            change.path[len(root) :]: change.after or b"" for change in written if change.path.startswith(root)
        }

    def check(self) -> Output:
        """Returns itself if the program exited with code 0.

        Raises:
            ProgramFailed: otherwise.
        """
        if not self.ok:
            raise ProgramFailed(self)
        return self


def output_of(ended: _native.Ended, args: tuple[str, ...], check: bool) -> Output:
    """The result of a run, or its exception."""
    output = Output(
        args,
        ended.exit_code,
        ended.stdout,
        ended.stderr,
        ended.outcome,
        ended.message,
        tuple(ended.backtrace),
        ended.fuel_used,
        tuple(ended.changes),
        ended.records,
    )
    if ended.limit is not None:
        limit, value = ended.limit
        make = TimedOut if limit in _OF_TIME else LimitReached
        shown = "" if value is None else f" ({value:g})"
        raise make(f"{args[0]} {ended.message}{shown}", limit, value, output)
    return output.check() if check else output
