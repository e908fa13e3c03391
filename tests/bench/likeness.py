"""`python -m tests.bench.likeness`: simulated fleets beside the figures that clusters published.

It prints a table: at each published quantile, the share of the simulated values that lie at or
below the published value, which would be the quantile itself. `--picture FILE` draws one trace of
each kind of job instead.
"""

from __future__ import annotations

import argparse
from itertools import count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding_classes import CLASSES, Category
from gpumon.simulate.cluster.job_faults import NARROW, STRAGGLER, fail_slow_s, slowed_share
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.board import A100, H100
from gpumon.simulate.physics.phase import LOST, SM, WATTS
from gpumon.simulate.physics.phase import UTIL as BUSY
from gpumon.simulate.physics.random_streams import stream
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.mix import WORLD
from gpumon.simulate.world.sites import BYTEDANCE, KALOS, PHILLY, SEREN, Site, site_of
from gpumon.simulate.world.wasteful import WASTEFUL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.simulate.cluster.workloads import Workload
    from gpumon.simulate.physics.program import Program

FIRST_SEED: Final = 700
ORIGIN: Final = 1_767_225_600.0
MIN: Final = 60.0
HOUR: Final = 3600.0
FLEETS: Final = 24
"""Of each site, those of the first seeds from 700 on that stand there."""
NODES: Final = 24
EVERY_S: Final = 29 * MIN
HOURS: Final = 8
DRAWN: Final = 400
"""Jobs of several ranks of which the slow-down is taken, and fail-slows of each size."""

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


class Row(NamedTuple):
    """A published quantile and the share of the simulated values up to it."""

    published: Published
    share: float

    @property
    def off_by(self) -> float:
        """How much more of the simulated values lie there than of the published ones."""
        return self.share - self.published.quantile


def _quantiles(source: str, unit: str, *pairs: tuple[float, float]) -> tuple[Published, ...]:
    return tuple(Published(source, quantile, value, unit) for quantile, value in pairs)


HELD: Final = {
    PHILLY.name: _quantiles(
        "Philly, utilisation per minute", "%", (0.25, 0.0), (0.5, 48.0), (0.75, 92.0), (0.9, 99.0)
    )
}
"""Utilisation of GPUs that jobs hold, by site."""
UTIL: Final = {
    KALOS.name: _quantiles("Acme Kalos, utilisation", "%", (0.5, 98.5)),
    SEREN.name: _quantiles("Acme Seren, utilisation", "%", (0.5, 98.5)),
}
"""The same of all GPUs, held or not."""
SM_ACTIVE: Final = {
    KALOS.name: _quantiles("Acme Kalos, SM active", "%", (0.5, 33.0), (0.75, 73.0), (0.95, 94.0)),
    SEREN.name: _quantiles("Acme Seren, SM active", "%", (0.5, 50.0), (0.75, 73.0), (0.95, 85.0)),
}
"""Of all GPUs."""
POWER: Final = {
    KALOS.name: _quantiles(
        "Acme Kalos, power of an A100", "W", (0.5, 100.0), (0.75, 372.0), (0.95, 410.0)
    ),
    SEREN.name: _quantiles(
        "Acme Seren, power of an A100", "W", (0.5, 100.0), (0.75, 290.0), (0.95, 410.0)
    ),
}
"""Of all A100 boards."""
BURSTS: Final = _quantiles("serving trace, active run", "min", (0.5, 1.9), (0.9, 8.6), (0.99, 21.9))
GAPS: Final = _quantiles("serving trace, idle run", "min", (0.5, 1.9), (0.9, 14.3), (0.99, 61.8))
SLOWED: Final = _quantiles("ByteDance, slow-down S of training on many GPUs", "x", (0.575, 1.1))
LOSSES: Final = _quantiles("ByteDance, lost by such a job", "%", (0.9, 21.3))
FAIL_SLOWS: Final = tuple(
    (Shape(nodes, 8), _quantiles(f"Greyhound, fail-slow of {8 * nodes} GPUs", "min", (0.5, value)))
    for nodes, value in ((1, 10.0), (4, 24.0), (64, 72.0))
)
"""Printed as averages, compared with the middle."""


class Seen(NamedTuple):
    """What a probe would have seen at one site."""

    held: list[float]
    """Utilisation of GPUs that jobs hold, by minute."""
    util: list[float]
    """The same of all GPUs."""
    sm: list[float]
    power_w: list[float]
    """Of A100 boards, held or not."""


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
    for one in compared():
        known = one.published
        print(
            f"| {known.source} | {known.quantile:g} | {known.value:g} {known.unit} "
            f"| {one.share:.2f} | {one.off_by:+.2f} |"
        )


def compared() -> list[Row]:
    """Every published quantile beside fleets of the site that it was published of."""
    found = list[tuple[tuple[Published, ...], list[float]]]()
    for site in (PHILLY, KALOS, SEREN):
        seen = observed(site)
        found += [
            (published.get(site.name, ()), values)
            for published, values in zip((HELD, UTIL, SM_ACTIVE, POWER), seen, strict=True)
        ]
    (serving,) = [one for one in BENIGN if one.kind == "serving"]
    served = [runs(made(serving, Shape(1, 1), variant, 0)) for variant in range(20)]
    found += [
        (published, [length for lengths in served for length in lengths[place]])
        for place, published in enumerate((BURSTS, GAPS))
    ]
    slowed = slow_downs()
    found += [(SLOWED, slowed), (LOSSES, [100 * (1 - 1 / slow_down) for slow_down in slowed])]
    chance = stream(FIRST_SEED, "fail-slows")
    for shape, published in FAIL_SLOWS:
        found.append((published, [fail_slow_s(shape, chance) / MIN for _ in range(DRAWN)]))
    return [
        Row(one, share_up_to(values, one.value)) for published, values in found for one in published
    ]


def seeds_of(site: Site) -> list[int]:
    """The first seeds of fleets that stand at a site."""
    return list(islice((seed for seed in count(FIRST_SEED) if site_of(seed) is site), FLEETS))


def share_up_to(values: Sequence[float], bound: float) -> float:
    """Share of the values that do not exceed a bound."""
    return sum(value <= bound + 1e-9 for value in values) / len(values)


def observed(site: Site) -> Seen:
    """What a probe would have seen in some fleets of a site."""
    seen = Seen([], [], [], [])
    for seed in seeds_of(site):
        fleet = Fleet(NODES, 8, seed, ORIGIN, HOUR, WORLD)
        for number in range(int(HOURS * HOUR / EVERY_S)):
            spans = Spans(ORIGIN + EVERY_S * (number + 1), MIN)
            fleet.advance(spans.now)
            for node in fleet.nodes:
                readings = fleet.read(node, spans)
                if node.board.name == A100.name:
                    seen.power_w.extend(reading.means[WATTS] for reading in readings)
                seen.sm.extend(100 * reading.means[SM] for reading in readings)
                for reading in readings:
                    util = 100 * reading.means[BUSY]
                    seen.util.append(util)
                    if reading.stay.job is not None:
                        seen.held.append(util)
    return seen


def made(workload: Workload, shape: Shape, variant: int, lane: int) -> Program:
    """One program of a kind."""
    chance = stream(FIRST_SEED, workload.kind, shape, variant)
    return workload.build(H100, shape, chance, lane)


def slow_downs() -> list[float]:
    """How much longer jobs of several ranks take than they would if nobody waited for anybody.

    As in the study, what slows all ranks alike, such as input, is not among the causes.
    """
    chance, found = stream(FIRST_SEED, "slow-downs"), list[float]()
    (seed, *_) = seeds_of(BYTEDANCE)
    while len(found) < DRAWN:
        request = WORLD.draw(seed, chance, {H100.partition: 8}, 8)
        known = CLASSES.get(request.truth)
        is_uneven = known is None or known.category is Category.COMMUNICATION
        if request.workload.launcher == "process" or request.shape.world < 4 or not is_uneven:
            continue
        trouble, shape = request.trouble, request.shape
        if trouble is not None and trouble.finding_class in (STRAGGLER, NARROW):
            lost = slowed_share(trouble, H100, shape, stream(FIRST_SEED, "model", request.variant))
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
        program.at(program.head_s + (n + 1) * SERVED_S).integrals[BUSY]
        - program.at(program.head_s + n * SERVED_S).integrals[BUSY]
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

    util = points(mean(n, BUSY) for n in range(count))
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
