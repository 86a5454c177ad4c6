import subprocess

import pytest

from struct_size import size_of


@pytest.fixture(autouse=True)
def _recorded(belljar_subprocess, tmp_path, monkeypatch):
    """Programs that a test calls, in an empty directory of its own, are recorded once and then replayed."""
    monkeypatch.chdir(tmp_path)


def test_struct_is_padded():
    assert size_of("struct pair", "struct pair { uint8_t small; uint32_t large; };") == 8


def test_unknown_type_is_an_error_of_the_compiler():
    with pytest.raises(subprocess.CalledProcessError) as raised:
        size_of("struct nowhere")
    assert b"nowhere" in raised.value.stderr


def test_one_probe_can_follow_another():
    assert [size_of("uint16_t"), size_of("uint64_t[4]")] == [2, 32]
