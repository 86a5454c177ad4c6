"""What the tests share. They test the package that is installed, which python/check.sh builds and installs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).resolve().parents[2]

# Before anything is loaded: neither the toolchains nor the compiled code of the user are used.
_HOME = tempfile.TemporaryDirectory(prefix="belljar-tests-")
os.environ["BELLJAR_HOME"] = _HOME.name + "/home"
os.environ.setdefault("BELLJAR_CACHE_DIR", _HOME.name + "/cache")
os.environ.pop("BELLJAR_TOOLCHAIN", None)


@pytest.fixture
def guests() -> Path:
    """The folder of example programs."""
    return REPOSITORY / "guest-examples"
