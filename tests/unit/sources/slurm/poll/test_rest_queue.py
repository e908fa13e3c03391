"""The queue by slurmrestd: its beat, what it keeps, and what it says in trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.poll.rest_queue import RestQueue
from gpumon.sources.slurm.rest.client import Listed, RestClient
from gpumon.sources.slurm.text.jobs import parse_jobs
from tests.unit.sources.slurm.poll.test_queue import EPOCH, PretendClock
from tests.unit.sources.slurm.shapes import jobs_of, nodes_of

if TYPE_CHECKING:
    from gpumon.model.records.frame import Frame

DATA = Path(__file__).parents[1] / "data"
JOBS = json.loads((DATA / "jobs-v0.0.38.json").read_bytes())
NODES = json.loads((DATA / "nodes-v0.0.38.json").read_bytes())
PARTITIONS = json.loads((DATA / "partitions-v0.0.38.json").read_bytes())
RESERVATIONS = json.loads((DATA / "reservations-v0.0.38.json").read_bytes())
TEXT_JOBS = tuple(
    job._replace(expected_nodes=())
    for job in parse_jobs((DATA / "jobs-22.05-beside-json.txt").read_text(encoding="utf-8")).jobs
)
ADDRESS = RestAddress("https://head:6820")
DOWN = SourceError("slurmrestd jobs", "cannot be reached", "wait")


class Scripted(RestClient):
    """Answers from a script, and takes its pretended time about it."""

    def __init__(self, clock: PretendClock, *, call_s: float = 0.1) -> None:
        super().__init__(ADDRESS, environ={})
        self.calls: list[tuple[float, str, int | None]] = []
        self.answers: dict[str, dict[str, Any]] = {
            "jobs": JOBS,
            "nodes": NODES,
            "partitions": PARTITIONS,
            "reservations": RESERVATIONS,
        }
        self.down: list[tuple[float, float, str]] = []
        self.trouble = DOWN
        self.unchanged_from = float("inf")
        self._pretend = clock
        self._call_s = call_s

    def fetch(
        self, what: str, newer_than: int | None = None, params: object = None
    ) -> Listed | None:
        started_at = self._pretend.seconds
        self.calls.append((started_at, what, newer_than))
        self._pretend.seconds += self._call_s
        if any(start <= started_at < end and what in of for start, end, of in self.down):
            raise CommandFailedError(self.trouble)
        if newer_than is not None and started_at >= self.unchanged_from:
            return None
        answer = self.answers[what]
        return Listed(answer, json.dumps(answer))

    def asked(self, what: str) -> list[int | None]:
        return [newer_than for _, name, newer_than in self.calls if name == what]


def run(
    client: Scripted, clock: PretendClock, environ: dict[str, str] | None = None
) -> list[Frame]:
    """Every frame until the clock has run out."""
    environ = environ or {"SLURM_CONF": "/none/slurm.conf"}
    queue = RestQueue("slurm+https://head", ADDRESS, client=client, clock=clock, environ=environ)
    frames: list[Frame] = []
    queue.run(lambda: frames.extend(queue.poll()))
    return frames


@pytest.fixture
def clock() -> PretendClock:
    return PretendClock(600.0)


def test_ten_minutes_cost_20_lists_of_jobs_and_10_of_nodes(clock: PretendClock) -> None:
    client = Scripted(clock)
    run(client, clock)
    assert len(client.asked("jobs")) == pytest.approx(20, abs=1)
    assert len(client.asked("nodes")) == pytest.approx(10, abs=1)


def test_a_slow_server_is_asked_at_most_5_percent_of_the_time(clock: PretendClock) -> None:
    client = Scripted(clock, call_s=6.0)
    run(client, clock)
    assert len(client.asked("jobs")) <= 600 / (6.0 * 21) + 1


def test_the_first_frame_has_the_records_of_the_text(clock: PretendClock) -> None:
    frame = run(Scripted(clock), clock)[0]
    assert (frame.origin, frame.node, frame.errors) == ("slurm+https://head", "", ())
    assert frame.queue is not None
    assert frame.queue.jobs == TEXT_JOBS
    assert [node.name for node in frame.queue.nodes] == ["gpu01", "gpu02", "gpu03"]
    assert frame.queue.jobs_at == pytest.approx(EPOCH + 0.1)


def test_a_version_that_does_not_tell_its_time_is_asked_for_everything(
    clock: PretendClock,
) -> None:
    client = Scripted(clock)
    run(client, clock)
    assert set(client.asked("jobs")) == {None}


def test_unchanged_records_stay_and_are_fresh(clock: PretendClock) -> None:
    client = Scripted(clock)
    client.answers |= {"jobs": jobs_of(41, JOBS), "nodes": nodes_of(41, NODES)}
    client.unchanged_from = 1.0
    frames = run(client, clock)
    assert client.asked("jobs")[:3] == [None, 1795251500, 1795251500]
    assert client.asked("nodes")[:2] == [None, 1795251500]
    last = frames[-1]
    assert last.queue is not None
    assert last.queue.jobs == TEXT_JOBS
    assert last.queue.jobs_at > EPOCH + 500.0
    assert last.queue.nodes_at > EPOCH + 500.0
    assert last.errors == ()


def test_an_unchanged_reservation_begins_and_ends_by_the_clock(clock: PretendClock) -> None:
    client = Scripted(clock)
    (first, *_) = RESERVATIONS["reservations"]
    times = {"start_time": int(EPOCH) + 150, "end_time": int(EPOCH) + 390}
    listed = {**RESERVATIONS, "reservations": [{**first, **times}], "last_update": int(EPOCH)}
    client.answers |= {"jobs": jobs_of(41, JOBS), "reservations": listed}
    client.unchanged_from = 1.0
    frames = run(client, clock)
    assert client.asked("reservations").count(None) == 1
    states = [frame.queue.reservations[0].state for frame in frames if frame.queue]
    changes = [now for now, before in zip(states, ["", *states], strict=False) if now != before]
    assert changes == ["INACTIVE", "ACTIVE", "INACTIVE"]


def test_trouble_is_said_once_records_are_back_it_is_gone(clock: PretendClock) -> None:
    client = Scripted(clock)
    client.answers |= {"jobs": jobs_of(41, JOBS), "nodes": nodes_of(41, NODES)}
    client.unchanged_from = 1.0
    client.down = [(20.0, 100.0, "jobs nodes")]
    frames = run(client, clock)
    assert DOWN in frames[1].errors
    assert frames[1].queue is None
    assert frames[-1].errors == ()
    assert frames[-1].queue is not None
    after = [newer for at, what, newer in client.calls if what == "jobs" and at > 100.0]
    # What was lost must be asked for anew, not only what has changed since.
    assert after[0] is None


def test_nodes_that_are_unchanged_after_trouble_are_no_trouble(clock: PretendClock) -> None:
    client = Scripted(clock)
    client.answers |= {"jobs": jobs_of(41, JOBS), "nodes": nodes_of(41, NODES)}
    client.unchanged_from = 1.0
    client.down = [(50.0, 70.0, "nodes")]
    frames = run(client, clock)
    assert any(DOWN in frame.errors for frame in frames)
    assert frames[-1].errors == ()


def test_errors_and_warnings_beside_records_are_passed_on(clock: PretendClock) -> None:
    client = Scripted(clock)
    warning = {"description": "slow\x1b[2J", "error_number": 0}
    error = {"description": "accounting is down", "error": "No route", "error_number": 7}
    client.answers["jobs"] = {**JOBS, "errors": [error], "warnings": [warning] * 9}
    frame = run(client, clock)[0]
    assert frame.queue is not None
    messages = [one.message for one in frame.errors]
    assert messages[0] == "error with the records: accounting is down: No route (7)"
    assert messages[1:4] == ["warning with the records: slow�[2J"] * 3
    assert messages[4:] == ["warning with the records: and 6 more"]


def test_a_warning_that_an_empty_list_is_empty_is_none(clock: PretendClock) -> None:
    client = Scripted(clock)
    said = {"description": "Zero jobs to dump", "source": "slurm_load_jobs"}
    client.answers["jobs"] = {**JOBS, "jobs": [], "errors": [], "warnings": [said]}
    frame = run(client, clock)[0]
    assert frame.queue is not None
    assert frame.errors == ()


def test_a_cluster_that_keeps_no_accounting_is_in_no_trouble(clock: PretendClock) -> None:
    """As 24.11 warns beside the partitions of a cluster with accounting_storage/none."""
    client = Scripted(clock)
    said = {
        "description": "Slurm accounting storage is disabled. Could not query: [QOS].",
        "source": "",
    }
    other = {"description": "the clock is late", "source": ""}
    client.answers["nodes"] = {**NODES, "warnings": [said, other]}
    frame = run(client, clock)[0]
    assert [one.message for one in frame.errors] == ["warning with the records: the clock is late"]


def test_records_that_cannot_be_read_are_counted(clock: PretendClock) -> None:
    client = Scripted(clock)
    client.answers["jobs"] = {**JOBS, "jobs": [*JOBS["jobs"], {"job_id": "x"}]}
    (error,) = run(client, clock)[0].errors
    assert error.message == f"1 of {len(TEXT_JOBS) + 1} jobs could not be read and are left out"
    client = Scripted(PretendClock(1.0))
    client.answers["jobs"] = {"jobs": [{}]}
    frame = run(client, PretendClock(1.0))[0]
    assert frame.queue is None
    assert frame.errors[0].message.startswith("1 of 1 jobs")


@pytest.mark.parametrize(("name", "is_ours"), [("LAB", True), ("other", False)])
def test_the_device_files_of_another_cluster_are_not_ours(
    clock: PretendClock, tmp_path: Path, name: str, is_ours: bool
) -> None:
    (tmp_path / "slurm.conf").write_text(f"# ClusterName=x\nclustername = {name}\n")
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-7]\n")
    environ = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    frame = run(Scripted(clock), clock, environ)[0]
    assert frame.queue is not None
    files = {node.gpu_files for node in frame.queue.nodes}
    assert files == ({tuple(f"/dev/nvidia{n}" for n in range(8))} if is_ours else {()})
