"""Values of one GPU that several origins tell: the best one's stand, the others fill in."""

from __future__ import annotations

import math

import pytest

from gpumon.fleet.history.history import History
from gpumon.fleet.join.devices import gpus_of
from gpumon.fleet.join.processes import Listed
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from tests.unit.fleet.factories import frame, gpu_block, process_blocks, uuid
from tests.unit.fleet.history.test_history_tiers import tick

PROBE, PAGE, OTHER = "ssh://gpu07", "dcgm+http://gpu07:9400/metrics", "dcgm+http://10.0.0.7:9400"
NOW = 100.0


def without(block: Block, **reasons: Reason) -> Block:
    """A block that says of every GPU why it has not got some fields."""
    rows = range(len(block.keys))
    return block._replace(missing={(key, row): why for key, why in reasons.items() for row in rows})


def told(*frames):
    """GPUs of some (origin, block, seconds ago, node)."""
    named = []
    for origin, block, ago_s, *node in frames:
        name = node[0] if node else "gpu07"
        named.append((name, frame(name, {"gpu": block}, NOW - ago_s, origin)))
    return gpus_of(named, NOW, 5.0, Listed())


def probed(**values):
    block = gpu_block("gpu07", [0, 1], power_w=[310.0, 320.0], **values)
    return without(block, sm_active_ratio=Reason.NOT_SUPPORTED, tensor_active_ratio=Reason.FAILED)


def paged(**values):
    """The same two GPUs in another order."""
    given = {"power_w": [401.0, 402.0], "sm_active_ratio": [0.61, 0.62], **values}
    return gpu_block("gpu07", [1, 0], **given)


@pytest.mark.parametrize("is_turned", [False, True])
def test_what_the_probe_cannot_tell_comes_from_the_page_and_says_so(is_turned: bool) -> None:
    frames = [(PROBE, probed(), 1.0), (PAGE, paged(), 0.5)]
    gpus = told(*(reversed(frames) if is_turned else frames))
    first, second = (gpus[uuid("gpu07", minor)] for minor in (0, 1))
    assert (first.origin, first.value("power_w"), second.value("power_w")) == (PROBE, 310.0, 320.0)
    assert (first.value("sm_active_ratio"), second.value("sm_active_ratio")) == (0.62, 0.61)
    assert dict(first.borrowed) == {"sm_active_ratio": PAGE}
    assert first.reason("sm_active_ratio") is None
    assert first.nvml_index == 0


@pytest.mark.parametrize(
    ("reason", "is_filled"),
    [
        (Reason.NOT_SUPPORTED, True),
        (Reason.NO_PERMISSION, True),
        (Reason.NOT_SHARED, True),
        (Reason.NOT_SAMPLED, True),
        # The other may repeat what it read before the board or its driver failed.
        (Reason.LOST, False),
        (Reason.FAILED, False),
        (Reason.GARBAGE, False),
    ],
)
def test_only_what_an_origin_does_not_tell_is_filled_in_not_what_fails(reason, is_filled) -> None:
    block = without(gpu_block("gpu07", [0], temp_c=[None]), temp_c=reason)
    gpu = told((PROBE, block, 0.0), (PAGE, gpu_block("gpu07", [0], temp_c=[54.0]), 0.0))[
        uuid("gpu07", 0)
    ]
    assert gpu.value("temp_c") == (54.0 if is_filled else None)
    assert gpu.reason("temp_c") == (None if is_filled else reason)
    assert bool(gpu.borrowed) is is_filled


def test_a_counter_that_comes_later_is_not_borrowed_meanwhile() -> None:
    """Two origins read it at different times: a change of origin would look like growth."""
    page = gpu_block("gpu07", [0])
    page = page._replace(columns={**page.columns, "energy_j": column_for(True, [7_000_000])})
    for reason, energy_j in ((Reason.NOT_SAMPLED, None), (Reason.NOT_SUPPORTED, 7_000_000)):
        block = without(gpu_block("gpu07", [0]), energy_j=reason)
        gpu = told((PROBE, block, 0.0), (PAGE, page, 0.0))[uuid("gpu07", 0)]
        assert gpu.value("energy_j") == energy_j


def test_a_silent_origin_fills_in_nothing_and_gets_nothing() -> None:
    for probe_s, page_s in ((0.0, 30.0), (30.0, 40.0)):
        gpu = told((PROBE, probed(), probe_s), (PAGE, paged(), page_s))[uuid("gpu07", 0)]
        assert gpu.value("sm_active_ratio") is None
        assert not gpu.borrowed


def test_a_page_counts_whole_once_the_probe_is_silent() -> None:
    gpu = told((PROBE, probed(), 30.0), (PAGE, paged(), 0.0))[uuid("gpu07", 0)]
    assert (gpu.origin, gpu.value("power_w"), dict(gpu.borrowed)) == (PAGE, 402.0, {})


def test_of_several_others_the_better_one_fills_in() -> None:
    other = gpu_block("gpu07", [0, 1], sm_active_ratio=[0.11, 0.12], temp_c=[41.0, 42.0])
    frames = [(OTHER, other, 0.9, "10.0.0.7"), (PROBE, probed(), 1.0), (PAGE, paged(), 0.5)]
    gpu = told(*frames)[uuid("gpu07", 0)]
    assert (gpu.node, gpu.value("sm_active_ratio"), gpu.value("temp_c")) == ("gpu07", 0.62, 41.0)
    assert dict(gpu.borrowed) == {"sm_active_ratio": PAGE, "temp_c": OTHER}


def test_labels_are_filled_in_and_whole_numbers_stay_whole() -> None:
    block = gpu_block("gpu07", [0, 1])
    block = block._replace(
        columns={"index": column_for(True, [None, 1])}, labels={"name": (None, "H100")}
    )
    page = paged(index=[4.0, 3.0])._replace(labels={"name": ("A", "B"), "serial": ("x", None)})
    first, second = told((PROBE, block, 0.0), (PAGE, page, 0.0)).values()
    assert (first.nvml_index, first.label("name"), first.label("serial")) == (3, "B", None)
    assert (second.nvml_index, second.label("name"), second.label("serial")) == (1, "H100", "x")
    assert first.block.columns["index"].typecode == "q"


def test_processes_stay_those_of_the_probe() -> None:
    blocks = {"gpu": probed(), **process_blocks([(7, [uuid("gpu07", 0)], "42", "0", {})])}
    frames = [
        ("gpu07", frame("gpu07", blocks, NOW, PROBE)),
        ("gpu07", frame("gpu07", {"gpu": paged()}, NOW, PAGE)),
    ]
    gpu = gpus_of(frames, NOW, 5.0, Listed())[uuid("gpu07", 0)]
    assert [process.pid for process in gpu.processes] == [7]
    assert gpu.value("sm_active_ratio") == 0.62


def test_a_gpu_of_one_origin_keeps_its_very_block() -> None:
    block = probed()
    gpus = told((PROBE, block, 0.0), (PAGE, gpu_block("gpu08", [0]), 0.0, "gpu08"))
    assert gpus[uuid("gpu07", 0)].block is block


def test_history_keeps_what_was_filled_in() -> None:
    gpus = told((PROBE, probed(), 0.0), (PAGE, paged(), 0.0))
    history = History(600.0)
    history.append(tick(NOW, gpus))
    kept = history.reader().newest([uuid("gpu07", 1)], ("sm_active_ratio", "power_w"), "gpu")
    assert [round(float(column[0]), 3) for column in kept] == [0.61, 320.0]
    assert not math.isnan(kept[0][0])
