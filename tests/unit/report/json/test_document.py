"""The JSON document keeps to the schema that ships beside it, whatever is known or missing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpumon.base.footprint import Footprint
from gpumon.cli import main
from gpumon.fleet.join.join import join
from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.catalogue.gpu import GPU_FIELDS
from gpumon.model.catalogue.host import NODE_FIELDS
from gpumon.model.fault import SourceError
from gpumon.model.finding import Coverage
from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, Block, column_for
from gpumon.model.records.cluster import Allocation, Process
from gpumon.report.document.document import SCHEMA, document
from gpumon.report.document.nodes import WRITTEN_APART
from gpumon.report.facts.entities import moment
from tests.lab.standin.driver import CompilerMissingError, start
from tests.unit.fleet.factories import frame, gpu_block, process_blocks, uuid
from tests.worlds import schemas
from tests.worlds import tick as ticks
from tools.schema import OBJECTS, text_of, updated

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.model.records.tick import Tick

SCHEMA_FILE = files("gpumon.report") / "document-2.schema.json"
FORM = schemas.form_of("document-2")


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """The document as its reader gets it, once it has been found to keep to the schema."""
    parsed: dict[str, Any] = schemas.checked("document-2", data)
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
    assert FORM["$id"] == "urn:gpumon:document:2"
    assert FORM["properties"]["schema"]["const"] == SCHEMA
    undescribed = [
        f"{name}.{key}"
        for name, part in (("document", FORM), *FORM["$defs"].items())
        for key, form in part["properties"].items()
        if "description" not in form and "$ref" not in form
    ]
    assert undescribed == []


def test_schema_says_of_every_field_what_the_catalogue_says() -> None:
    assert text_of(updated(FORM)) + "\n" == SCHEMA_FILE.read_text(encoding="utf-8")
    written = {block for blocks in OBJECTS.values() for block in blocks}
    assert {field.block for field in CATALOGUE.values()} <= written
    for name, blocks in OBJECTS.items():
        properties = FORM["$defs"][name]["properties"]
        for field in CATALOGUE.values():
            if field.block not in blocks or field.key in WRITTEN_APART:
                continue
            form = properties[field.key]
            kind = "integer" if field.kind.is_integer else "number"
            assert form["type"] == [kind, "null"], field.key
            assert form["description"].startswith(field.doc), field.key
            assert ("Unit:" in form["description"]) == bool(field.unit), field.key
            assert form.get("maximum") == (1 if field.unit == "ratio" else None), field.key


def whole_block(kind: str, keys: tuple[str, ...], **texts: str) -> Block:
    """A block with a different value of every field, each text as its own name."""
    fields = [field for field in CATALOGUE.values() if field.block == kind]
    columns = {
        field.key: column_for(
            field.kind.is_integer, [high_or(field.high, 1 + row) for row in range(len(keys))]
        )
        for field in fields
    }
    labels = {label: (texts.get(label, label),) * len(keys) for label in LABELS.get(kind, ())}
    return Block(keys, columns, labels, {})


def events_block(uuids: tuple[str, ...]) -> Block:
    """An error of the machine, one of a program, an unlisted one, and an event without number."""
    numbers: list[float | int | None] = [79, 31, 999, None]
    keys = tuple(f"{uuids[0]}/{number}/{place}" for place, number in enumerate(numbers))
    columns = {
        "xid": column_for(CATALOGUE["xid"].kind.is_integer, numbers),
        "event_type": column_for(CATALOGUE["event_type"].kind.is_integer, [8, 8, 8, 2]),
        "event_age_s": column_for(False, [10, 20, 5, 1]),
    }
    return Block(keys, columns, {}, {("xid", 3): Reason.NOT_SUPPORTED})


def high_or(high: float, value: int) -> float:
    return min(high, value) / 2 if high <= 1 else min(high, value)


def machine_tick(**changes: Any) -> Tick:
    """One node whose every block is full, and a job whose cgroup it shows."""
    view, gpus = ticks.job_with_gpus("4711", {"gpu01": 2})
    uuids = tuple(gpu.uuid for gpu in gpus)
    gpu_block = whole_block("gpu", uuids, name="NVIDIA H100 80GB HBM3")
    totals = column_for(False, [85520809984, 85520809984])
    columns = {**gpu_block.columns, "mem_total_bytes": totals}
    gpu_block = gpu_block._replace(columns=columns)
    pid = gpus[0].processes[0].pid
    blocks = {
        "node": whole_block("node", ("gpu01",)),
        "gpu": gpu_block,
        "link": whole_block("link", tuple(f"{uuids[0]}/{n}" for n in (10, 2, 0))),
        "mig": whole_block("mig", ("MIG-1", "MIG-2"), parent=uuids[1]),
        "process": whole_block("process", (str(pid),)),
        "context": whole_block("context", (f"{pid}/{uuids[0]}",)),
        "nic": whole_block("nic", ("mlx5_0/1", "mlx5_bond_0/2")),
        "filesystem": whole_block("filesystem", ("/scratch",)),
        "local_filesystem": whole_block("local_filesystem", ("/dev/shm", "/")),
        "cgroup": whole_block("cgroup", ("4711", "99")),
        "event": events_block(uuids),
    }
    gpus = [gpu._replace(block=gpu_block, row=row) for row, gpu in enumerate(gpus)]
    tick = ticks.tick((view,), gpus)
    node = tick.nodes["gpu01"]._replace(**{"block": blocks["node"], "blocks": blocks, **changes})
    return tick._replace(nodes={"gpu01": node})


def test_everything_that_a_node_tells_is_in_the_document() -> None:
    node = checked(document(machine_tick()))["nodes"][0]
    gpu = node["gpus"][0]
    assert [link["link"] for link in gpu["links"]] == [0, 2, 10]
    assert [link["link"] for link in node["gpus"][1]["links"]] == []
    assert [part["uuid"] for part in node["gpus"][1]["mig"]] == ["MIG-1", "MIG-2"]
    assert gpu["mig"] == []
    assert [(nic["device"], nic["port"]) for nic in node["nics"]] == [
        ("mlx5_0", 1),
        ("mlx5_bond_0", 2),
    ]
    assert [mount["mount"] for mount in node["filesystems"]] == ["/scratch"]
    assert [mount["mount"] for mount in node["local_filesystems"]] == ["/dev/shm", "/"]
    for name, entity in (
        ("node", node),
        ("gpu", gpu),
        ("link", gpu["links"][0]),
        ("mig", node["gpus"][1]["mig"][0]),
        ("nic", node["nics"][0]),
        ("filesystem", node["filesystems"][0]),
        ("local_filesystem", node["local_filesystems"][0]),
    ):
        keys = {field.key for field in CATALOGUE.values() if field.block == name}
        assert keys <= entity.keys(), name
        assert [key for key in keys if entity[key] is None] == [], name
        assert entity["missing"] == {}, name


def test_codes_have_their_names_beside_them() -> None:
    gpus = checked(document(machine_tick()))["nodes"][0]["gpus"]
    assert [gpu["recovery_action"] for gpu in gpus] == [1, 2]
    assert [gpu["recovery_action_name"] for gpu in gpus] == ["reset the GPU", "reboot the node"]
    assert [gpu["fabric_state_name"] for gpu in gpus] == ["not started", "in progress"]
    assert [gpu["fabric_health_name"] for gpu in gpus] == ["healthy", "unhealthy"]
    silent = checked(document(ticks.tick((), [ticks.gpu("gpu01", 0)])))["nodes"][0]["gpus"][0]
    assert silent["recovery_action_name"] is None


def test_a_process_shows_what_its_blocks_know() -> None:
    process = checked(document(machine_tick()))["nodes"][0]["gpus"][0]["processes"][0]
    for field in CATALOGUE.values():
        if field.block in ("process", "context") and field.key not in WRITTEN_APART:
            assert process[field.key] is not None
    assert process["missing"] == {}


def test_without_a_queue_processes_tell_their_job_rank_and_world_themselves() -> None:
    """Nodes by ssh alone: one rank of a step, two of torchrun outside of Slurm, and a stranger."""
    frames = []
    for number, name in enumerate(("m1", "m2")):
        blocks = {"gpu": gpu_block(name, [0, 1, 2])}
        torchrun = {
            "RANK": str(number), "LOCAL_RANK": "0", "WORLD_SIZE": "2",
            "MASTER_ADDR": "m1", "MASTER_PORT": "29511",
        }  # fmt: skip
        step = {
            "SLURM_JOB_ID": "640", "SLURM_PROCID": str(4 + number), "SLURM_STEP_ID": "3",
            "SLURM_LOCALID": "1", "SLURM_NTASKS": "6",
        }  # fmt: skip
        blocks |= process_blocks(
            [
                (70, [uuid(name, 0)], None, None, torchrun),
                (80, [uuid(name, 1)], None, None, step),
                (90, [uuid(name, 2)], None, None, {}),
            ]
        )
        frames.append(frame(name, blocks))
    picture = join(frames, None, {}, 100.0, 5.0)
    shown = document(ticks.tick()._replace(nodes=picture.nodes, gpus=picture.gpus, queue=None))
    found = [p for node in shown["nodes"] for gpu in node["gpus"] for p in gpu["processes"]]
    keys = ("pid", "job_id", "world_id", "rank", "local_rank", "world_size")
    assert [tuple(process[key] for key in keys) for process in found] == [
        (70, None, "m1:29511", 0, 0, 2),
        (80, "640", "640.3", 4, 1, 6),
        (90, None, None, None, None, None),
        (70, None, "m1:29511", 1, 0, 2),
        (80, "640", "640.3", 5, 1, 6),
        (90, None, None, None, None, None),
    ]


def test_a_jobs_cgroups_are_shown_with_the_job() -> None:
    (job,) = checked(document(machine_tick()))["jobs"]
    assert [used["node"] for used in job["cgroups"]] == ["gpu01"]
    assert job["cgroups"][0]["missing"] == {}


def test_what_a_silent_node_told_is_null_and_stale_but_its_names_stay() -> None:
    data = checked(document(machine_tick(is_stale=True)))
    node = data["nodes"][0]
    parts = [node, *node["nics"], *node["filesystems"], *node["local_filesystems"]]
    parts += node["gpus"][0]["links"]
    for part in (*parts, *data["jobs"][0]["cgroups"]):
        assert set(part["missing"].values()) <= {"stale"}
        assert [key for key in part["missing"] if part[key] is not None] == []
    assert node["driver_version"] == "driver_version"
    assert set(node["missing"]) == {f.key for f in NODE_FIELDS}


def test_nothing_heard_of_a_node_is_not_sampled_and_no_crash() -> None:
    tick = machine_tick(block=None, blocks={})
    node = checked(document(tick))["nodes"][0]
    assert set(node["missing"].values()) == {"not_sampled"}
    assert (node["nics"], node["filesystems"], node["gpus"][0]["links"]) == ([], [], [])
    empty = machine_tick(blocks={"node": EMPTY_BLOCK, "link": EMPTY_BLOCK}, block=EMPTY_BLOCK)
    assert checked(document(empty))["nodes"][0]["driver_version"] is None


def test_events_come_with_meaning_action_and_whose_fault_they_are() -> None:
    events = checked(document(machine_tick(taken_at=ticks.AT)))["nodes"][0]["events"]
    assert [event["xid"] for event in events] == [31, 79, 999, None]
    program, lost, unlisted, other = events
    assert program["is_application"] is True
    assert (lost["meaning"], lost["is_application"]) == ("GPU has fallen off the bus", False)
    assert "power-cycle" in lost["action"]
    assert lost["at"] == moment(ticks.AT - 10)
    assert lost["gpu"].startswith("GPU-")
    assert (unlisted["meaning"], unlisted["is_application"]) == (None, None)
    assert "catalogue" in unlisted["action"]
    assert (other["action"], other["missing"]) == (None, {"xid": "not_supported"})


def test_a_known_product_has_its_data_sheet_and_another_none() -> None:
    tick = machine_tick()
    sheet = checked(document(tick))["nodes"][0]["gpus"][0]["data_sheet"]
    assert (sheet["product"], sheet["dense_tflops"]["bf16"]) == ("H100 SXM", 989)
    assert (sheet["nvlink_links"], sheet["nvlink_bytes_per_s"]) == (18, 450_000_000_000)
    assert "tdp_w" in sheet["unchecked"]
    assert not {"dense_tflops", "dense_tflops.bf16"} & set(sheet["unchecked"])
    assert "dense_tflops.fp64" in sheet["unchecked"]
    assert sheet["sources"]
    stranger = checked(document(ticks.tick((), [ticks.gpu("gpu01", 0, name="NVIDIA H20-3e")])))
    assert stranger["nodes"][0]["gpus"][0]["data_sheet"] is None


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


def test_findings_about_gpus_and_nodes_stay_as_gpus_and_nodes_do() -> None:
    about = ("job:4711", "node:gpu01", f"gpu:{ticks.uuid_of('gpu01', 0)}")
    tick = full_tick()._replace(findings=tuple(ticks.finding(subject) for subject in about))
    other = checked(document(tick, lambda view: view.job.job_id == "4690"))
    assert [f["subject"] for f in other["findings"]] == list(about[1:])


def test_what_gpumon_costs_is_told_where_it_was_measured() -> None:
    cost = Footprint(0.012345678, 60_000_000, ("ssh", "python3"))
    told = checked(document(ticks.tick(), None, cost))["tool"]["footprint"]
    assert told == {"cpu_ratio": 0.012346, "rss_bytes": 60_000_000, "children": ["ssh", "python3"]}
    first = checked(document(ticks.tick(), None, cost._replace(cpu_ratio=None)))["tool"]
    assert first["footprint"]["cpu_ratio"] is None
    assert "footprint" not in document(ticks.tick())["tool"]


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


def test_each_gpu_that_slurm_gave_is_told_with_index_and_type():
    view, gpus = ticks.job_with_gpus("77", {"gpu01": 2, "gpu02": 3})
    held = (
        Allocation("gpu01", 2, (1, 6), gpu_types=("a100", "")),
        Allocation("gpu02", 3, None),
    )
    view = view._replace(job=view.job._replace(allocations=held))
    (job,) = checked(document(ticks.tick((view,), gpus)))["jobs"]
    assert [tuple(one.values()) for one in job["allocations"]] == [
        ("gpu01", 1, "a100"),
        ("gpu01", 6, None),
        ("gpu02", None, None),
        ("gpu02", None, None),
        ("gpu02", None, None),
    ]


@pytest.mark.parametrize(("state", "owner"), [(None, [7, 1004]), ("idle", [])])
def test_a_gpu_without_a_queue_belongs_to_those_whose_memory_is_on_it(state, owner):
    fleet = ticks.fleet()
    uuid, gpu = next(iter(fleet.gpus.items()))
    mem = {uuid: 2.0**34}
    running = tuple(
        Process(gpu.node, pid, "python", uid, None, None, {}, None, (uuid,), held)
        for pid, uid, held in (
            (11, 1004, mem), (12, 7, {}), (13, None, mem), (14, 9, {uuid: 0.0}), (15, 1004, mem),
        )
    )  # fmt: skip
    node = fleet.nodes[gpu.node]._replace(state=state)
    told = fleet._replace(
        gpus={**fleet.gpus, uuid: gpu._replace(processes=running)},
        nodes={**fleet.nodes, gpu.node: node},
    )
    found = [g for n in checked(document(told))["nodes"] for g in n["gpus"] if g["uuid"] == uuid]
    assert [g["owner"] for g in found] == [owner]
