"""Counters of the simulated blocks over time: rates are their differences, nothing runs back."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.sources.probes.rates import DERIVED

if TYPE_CHECKING:
    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

ORIGIN = 1_800_000_000.0
HOT = ("gpu", "link", "node", "nic")
HOST_BLOCKS = ("filesystem", "cgroup")
"""Blocks that are read again every five seconds only."""


@cache
def maker() -> FrameMaker:
    return FrameMaker(Fleet(6, 8, 1, ORIGIN), "demo")


@cache
def frames(after_s: float, window_s: float = 1.0) -> tuple[Frame, ...]:
    return tuple(maker().frames(ORIGIN + after_s, window_s))


def values(block: Block, key: str) -> dict[str, float]:
    found = {entity: block.value(key, row) for row, entity in enumerate(block.keys)}
    return {entity: value for entity, value in found.items() if value is not None}


def test_counters_never_run_back() -> None:
    counters = [key for key, field in CATALOGUE.items() if field.kind is Kind.COUNTER]
    last: dict[tuple[str, str, str], float] = {}
    for step in range(60):
        for frame in frames(step * 733.3):
            for key in counters:
                for entity, value in values(frame.block(CATALOGUE[key].block), key).items():
                    place = (frame.node, key, entity)
                    assert value >= last.get(place, 0), place
                    last[place] = value
    assert len(last) > 5000


@pytest.mark.parametrize(("blocks", "apart_s"), [(HOT, 1.0), (HOST_BLOCKS, 5.0)])
@pytest.mark.parametrize("after_s", [5.0, 1_000.0, 33_333.0])
def test_what_derives_from_counters_is_their_difference(
    blocks: tuple[str, ...], apart_s: float, after_s: float
) -> None:
    seen = set()
    for early, late in zip(frames(after_s), frames(after_s + apart_s), strict=True):
        for field, how in DERIVED.items():
            name = CATALOGUE[field].block
            if name not in blocks:
                continue
            before, after = early.block(name), late.block(name)
            counted = values(before, how.counter), values(after, how.counter)
            per = (values(before, how.per), values(after, how.per)) if how.per else None
            for entity, given in values(after, field).items():
                if entity not in counted[0] or entity not in counted[1]:
                    continue
                grown = apart_s if per is None else per[1][entity] - per[0][entity]
                if not grown:
                    continue
                derived = (counted[1][entity] - counted[0][entity]) * how.factor / grown
                # Counters are whole: one more or less of them is no difference.
                slack = 64.0 * how.factor / grown
                assert given == pytest.approx(derived, rel=1e-5, abs=slack), (field, entity)
                seen.add(field)
    wanted = {field for field in DERIVED if CATALOGUE[field].block in blocks}
    assert seen >= wanted - {"fs_write_rtt_s", "fs_write_exec_s"}


def test_time_under_the_power_cap_agrees_with_the_reason() -> None:
    capped = 0
    for early, late in zip(frames(2_000.0, 0.02), frames(2_000.02, 0.02), strict=True):
        ratio = values(late.block("gpu"), "sw_power_cap_ratio")
        reasons = [values(f.block("gpu"), "clock_event_reasons") for f in (early, late)]
        grown = [values(f.block("gpu"), "sw_power_cap_us") for f in (early, late)]
        for uuid, share in ratio.items():
            held = [int(mask[uuid]) & 0x4 for mask in reasons]
            given_us = grown[1][uuid] - grown[0][uuid]
            assert given_us == pytest.approx(2e4 * share, abs=2.0)
            if share > 0.999:
                assert all(held)
                capped += 1
            if share < 0.001:
                assert not any(held)
    assert capped


def test_average_power_is_the_energy_drawn() -> None:
    for early, late in zip(frames(3_000.0, 200.0), frames(3_200.0, 200.0), strict=True):
        energy = [values(f.block("gpu"), "energy_j") for f in (early, late)]
        for uuid, power_w in values(late.block("gpu"), "power_average_w").items():
            drawn_w = (energy[1][uuid] - energy[0][uuid]) / 200.0
            assert power_w == pytest.approx(drawn_w, abs=0.5)


@pytest.mark.slow
def test_a_checkpoint_shows_as_a_burst_of_writes_and_waiting() -> None:
    quiet, bursts = 0, 0
    for step in range(400):
        for frame in maker().frames(ORIGIN + 5.0 * step, 1.0):
            mounts, groups = frame.block("filesystem"), frame.block("cgroup")
            written = mounts.value("fs_write_bytes_per_s", mounts.keys.index("/data")) or 0.0
            waits = values(groups, "job_io_pressure_some_ratio").values()
            if written > 1e9:
                bursts += 1
                assert max(waits) > 0.01
            quiet += written == 0.0
    assert bursts
    assert quiet > bursts
