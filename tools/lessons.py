"""The model that comes with gpumon: simulated lessons, and what is learnt from them.

    python -m tools.lessons FOLDER              write recordings that are not there yet, fit, keep
    python -m tools.lessons FOLDER --exemplars  choose the jobs anew that the model comes with

Lessons are fleets of the first generator, in which every kind of job stands about as often, and in
half of the seeds those that exchange data and those that look as if they did stand most, in some
of these on many nodes each. Seeds are fixed, so that the same model comes out. It keeps only
classes that it tells better than a rule does on the second generator's recordings
(docs/numbers.md).

What ships was made of the first 62 of these lessons on 26 November 2026 (commit 1da0a6cb), when
simulated experts exchanged for at most .9 of their work. Of all 74, and of experts that exchange
for up to 1.6 of it, comes a model that finds one in eight such jobs where that one finds three.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.cli.commands import simulate
from gpumon.cli.labelled import labelled
from gpumon.detect.learning.examples import Collector, Examples
from gpumon.detect.learning.fitting import exemplars_of, fitted
from gpumon.detect.learning.model import read_model
from gpumon.fleet.history.history import History
from gpumon.fleet.replay.feed import play
from gpumon.simulate.cluster.people import ACCOUNTS, YOU, Request, limit_for
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.mix import WORLD, name_for, trouble_for
from gpumon.simulate.world.wasteful import MISPLACED, WASTEFUL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from gpumon.simulate.cluster.workloads import Workload

ROOT: Final = Path(__file__).resolve().parent.parent
MODEL: Final = ROOT / "detectors" / "gpumon_detectors" / "learned" / "model.json"

ALWAYS_LEARNT: Final = ("comm_bound",)
"""Classes of the shipped model: of the others rules tell more on recordings of the second
generator, or as much."""

BROAD: Final = range(801, 841)
EXCHANGING: Final = range(851, 873)
LARGE: Final = range(881, 893)
"""Seeds."""

EXEMPLARY: Final = range(851, 855)
"""Seeds of the lessons from which the jobs are chosen that a verdict is compared with: eight of
them need no more, and are chosen in minutes."""

PERIODS_S: Final = ((11, 30.0), (5, 20.0), (4, 5.0), (1, 10.0))
"""Of seeds that the first number divides: how often a site samples is none of its jobs' doing."""

NODES, GPUS, FOR_S = 24, 8, 6000.0
LARGE_NODES: Final = 96
TIMES_NODES: Final = (1, 2, 4, 8, 16)
"""In large fleets a job that fills its nodes has so many times the nodes of its kind."""
HOURS: Final = (0.7, 2.0)
"""How long jobs run: long enough for the windows, short enough for many of them."""

_UNLEARNT: Final = ("memory_leak", "overasked", "fragmented")
"""Kinds that need longer or rest on exact counters alone."""

_EQUAL: Final = {"dense": 6.0, **{one.kind: 1.5 for one in BENIGN if one.kind != "dense"}}
_WEIGHTS: Final = {
    "comm_bound": 8.0,
    "mixture": 8.0,
    "dense": 6.0,
    "pipeline": 4.0,
    "data_imbalance": 3.0,
    "stage_imbalance": 3.0,
    "recommending": 3.0,
    "solving": 3.0,
    "rollouts": 3.0,
    "small_batch": 2.0,
    "copy_bound": 2.0,
    "memory_limited": 2.0,
}
_FAR: Final = 0.3
"""Share of the jobs of a kind whose ranks are put to the wrong CPUs or ports."""


def main() -> None:
    """Write what is missing, fit, and keep the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exemplars", action="store_true", help="only these, of the model kept")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.exemplars:
        model, taught = read_model(MODEL), taught_in(options.folder, EXEMPLARY)
    else:
        taught = taught_in(options.folder, (*BROAD, *EXCHANGING, *LARGE))
        model, scores = fitted(Examples.joined(list(taught.values())), ALWAYS_LEARNT)
        for score in scores:
            print(score)
    shown = Examples.joined([taught[seed] for seed in EXEMPLARY])
    classes = tuple(one._replace(exemplars=exemplars_of(one.key, shown)) for one in model.classes)
    text = json.dumps(model._replace(classes=classes).plain(), allow_nan=False)
    MODEL.write_text(f"{text}\n", encoding="utf-8")


def taught_in(folder: Path, seeds: Sequence[int]) -> dict[int, Examples]:
    """What lessons teach, by seed."""
    paths = {seed: folder / f"lesson-{seed}.gpumon.zst" for seed in seeds}
    with ProcessPoolExecutor() as several:
        # The long ones first.
        found = dict(zip(reversed(paths), several.map(
            examples_in, reversed(paths.values()), reversed(paths)), strict=True))  # fmt: skip
    return {seed: found[seed] for seed in seeds}


def examples_in(path: Path, seed: int) -> Examples:
    """What one lesson teaches; it is written first where it lacks its labels, which come last."""
    if not path.with_name(f"{path.name}.labels.json").exists():
        written(path, seed)
    found = labelled(path)
    if found is None:
        sys.exit(1)
    collector = Collector()
    collector.begin(found.labels)
    play(found.recording, collector.take, History, None, is_wanted=lambda *_: True)
    print(path, flush=True)
    return collector.examples()


def written(path: Path, seed: int) -> None:
    """One lesson with its labels."""
    weights = _EQUAL if seed in BROAD else _WEIGHTS
    other = 2.0 if seed in BROAD else 0.3
    mix = WORLD._replace(draw=partial(_draw, weights, other))
    period_s = next(period_s for number, period_s in PERIODS_S if seed % number == 0)
    nodes = LARGE_NODES if seed in LARGE else NODES
    fleet = simulate.Fleet(nodes, GPUS, seed, simulate.BEGIN, FOR_S, period_s)
    simulate.write_fleet(fleet, path, is_forced=True, mix=mix)


def _draw(
    weights: Mapping[str, float],
    other: float,
    seed: int,
    chance: Random,
    nodes: Mapping[str, int],
    gpus: int,
) -> Request:
    """A job of any kind, by these weights."""
    kinds = [one for one in (*BENIGN, *WASTEFUL) if one.truth not in _UNLEARNT]
    workload: Workload = chance.choices(kinds, [weights.get(one.kind, other) for one in kinds])[0]
    open_to = {name: many for name, many in nodes.items() if name in workload.partitions} or nodes
    partition = chance.choices(list(open_to), list(open_to.values()))[0]
    shapes, shares = zip(*workload.shapes, strict=True)
    wanted = chance.choices(shapes, shares)[0]
    most = max(nodes[partition] // 2, min(workload.least_nodes, nodes[partition]))
    times = chance.choice(TIMES_NODES) if seed in LARGE and wanted.gpus >= gpus else 1
    shape = Shape(min(times * wanted.nodes, max(1, most)), min(wanted.gpus, gpus))
    run_s = 3600.0 * chance.uniform(*HOURS)
    variant = chance.randrange(40)
    misplaced = MISPLACED.get(workload.kind)
    if misplaced and shape.nodes >= misplaced.least_nodes and chance.random() < _FAR:
        workload = misplaced
    trouble = trouble_for(workload, shape, run_s, chance)
    return Request(
        workload,
        name_for(workload, chance),
        chance.choice([user for user in ACCOUNTS if user != YOU]),
        partition,
        shape,
        run_s,
        limit_for(run_s, workload.limit_times),
        variant,
        trouble=trouble,
    )


if __name__ == "__main__":
    main()
