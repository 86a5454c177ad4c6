"""The examples of docs/python.md."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0][:40] for block in BLOCKS])
def test_example_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    """Examples without tests run as scripts; the others are files of tests, recorded and replayed."""
    if '"cc"' in block and (shutil.which("cc") is None or shutil.which("git") is None):
        pytest.skip("needs cc and git")
    if "def test_" in block:
        pytester.makepyfile(test_example=block)
        for options in ([], ["--belljar-no-record"]):
            assert pytester.runpytest_subprocess(*options).ret == 0
        return
    if "belljar.install(" in block:
        pytest.skip("check.sh runs it, as it fetches a package")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/python.md", "exec"), {"__name__": "__main__"})
