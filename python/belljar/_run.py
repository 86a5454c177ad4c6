"""Single runs of programs, recorded and replayed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _native
from ._errors import InvalidArgument
from ._output import Output, output_of
from ._sandbox import as_bytes
from ._settings import Clock, Given, HostFunction, Limits, MountLike, StrPath, Tool


def run(
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
    """Runs a program once, in a machine of its own. ::

        belljar.run("hello.wasm").text
        belljar.run("cc", ["-c", "main.c"], files={"main.c": source}).files["main.o"]

    Args:
        program: The path of a module (with a slash, or ending in ``.wasm`` or ``.wat``), or the name of a program.
        args: Its arguments.
        files: Files that it finds in ``/worktree``, where it starts, by relative path.
        stdin: Its standard input.
        worktree: A directory of the host that it sees at ``/worktree``, instead of `files`.
        apply: Writes what it changed to the directories of the host, if no limit ended it.
        check: Raises `ProgramFailed` unless it exits with code 0.
        cwd: Its current directory.
        mtimes: As in `Sandbox`; files of `files` have the start of the clock.

    The others are those of `Sandbox`.

    Returns:
        Its result; `Output.files` has the files that it wrote.

    Raises:
        ProgramNotFound: there is no such program.
        LimitReached: a limit ended it.
    """
    given = Given(
        mounts, None, env, limits, clock, seed, _mtimes(mtimes, files, clock), allow_net, deny_net, toolchains, policy,
        host, tools,
    )
    request = request_of(program, args, files, stdin, worktree, apply, cwd)
    running = _native.start_run(request, given.settings())
    return output_of(running.wait(), command_of(request), check)


def record(
    tape: StrPath,
    program: StrPath,
    args: Iterable[StrPath] = (),
    files: Mapping[str, bytes | str] | None = None,
    *,
    embed: bool = False,
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
    """As `run`, and writes everything that crosses the boundary of the run to the tape at the path `tape`.

    `embed` puts the programs on the tape, too, so that `replay` needs nothing else.

    Raises:
        TapeError: the tape cannot be written.
    """
    given = Given(
        mounts, None, env, limits, clock, seed, _mtimes(mtimes, files, clock), allow_net, deny_net, toolchains, policy,
        host, tools,
    )
    request = request_of(program, args, files, stdin, worktree, apply, cwd)
    request["tape"], request["embed"] = os.fspath(tape), embed
    running = _native.start_run(request, given.settings())
    return output_of(running.wait(), command_of(request), check)


@dataclass(frozen=True)
class Replayed:
    """A run that was replayed to its end, and is the same."""

    records: int
    """The number of compared records."""
    exit_code: int
    """The exit code of the run."""
    stdout: bytes = field(repr=False)
    """Its standard output."""
    stderr: bytes = field(repr=False)
    """Its standard error."""


def replay(
    tape: StrPath,
    *,
    modules: Iterable[StrPath] = (),
    toolchains: Iterable[StrPath] = (),
    timeout: float = 60.0,
) -> Replayed:
    """Repeats a recorded run from its tape alone, without the files that it read.

    Args:
        tape: The tape.
        modules: Paths of modules, for programs that are neither on the tape nor in a toolchain.
        toolchains: Folders of toolchains, besides those that are installed.
        timeout: Seconds of real time after which the replay is ended.

    Raises:
        TapeMismatch: the run differs from its tape; it shows the first difference.
        TapeError: it cannot be replayed.
    """
    own, folders = [os.fspath(path) for path in modules], [os.fspath(path) for path in toolchains]
    records, outputs = _native.replay(os.fspath(tape), own, folders, timeout)
    exit_code, stdout, stderr, _ = outputs[-1] if outputs else (0, b"", b"", None)
    return Replayed(records, exit_code, stdout, stderr)


@dataclass(frozen=True)
class Fidelity:
    """The comparison of two tapes. As text, it shows the first differences."""

    faithful: bool
    """Whether they are equal."""
    score: float
    """1 if they are equal; less, the more they differ."""
    text: str = field(repr=False)
    """The report as text."""
    report: dict[str, Any] = field(repr=False)
    """The report as data: `docs/cli.md` describes it."""

    def __str__(self) -> str:
        return self.text


def fidelity(
    recorded: StrPath,
    replayed: StrPath,
    mode: Literal["byte-identical", "semantic", "outcome"] = "semantic",
) -> Fidelity:
    """Compares two tapes: all records with their times, all records, or only the results.

    Raises:
        TapeError: a tape cannot be read.
    """
    faithful, score, text, report = _native.compare(os.fspath(recorded), os.fspath(replayed), mode)
    return Fidelity(faithful, score, text, json.loads(report))


def _mtimes(
    asked: Literal["host", "content", "fixed"] | None, files: Mapping[str, bytes | str] | None, clock: Clock
) -> Literal["host", "content", "fixed"]:
    """Files that are given as bytes have the start of the clock, so that runs are the same."""
    return asked or ("fixed" if files and clock != "host" else "host")


def request_of(
    program: StrPath,
    args: Iterable[StrPath],
    files: Mapping[str, bytes | str] | None,
    stdin: bytes | str,
    worktree: StrPath | None,
    apply: bool,
    cwd: str | None,
) -> _native.RunRequest:
    """The request that these arguments of `run` make."""
    if files and worktree is not None:
        raise InvalidArgument("give files or worktree, not both: both are seen at /worktree")
    return {
        "program": os.fspath(program),
        "args": [os.fspath(arg) for arg in args],
        "stdin": as_bytes(stdin),
        "cwd": cwd,
        "files": {name: as_bytes(data) for name, data in (files or {}).items()},
        "worktree": None if worktree is None else os.fspath(worktree),
        "apply": apply,
        "tape": None,
        "embed": False,
    }


def command_of(request: _native.RunRequest) -> tuple[str, ...]:
    """The program and its arguments."""
    return (request["program"], *request["args"])
