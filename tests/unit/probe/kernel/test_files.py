"""Small files of the kernel: bounds, and the reason behind an error."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.kernel import files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "no_permission"),
        (errno.EPERM, "no_permission"),
        (errno.ENOENT, "not_supported"),
        (errno.EOPNOTSUPP, "not_supported"),
        (errno.EINVAL, "not_supported"),
        (errno.EIO, "failed"),
        (errno.ETIMEDOUT, "failed"),
    ],
)
def test_why(number: int, why: str) -> None:
    assert files.why(OSError(number, "x")) == why


@pytest.mark.parametrize(("text", "number"), [("5", 5), (" 7 kB\n", 7), (str(2**64), 2**64)])
def test_a_whole_number(text: str, number: int) -> None:
    assert files.whole(text) == number


@pytest.mark.parametrize("text", ["", "\n", "-1", "1.5", "x", "²", "1" * 21, "max", "N/A (no PMA)"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        files.whole(text)


def test_reading_is_bounded_and_never_fails_on_bytes(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xff" + b"x" * 100)
    assert files.read(str(file), 3) == "\ufffdxx"
    assert files.read_or_empty(str(tmp_path / "none")) == ""
    assert files.names(str(tmp_path / "none"), 5) == []
    (tmp_path / "a").write_text("")
    assert files.names(str(tmp_path), 1) == ["a"]
