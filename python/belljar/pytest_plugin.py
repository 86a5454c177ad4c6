"""The plugin for pytest: sandboxes, recorded subprocesses, a clock that stands. `docs/python.md` describes it."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from . import _native
from ._errors import Error, TapeMismatch
from ._popen import TapedPopen
from ._sandbox import Sandbox, as_bytes
from ._settings import StrPath, start_ns

_TAPE = pytest.StashKey["Tape"]()

# What Python and pytest write beside tests.
_CACHES = ("__pycache__", ".pytest_cache")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("belljar", "belljar: sandboxes and recorded subprocesses")
    which = group.addoption
    which(
        "--belljar-record",
        action="store_true",
        help="record the subprocesses of tests again, in place of replaying their tapes",
    )
    which(
        "--belljar-no-record",
        action="store_true",
        help="fail tests without a tape, in place of recording one (for CI)",
    )
    parser.addini("belljar_tapes", "the folder of tapes, beside each file of tests", default="tapes")
    parser.addini(
        "belljar_make_files",
        "whether replays make what recorded programs wrote in the folder of the test as well, if that does not use tmp_path",
        type="bool",
        default=False,
    )
    parser.addini(
        "belljar_ignore",
        "files that are not recorded: paths from the root of a tape, or names",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--belljar-record") and config.getoption("--belljar-no-record"):
        raise pytest.UsageError("--belljar-record and --belljar-no-record exclude each other")
    config.addinivalue_line(
        "markers",
        "belljar_freeze(at): the clock of sandboxes and recorded subprocesses of this test stands at this time, a datetime "
        "or a text of ISO 8601; without an offset, it is UTC",
    )
    config.addinivalue_line(
        "markers", "belljar_sandbox(**settings): the settings of the fixture belljar_sandbox, as of belljar.Sandbox"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Completes the tape of a test that passed, so that what is wrong with it fails the test."""
    tape = item.stash.get(_TAPE, None)
    try:
        result = yield
    except FileNotFoundError as error:
        if tape is not None:
            tape.explain(error)
        raise
    tape = item.stash.get(_TAPE, None)
    if tape is not None:
        tape.finish()
    return result


def frozen_at(node: pytest.Item) -> datetime | None:
    """The time of the mark `belljar_freeze`, if there is one."""
    mark = node.get_closest_marker("belljar_freeze")
    if mark is None:
        return None
    at = mark.args[0] if mark.args else mark.kwargs.get("at")
    return _as_datetime(at)


def _as_datetime(at: object) -> datetime:
    if isinstance(at, str):
        # Python 3.10 does not know the letter for UTC.
        at = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", at))
    if not isinstance(at, datetime):
        raise pytest.UsageError(f"belljar_freeze: {at!r} is not a datetime, nor the text of one")
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)


@pytest.fixture(scope="session")
def _belljar_first() -> Iterator[Sandbox]:
    with Sandbox() as first:
        yield first


@pytest.fixture
def belljar_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A new sandbox for this test.

    ``@pytest.mark.belljar_sandbox(worktree=…, limits=…)`` has its settings, ``@pytest.mark.belljar_freeze(at)`` the time at
    which its clock starts.
    """
    mark = request.node.get_closest_marker("belljar_sandbox")
    settings: dict[str, Any] = {} if mark is None else dict(mark.kwargs)
    frozen = frozen_at(request.node)
    if frozen is not None:
        settings.setdefault("clock", frozen)
    if settings:
        sandbox = Sandbox(**settings)
    else:
        first: Sandbox = request.getfixturevalue("_belljar_first")
        sandbox = first.fork()
    with sandbox:
        yield sandbox


@pytest.fixture
def belljar_tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """Subprocesses of this test: recorded when it has no tape, or with ``--belljar-record``; replayed otherwise."""
    tape = _tape_for(request)
    request.node.stash[_TAPE] = tape
    try:
        yield tape
    finally:
        tape.discard()


@pytest.fixture
def belljar_subprocess(belljar_tape: Tape, monkeypatch: pytest.MonkeyPatch) -> Tape:
    """As `belljar_tape`, for code that calls `subprocess.run`, `subprocess.check_output`, `subprocess.Popen` and the like:
    while the test runs, these record and replay."""

    class Popen(TapedPopen):
        tape = belljar_tape

    monkeypatch.setattr(subprocess, "Popen", Popen)
    return belljar_tape


def _tape_for(request: pytest.FixtureRequest) -> Tape:
    config, node = request.config, request.node
    folder = node.path.parent / str(config.getini("belljar_tapes")) / node.path.stem
    # The part of the id after the file: classes, function, parameters.
    own = node.nodeid.split("::", 1)[-1]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-.")[:120]
    path = folder / f"{name}.jsonl"
    root = request.getfixturevalue("tmp_path") if "tmp_path" in node.fixturenames else node.path.parent
    is_there = path.is_file()
    if not is_there and config.getoption("--belljar-no-record"):
        pytest.fail(f"belljar: there is no tape {path}: run the test once without --belljar-no-record", pytrace=False)
    record = bool(config.getoption("--belljar-record")) or not is_there
    # The folder of the test is the user's; tmp_path was made for this test.
    on_disk = "tmp_path" in node.fixturenames or bool(config.getini("belljar_make_files"))
    ignored = [str(config.getini("belljar_tapes")), *_CACHES, *config.getini("belljar_ignore")]
    return Tape(path, Path(root), record=record, frozen=frozen_at(node), on_disk=on_disk, ignored=ignored)


class Tape:
    """The recorded subprocesses of a test."""

    def __init__(
        self,
        path: Path,
        root: Path,
        *,
        record: bool,
        frozen: datetime | None,
        on_disk: bool = False,
        ignored: Sequence[str] = (),
    ) -> None:
        self.path = path
        """The tape: a file of text, to be committed with the test."""
        self.root = root
        """The folder in which programs run by default, and to which the folders on the tape are relative: ``tmp_path``
        if the test uses that, else the folder of the test."""
        self.recording = record
        """Whether programs run and are recorded, in place of being replayed."""
        self.on_disk = on_disk
        """Whether a replay makes on the disk what the programs wrote when they were recorded. Otherwise only `read` shows
        it."""
        self._ignored = list(ignored)
        self._frozen = frozen
        self._session: _native.Session | None = None
        self._mismatch: TapeMismatch | None = None
        self._done = False

    def __repr__(self) -> str:
        return f"<belljar tape {self.path}, {'recording' if self.recording else 'replaying'}>"

    def freeze(self, at: datetime | str) -> None:
        """Stops the clock at a time, before the first program runs. Native programs get it as ``SOURCE_DATE_EPOCH``, git
        also as the date of commits."""
        if self._session is not None:
            raise Error("the clock can be stopped only before the first program runs")
        self._frozen = _as_datetime(at)

    def run(
        self,
        args: Sequence[StrPath],
        *,
        input: bytes | str | None = None,
        cwd: StrPath | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        check: bool = False,
        text: bool = False,
    ) -> subprocess.CompletedProcess[Any]:
        """As `subprocess.run` with ``capture_output=True``, recorded or replayed.

        Args:
            args: The program and its arguments.
            input: Its standard input. Default: empty.
            cwd: Its folder. Default, and for relative paths: `root`.
            env: All of its variables. On the tape are those that differ from the variables of this process.
            timeout: Seconds after which it is ended.
            check: Raises `subprocess.CalledProcessError` unless it exits with code 0.
            text: Returns output as text.

        Raises:
            TapeMismatch: the tape has another call here.
            subprocess.TimeoutExpired: it was ended by `timeout`.
            ProgramNotFound: there is no such program, or there was none when the tape was recorded.
        """
        if isinstance(args, (str, bytes)):
            raise Error(f"run({args!r}): give a list of the program and its arguments")
        words = [os.fspath(arg) for arg in args]
        code, stdout, stderr, timed_out = self.call(words, as_bytes(input or b""), cwd, env, timeout)
        out: Any = _text(stdout) if text else stdout
        err: Any = _text(stderr) if text else stderr
        if timed_out:
            raise subprocess.TimeoutExpired(words, timeout or 0.0, out, err)
        done = subprocess.CompletedProcess(words, code, out, err)
        if check:
            done.check_returncode()
        return done

    def call(
        self,
        words: list[str],
        stdin: bytes,
        cwd: StrPath | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
    ) -> tuple[int, bytes, bytes, bool]:
        """Runs a program: its exit code (negative for a signal), its output, and whether `timeout` ended it."""
        session = self._begun()
        try:
            return session.run(
                words[0],
                words[1:],
                cwd=self._relative(cwd),
                env=self._variables(env),
                env_clear=False,
                stdin=stdin,
                timeout=timeout,
            )
        except TapeMismatch as mismatch:
            self._mismatch = readable(mismatch)
            raise self._mismatch from None

    def read(self, path: StrPath) -> bytes:
        """The content of a file beneath `root`, as the programs left it: also in a replay that makes no files on the disk.

        Raises:
            FileNotFoundError: there is no such file.
        """
        relative = self._relative(path)
        data = self._begun().read(relative or "")
        if data is None:
            raise FileNotFoundError(f"the programs of {self.path} left no file {relative}")
        return data

    @property
    def unmade(self) -> list[tuple[str, str]]:
        """The files that the programs changed when they were recorded, and that this replay has not made so far, with the
        reasons: on the disk, for example, those in ``.git``."""
        return [] if self._session is None else self._session.unmade()

    def explain(self, error: FileNotFoundError) -> None:
        """Notes on an error of the test why a file may be missing in a replay."""
        # Since Python 3.11.
        add_note: Callable[[str], None] | None = getattr(error, "add_note", None)
        if self.recording or add_note is None:
            return
        unmade = self.unmade
        if unmade:
            path, why = unmade[0]
            more = f", and {len(unmade) - 1} more" if len(unmade) > 1 else ""
            add_note(f"belljar: the replay did not make {path} on the disk ({why}){more}: Tape.unmade lists them")
        elif not self.on_disk:
            add_note(
                "belljar: a replay in the folder of the test makes no files on the disk: use tmp_path, Tape.read, or set "
                "belljar_make_files in the configuration of pytest"
            )
        elif self._version() < (1, 2):
            add_note(f"belljar: {self.path} has no files, as an older version recorded it: pytest --belljar-record")

    def _version(self) -> tuple[int, ...]:
        with open(self.path, encoding="utf-8") as lines:
            found = re.search(r'"version":"(\d+)\.(\d+)"', lines.readline(4096))
        return tuple(int(number) for number in found.groups()) if found else ()

    def _begun(self) -> _native.Session:
        if self._done:
            raise Error("the tape of this test is complete")
        if self._session is None:
            if self.recording:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            at = None if self._frozen is None else (start_ns(self._frozen) or 0) // 1_000_000
            root, path = os.fspath(self.root), os.fspath(self.path)
            self._session = _native.Session(
                root,
                path,
                replay=not self.recording,
                paused_at_ms=at,
                on_disk=self.on_disk,
                ignored=self._ignored,
            )
        return self._session

    def _relative(self, cwd: StrPath | None) -> str | None:
        """A folder beneath the root, relative to it, so that a tape is the same wherever that is."""
        if cwd is None:
            return None
        path = Path(os.path.abspath(os.path.join(self.root, os.fspath(cwd))))
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else os.fspath(path)

    def _variables(self, env: Mapping[str, str] | None) -> list[tuple[str, str | None]]:
        """What differs from the variables of this process, which programs inherit."""
        variables: dict[str, str | None] = {}
        if env is not None:
            variables.update((key, None) for key in os.environ if key not in env)
            variables.update((key, value) for key, value in env.items() if os.environ.get(key) != value)
        if self._frozen is not None:
            seconds = str((start_ns(self._frozen) or 0) // 1_000_000_000)
            date = f"{seconds} +0000"
            for key, value in (("SOURCE_DATE_EPOCH", seconds), ("GIT_AUTHOR_DATE", date), ("GIT_COMMITTER_DATE", date)):
                variables.setdefault(key, value)
        return sorted(variables.items())

    def finish(self) -> None:
        """Completes a tape that is recorded, and looks for calls that a replayed one has left."""
        session, self._session, self._done = self._session, None, True
        if session is None:
            if not self.recording and not self._done_without_calls():
                raise TapeMismatch(f"the test has called no program, and {self.path} has calls", self.path, [])
            return
        try:
            withheld = session.finish()
        except TapeMismatch as mismatch:
            # The code under test may have hidden it.
            raise (self._mismatch or readable(mismatch)) from None
        for path, rule in withheld:
            warnings.warn(
                f"belljar: {path} holds a secret (rule {rule}), so its content is not on {self.path.name}, and a replay "
                "fails: name it in belljar_ignore, if no test reads it",
                stacklevel=1,
            )

    def _done_without_calls(self) -> bool:
        return len(self.path.read_text("utf-8").splitlines()) <= 1

    def discard(self) -> None:
        """Ends it without writing anything, unless it is complete."""
        session, self._session, self._done = self._session, None, True
        if session is not None:
            session.discard()


def _text(output: bytes) -> str:
    """As `subprocess` decodes output, with one newline for all kinds of these."""
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def readable(mismatch: TapeMismatch) -> TapeMismatch:
    """The same exception, with a diff of what was recorded and what was asked for."""
    lines = [str(mismatch).splitlines()[0] if mismatch.differences else str(mismatch)]
    for field, recorded, asked in mismatch.differences:
        lines.append(f"  {field} (-: on the tape, +: now)")
        diff = difflib.ndiff(recorded.splitlines(), asked.splitlines())
        lines.extend("    " + line.rstrip("\n") for line in diff)
    if mismatch.differences:
        around = [line for line in str(mismatch).splitlines() if re.match(r"[> ] line \d+:", line)]
        lines += ["  calls on the tape:", *("  " + line for line in around)] if around else []
    lines.append("If the new call is right, record it: pytest --belljar-record")
    return TapeMismatch("\n".join(lines), mismatch.tape, mismatch.differences)
