"""A secret is read from a file that no one else may read, and nothing of it is shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.http.secret_file import SecretError, read_secret

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, mode: int = 0o600) -> str:
    file = folder / "it"
    file.write_text("hunter2\n")
    file.chmod(mode)
    return str(file)


def test_it_is_the_text_of_the_file(tmp_path: Path) -> None:
    assert read_secret(written(tmp_path), "token file", 64) == "hunter2\n"


def test_what_is_too_long_is_none(tmp_path: Path) -> None:
    assert read_secret(written(tmp_path), "token file", 4) == ""


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_one_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SecretError) as caught:
        read_secret(written(tmp_path, mode), "token file", 64)
    assert "is open to others" in caught.value.message
    assert "chmod 600" in caught.value.hint


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SecretError, match="not a regular file"):
        read_secret(str(tmp_path / "pipe"), "login file", 64)
    with pytest.raises(SecretError, match=r"login file .* cannot be read"):
        read_secret(str(tmp_path / "none"), "login file", 64)
