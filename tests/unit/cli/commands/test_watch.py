from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime

import pytest

from gpumon.cli import main
from gpumon.cli.exits import check_status
from gpumon.model.fault import DETECTION, SourceError
from gpumon.model.finding import Confidence, Finding, Severity, Window
from gpumon.model.missing import Reason
from gpumon.model.records.tick import TargetState, Tick
from tests.worlds.node import WHOLE, machine
from tests.worlds.probe import bounded
from tests.worlds.tick import uuid_of


def test_one_sample_of_the_demo_is_one_document_without_detection(caller):
    done = caller.run("--json", "--for", "0", "demo:2x8")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == ""
    assert document["schema"] == "gpumon-document/2"
    assert document["coverage"] == []
    assert sum(len(node["gpus"]) for node in document["nodes"]) >= 16


def test_a_short_look_at_the_demo_tells_nothing_but_faults(caller):
    document = json.loads(caller.run("--json", "--for", "1", "demo").stdout)
    assert document["coverage"]
    assert {f["category"] for f in document["findings"]} <= {"hardware", "degraded", "request"}
    for found in document["findings"]:
        assert found["class"] in {"gpu_fault", "telemetry_lost", "fabric_degraded", "program_error"}


def test_job_and_user_narrow_the_jobs_and_their_findings(caller):
    everything = json.loads(caller.run("--json", "--for", "0", "demo").stdout)["jobs"]
    someone = everything[-1]
    by_user = json.loads(
        caller.run("--json", "--for", "0", "--user", someone["user"], "demo").stdout
    )
    assert {job["user"] for job in by_user["jobs"]} == {someone["user"]}
    by_job = json.loads(
        caller.run("--json", "--for", "0", "--job", someone["job_id"], "demo").stdout
    )
    assert [job["job_id"] for job in by_job["jobs"]] == [someone["job_id"]]


def test_a_table_of_a_job_or_a_user_has_no_others(caller):
    everything = json.loads(caller.run("--json", "--for", "0", "demo").stdout)["jobs"]
    someone = everything[0]
    of_job = caller.run("--once", "--for", "0", "--job", someone["job_id"], "demo").stdout
    rows = of_job.split("\n\n")[1].splitlines()[1:]
    assert [row.split()[1] for row in rows] == [someone["label"]]
    assert f" {someone['user']} " in rows[0]
    of_user = caller.run("--once", "--for", "0", "--user", someone["user"], "demo").stdout
    rows = of_user.split("\n\n")[1].splitlines()[1:]
    theirs = [job["label"] for job in everything if job["user"] == someone["user"]]
    assert sorted(row.split()[1] for row in rows) == sorted(theirs)


@pytest.mark.parametrize(("words", "status"), [(["--exit-status"], 3), ([], 1)])
def test_a_job_that_is_not_there_is_said_to_be_missing(words, status, caller):
    asked = ["--for", "0", "--job", "9077", *words, "demo:2x4"]
    done = caller.run("--once", *asked)
    assert (done.returncode, done.stdout, done.stderr) == (
        status,
        "",
        "gpumon: no job 9077 in the queue of demo:2x4; if it has ended, add --since 7d\n",
    )
    done = caller.run("--json", *asked)
    assert done.returncode == status
    assert json.loads(done.stdout)["jobs"] == []
    assert "no job 9077" in done.stderr
    done = caller.run("--once", "--since", "2d", *asked)
    assert done.stderr.endswith("demo:2x4, nor among those that have ended\n")


def test_watch_streams_one_document_a_line_until_interrupted(caller):
    started = caller.start("--watch", "0.2", "demo:2x8", stdout=subprocess.PIPE)
    with started as process, bounded(process, 300.0):
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    documents = [json.loads(line) for line in lines]
    moments = [document["generated_at"] for document in documents]
    assert moments == sorted(set(moments))
    assert all(document["tool"]["footprint"]["rss_bytes"] > 1e7 for document in documents)


def test_a_stream_tells_of_the_jobs_that_one_look_tells_of(caller):
    """The demo's users are invented, so whoever looks at it sees them all."""
    asked = [["--json", "--for", "0"], ["--json", "--watch", "0.3"], ["--watch", "0.3"]]
    found = []
    for words in asked:
        started = caller.start(*words, "demo:3x4", stdout=subprocess.PIPE)
        with started as process, bounded(process, 300.0):
            found.append(json.loads(process.stdout.readline()))
    jobs = [{job["job_id"] for job in document["jobs"]} for document in found]
    assert len(jobs[0]) > 3
    assert jobs[1:] == jobs[:1] * 2
    of_one = found[0]["jobs"][-1]["user"]
    done = caller.run("--json", "--for", "0", "--user", of_one, "demo:3x4")
    assert {job["user"] for job in json.loads(done.stdout)["jobs"]} == {of_one}


def test_a_reader_that_leaves_ends_the_stream_quietly(caller):
    done = subprocess.run(
        f"{sys.executable} -m gpumon --watch 0.1 demo:2x8 | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **caller.options(),
    )
    assert done.stderr == ""


def test_a_table_of_the_demo_begins_with_its_past(caller):
    done = caller.run("demo:2x8?seed=3")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "observed for 2h01m" in done.stdout
    assert "established" in done.stdout


def test_a_document_of_the_demo_has_a_past_where_one_is_asked_for(caller):
    words = ("--json", "--ended", "--past", "25m", "demo:1x4?seed=3")
    document = json.loads(caller.run(*words).stdout)
    now, since = map(datetime.fromisoformat, (document["generated_at"], document["observed_since"]))
    assert 25 <= (now - since).total_seconds() / 60 < 27
    assert all(node["age_s"] < 1 for node in document["nodes"] if node["age_s"] is not None)
    asked_until = datetime.fromisoformat(document["ended_window"]["end"])
    assert abs((now - asked_until).total_seconds()) < 1


def test_without_a_terminal_the_answer_is_a_table(caller):
    done = caller.run("--for", "0", "demo:2x8")
    assert done.returncode == 0
    assert "JOB" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [["--for", "-1", "demo"], ["--for", "x"], ["--nonsense"], ["what:ever"], ["ssh://-oProxy=x"]],
)
def test_wrong_usage_is_one_line_and_exit_2(caller, words):
    done = caller.run("--json", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert caller.run("--exit-status", "--nonsense").returncode == 3


@pytest.mark.parametrize(
    "words", [["what:ever"], ["--steps", "demo"], ["--past", "1h", "--watch", "9", "demo"]]
)
def test_a_wrong_word_is_no_alarm_of_a_monitoring_check(caller, words):
    """Exit 2 is critical there: a node's health check would drain it."""
    assert caller.run("--exit-status", *words).returncode == 3


def test_a_machine_without_anything_to_watch_is_unknown_to_a_monitoring_check(caller):
    bare = dict.fromkeys(("PATH", "LD_LIBRARY_PATH"), str(caller.home))
    assert caller.run("--exit-status", env=bare).returncode == 3


def test_a_machine_without_driver_and_slurm_offers_the_demo(caller):
    done = caller.run("--json", env=dict.fromkeys(("PATH", "LD_LIBRARY_PATH"), str(caller.home)))
    assert done.returncode == 1
    assert done.stderr == (
        "gpumon: no NVIDIA driver and no Slurm commands on this machine; try: gpumon demo\n"
    )


def test_a_host_that_does_not_exist_is_one_line_and_exit_1(caller, said):
    done = caller.run("--json", "--for", "0", "ssh://no-such-host.invalid")
    assert done.returncode == 1
    assert "no-such-host.invalid" in done.stderr
    assert "Traceback" not in done.stderr
    said(done.stderr.strip())
    assert json.loads(done.stdout)["targets"][0]["ok"] is False


def tick(*findings, is_ok=True):
    target = TargetState("demo", is_ok, None, 0.0)
    return Tick(1, 0.0, 0.0, 1.0, (target,), {}, {}, (), 0.0, findings, (), (), 0.0)


def finding(severity, confidence):
    window = Window(0.0, 1.0, 2)
    return Finding("d", "c", "job:1", severity, confidence, "s", (), window, 0.0, 0.0, (), None)


def unjudged(*findings):
    return tick(*findings)._replace(errors=(SourceError(DETECTION, "no answer", ""),))


@pytest.mark.parametrize(
    ("picture", "status"),
    [
        (tick(), 0),
        (tick(finding(Severity.CRITICAL, Confidence.HYPOTHESIS)), 0),
        (tick(finding(Severity.WARNING, Confidence.SUPPORTED)), 1),
        (tick(finding(Severity.CRITICAL, Confidence.ESTABLISHED)), 2),
        (tick(is_ok=False), 3),
        (unjudged(), 3),
        # What is known to be critical is, whatever is not known beside; a warning may hide worse.
        (unjudged(finding(Severity.WARNING, Confidence.SUPPORTED)), 3),
        (unjudged(finding(Severity.CRITICAL, Confidence.SUPPORTED)), 2),
    ],
)
def test_only_supported_findings_raise_an_alarm(picture, status):
    assert check_status(picture) == status


def board(missing=None, **values):
    """A machine with some of one GPU's values changed, or all of them missing for a reason."""
    picture = machine({"index": 0} if missing else {**WHOLE, **values})
    uuid = uuid_of("n1", 0)
    if missing:
        gpu = picture.gpus[uuid]
        block = gpu.block._replace(missing={(key, 0): missing for key in WHOLE})
        picture = picture._replace(gpus={**picture.gpus, uuid: gpu._replace(block=block)})
    return picture


def node_with(missing=None, **changes):
    picture = board(missing)
    node = picture.nodes["n1"]._replace(**changes)
    return picture._replace(nodes={"n1": node})


def without_gpus(**changes):
    """A node whose driver tells of no GPU."""
    return node_with(gpu_uuids=(), **changes)._replace(gpus={})


DRIVER_FAILED = (SourceError("n1 NVML", "Unknown Error", ""),)
ONE_READING = (SourceError("n1 GPU 3 GPU-1b", "nvmlDeviceGetPowerUsage has not returned", ""),)
ELSEWHERE = (SourceError("n1 /proc/mounts", "cannot be read", ""),)


@pytest.mark.parametrize(
    ("picture", "status"),
    [
        (board(), 0),
        (board(ecc_uncorrected_volatile_count=2), 2),
        (board(recovery_action=2), 2),
        (board(remap_pending=1), 1),
        (board(pcie_width=4.0), 1),
        (board(Reason.LOST), 2),
        (board(Reason.FAILED), 2),
        (board(Reason.NO_PERMISSION), 3),
        (board(Reason.NOT_SUPPORTED), 0),
        (without_gpus(errors=DRIVER_FAILED), 3),
        (without_gpus(errors=ELSEWHERE), 0),
        (node_with(Reason.NOT_SAMPLED), 0),
        (node_with(Reason.NOT_SAMPLED, errors=DRIVER_FAILED, gpu_uuids=(uuid_of("n1", 0),)), 3),
        (node_with(errors=DRIVER_FAILED), 0),
        (node_with(errors=ONE_READING), 0),
        (node_with(errors=ELSEWHERE), 0),
        (node_with(taken_at=None, errors=ELSEWHERE), 3),
        (node_with(is_stale=True), 3),
        (node_with(is_stale=True, left_at=5.0), 0),
    ],
)
def test_what_health_says_and_what_cannot_be_read_counts(picture, status):
    assert check_status(picture) == status


def test_one_of_several_targets_that_does_not_answer_is_unknown():
    picture = board()
    dead = TargetState("ssh://gpu07", False, SourceError("ssh://gpu07", "timed out", ""), None)
    assert check_status(picture._replace(targets=(*picture.targets, dead))) == 3


def test_help_and_version_leave_with_0(capsys):
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    assert "targets:" in capsys.readouterr().out


@pytest.fixture
def configured(caller):
    """Writes a configuration and gives the environment that reads it."""

    def write(text):
        path = caller.home / "c.toml"
        path.write_text(text)
        return {**os.environ, "GPUMON_CONFIG": str(path)}

    return write


def test_targets_of_the_configuration_are_watched(caller, configured):
    done = caller.run("--json", "--for", "0", env=configured('targets = ["demo:2x8"]\n'))
    assert [target["url"] for target in json.loads(done.stdout)["targets"]] == ["demo:2x8"]
    assert done.stderr == ""


def test_a_wrong_configuration_is_a_line_per_mistake_and_exit_2_or_3(caller, configured, said):
    env = configured("perod_s = 3\nall_jobs = 1\n")
    for words, status in ((["--json", "demo"], 2), (["--exit-status", "--once", "demo"], 3)):
        done = caller.run(*words, env=env)
        assert (done.returncode, done.stdout) == (status, "")
        assert [line.split(": ")[2] for line in done.stderr.splitlines()] == [
            "perod_s is not a setting; did you mean period_s?",
            "all_jobs takes true or false, not 1",
        ]
        said(done.stderr.splitlines()[0])


def test_a_detector_that_is_disabled_is_not_run_and_a_wrong_name_is_an_error(caller, configured):
    env = configured('[detectors]\ndisabled = ["partial_gpus_idle", "nobody"]\n')
    document = json.loads(caller.run("--json", "--for", "1", "demo:2x8", env=env).stdout)
    assert "partial_gpus_idle" not in {seen["detector"] for seen in document["coverage"]}
    (error,) = [e for e in document["errors"] if e["where"] == "detectors"]
    assert error["message"] == f"{env['GPUMON_CONFIG']}:2: no detector is called nobody"


BROKEN = """
import sys
from gpumon.report.document import document as made
from gpumon.cli import main

def broken(*_given, **_named):
    raise LookupError("what is this")

made.document = broken
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "doing"),
    [(["--watch", "0.2"], "sampling"), (["--json", "--for", "0"], "in watch")],
)
def test_an_error_of_its_own_is_one_line_and_exit_1(words, doing, said):
    command = [sys.executable, "-c", BROKEN, *words, "demo:2x8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"gpumon: gpumon itself failed {doing}: LookupError: what is this "
        "(please report this; GPUMON_DEBUG=1 shows where it happened)\n"
    )
    said(done.stderr.strip())
