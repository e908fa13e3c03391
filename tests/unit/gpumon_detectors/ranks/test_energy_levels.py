"""Steps that get longer on a GPU without SM counters, by its energy counter."""

from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import START_AT, Scene
from gpumon_detectors.ranks.slow_drift import SlowDrift

GIB = 2.0**30
KERNELS_W, REST_W = 236.0, 41.0
"""What a board draws while kernels run, and between them."""


def at_work(share, *, kernels_w=KERNELS_W, memory=0.47, clock_mhz=1350.0, seconds=2700.0):
    """A stretch in which kernels run for a share of each step."""
    return {
        "share": share, "watts": REST_W + share * (kernels_w - REST_W), "memory": memory * share,
        "clock_mhz": clock_mhz, "seconds": seconds,
    }  # fmt: skip


def lived(*stretches, period_s=10.0, gpus=1, read_every_s=0.0, has_energy=True, **job):
    """What is said of a job that goes through stretches; glances meet a kernel or none.

    Args:
        stretches: As `at_work` makes them.
        period_s: Seconds between two samples.
        gpus: How many the job has, all alike.
        read_every_s: The energy counter is read so rarely.
        has_energy: Whether there is one.
        job: Fields of its record.
    """
    dice = random.Random(17)
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    uuids = scene.node("n", gpus)
    scene.job("42", uuids, **{"cpu_count": 16, **job})
    joules = 1e6
    for part in stretches:
        glances = [float(dice.random() < part["share"]) for _ in range(4000)]

        def energy(s, before=joules, watts=part["watts"]):
            late = s % read_every_s if read_every_s else 0.0
            return round(before + watts * (s - late))

        values = {
            "process_count": 1.0,
            "mem_used_bytes": 20.0 * GIB,
            "mem_total_bytes": 40.0 * GIB,
            "gpu_util_ratio": lambda s, seen=glances: seen[int(s // period_s)],
            "mem_activity_ratio": lambda s, seen=glances, part=part: (
                part["memory"] / part["share"] * seen[int(s // period_s)]
            ),
            "power_w": part["watts"],
            "sm_clock_mhz": part["clock_mhz"],
            **({"energy_j": energy} if has_energy else {}),
        }
        scene.run(part["seconds"], dict.fromkeys(uuids, values))
        joules += part["watts"] * part["seconds"]
    return list(SlowDrift().evaluate(scene.view()))


@pytest.mark.parametrize("read_every_s", [0.0, 30.0])
@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
def test_a_gpu_that_rests_longer_in_each_step_is_found(period_s, read_every_s):
    (finding,) = lived(
        at_work(0.97), at_work(0.61, seconds=3300.0), period_s=period_s, read_every_s=read_every_s
    )
    assert finding.confidence == "supported"
    assert finding.window.start == pytest.approx(START_AT + 2700.0, abs=310.0)
    assert "its GPU rests longer in each" in finding.summary
    assert "at a clock as high" in finding.evidence[0].text
    # What the board draws at rest counts as work: a lower bound.
    assert 0.8 * 3300.0 * 0.3 < finding.gpu_seconds < 3300.0 * 0.36 / 0.97


def test_a_ramp_is_found():
    ramp = [at_work(0.95 - 0.04 * n, seconds=300.0) for n in range(1, 8)]
    (finding,) = lived(at_work(0.95), *ramp, at_work(0.67))
    assert finding.gpu_seconds < 0.3 * (2700.0 + 2100.0)


@pytest.mark.parametrize(
    "stretches",
    [
        pytest.param([at_work(0.97, seconds=6000.0)], id="as before"),
        pytest.param([at_work(0.97), at_work(0.91)], id="hardly longer"),
        pytest.param([at_work(0.97), at_work(0.97, kernels_w=170.0)], id="other kernels"),
        pytest.param(
            [at_work(0.97), at_work(0.7, kernels_w=150.0)], id="other kernels that rest as well"
        ),
        pytest.param([at_work(0.97), at_work(0.66, memory=0.7)], id="more of the memory"),
        pytest.param([at_work(0.97), at_work(0.66, clock_mhz=1210.0)], id="a lower clock"),
        pytest.param(
            [
                at_work(0.97),
                at_work(0.0, memory=0.0, seconds=200.0) | {"share": 1e-9},
                at_work(0.66),
            ],
            id="a pause: another part of the run",
        ),
        pytest.param(
            [at_work(0.97), at_work(0.66, seconds=1500.0), at_work(0.97, seconds=1500.0)],
            id="back to what it was",
        ),
        pytest.param([at_work(0.97), at_work(0.66, seconds=900.0)], id="too short"),
        pytest.param(
            [at_work(share, seconds=600.0) for share in (0.9, 0.6, 0.85, 0.5, 0.9, 0.6, 0.7, 0.55)],
            id="a load that swings",
        ),
    ],
)
def test_what_is_no_drift(stretches):
    assert lived(*stretches) == []


@pytest.mark.parametrize(
    "how", [{"gpus": 2}, {"has_energy": False}, {"name": "vllm-chat"}, {"is_interactive": True}]
)
def test_where_that_cannot_be_known_nothing_is_said(how):
    """Of two GPUs one may wait for the other."""
    assert lived(at_work(0.97), at_work(0.61), **how) == []
