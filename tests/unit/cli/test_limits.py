"""A machine or a session that lacks files or memory: named with the way out, the rest goes on."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial

import pytest

MIB = 1 << 20
NO_FILES = "no more files can be opened: the limit of this process is reached"
NO_MEMORY = "no memory is left"


def limited(what, most, *words, **more):
    """What gpumon says and how it ends under a limit of the kernel."""
    return subprocess.run(
        [sys.executable, "-m", "gpumon", *words],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "GPUMON_CONFIG": "/dev/null", **more},
        preexec_fn=partial(resource.setrlimit, what, (most, most)),
    )  # fmt: skip


@pytest.mark.parametrize("most", [4, 5])
def test_where_no_file_can_be_opened_it_is_one_line(most, said):
    done = limited(resource.RLIMIT_NOFILE, most, "--json", "--for", "0", "local")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    said(line)
    assert line.startswith(f"gpumon: {NO_FILES}")
    assert "ulimit -n" in line


@pytest.mark.parametrize("most", range(9, 20))
def test_with_too_few_files_it_is_said_what_they_lack_for(most, said):
    """Which step is the one that fails differs with the libraries of the machine."""
    done = limited(resource.RLIMIT_NOFILE, most, "--json", "--for", "0", "local")
    assert "Traceback" not in done.stderr
    assert "please report" not in done.stderr
    for line in done.stderr.splitlines():
        assert line.startswith("gpumon: ")
        if "Too many open files" in line:
            said(line)
            assert "ulimit -n" in line


@pytest.mark.parametrize("most", [10, 14, 20])
def test_without_files_for_detection_the_jobs_are_told_all_the_same(most, said):
    done = limited(resource.RLIMIT_NOFILE, most, "--json", "--for", "1", "demo:2x4")
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["jobs"]
    assert document["targets"][0]["ok"]
    told = {error["message"]: error["hint"] for error in document["errors"]}
    assert any(error["where"] == "detection" for error in document["errors"])
    short = [message for message in told if NO_FILES in message]
    assert short
    for message in short:
        said(message, told[message])
        assert "ulimit -n" in told[message]
    # It was not waited for: nothing claims so.
    assert not any("no answer in" in message for message in told)


@pytest.mark.parametrize("most", [24 * MIB, 48 * MIB, 80 * MIB])
def test_without_memory_for_the_past_the_present_is_told(most, said):
    """numpy's algebra would end the process with a line of its own."""
    done = limited(resource.RLIMIT_DATA, most, "--json", "--for", "1", "demo:2x4")
    assert "OpenBLAS" not in done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["jobs"]
    told = {error["message"]: error["hint"] for error in document["errors"]}
    (message,) = (one for one in told if NO_MEMORY in one and "remembering" in one)
    said(message, told[message])
    assert "ulimit -a" in told[message]


def test_what_the_user_has_set_for_other_programs_stays():
    code = (
        "import os; from gpumon.fleet.history.history import load_numpy; load_numpy(); "
        "import sys; assert 'numpy' in sys.modules; print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    for value in (None, "7"):
        environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
        if value is not None:
            environment["OPENBLAS_NUM_THREADS"] = value
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env=environment,
        )  # fmt: skip
        assert done.stdout.strip() == str(value)
