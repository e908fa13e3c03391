"""One machine seen from other places: where /proc hides processes, and from inside of a container.

Numbers are those of an own process and of one of another user; what may not be read says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.node import WORKLOAD
from tests.lab.standin import driver
from tests.unit.cli.conftest import ORDINARY

HIDING = 'mount -t proc -o hidepid={} proc /proc || exit 77; shift; exec "$@"'
AS_NOBODY = ("setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups")
PLACES = {
    "hidepid=1": ("unshare", "-m", "sh", "-c", HIDING.format(1), "sh", "", *AS_NOBODY),
    "hidepid=2": ("unshare", "-m", "sh", "-c", HIDING.format(2), "sh", "", *AS_NOBODY),
    "container": ("unshare", "-p", "-f", "--mount-proc"),
}
GIB = 2**30


@pytest.fixture
def machine(home, ordinary_caller):
    """Two GPUs, on one a process of root, on the other one of an ordinary user."""
    folder = home / "driver"
    folder.mkdir(mode=0o755)
    try:
        standin = driver.start(folder, "h100", gpus=2)
    except driver.CompilerMissingError as error:
        pytest.skip(str(error))
    # Others are to read it, whatever the mask of who runs the tests.
    standin.library.parent.chmod(0o755)
    env = driver.env(standin.library, folder)
    words = [sys.executable, "-I", "-S", str(WORKLOAD), "--sm", "50", "--seconds", "600"]
    whose = {"root": {}, "nobody": {"user": ORDINARY, "group": ORDINARY, "extra_groups": []}}
    held = {
        name: subprocess.Popen(
            [*words, "--index", str(n), "--mem-gib", str(n + 1)],
            env=env, stdout=subprocess.PIPE, **options,
        )
        for n, (name, options) in enumerate(whose.items())
    }  # fmt: skip
    try:
        assert all(one.stdout.readline() for one in held.values())
        yield {name: one.pid for name, one in held.items()}, env
    finally:
        for one in held.values():
            one.kill()
            one.communicate()


def seen(machine, place, caller, *words):
    """What gpumon writes of this machine from a place."""
    _, env = machine
    done = subprocess.run(
        [*PLACES[place], sys.executable, "-m", "gpumon", *words, "local"],
        capture_output=True, text=True, timeout=300, check=False, cwd="/",
        env=caller.options({**env, "PYTHONPATH": str(Path(__file__).parents[3])})["env"],
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no such place can be made here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def processes_in(text):
    document = json.loads(text)
    found = [one for node in document["nodes"] for gpu in node["gpus"] for one in gpu["processes"]]
    return {one["pid"]: one for one in found}, document["errors"]


@pytest.mark.parametrize("place", ["hidepid=1", "hidepid=2"])
def test_where_proc_hides_others_an_own_process_is_whole_and_theirs_say_why(
    machine, place, ordinary_caller
):
    pids, _ = machine
    found, errors = processes_in(seen(machine, place, ordinary_caller, "--json", "--for", "0"))
    assert (set(found), errors) == (set(pids.values()), [])
    own, other = found[pids["nobody"]], found[pids["root"]]
    known = psutil.Process(pids["nobody"])
    assert own["process_rss_bytes"] == known.memory_info().rss
    assert (own["uid"], own["parent_pid"]) == (ORDINARY, known.ppid())
    started_s = known.create_time() - psutil.boot_time()
    assert own["start_time_s"] == pytest.approx(started_s, abs=2.0)
    assert (own["mem_used_bytes"], other["mem_used_bytes"]) == (2 * GIB, GIB)
    assert (other["name"], other["uid"], other["process_rss_bytes"]) == (None, None, None)
    assert other["missing"]["process_rss_bytes"] == "no_permission"
    assert own["missing"]["descendant_count"] == "no_permission"


def test_from_inside_of_a_container_processes_outside_are_their_pids_alone(
    machine, ordinary_caller
):
    pids, _ = machine
    found, errors = processes_in(seen(machine, "container", ordinary_caller, "--json", "--for=0"))
    assert (set(found), errors) == (set(pids.values()), [])
    assert [one["missing"]["process_rss_bytes"] for one in found.values()] == ["no_process"] * 2
    assert sorted(one["mem_used_bytes"] for one in found.values()) == [GIB, 2 * GIB]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("hidepid=2", "1 of 2 by their PID alone: /proc shows this user no more of them."),
        ("container", "2 of 2 by their PID alone: gone, or not in this PID namespace."),
    ],
)
def test_the_table_says_why_and_how_busy_each_keeps_its_gpu(machine, place, words, ordinary_caller):
    lines = seen(machine, place, ordinary_caller, "--once", "--for", "3").splitlines()
    assert words in lines
    title = next(n for n, line in enumerate(lines) if "PROGRAM" in line)
    place_of_sm = lines[title].index("SM%")
    busy = [line[place_of_sm : place_of_sm + 3].strip() for line in lines[title + 1 : title + 3]]
    assert busy == ["50", "50"]
