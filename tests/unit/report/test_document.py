"""The JSON document keeps to the schema that ships beside it, whatever is known or missing."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpumon.cli import main
from gpumon.model.cluster import Process
from gpumon.model.fields import NODE_FIELDS
from gpumon.model.finding import Coverage
from gpumon.model.frame import Block, SourceError, column_for
from gpumon.model.gpu_fields import GPU_FIELDS
from gpumon.model.missing import Reason
from gpumon.report.document import SCHEMA, document, moment
from tests import ticks
from tests.lab.standin.driver import CompilerMissingError, start

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.model.tick import Tick

SCHEMA_FILE = files("gpumon.report") / "document-1.schema.json"
FORM: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def closed(form: Any) -> Any:
    """The schema without room for keys that it doesn't describe, as the writer must keep to it."""
    form = copy.deepcopy(form)
    todo = [form]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "properties" in part:
                part["additionalProperties"] = False
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return form


STRICT = Draft202012Validator(closed(FORM))


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """The document as its reader gets it, once it has been found to keep to the schema."""
    parsed: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    assert [f"{e.json_path}: {e.message}" for e in STRICT.iter_errors(parsed)] == []
    return parsed


def full_tick() -> Tick:
    """Every state that a part of the picture can be in."""
    fleet = ticks.fleet(
        coverage=(
            Coverage("partial_gpus_idle", 3, 1, ("process_count",), "waiting", "too short"),
            Coverage("broken", 0, 0, (), "muted", "raised KeyError"),
        ),
        errors=(SourceError("gpu05", "ssh: permission denied", "check the key"),),
    )
    wasting = next(view for view in fleet.jobs if view.job.job_id == "4711")
    uuid = wasting.gpu_uuids[0]
    gpu = fleet.gpus[uuid]
    stranger = Process("gpu01", 77, None, None, None, None, {}, Reason.NO_PROCESS, (uuid,), {})
    gpus = {**fleet.gpus, uuid: gpu._replace(processes=(*gpu.processes, stranger))}
    names = {field.key: column_for(field.kind.is_integer, [None]) for field in NODE_FIELDS}
    block = Block(("gpu01",), names, {"driver_version": ("570.1",), "nvml_version": (None,)}, {})
    nodes = {
        **fleet.nodes,
        "gpu01": fleet.nodes["gpu01"]._replace(block=block),
        "gpu05": fleet.nodes["gpu01"]._replace(
            name="gpu05",
            gpu_uuids=(),
            taken_at=None,
            lateness_s=None,
            errors=(SourceError("gpu05", "ssh: it does not answer"),),
        ),
    }
    ranks = (wasting.ranks[0]._replace(rank=None, world_id=None, why="its environment names none"),)
    jobs = tuple(
        view._replace(ranks=ranks, contradictions=("a process of job 4711 is elsewhere",))
        if view is wasting
        else view
        for view in fleet.jobs
    )
    return fleet._replace(gpus=gpus, nodes=nodes, jobs=jobs)


def test_schema_is_a_schema_with_every_key_described() -> None:
    Draft202012Validator.check_schema(FORM)
    assert FORM["$id"] == "urn:gpumon:document:1"
    assert FORM["properties"]["schema"]["const"] == SCHEMA
    undescribed = [
        f"{name}.{key}"
        for name, part in (("document", FORM), *FORM["$defs"].items())
        for key, form in part["properties"].items()
        if "description" not in form and "$ref" not in form
    ]
    assert undescribed == []


def test_schema_says_of_a_field_what_the_catalogue_says() -> None:
    for fields, name in ((GPU_FIELDS, "gpu"), (NODE_FIELDS, "node")):
        for field in fields:
            form = FORM["$defs"][name]["properties"][field.key]
            kind = "integer" if field.kind.is_integer else "number"
            assert form["type"] == [kind, "null"], field.key
            assert form["description"].startswith(field.doc), field.key
            assert ("Unit:" in form["description"]) == bool(field.unit), field.key
            assert form.get("maximum") == (1 if field.unit == "ratio" else None), field.key


def test_schema_leaves_room_for_keys_to_come() -> None:
    data = checked(document(full_tick()))
    data["later"] = 1
    data["jobs"][0]["later"] = {"more": []}
    assert list(Draft202012Validator(FORM).iter_errors(data)) == []


@pytest.mark.parametrize(
    "tick",
    [full_tick(), ticks.fleet(), ticks.failed(), ticks.tick()],
    ids=["all", "fleet", "no", "0"],
)
def test_document_keeps_to_the_schema(tick: Tick) -> None:
    checked(document(tick))


def test_missing_values_are_null_with_their_reason() -> None:
    gpu = checked(document(full_tick()))["nodes"][0]["gpus"][0]
    assert gpu["encoder_util_ratio"] is None
    assert gpu["missing"]["encoder_util_ratio"] == "not_supported"
    assert gpu["sm_active_ratio"] == 0.84
    assert "sm_active_ratio" not in gpu["missing"]


def test_values_of_a_stale_node_are_null_and_say_so() -> None:
    nodes = {node["name"]: node for node in checked(document(full_tick()))["nodes"]}
    assert nodes["gpu04"]["stale"] is True
    gpu = nodes["gpu04"]["gpus"][0]
    measured = [field.key for field in GPU_FIELDS if field.key != "index"]
    assert [key for key in measured if gpu[key] is not None] == []
    assert set(gpu["missing"].values()) == {"stale"}
    assert gpu["name"] == "NVIDIA H100 80GB HBM3"


def test_pending_job_holds_nothing_and_has_not_started() -> None:
    jobs = {job["job_id"]: job for job in checked(document(full_tick()))["jobs"]}
    waiting = jobs["4730"]
    assert (waiting["state"], waiting["reason"], waiting["started_at"]) == (
        "PENDING",
        "Resources",
        None,
    )
    assert (waiting["gpu_count"], waiting["gpus"], waiting["ranks"]) == (64, [], [])


def test_job_without_telemetry_counts_the_gpus_that_nobody_names() -> None:
    jobs = {job["job_id"]: job for job in checked(document(full_tick()))["jobs"]}
    assert (jobs["4720_3"]["gpus"], jobs["4720_3"]["gpus_unknown"]) == ([], 4)


def test_jobs_gpus_are_uuids_of_listed_gpus() -> None:
    data = checked(document(full_tick()))
    listed = {gpu["uuid"] for node in data["nodes"] for gpu in node["gpus"]}
    held = {uuid for job in data["jobs"] for uuid in job["gpus"]}
    ranked = {uuid for job in data["jobs"] for rank in job["ranks"] for uuid in rank["gpu_uuids"]}
    assert held
    assert held <= listed
    assert ranked <= held


def test_findings_are_about_the_jobs_that_are_kept() -> None:
    tick = full_tick()
    assert [f["subject"] for f in document(tick)["findings"]] == ["job:4711"]
    other = checked(document(tick, lambda view: view.job.job_id == "4690"))
    assert [job["job_id"] for job in other["jobs"]] == ["4690"]
    assert other["findings"] == []


def test_moments_are_utc_with_milliseconds() -> None:
    assert moment(ticks.AT + 0.25) == "2025-10-09T08:53:20.250Z"
    assert moment(None) is None


def test_demo_with_its_findings_keeps_to_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--for", "0", "demo:2x4"]) == 0
    data = checked(json.loads(capsys.readouterr().out))
    assert data["jobs"]


def test_one_look_at_a_machine_keeps_to_the_schema(tmp_path: Path) -> None:
    try:
        standin = start(tmp_path, "rtx")
    except CompilerMissingError as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-m", "gpumon", "--json", "--for", "0", "local"],
        env=standin.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    data = checked(json.loads(done.stdout))
    gpus = data["nodes"][0]["gpus"]
    assert [gpu["name"] for gpu in gpus] == ["NVIDIA GeForce RTX 4090"] * 2
    assert gpus[0]["missing"]["nvlink_tx_bytes"] == "not_supported"
    assert "NaN" not in done.stdout
