"""MIG instances: what each has and does, while their GPU names what it does not report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gpumon.model.missing import Reason
from gpumon.probe.driver.mig import MOST_INSTANCES, Instances
from gpumon.probe.driver.sweep import passed_over
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

GIB = 2**30
ACTIVITY = (
    "mig_sm_active_ratio",
    "mig_sm_occupancy_ratio",
    "mig_tensor_active_ratio",
    "mig_dram_active_ratio",
)


def instances(frame: Frame) -> Block:
    return frame.block("mig")


def sampled(frame: Frame) -> bool:
    return instances(frame).value("mig_sm_active_ratio", 0) is not None


def test_instances_are_told_as_what_they_are(standin: Start) -> None:
    node = standin("mig", gpus=2)
    node.state.mig(1, 0, mem_used_bytes=7 * GIB)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    parents = frame.block("gpu").keys
    migs = instances(frame)
    assert migs.keys == tuple(
        node.state.values[f"gpu.{gpu}.mig.{place}.uuid"] for gpu in (0, 1) for place in range(3)
    )
    assert migs.labels["parent"] == (parents[0],) * 3 + (parents[1],) * 3
    assert migs.labels["profile"][:3] == ("3g.40gb", "1c.2g.20gb", "1c.2g.20gb")
    assert list(migs.columns["mig_gpu_instance"])[:3] == [1, 5, 5]
    assert list(migs.columns["mig_compute_instance"])[:3] == [0, 0, 1]
    assert list(migs.columns["mig_mem_total_bytes"])[:3] == [40 * GIB, 20 * GIB, 20 * GIB]
    assert migs.value("mig_mem_used_bytes", 3) == 7 * GIB
    assert [migs.reason(key, 0) for key in ACTIVITY] == [Reason.NOT_SAMPLED] * 4


def test_activity_is_the_instance_s_own_and_the_gpu_s_is_not_supported(standin: Start) -> None:
    node = standin("mig", gpus=1)
    node.state.mig(0, 0, sm_percent=80, occupancy_percent=40, tensor_percent=60, dram_percent=20)
    node.state.mig(0, 1, sm_percent=10)
    node.state.write()
    with Probe() as probe:
        uuid = probe.frame().block("gpu").keys[0]
        probe.stream.send(f"zoom {uuid}")
        frame = probe.frame(sampled)
    migs, gpus = instances(frame), frame.block("gpu")
    assert [migs.value(key, 0) for key in ACTIVITY] == [0.8, 0.4, 0.6, 0.2]
    # Compute instances of one GPU instance share what GPM reports.
    assert [migs.value("mig_sm_active_ratio", row) for row in (1, 2)] == [0.1, 0.1]
    for key in ("gpu_util_ratio", "mem_activity_ratio", "sm_active_ratio"):
        assert (gpus.value(key, 0), gpus.reason(key, 0)) == (None, Reason.NOT_SUPPORTED)
    assert gpus.value("mig_mode", 0) == 1
    assert frame.errors == ()


def test_instances_of_a_lost_gpu_have_no_values_but_a_name(standin: Start) -> None:
    node = standin("mig", gpus=2)
    with Probe() as probe:
        probe.frame()
        node.state.lose(0)
        node.state.write()
        frame = probe.next_frame(
            lambda frame: frame.block("gpu").reason("temp_c", 0) is Reason.LOST
        )
    migs = instances(frame)
    assert migs.reason("mig_mem_used_bytes", 0) is Reason.LOST
    assert migs.label("profile", 0) == "3g.40gb"
    assert migs.value("mig_mem_used_bytes", 3) == 0


def test_without_mig_there_are_no_instances_and_none_is_looked_for(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe() as probe:
        assert instances(probe.frame()).keys == ()
    assert "nvmlDeviceGetMigDeviceHandleByIndex" not in node.counts()


class Crowded:
    """A driver that counts ever so many places, and has an instance at each."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def call(self, function: str, gpu: str, *arguments: Any) -> Any:
        return 1000

    def ask(self, function: str, gpu: str, *arguments: Any) -> Any:
        if function == "nvmlDeviceGetMigDeviceHandleByIndex":
            self.asked.append(arguments[-1])
            return arguments[-1]
        return f"MIG-{arguments[0]}"


def test_more_places_than_any_gpu_has_are_counted_and_not_asked() -> None:
    driver: Any = Crowded()
    known = Instances(driver, "handle", "GPU-1", has_gpm=False)
    known._find()
    assert driver.asked == list(range(MOST_INSTANCES))
    links = SimpleNamespace(driver_count=0)
    gpu: Any = SimpleNamespace(index=4, uuid="GPU-1", instances=known, links=links)
    (error,) = passed_over(gpu)
    left = 1000 - MOST_INSTANCES
    message = f"1000 places for instances: {MOST_INSTANCES} are read, {left} are not"
    assert (error["where"], error["message"]) == ("GPU 4 GPU-1", message)
    assert error["hint"]
    known.driver_count = MOST_INSTANCES
    assert passed_over(gpu) == []
