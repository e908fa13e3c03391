"""Programs: closed form against plain numerical integration."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from gpumon.simulate.physics.board import A100, H100
from gpumon.simulate.physics.lag import HEAT_TAU_S, POWER_TAU_S
from gpumon.simulate.physics.phase import CHANNELS, SM, TENSOR, UTIL, WATTS, Work, run_on
from gpumon.simulate.physics.program import Loop, Program
from gpumon.simulate.physics.services import idle_held, notebook, serving, unused
from gpumon.simulate.physics.training import (
    Shape,
    data_parallel,
    full_precision,
    input_bound,
    model_parallel,
)

BUILDERS = [
    data_parallel,
    full_precision,
    idle_held,
    input_bound,
    model_parallel,
    notebook,
    serving,
]


def small_program() -> Program:
    head = [Loop([run_on(H100, Work(3.0, mem_bytes=1e9))])]
    step = [
        Work(0.3, 1.0, 0.9, 0.3, 0.6, 0.4, mem_bytes=1e9, pcie_rx_bytes=1e9),
        Work(0.1, mem_bytes=1e9),
    ]
    lap = [Loop([run_on(H100, w) for w in step], 7), Loop([run_on(H100, Work(2.0, mem_bytes=1e9))])]
    return Program(head, lap, H100.idle_w)


def test_closed_form_equals_stepping_through_the_phases() -> None:
    program = small_program()
    power = heat = H100.idle_w
    sums = [0.0] * CHANNELS
    energy, step_s = 0.0, 1e-3
    for tick in range(14_000):
        phase = program.at((tick + 0.5) * step_s).phase
        load = phase.rates[WATTS]
        power += (load - power) * step_s / POWER_TAU_S
        heat += (power - heat) * step_s / HEAT_TAU_S
        energy += power * step_s
        sums = [total + rate * step_s for total, rate in zip(sums, phase.rates, strict=True)]
    sample = program.at(14.0)
    assert sample.power_w == pytest.approx(power, rel=5e-3)
    assert sample.heat_w == pytest.approx(heat, rel=5e-3)
    assert sample.energy_j == pytest.approx(energy, rel=2e-3)
    assert sample.integrals == pytest.approx(sums, rel=5e-3)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("board", [H100, A100])
def test_energy_is_the_integral_of_power(build, board) -> None:
    program = build(board, Shape(1, 4), Random(3), 0)
    begin, seconds, step_s = program.head_s - 20.0, 60.0, 0.004
    count = round(seconds / step_s)
    area = sum(program.at(begin + (n + 0.5) * step_s).power_w for n in range(count)) * step_s
    drawn = program.at(begin + seconds).energy_j - program.at(begin).energy_j
    assert drawn == pytest.approx(area, rel=1e-3)


@pytest.mark.parametrize("build", BUILDERS)
def test_power_stays_between_idle_and_the_limit(build) -> None:
    program = build(H100, Shape(2, 8), Random(5), 0)
    readings = [program.at(n * 7.3).power_w for n in range(2000)]
    assert min(readings) >= H100.idle_w - 1e-6
    assert max(readings) <= H100.power_limit_w + 1e-6


def test_demand_above_the_limit_lowers_the_clock_and_takes_longer() -> None:
    mild = run_on(H100, Work(1.0, 1.0, 0.5, 0.2, 0.2, 0.2, mem_bytes=1e9))
    fierce = run_on(H100, Work(1.0, 1.0, 0.98, 0.5, 0.9, 0.6, mem_bytes=1e9))
    assert (mild.clock_mhz, mild.reasons, mild.seconds) == (1980.0, 0, 1.0)
    assert fierce.clock_mhz < 1980.0
    assert fierce.reasons == 0x4
    assert fierce.seconds > 1.0
    assert fierce.rates[WATTS] == H100.power_limit_w


def test_unused_gpu_rests_at_idle_power_and_clock() -> None:
    sample = unused(H100).at(12_345.0)
    assert sample.power_w == pytest.approx(H100.idle_w)
    assert sample.phase.clock_mhz == H100.clock_idle_mhz
    assert sample.phase.reasons == 0x1
    assert sample.phase.mem_bytes == 0.0


def test_ranks_of_one_job_take_equally_long_steps() -> None:
    slow, fast = (data_parallel(H100, Shape(1, 8), Random(2), lane) for lane in (0, 2))
    assert fast.head_s == pytest.approx(slow.head_s)
    hours = 9 * 3600.0
    # Equal numbers of steps show as equal bytes over the links.
    ours, theirs = slow.at(hours).integrals, fast.at(hours).integrals
    assert ours[8] == pytest.approx(theirs[8], rel=1e-4)
    assert theirs[TENSOR] < ours[TENSOR]


def test_pipeline_stages_wait_in_different_places_but_equally_long() -> None:
    first, last = (model_parallel(H100, Shape(4, 8), Random(2), lane) for lane in (0, 3))
    hours = 5 * 3600.0
    assert first.at(hours).integrals[TENSOR] == pytest.approx(
        last.at(hours).integrals[TENSOR], rel=1e-3
    )


def mean(program: Program, channel: int) -> float:
    begin, end = program.head_s + 600.0, program.head_s + 3 * 3600.0
    late, early = program.at(end).integrals[channel], program.at(begin).integrals[channel]
    return (late - early) / (end - begin)


def test_kinds_of_training_show_the_counters_that_tell_them_apart() -> None:
    shape = Shape(1, 4)
    healthy = data_parallel(H100, shape, Random(1), 0)
    assert 0.35 < mean(healthy, TENSOR) < 0.65
    assert mean(healthy, UTIL) > 0.95
    plain = full_precision(H100, shape, Random(1), 0)
    assert mean(plain, TENSOR) < 0.02
    assert mean(plain, SM) > 0.6
    starved = input_bound(H100, shape, Random(1), 0)
    assert mean(starved, UTIL) < 0.5


def test_serving_works_in_bursts() -> None:
    program = serving(H100, Shape(1, 2), Random(4), 0)
    quiet = [program.at(program.head_s + n * 20.0).phase.reasons == 0x1 for n in range(720)]
    bursts = sum(not now and before for before, now in pairwise(quiet))
    assert bursts >= 3
    assert 0.02 < mean(program, UTIL) < 0.9


def test_time_before_the_start_is_the_start() -> None:
    program = small_program()
    assert program.at(-5.0) == program.at(0.0)
