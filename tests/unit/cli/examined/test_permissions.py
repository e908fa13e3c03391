"""What the doctor says of permissions, on machines made of files."""

from __future__ import annotations

import os

import pytest

from gpumon.cli.examined import permissions
from gpumon.cli.examined.check import ABSENT, FAULT, LESS, OK

NOTHING = "0000000000000000"
EVERYTHING = "000001ffffffffff"
PTRACE_ONLY = f"{1 << 19:016x}"


@pytest.fixture
def machine(tmp_path):
    """Makes a machine: files below a folder by their path."""

    def made(capabilities=NOTHING, **files):
        status = f"Name:\tpython3\nCapPrm:\t{EVERYTHING}\nCapEff:\t{capabilities}\n"
        for path, text in {"proc/self/status": status, **files}.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return made


def mounts(options):
    return {"proc/mounts": f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n"}


@pytest.mark.parametrize(
    ("options", "capabilities", "state"),
    [
        ("rw,nosuid,relatime", NOTHING, OK),
        ("rw,hidepid=0", NOTHING, OK),
        ("rw,hidepid=off", NOTHING, OK),
        ("rw,hidepid=1", NOTHING, LESS),
        ("rw,hidepid=2,gid=27", NOTHING, LESS),
        ("rw,hidepid=invisible", NOTHING, LESS),
        ("rw,hidepid=2", EVERYTHING, OK),
        ("rw,hidepid=2", PTRACE_ONLY, OK),
    ],
)
def test_hidden_processes_are_told(machine, options, capabilities, state):
    check = permissions.processes(machine(capabilities, **mounts(options)))
    assert check.state == state
    assert bool(check.way_out) == (state == LESS)
    if state == LESS:
        assert "hidepid=" in check.says
        assert "jobs of other users" in check.says


def test_text_of_the_mount_table_cannot_write_to_the_terminal(machine):
    check = permissions.processes(machine(**mounts("rw,hidepid=\x1b[31m2")))
    assert "\x1b" not in check.says


@pytest.mark.parametrize(
    ("capabilities", "state"),
    [(NOTHING, LESS), (PTRACE_ONLY, OK), (EVERYTHING, OK), ("rubbish", LESS), ("", LESS)],
)
def test_ranks_of_others_need_a_capability(machine, capabilities, state):
    assert permissions.ranks(machine(capabilities)).state == state


@pytest.mark.parametrize(
    ("params", "capabilities", "state"),
    [
        ("RmProfilingAdminOnly: 1\n", NOTHING, LESS),
        ("RmProfilingAdminOnly: 1\n", EVERYTHING, OK),
        ("RmProfilingAdminOnly: 1\n", PTRACE_ONLY, LESS),
        ("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n", NOTHING, OK),
        ("NVreg_RestrictProfilingToAdminUsers: 1\n", NOTHING, LESS),
        ("DeviceFileMode: 438\n", NOTHING, OK),
    ],
)
def test_restricted_profiling_is_told(machine, params, capabilities, state):
    root = machine(capabilities, **{"proc/driver/nvidia/params": params})
    check = permissions.profiling(root)
    assert check.state == state
    if state == LESS:
        assert "NVreg_RestrictProfilingToAdminUsers=0" in check.way_out


def test_what_is_not_there_is_no_fault(machine):
    root = machine()
    found = {check.what: check.state for check in permissions.every(root)}
    assert found == {
        "processes": OK,
        "ranks": LESS,
        "profiling": ABSENT,
        "kernel log": ABSENT,
        "debugfs": ABSENT,
    }


def test_readable_files_are_told_so(machine):
    root = machine(**{"dev/kmsg": "", "sys/kernel/debug/x": ""})
    assert permissions.kernel_log(root).state == OK
    assert permissions.debugfs(root).state == OK


def test_refused_files_say_what_they_hide(machine, monkeypatch):
    root = machine(**{"dev/kmsg": "", "sys/kernel/debug/x": ""})

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    # Root may read everything, so the kernel's answer to a user is made here.
    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(os, "access", lambda *_: False)
    log, debug = permissions.kernel_log(root), permissions.debugfs(root)
    assert (log.state, debug.state) == (LESS, LESS)
    assert "Operation not permitted" in log.says
    assert "Xids" in log.says
    assert "Lustre" in debug.says
    assert log.way_out
    assert debug.way_out


def test_no_permission_is_a_fault_and_every_line_is_one_line(machine):
    for root in (machine(**mounts("hidepid=2")), machine(EVERYTHING)):
        for check in permissions.every(root):
            assert check.state != FAULT
            assert "\n" not in check.says + check.way_out
