"""What lacks here is reported as that, and not as a fault of gpumon's own."""

from __future__ import annotations

import errno

import pytest

from gpumon.model.fault import fault, shortage


@pytest.mark.parametrize(
    ("error", "words", "way_out"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "limit of this process", "ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files"), "limit of this machine", "fs.file-max"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no memory is left", "ulimit -a"),
        (MemoryError(), "no memory is left", "ulimit -a"),
        (RuntimeError("can't start new thread"), "no more processes", "ulimit -u"),
    ],
)
def test_a_lack_has_words_and_a_way_out(error, words, way_out):
    found = fault("looking", error)
    assert words in found.message
    assert "while gpumon was looking" in found.message
    assert way_out in found.hint
    assert "please report" not in found.hint


def test_a_process_that_cannot_be_started_is_told_from_a_pipe_that_is_full():
    error = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    words, way_out = shortage(error, is_start=True)
    assert "no more processes" in words
    assert "ulimit -u" in way_out
    assert shortage(error) is None


@pytest.mark.parametrize("error", [OSError("?"), OSError(errno.ENOENT, "no"), RuntimeError("x")])
def test_anything_else_is_none(error):
    assert shortage(error) is None
    assert "please report" in fault("looking", error).hint
