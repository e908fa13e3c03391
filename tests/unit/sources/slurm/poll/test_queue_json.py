"""The JSON of Slurm's commands, read where their text is no list of anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.poll.queue import COMMANDS, records_of
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from tests.unit.sources.slurm.poll.test_queue import PretendClock, Scripted, run
from tests.unit.sources.slurm.shapes import SLUID, jobs_of, nodes_of

DATA = Path(__file__).parents[1] / "data"
JOBS = json.loads((DATA / "jobs-v0.0.38.json").read_bytes())
NODES = json.loads((DATA / "nodes-v0.0.38.json").read_bytes())
TEXT_JOBS = tuple(
    job._replace(expected_nodes=())
    for job in parse_jobs((DATA / "jobs-22.05-beside-json.txt").read_text(encoding="utf-8")).jobs
)
TEXT_NODES = tuple(
    # JSON of 22.05 does not tell of cores that Slurm keeps for the system.
    node._replace(cpus_usable=None)
    for node in parse_nodes((DATA / "nodes-22.05-beside-json.txt").read_text("utf-8")).nodes
)
REFUSED = SourceError("scontrol show node", "ended with status 1: unrecognized option", "")
EMPTY_22_05 = {
    "jobs": [],
    "errors": [
        {
            "description": "Unable to query jobs",
            "error_number": 1811,
            "error": "Unable to contact slurm controller (connect failure)",
        }
    ],
}


class Both(Scripted):
    """Commands whose text and JSON come from a script; None: the JSON is refused."""

    def __init__(self, clock: PretendClock) -> None:
        super().__init__(clock)
        self.tree = ""
        self.json: dict[str, Any] = {"job": JOBS, "squeue": JOBS, "node": NODES, "sinfo": NODES}
        self.asked: list[str] = []

    def show_json(self, words: tuple[str, ...]) -> str:
        name = words[-2] if words[0] == "scontrol" else words[0]
        self.asked.append(name)
        found = self.json[name]
        if found is None:
            raise CommandFailedError(REFUSED)
        return found if isinstance(found, str) else json.dumps(found)


def test_text_that_can_be_read_is_all_that_is_asked_for() -> None:
    clock = PretendClock(100.0)
    commands = Both(clock)
    run(commands, clock)
    assert commands.asked == []


def test_jobs_and_nodes_come_by_json_where_a_wrapper_spoils_the_text() -> None:
    clock = PretendClock(100.0)
    commands = Both(clock)
    commands.jobs = commands.nodes = "+-----+ fancy table +-----+\n"
    frames = run(commands, clock)
    for frame in frames:
        assert frame.queue is not None
        assert frame.queue.jobs == TEXT_JOBS
        assert frame.queue.nodes == TEXT_NODES
        messages = [error.message for error in frame.errors]
        assert len(messages) == 2
        assert messages[0].endswith("show job --json is read instead")
    # The text is not asked for again where the JSON serves: one call per kind and period.
    assert [commands.count(kind) for kind in ("job", "node")] == [1, 1]
    assert commands.asked.count("job") == len(frames)


def test_22_05_lists_nodes_by_sinfo() -> None:
    clock = PretendClock(1.0)
    commands = Both(clock)
    commands.nodes = "?"
    commands.json["node"] = None
    (frame,) = run(commands, clock)
    assert frame.queue is not None
    assert frame.queue.nodes == TEXT_NODES
    assert commands.asked == ["node", "sinfo"]


def test_an_empty_list_with_errors_is_a_failure_not_an_empty_queue() -> None:
    clock = PretendClock(1.0)
    commands = Both(clock)
    commands.jobs = "?"
    commands.json |= {"job": None, "squeue": EMPTY_22_05}
    (frame,) = run(commands, clock)
    assert frame.queue is None
    (error,) = frame.errors
    assert error.message.startswith(failures.UNREACHED)


def test_where_neither_can_be_read_the_text_is_what_is_said() -> None:
    clock = PretendClock(1.0)
    commands = Both(clock)
    commands.jobs = "what is this?"
    commands.json |= {"job": "what is this?", "squeue": "what is this?"}
    (frame,) = run(commands, clock)
    (error,) = frame.errors
    assert error.where == "scontrol show job"
    assert "not a list of jobs: 'what is this?'" in error.message


@pytest.mark.parametrize("version", range(39, 47))
def test_documents_of_every_shape_are_read(version: int) -> None:
    jobs = records_of("Welcome!\n" + json.dumps(jobs_of(version, JOBS)), "job", "squeue")
    newest = {"sluid": SLUID, "is_exclusive": None} if version >= 45 else {}
    assert read_jobs(jobs).jobs == tuple(job._replace(**newest) for job in TEXT_JOBS)
    nodes = records_of(json.dumps(nodes_of(version, NODES)), "node", "scontrol")
    assert read_nodes(nodes).nodes == TEXT_NODES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"jobs": null}',
        '{"sinfo": []}',
        '{"jobs": [], "errors": [{}]}',
        json.dumps({"jobs": {}, "errors": ["x"]}),
    ],
)
def test_what_holds_no_list_is_a_failure(text: str) -> None:
    with pytest.raises(CommandFailedError):
        records_of(text, "job", "squeue --json")


def test_an_empty_queue_is_empty() -> None:
    assert records_of('{"jobs": [], "errors": []}', "job", "squeue --json") == []
    assert set(COMMANDS) == {"job", "node"}
