# The extension module; `python/src/` has the source, and the meaning of each item.
import builtins
from collections.abc import Callable
from typing import Any, Literal, TypedDict, final, type_check_only

__all__ = [
    "VERSION",
    "Change",
    "Ended",
    "Running",
    "Sandbox",
    "Session",
    "compare",
    "forget_programs",
    "program_names",
    "replay",
    "start_run",
]

VERSION: str

@type_check_only
class Settings(TypedDict):
    # Path in the sandbox, directory of the host or None, whether it is read-only.
    mounts: list[tuple[str, str | None, bool]]
    limits: dict[str, float | int]
    env: dict[str, str]
    # None: the host's clock.
    start_ns: int | None
    mtimes: Literal["host", "content", "fixed"]
    seed: int
    # None: the public internet.
    allow_net: list[str] | None
    deny_net: list[str]
    toolchains: list[str]
    # JSON.
    policy: str | None
    host: dict[str, Callable[[Any], Any]]
    # Name, description, JSON schema as text, function.
    tools: list[tuple[str, str, str | None, Callable[..., Any]]]

@type_check_only
class RunRequest(TypedDict):
    program: str
    args: list[str]
    stdin: bytes
    cwd: str | None
    files: dict[str, bytes]
    worktree: str | None
    apply: bool
    tape: str | None
    embed: bool

@final
class Change:
    @property
    def path(self) -> str:
        """The absolute path, as programs see it."""
    @property
    def relative(self) -> str:
        """The path below the mount point."""
    @property
    def kind(self) -> Literal["added", "modified", "deleted"]:
        """What happened."""
    @property
    def file_type(self) -> Literal["file", "directory", "symlink", "special"]:
        """To what."""
    @property
    def renamed_from(self) -> str | None:
        """The absolute path from which it was moved."""
    @property
    def before(self) -> bytes | None:
        """The content before, or the text of a link; None if there was nothing, or a directory."""
    @property
    def after(self) -> bytes | None:
        """The content now, or the text of a link; None if there is nothing, or a directory."""
    @property
    def executable(self) -> bool:
        """Whether it is now a file that its owner may execute."""

@final
class Ended:
    @property
    def outcome(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def message(self) -> str | None: ...
    @property
    def backtrace(self) -> list[str]: ...
    @property
    def limit(self) -> tuple[str, float | None] | None: ...
    @property
    def fuel_used(self) -> int | None: ...
    @property
    def changes(self) -> list[Change]: ...
    @property
    def records(self) -> int | None: ...

@final
class Running:
    def wait(self) -> Ended: ...
    def interrupt(self) -> None: ...
    def has_ended(self) -> bool: ...

@final
class Sandbox:
    def __new__(cls, settings: Settings) -> Sandbox: ...
    @staticmethod
    def resume(dir: str, id: str, settings: Settings) -> Sandbox: ...
    def start(
        self,
        command: str,
        args: builtins.list[str],
        *,
        stdin: bytes,
        cwd: str | None,
        env: dict[str, str],
        timeout: float | None,
        virtual_timeout: float | None,
        on_output: Callable[[int, bytes], object] | None = None,
        done: Callable[[], object] | None = None,
    ) -> Running: ...
    def read(self, path: str) -> bytes: ...
    def write(self, path: str, bytes: bytes, parents: bool, executable: bool) -> None: ...
    def remove(self, path: str) -> None: ...
    def list(self, path: str) -> builtins.list[tuple[str, Literal["file", "directory", "symlink", "special"], int]]: ...
    def fork(self) -> Sandbox: ...
    def save(self, dir: str) -> str: ...
    def diff(self) -> builtins.list[Change]: ...
    def diff_since(self, before: Sandbox) -> builtins.list[Change]: ...
    def patch(self) -> str: ...
    def apply(self) -> tuple[int, int, int, int]: ...
    def refresh(self, discard: bool) -> None: ...
    def copy_in(self, from_: str, to: str) -> int: ...
    def copy_out(self, from_: str, to: str) -> int: ...
    def mount(self, target: str, host: str | None, read_only: bool) -> None: ...
    def set_network(self, allow: builtins.list[str] | None, deny: builtins.list[str]) -> None: ...
    def host_call(self, name: str, params: dict[str, Any]) -> Any: ...
    def host_result(self) -> Any: ...
    def elapsed(self) -> float: ...
    def mounts(self) -> builtins.list[tuple[str, str | None, bool]]: ...
    def close(self) -> None: ...
    def is_closed(self) -> bool: ...

@final
class Session:
    def __new__(
        cls,
        root: str,
        tape: str,
        *,
        replay: bool,
        paused_at_ms: int | None = None,
        on_disk: bool = False,
        ignored: list[str] = ...,
    ) -> Session: ...
    def run(
        self,
        program: str,
        args: list[str],
        *,
        cwd: str | None,
        env: list[tuple[str, str | None]],
        env_clear: bool,
        stdin: bytes,
        timeout: float | None,
    ) -> tuple[int, bytes, bytes, bool]: ...
    def now_ms(self) -> int: ...
    def advance(self, duration: float) -> None: ...
    def read(self, path: str) -> bytes | None: ...
    def unmade(self) -> list[tuple[str, str]]: ...
    def finish(self) -> list[tuple[str, str]]: ...
    def discard(self) -> None: ...

def start_run(
    request: RunRequest,
    settings: Settings,
    *,
    on_output: Callable[[int, bytes], object] | None = None,
    done: Callable[[], object] | None = None,
) -> Running: ...
def replay(
    path: str, modules: list[str], toolchains: list[str], timeout: float
) -> tuple[int, list[tuple[int, bytes, bytes, str | None]]]: ...
def compare(recorded: str, replayed: str, mode: str) -> tuple[bool, float, str, str]: ...
def forget_programs() -> None: ...
def program_names(dirs: list[str]) -> list[str]: ...
