"""Toolchains and the command, which comes with the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import belljar

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def notes(tmp_path: Path, guests: Path) -> Path:
    """The folder of the toolchain `notes`."""
    folder = tmp_path / "notes"
    shutil.copytree(REPOSITORY / "toolchains" / "notes", folder, copy_function=shutil.copyfile)
    (folder / "wasm").mkdir()
    for name in ("cat.wasm", "env.wasm"):
        shutil.copyfile(guests / name, folder / "wasm" / name)
    return folder


def test_toolchain_is_packed_installed_used_and_removed(notes: Path, tmp_path: Path) -> None:
    with belljar.Sandbox() as box, pytest.raises(belljar.ProgramNotFound):
        box.exec("note")
    bundle = belljar.pack(notes, tmp_path / "notes.belljar")
    [installed] = belljar.install(bundle)
    assert (installed.name, installed.version) == ("notes", "1.2")
    assert installed.programs == ("note", "notes", "show-env")
    assert belljar.toolchains() == [installed]
    with belljar.Sandbox() as box:
        assert box.exec("notes", "today").text == "today: Remember the milk.\n"
    belljar.uninstall("notes")
    assert belljar.toolchains() == []
    with belljar.Sandbox() as box, pytest.raises(belljar.ProgramNotFound):
        box.exec("note")


def test_errors_of_toolchains_are_exceptions(tmp_path: Path) -> None:
    with pytest.raises(belljar.ToolchainError, match="no-such-recipe"):
        belljar.install("no-such-recipe")
    with pytest.raises(belljar.ToolchainError, match="is installed"):
        belljar.uninstall("notes")
    with pytest.raises(belljar.ToolchainError):
        belljar.pack(tmp_path, tmp_path / "out.belljar")


def test_command_is_that_of_the_package(guests: Path) -> None:
    command = belljar.executable()
    assert command.parent == Path(sys.executable).parent
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert version == f"belljar {belljar.__version__}\n"
    module = [sys.executable, "-m", "belljar", "run", str(guests / "exit.wasm"), "7"]
    assert subprocess.run(module, check=False).returncode == 7


def test_command_starts_itself_again(guests: Path) -> None:
    """`verify` runs the program a second time, in another process of the command."""
    done = subprocess.run(
        [belljar.executable(), "verify", guests / "hello.wasm"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
