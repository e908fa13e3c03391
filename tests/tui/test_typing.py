"""What is typed in one go arrives in order: keys, and the text for what they open."""

from __future__ import annotations

import os
import sys

import pytest

from tests.tui.test_terminal import Session

DEMO = [sys.executable, "-m", "gpumon", "demo:2x4", "--past", "5m"]

TYPED = {
    b"/48209\r": b"/48209",
    b":node gpu001\r": b"NVML",
    b"2/gpu002\r": b"/gpu002",
    b"f/straggler\r": b"/straggler",
    b"T10\r": b"PAUSED",
    b"/abc\x1548209\r": b"/48209",
    b"/482091\x7f\r": b"/48209",
    b"/48209\r\r": b"RANK",
    b"?:\x1b\x1b": b"JOBID",
    b":gpus\r\r": b"00000000:",
    b":nodes\r:gpus\r": b"MEM GiB",
}
"""What goes out in one write, and what is on the screen then."""


@pytest.mark.parametrize(
    "typed",
    [pytest.param(one, marks=[pytest.mark.slow] * (place % 2)) for place, one in enumerate(TYPED)],
)
def test_no_letter_of_what_is_typed_at_once_is_lost(tmp_path, typed):
    session = Session("", tmp_path, words=DEMO)
    session.read_until(b"48209")
    os.write(session.master, typed)
    session.read_again(TYPED[typed])
    os.write(session.master, b"\x03")
    assert session.end() == 0
    assert session.after == session.before
