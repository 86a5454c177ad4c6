"""Toolchains: installed, removed and packed by the command `belljar`, which comes with this package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native
from ._errors import ToolchainError
from ._settings import StrPath


@dataclass(frozen=True)
class Toolchain:
    """An installed toolchain."""

    name: str
    """Its name."""
    version: str
    """Its version."""
    programs: tuple[str, ...]
    """The names of its programs."""
    digest: str
    """The digest of all that it consists of."""


def executable() -> Path:
    """The path of the command `belljar` that comes with this package.

    Raises:
        ToolchainError: it is not there.
    """
    name = "belljar" + (sysconfig.get_config_var("EXE") or "")
    # With `pip install --target DIR`, it is in DIR/bin.
    beside = Path(__file__).resolve().parent.parent / "bin"
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"), str(beside)]
    for folder in schemes:
        if folder and (path := Path(folder) / name).is_file():
            return path
    found = shutil.which("belljar")
    if found is None:
        raise ToolchainError(
            f"cannot find the command {name} in {', '.join(map(str, schemes))} or in PATH: install the package again"
        )
    return Path(found)


def install(*sources: StrPath, package: StrPath | None = None) -> list[Toolchain]:
    """Installs toolchains for this user: recipes by name, folders, bundles, or references of registries. ::

        belljar.install("python")

    Args:
        *sources: What is installed. `belljar toolchain recipes` lists the recipes.
        package: The package of a recipe, if it was fetched by other means.

    Raises:
        ToolchainError: one of them cannot be installed.
    """
    options = [] if package is None else ["--package", os.fspath(package)]
    # `--`: a source that begins with a dash is none of the options.
    lines = _call("install", "--json", "--quiet", *options, "--", *(os.fspath(source) for source in sources))
    _native.forget_programs()
    return [_toolchain(line) for line in lines]


def uninstall(*names: str) -> None:
    """Removes installed toolchains.

    Raises:
        ToolchainError: one of them is not installed.
    """
    _call("uninstall", "--json", "--", *names)
    _native.forget_programs()


def toolchains() -> list[Toolchain]:
    """The installed toolchains, sorted by name.

    Raises:
        ToolchainError: they cannot be read.
    """
    lines = _call("toolchain", "list", "--json")
    # Other versions, which only projects use, are listed, too.
    return [_toolchain(line) for line in lines if not line.get("for_projects")]


def pack(source: StrPath, bundle: StrPath) -> Path:
    """Packs a toolchain, a folder or an installed one, as a bundle: one file, to be passed on and installed.

    Raises:
        ToolchainError: something in it is wrong.
    """
    _call("toolchain", "pack", "--quiet", "--output", os.fspath(bundle), "--", os.fspath(source), parse=False)
    return Path(bundle)


def programs(toolchains: Iterable[StrPath] = ()) -> list[str]:
    """The names of all programs: of these folders, of installed toolchains, and built in.

    Raises:
        Error: a toolchain cannot be read.
    """
    return _native.program_names([os.fspath(folder) for folder in toolchains])


def _toolchain(line: dict[str, Any]) -> Toolchain:
    return Toolchain(line["name"], line["version"], tuple(line["programs"]), line["digest"])


def _call(*args: str, parse: bool = True) -> Any:
    """Calls the command, and parses what it prints."""
    environ = dict(os.environ)
    # Recipes are fetched by the pip of this Python.
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", "")])
    done = subprocess.run([executable(), *args], env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise ToolchainError(message.removeprefix("belljar: ") or f"belljar {args[0]} exited with {done.returncode}")
    return json.loads(done.stdout) if parse else None
