"""Belljar: programs compiled to WebAssembly (WASI) in a virtual kernel. `docs/python.md` is the guide.

    import belljar

    with belljar.Sandbox() as box:
        box.write("/tmp/note", "hello")
        print(box.exec("wc", "-c", "/tmp/note").text)
"""

from . import aio
from ._errors import (
    Conflict,
    Error,
    HostCallError,
    InvalidArgument,
    LimitReached,
    PathError,
    PathNotFound,
    ProgramFailed,
    ProgramNotFound,
    SandboxBusy,
    SandboxClosed,
    TapeError,
    TapeMismatch,
    TimedOut,
    ToolchainError,
)
from ._native import VERSION as __version__
from ._output import Change, Output
from ._run import Fidelity, Replayed, fidelity, record, replay, run
from ._sandbox import Applied, Chunk, Entry, Sandbox, Snapshot, Stream
from ._settings import Limits, Mount, Tool
from ._toolchains import Toolchain, executable, install, pack, programs, toolchains, uninstall

__all__ = [
    "Applied",
    "Change",
    "Chunk",
    "Conflict",
    "Entry",
    "Error",
    "Fidelity",
    "HostCallError",
    "InvalidArgument",
    "LimitReached",
    "Limits",
    "Mount",
    "Output",
    "PathError",
    "PathNotFound",
    "ProgramFailed",
    "ProgramNotFound",
    "Replayed",
    "Sandbox",
    "SandboxBusy",
    "SandboxClosed",
    "Snapshot",
    "Stream",
    "TapeError",
    "TapeMismatch",
    "TimedOut",
    "Tool",
    "Toolchain",
    "ToolchainError",
    "__version__",
    "aio",
    "executable",
    "fidelity",
    "install",
    "pack",
    "programs",
    "record",
    "replay",
    "run",
    "toolchains",
    "uninstall",
]
