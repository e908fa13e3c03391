"""Whatever hangs behind the screen, keys are answered: in order, and without waiting for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.tui.test_terminal import Session
from tests.worlds.probe import PATIENCE_S, children, eventually, is_alive

pytestmark = pytest.mark.slow

GPUMON = (sys.executable, "-m", "gpumon")

WALK = (
    (b"?", b"help"),
    (b"/", b"text to look for"),
    (b"tensor\r", b"/tensor"),
    (b"\x1b", b"Move"),
    (b":", b"where to"),
)
"""Keys, and what each has on the screen; a source that answers again is not among them."""

BEHIND = {
    "a target that never answers": "exec cat > /dev/null",
    "a target that talks rubbish without end": "exec yes '\x1b[2J{\"kind\":'",
    "a target of one endless line": "exec tr '\\0' x < /dev/zero",
}

VIEWS = (
    (b"o", b"does not list it"),
    (b"\x1b", b"MEM GiB"),
    (b":nodes\r", b"HELD"),
    (b":gpus\r", b"MEM GiB"),
    (b"\x1b[B\x1b[B\r", b"00000000:"),
    (b"\x1b", b"MEM GiB"),
    (b"/zz\r", b"0 of 8 line"),
    (b"e", b"Targets"),
    (b"\x1b", b"0 of 8 line"),
    # Without the filter only what changes is drawn, none of which is sure; another view is whole.
    # So the last sign of a title is not sent where the title before ended with it.
    (b"\x1b:nodes\r", b"HELD"),
    (b":gpus\r", b"8 GPUs on 1 node"),
)
"""A walk over a machine of eight GPUs, whatever is known of them."""


def press(session, walk):
    """Each key once the screen of the one before has come."""
    for keys, shown in walk:
        # A word that was on its way before would let the next key overtake this one.
        session.skip()
        os.write(session.master, keys)
        session.read_again(shown)


def leave(session):
    """Quit: the terminal is as before, and no process is left behind."""
    left = children(session.process.pid)
    assert left
    os.write(session.master, b"\x03")
    assert session.end() == 0
    session.assert_restored()
    eventually(lambda: not any(map(is_alive, left)), "all children gone")


def walk(session):
    press(session, WALK)
    os.write(session.master, b"\x03")
    assert session.end() == 0
    assert session.after == session.before


def machine(tmp_path):
    """This machine, which is a pretend node, in the terminal."""
    return Session("", tmp_path, words=[*GPUMON, "local"])


def test_a_sampler_that_hangs_does_not_delay_a_key(tmp_path):
    session = Session("hung sampler", tmp_path)
    session.read_until(b"no new sample")
    walk(session)


@pytest.mark.parametrize("what", BEHIND)
def test_a_dead_target_does_not_delay_a_key(tmp_path, what):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{BEHIND[what]}\n")
    ssh.chmod(0o755)
    session = Session("", tmp_path, words=[*GPUMON, "ssh://192.0.2.1"], path=tmp_path)
    session.read_until(b"192.0.2.1")
    walk(session)


def test_a_driver_that_never_opens_does_not_delay_a_key(tmp_path, standin):
    node = standin("h100")
    node.state.hang("nvmlInitWithFlags")
    node.state.write()
    session = machine(tmp_path)
    session.read_until(b"waits for nvmlInit")
    # Each page is waited for by what it alone has: the row behind it tells of the call as well.
    press(session, ((b"\r", b"does not list it"),))
    session.read_until(b"nvmlInit")
    press(session, ((b"\x1b", b"MEM GiB"),))
    press(session, WALK)
    os.write(session.master, b"\x1b\x1b")
    session.read_again(b"nvmlInit has not")
    press(session, ((b"e", b"Targets"),))
    session.read_until(b"nvmlInit has not returned for")
    press(session, ((b"\x1b", b"MEM GiB"),))
    leave(session)


def test_a_driver_that_hangs_as_a_whole_does_not_delay_a_key(tmp_path, standin):
    node = standin("h100")
    session = machine(tmp_path)
    session.read_until(b"0.0/80")
    node.state.set(hang_holds_driver=1)
    node.state.hang("nvmlDeviceGetTemperature")
    node.state.write()
    press(session, VIEWS)
    session.read_until(b"nvml")
    press(session, VIEWS)

    def is_reported():
        """Of a page that is open only the cells that change are sent, so it is opened again."""
        session.skip()
        os.write(session.master, b"e")
        session.read_again(b"Targets")
        os.write(session.master, b"\x1b")
        session.read_until(b"MEM GiB")
        return b"the driver as a whole hangs: 3 calls do not return" in session.output

    eventually(is_reported, "three calls hang")
    assert b"nvmlDeviceGetTemperature" in session.output
    leave(session)


def test_one_gpu_whose_call_hangs_is_named_and_the_others_stay_live(tmp_path, standin):
    node = standin("h100")
    session = machine(tmp_path)
    session.read_until(b"0.0/80")
    node.state.hang("nvmlDeviceGetTemperature", gpu=3)
    node.state.write()
    press(session, VIEWS)
    session.read_until("‼ nvmlDeviceGetTem".encode())
    for gpu in range(8):
        node.state.gpu(gpu, mem_used_bytes=23 << 30)
    node.state.write()
    session.read_again(b"23/80")
    press(session, VIEWS)
    os.write(session.master, b"e")
    session.read_again(b"GPU 3 GPU-")
    session.read_until(b"nvmlDeviceGetTemperature")
    leave(session)


@pytest.mark.parametrize(
    ("function", "gpu", "where", "code"),
    [
        ("nvmlInitWithFlags", None, "NVML", 1),
        ("nvmlDeviceGetTemperature", 3, "GPU 3 GPU-", 0),
        ("nvmlDeviceGetUUID", 0, "GPU 0", 0),
    ],
)
def test_a_script_gets_its_answer_beside_a_hung_call(standin, function, gpu, where, code):
    node = standin("h100")
    node.state.hang(function, gpu=gpu)
    node.state.write()
    words = [*GPUMON, "--json", "--for", "1", "local"]
    done = subprocess.run(words, capture_output=True, timeout=2 * PATIENCE_S, check=False)
    document = json.loads(done.stdout)
    (error,) = document["errors"]
    assert where in error["where"]
    assert error["message"].startswith(function.removesuffix("WithFlags") + " has not returned")
    known = {gpu["index"]: gpu["power_w"] for node in document["nodes"] for gpu in node["gpus"]}
    assert sum(power is not None for power in known.values()) == (0 if gpu is None else 7)
    assert done.returncode == code
    assert done.stderr.count(b"\n") == code
