"""The settings of sandboxes and runs: limits, mounts, tools."""

from __future__ import annotations

import inspect
import json
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, Union

from ._errors import InvalidArgument

if TYPE_CHECKING:
    from ._native import Settings

StrPath = Union[str, "os.PathLike[str]"]
"""A path of the host."""

Clock = Union[Literal["virtual", "host"], datetime]
"""The clock of programs: virtual from 2037-01-01 on, virtual from another time on, or the host's."""

HostFunction = Callable[[Any], Any]
"""Answers a host call: takes the parameters, and returns a value, both as of the module `json`."""

WORKTREE = "/worktree"
"""Where programs see a worktree."""

_DEFAULT_START_NS = 2_114_380_800_000_000_000


@dataclass(frozen=True)
class Limits:
    """The limits of programs. ``None`` is the default; `docs/cli.md` has the defaults."""

    timeout: float | None = None
    """Real time of a run, in seconds. Default: none. Loading and compiling programs does not count."""
    virtual_timeout: float | None = None
    """Time on the clock of the sandbox, in seconds. Default: none."""
    fuel: int | None = None
    """Instructions, roughly, of a run. Default: not counted. Code that counts them is slower."""
    memory_bytes_max: int | None = None
    """Bytes of the memories of all processes."""
    open_files_max: int | None = None
    """Open descriptors of a process."""
    processes_max: int | None = None
    """Processes of a run."""
    pipes_max: int | None = None
    """Pipes of a run."""
    output_bytes_max: int | None = None
    """Bytes written to standard output and standard error together."""
    host_call_bytes_max: int | None = None
    """Bytes of the parameters of a host call, and of its answer."""
    upper_bytes_max: int | None = None
    """Bytes of all files that are written."""
    file_bytes_max: int | None = None
    """Bytes of one file."""
    cache_bytes_max: int | None = None
    """Bytes of unchanged files that are kept in memory once read."""

    def _values(self) -> dict[str, float | int]:
        named = ((it.name, getattr(self, it.name)) for it in fields(self))
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True)
class Mount:
    """A mount of a sandbox."""

    source: StrPath | None = None
    """A directory of the host, of which programs see a copy-on-write view. ``None``: a new, empty directory."""
    read_only: bool = False
    """Whether writes of programs fail."""


@dataclass(frozen=True)
class Tool:
    """A function that programs call by name, with ``tool.call``."""

    function: Callable[..., Any]
    """Takes the arguments by their names; returns a value as of the module `json`."""
    name: str = ""
    """The name. Default: that of the function."""
    description: str = ""
    """What it does. Default: the docstring of the function."""
    input_schema: Mapping[str, Any] | None = None
    """The JSON schema of its arguments. Default: made from the annotations of the function."""

    def _settings(self) -> tuple[str, str, str | None, Callable[..., Any]]:
        schema = self.input_schema if self.input_schema is not None else _schema_of(self.function)
        name = self.name or getattr(self.function, "__name__", "")
        if not name:
            raise InvalidArgument(f"tools: {self.function!r} has no name: use Tool(…, name=…)")
        description = self.description or inspect.getdoc(self.function) or ""
        return (name, description, None if schema is None else json.dumps(schema), self.function)


MountLike = Union[Mount, str, "os.PathLike[str]", None]
"""A mount: a `Mount`, a directory of the host, or ``None`` for a new, empty directory."""


@dataclass(frozen=True)
class Given:
    """The settings that sandboxes and runs share, as they are given."""

    mounts: Mapping[str, MountLike] | None = None
    worktree: StrPath | None = None
    env: Mapping[str, str] | None = None
    limits: Limits | None = None
    clock: Clock = "virtual"
    seed: int = 0
    mtimes: Literal["host", "content", "fixed"] = "host"
    allow_net: Iterable[str] | Literal["public"] = ()
    deny_net: Iterable[str] = ()
    toolchains: Iterable[StrPath] = ()
    policy: Mapping[str, Any] | None = None
    host: Mapping[str, HostFunction] | None = None
    tools: Iterable[Tool | Callable[..., Any]] = ()

    def settings(self) -> Settings:
        """As the extension module takes them."""
        mounts: list[tuple[str, str | None, bool]] = []
        if self.worktree is not None:
            mounts.append((WORKTREE, os.fspath(self.worktree), False))
        for target, source in (self.mounts or {}).items():
            mount = source if isinstance(source, Mount) else Mount(source)
            host = None if mount.source is None else os.fspath(mount.source)
            mounts.append((target, host, mount.read_only))
        tools = (tool if isinstance(tool, Tool) else Tool(tool) for tool in self.tools)
        allow, deny = network(self.allow_net, self.deny_net)
        return {
            "mounts": mounts,
            "limits": {} if self.limits is None else self.limits._values(),
            "env": dict(self.env or {}),
            "start_ns": start_ns(self.clock),
            "mtimes": self.mtimes,
            "seed": self.seed,
            "allow_net": allow,
            "deny_net": deny,
            "toolchains": [os.fspath(folder) for folder in self.toolchains],
            "policy": None if self.policy is None else json.dumps(dict(self.policy)),
            "host": dict(self.host or {}),
            "tools": [tool._settings() for tool in tools],
        }


def network(
    allow: Iterable[str] | Literal["public"], deny: Iterable[str]
) -> tuple[list[str] | None, list[str]]:
    """The rules of an egress policy; ``None`` allows the public internet."""
    if isinstance(allow, str) and allow != "public":
        raise InvalidArgument(f"allow_net={allow!r}: give a list of rules, or 'public'")
    return (None if allow == "public" else list(allow), list(deny))


def start_ns(clock: Clock) -> int | None:
    """The start of a virtual clock, in nanoseconds since the Unix epoch; ``None`` for the host's clock."""
    if isinstance(clock, datetime):
        since = clock.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
        ns = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
        if ns < 0:
            raise InvalidArgument(f"clock={clock.isoformat()} is before 1970")
        return ns
    if clock == "virtual":
        return _DEFAULT_START_NS
    if clock == "host":
        return None
    raise InvalidArgument(f"clock={clock!r} is not 'virtual', 'host' or a datetime")


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _schema_of(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON schema of the arguments of `function`, as far as its annotations say; ``None`` if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return None
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        hint = hints.get(name)
        known = _TYPES.get(typing.get_origin(hint) or hint) if hint is not None else None
        properties[name] = {} if known is None else {"type": known}
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}
