"""Whatever hangs behind the screen, keys are answered: in order, and without waiting for it."""

from __future__ import annotations

import os
import sys

import pytest

from tests.tui.test_terminal import Session

WALK = (
    (b"?", b"help"),
    (b"/", b"text to look for"),
    (b"tensor\r", b"/tensor"),
    (b"\x1b", b"Keys"),
    (b":", b"where to"),
)
"""Keys, and what each has on the screen; a source that answers again is not among them."""

BEHIND = {
    "a target that never answers": "exec cat > /dev/null",
    "a target that talks rubbish without end": "exec yes '\x1b[2J{\"kind\":'",
    "a target of one endless line": "exec tr '\\0' x < /dev/zero",
}


def walk(session):
    for keys, shown in WALK:
        os.write(session.master, keys)
        session.read_again(shown)
    os.write(session.master, b"\x03")
    assert session.end() == 0
    assert session.after == session.before


def test_a_sampler_that_hangs_does_not_delay_a_key(tmp_path):
    session = Session("hung sampler", tmp_path)
    session.read_until(b"no new sample")
    walk(session)


@pytest.mark.parametrize("what", BEHIND)
def test_a_dead_target_does_not_delay_a_key(tmp_path, what):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{BEHIND[what]}\n")
    ssh.chmod(0o755)
    words = [sys.executable, "-m", "gpumon", "ssh://192.0.2.1"]
    session = Session("", tmp_path, words=words, path=tmp_path)
    session.read_until(b"192.0.2.1")
    walk(session)
