"""`python -m tests.bench.likeness`: simulated fleets beside the figures that clusters published.

It prints a table: at each published quantile, the share of the simulated values that lie at or
below the published value, which would be the quantile itself. `--picture FILE` draws one trace of
each kind of job instead.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding_classes import CLASSES, Category
from gpumon.simulate.cluster.job_faults import NARROW, STRAGGLER, slowed_share
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.board import A100, H100
from gpumon.simulate.physics.phase import LOST, SM, UTIL, WATTS
from gpumon.simulate.physics.random_streams import stream
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.mix import WORLD
from gpumon.simulate.world.wasteful import WASTEFUL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.simulate.cluster.workloads import Workload
    from gpumon.simulate.physics.program import Program

ORIGIN: Final = 1_767_225_600.0
MIN: Final = 60.0
HOUR: Final = 3600.0
SEEDS: Final = range(700, 712)
NODES: Final = 24
EVERY_S: Final = 13 * MIN
HOURS: Final = 8
DRAWN: Final = 400
"""Jobs of several ranks of which the slow-down is taken."""

SERVED_S: Final = 57.0
"""Period of the published serving trace."""
WORKING: Final = 0.005
"""Utilisation from which on a sample shows work: it is told in whole per cents."""


class Published(NamedTuple):
    """One quantile that somebody printed."""

    source: str
    quantile: float
    value: float
    unit: str = "%"


PHILLY: Final = tuple(
    Published("Philly, utilisation per minute", *pair)
    for pair in ((0.25, 0.0), (0.5, 48.0), (0.75, 92.0), (0.9, 99.0))
)
ACME_UTIL: Final = (Published("Acme, utilisation", 0.5, 98.5),)
ACME_SM: Final = (
    Published("Acme Kalos, SM active", 0.5, 33.0),
    Published("Acme Seren, SM active", 0.5, 50.0),
    Published("Acme, SM active", 0.75, 73.0),
    Published("Acme Seren, SM active", 0.95, 85.0),
    Published("Acme Kalos, SM active", 0.95, 94.0),
)
ACME_POWER: Final = (
    Published("Acme, power of an A100", 0.5, 100.0, "W"),
    Published("Acme, power of an A100", 0.75, 290.0, "W"),
    Published("Acme, power of an A100", 0.75, 372.0, "W"),
    Published("Acme, power of an A100", 0.95, 410.0, "W"),
)
BURSTS: Final = tuple(
    Published("serving trace, active run", *pair, "min")
    for pair in ((0.5, 1.9), (0.9, 8.6), (0.99, 21.9))
)
GAPS: Final = tuple(
    Published("serving trace, idle run", *pair, "min")
    for pair in ((0.5, 1.9), (0.9, 14.3), (0.99, 61.8))
)
SLOWED: Final = (Published("ByteDance, slow-down S of training on many GPUs", 0.575, 1.1, "x"),)
LOSSES: Final = (Published("ByteDance, lost by such a job", 0.9, 21.3),)


class Seen(NamedTuple):
    """Simulated values."""

    util: list[float]
    """Of GPUs that jobs hold, by minute."""
    sm: list[float]
    power_w: list[float]
    """Of A100 boards, held or not."""
    slow_downs: list[float]
    """Of training on several GPUs."""
    bursts_min: list[float]
    gaps_min: list[float]


def main() -> None:
    """Print the table, or draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.likeness", description=__doc__)
    parser.add_argument("--picture", type=Path, help="draw one trace of each kind here instead")
    asked = parser.parse_args()
    if asked.picture is not None:
        asked.picture.write_text(picture(), encoding="utf-8")
        return
    print("| published by | share at or below | value | simulated share | off by |")
    print("|---|---|---|---|---|")
    seen = observed()
    lost = [100 * (1 - 1 / slow_down) for slow_down in seen.slow_downs]
    for published, values in (
        (PHILLY, seen.util),
        (ACME_UTIL, seen.util),
        (ACME_SM, seen.sm),
        (ACME_POWER, seen.power_w),
        (BURSTS, seen.bursts_min),
        (GAPS, seen.gaps_min),
        (SLOWED, seen.slow_downs),
        (LOSSES, lost),
    ):
        for one in published:
            share = share_up_to(values, one.value)
            print(
                f"| {one.source} | {one.quantile:g} | {one.value:g} {one.unit} | {share:.2f} "
                f"| {share - one.quantile:+.2f} |"
            )
    print(f"\n{len(seen.util)} minutes of held GPUs in {len(SEEDS)} fleets of {NODES} nodes")


def share_up_to(values: Sequence[float], bound: float) -> float:
    """Share of the values that do not exceed a bound."""
    return sum(value <= bound + 1e-9 for value in values) / len(values)


def observed() -> Seen:
    """What a probe would have seen in some fleets."""
    seen = Seen([], [], [], [], [], [])
    for seed in SEEDS:
        fleet = Fleet(NODES, 8, seed, ORIGIN, HOUR, WORLD)
        for number in range(int(HOURS * HOUR / EVERY_S)):
            spans = Spans(ORIGIN + EVERY_S * (number + 1), MIN)
            fleet.advance(spans.now)
            for node in fleet.nodes:
                readings = fleet.read(node, spans)
                if node.board.name == A100.name:
                    seen.power_w.extend(reading.means[WATTS] for reading in readings)
                held = [reading.means for reading in readings if reading.stay.job is not None]
                seen.util.extend(100 * means[UTIL] for means in held)
                seen.sm.extend(100 * means[SM] for means in held)
    seen.slow_downs.extend(slow_downs())
    (serving,) = [one for one in BENIGN if one.kind == "serving"]
    for variant in range(20):
        bursts, gaps = runs(made(serving, Shape(1, 1), variant, 0))
        seen.bursts_min.extend(bursts)
        seen.gaps_min.extend(gaps)
    return seen


def made(workload: Workload, shape: Shape, variant: int, lane: int) -> Program:
    """One program of a kind."""
    chance = stream(SEEDS[0], workload.kind, shape, variant)
    return workload.build(H100, shape, chance, lane)


def slow_downs() -> list[float]:
    """How much longer jobs of several ranks take than they would if nobody waited for anybody.

    As in the study, what slows all ranks alike, such as input, is not among the causes.
    """
    chance, found = stream(SEEDS[0], "slow-downs"), list[float]()
    while len(found) < DRAWN:
        request = WORLD.draw(chance, {H100.partition: 8}, 8)
        known = CLASSES.get(request.truth)
        is_uneven = known is None or known.category is Category.COMMUNICATION
        if request.workload.launcher == "process" or request.shape.world < 4 or not is_uneven:
            continue
        trouble, shape = request.trouble, request.shape
        if trouble is not None and trouble.finding_class in (STRAGGLER, NARROW):
            lost = slowed_share(trouble, H100, shape, stream(SEEDS[0], "model", request.variant))
        else:
            program = made(request.workload, shape, request.variant, 0)
            begin, end = (program.head_s + hours * HOUR for hours in (0, 4))
            counted = program.at(end).integrals[LOST] - program.at(begin).integrals[LOST]
            lost = counted / (end - begin)
        found.append(1.0 / (1.0 - lost))
    return found


def runs(program: Program) -> tuple[list[float], list[float]]:
    """Minutes of the active and the idle runs of a server, as samples of the trace's period."""
    samples = [
        program.at(program.head_s + (n + 1) * SERVED_S).integrals[UTIL]
        - program.at(program.head_s + n * SERVED_S).integrals[UTIL]
        > WORKING * SERVED_S
        for n in range(int(24 * HOUR / SERVED_S))
    ]
    found: tuple[list[float], list[float]] = ([], [])
    length = 1
    for before, now in pairwise(samples):
        if now is before:
            length += 1
            continue
        found[not before].append(length * SERVED_S / MIN)
        length = 1
    return found


COLUMNS: Final = 6
WIDTH, HEIGHT = 190, 74
PLOT_W, PLOT_H = 176, 40
TRACED_S: Final = 2 * HOUR
STEP_S: Final = 40.0


def picture() -> str:
    """One GPU of each kind for two hours: an area for utilisation, lines for SM activity, power."""
    kinds = (*BENIGN, *WASTEFUL)
    rows = -(-len(kinds) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT}">',
        "<style>text { font: 11px sans-serif }</style>",
        f'<rect width="{COLUMNS * WIDTH}" height="{rows * HEIGHT}" fill="#fff"/>',
    ]
    for place, workload in enumerate(kinds):
        left = place % COLUMNS * WIDTH + 6
        top = place // COLUMNS * HEIGHT + 18
        color = "#2c7fb8" if workload.truth == "healthy" else "#d95f0e"
        parts.append(f'<text x="{left}" y="{top - 4}" fill="{color}">{workload.kind}</text>')
        parts.extend(_trace(workload, left, top, color))
    return "\n".join([*parts, "</svg>\n"])


def _trace(workload: Workload, left: int, top: int, color: str) -> list[str]:
    shape = Shape(max(1, workload.least_nodes), 4 if workload.least_world > 1 else 1)
    program = made(workload, shape, 3, 0)
    count = int(TRACED_S / STEP_S)
    samples = [program.at(n * STEP_S) for n in range(count + 1)]

    def mean(n: int, channel: int) -> float:
        grown = samples[n + 1].integrals[channel] - samples[n].integrals[channel]
        return max(0.0, grown / STEP_S)

    def points(values: Iterable[float]) -> str:
        return " ".join(
            f"{left + PLOT_W * n / count:.1f},{top + PLOT_H * (1 - min(1.0, value)):.1f}"
            for n, value in enumerate(values)
        )

    util = points(mean(n, UTIL) for n in range(count))
    power = points(mean(n, WATTS) / H100.power_limit_w for n in range(count))
    sm = points(mean(n, SM) for n in range(count))
    base = top + PLOT_H
    return [
        f'<polygon points="{left},{base} {util} {left + PLOT_W},{base}" fill="{color}33"/>',
        f'<polyline points="{sm}" fill="none" stroke="{color}" stroke-width=".9"/>',
        f'<polyline points="{power}" fill="none" stroke="#777" stroke-width=".7"/>',
        f'<line x1="{left}" y1="{base}" x2="{left + PLOT_W}" y2="{base}" stroke="#bbb"/>',
    ]


if __name__ == "__main__":
    main()
