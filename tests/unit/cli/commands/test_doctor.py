"""What the doctor says of the driver, line by line and as JSON."""

from __future__ import annotations

import pytest

from gpumon.cli import main
from gpumon.cli.examined import checks, permissions
from gpumon.cli.examined.check import ABSENT, FAULT, LESS, OK, Check
from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from tests.worlds import tick as ticks
from tests.worlds.schemas import checked


def look(reason=None, persistence=None, version="570.124.06", **changes):
    """A look at two GPUs whose performance counters answer, or lack for a reason."""
    gpus = []
    for index in range(2):
        gpu = ticks.gpu("node01", index)
        columns = dict(gpu.block.columns)
        missing = dict(gpu.block.missing)
        if reason is not None:
            del columns["sm_active_ratio"]
            missing["sm_active_ratio", 0] = reason
        if persistence is not None:
            columns["persistence_mode"] = column_for(True, [persistence])
        gpus.append(gpu._replace(block=gpu.block._replace(columns=columns, missing=missing)))
    tick = ticks.tick((), gpus, **changes)
    block = Block(("node01",), {}, {"driver_version": (version,)}, {})
    return tick._replace(nodes={"node01": tick.nodes["node01"]._replace(block=block)})


def found(tick):
    return {check.what: check for check in checks.of_driver(tick)}


@pytest.mark.parametrize(
    ("reason", "state", "says"),
    [
        (None, OK, "answer"),
        (Reason.NOT_SAMPLED, OK, "answer"),
        (Reason.NOT_SUPPORTED, ABSENT, "Hopper and newer do"),
        (Reason.NO_PERMISSION, LESS, "are hidden"),
    ],
)
def test_gpm_that_is_refused_differs_from_gpm_that_is_not_there(reason, state, says):
    check = found(look(reason))["GPM"]
    assert (check.state, says in check.says) == (state, True)
    assert bool(check.way_out) == (state == LESS)


def test_persistence_mode_that_is_off_is_told():
    assert found(look(persistence=0))["persistence"].state == LESS
    assert "2 GPUs" in found(look(persistence=0))["persistence"].says
    assert found(look(persistence=1))["persistence"].state == OK
    assert "persistence" not in found(look())


def test_one_gpu_is_no_plural():
    gpu = ticks.gpu("node01", 0)
    columns = {**gpu.block.columns, "persistence_mode": column_for(True, [0])}
    del columns["sm_active_ratio"]

    def lacking(reason):
        missing = {**gpu.block.missing, ("sm_active_ratio", 0): reason}
        return gpu._replace(block=gpu.block._replace(columns=columns, missing=missing))

    assert checks.gpm([lacking(Reason.NO_PERMISSION)]).says.startswith("refused on 1 GPU: ")
    some = checks.gpm([lacking(Reason.NOT_SUPPORTED), gpu]).says
    assert some.startswith("1 of 2 GPUs has none ")
    (off,) = checks.persistence([lacking(Reason.NO_PERMISSION)])
    assert off.says.startswith("off on 1 GPU: ")


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("570.124.06", ""),
        ("470.57.02", ""),
        ("610.1", "newer than those tested"),
        ("390.157", "older than those tested"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_driver_that_no_test_knows_is_remarked_on(version, note):
    check = found(look(version=version))["driver"]
    assert check.state == OK
    assert note in check.says
    assert ("tested" in check.says) == bool(note)


def test_hidden_ranks_are_less_and_not_a_fault():
    tick = look()
    uuid, gpu = next(iter(tick.gpus.items()))
    process = ticks.process("node01", 0, 7, None, None)._replace(why=Reason.NO_PERMISSION)
    tick = tick._replace(gpus={**tick.gpus, uuid: gpu._replace(processes=(process,))})
    assert found(tick)["gpu ranks"].state == LESS


def test_a_machine_without_driver_is_no_fault_and_a_broken_one_is():
    none = SourceError("NVML", "nvmlInit: NVML Shared Library Not Found", "no driver")
    broken = SourceError("NVML", "nvmlInit: Driver Not Loaded", "modprobe nvidia")
    for error, state in ((none, ABSENT), (broken, FAULT)):
        (check,) = checks.of_driver(ticks.tick((), [], errors=(error,)))
        assert (check.what, check.state) == ("driver", state)


@pytest.mark.parametrize(("state", "code"), [(OK, 0), (ABSENT, 0), (LESS, 0), (FAULT, 1)])
def test_only_a_fault_is_a_failure(state, code, monkeypatch, capsys):
    one = Check("ranks", state, "your own only", "ask root")
    monkeypatch.setattr(permissions, "every", lambda: iter([one]))
    for name in ("driver", "slurm"):
        monkeypatch.setattr(checks, name, lambda: iter(()))
    assert main(["doctor", "--json"]) == code
    document = checked("doctor-1", capsys.readouterr().out)
    assert document["schema"] == "gpumon-doctor/1"
    assert one._asdict() in document["checks"]
    assert main(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "your own only -> ask root" in line]


def test_processes_that_the_driver_hides_are_less_and_no_fault():
    hidden = SourceError("node01 GPU processes", "the driver hides the processes of 2 GPUs", "root")
    tick = look(errors=(hidden,))
    gpus = {}
    for uuid, gpu in tick.gpus.items():
        columns = {key: one for key, one in gpu.block.columns.items() if key != "process_count"}
        missing = {**gpu.block.missing, ("process_count", 0): Reason.NO_PERMISSION}
        gpus[uuid] = gpu._replace(block=gpu.block._replace(columns=columns, missing=missing))
    told = found(tick._replace(gpus=gpus))
    assert told["gpu processes"].state == LESS
    assert "2 GPUs" in told["gpu processes"].says
    assert not [check for check in told.values() if check.state == FAULT]
