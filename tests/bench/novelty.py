"""`python -m tests.bench.novelty FOLDER`: how many jobs of a class that nothing knows look odd.

Recordings of both generators are written into the folder and played without any detector, so that
no class is known. Each job of a class is asked how far it lies from the healthy jobs of the *other*
recordings of its generator, which stand for a site's past in which the class never came: all
classes are held out in turn, since none of them is looked at. What is printed is the share of such
jobs that lie farther than all but 1 % of the healthy ones do, beside simpler ways to measure it.

    --set tuned     the seeds that the settings of `gpumon.detect.learning.novelty` were chosen on
    --set wide      as many that they were not

What was played is kept beside each recording, so that a second run takes seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from gpumon.cli import main as gpumon
from gpumon.cli.labelled import labelled
from gpumon.detect.features.table import COLUMN, FEATURES, features_of
from gpumon.detect.learning.examples import Truth
from gpumon.detect.learning.novelty import (
    CIRCUMSTANCES,
    ODD_FROM,
    Usual,
    middle_and_spread,
    table_of,
)
from gpumon.detect.learning.unexplained import EVERY_S, LEAST_SHARE, LEAST_STRETCHES, Behaviour
from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.replay.feed import play
from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.records.label import HEALTHY
from gpumon.model.records.pattern import LEAST_USUAL
from tools import lessons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.model.records.label import Label
    from gpumon.model.records.tick import Tick

    Score = Callable[[Sequence[Behaviour], Sequence[Behaviour]], Floats]
    """Of usual jobs and others how odd each of the others is."""


class Set(NamedTuple):
    """Recordings of which each is judged by the others."""

    seeds: tuple[int, ...]
    words: tuple[str, ...]
    """What `gpumon simulate` is given; empty: lessons of the shipped model are written."""


LENGTH: Final = ("--period", "10", "--for", "5h")
SETS: Final = {
    "tuned": Set(tuple(range(110101, 110109)), ("--shift", *LENGTH)),
    "shifted": Set((110201, 110202, 110203, 110204), ("--shift", *LENGTH)),
    "wide": Set((*range(110201, 110205), *range(500201, 500205)), ("--shift", *LENGTH)),
    "first": Set(tuple(range(831, 837)), ()),
}
"""Of the first generator they are lessons (`tools.lessons`), from which nothing here was learnt."""

LEAST_AGE_S: Final = 600.0
"""Younger jobs are not looked at, as in `gpumon patterns`."""

FALSE_ALARMS: Final = (0.01, 0.0034)
"""Shares of healthy jobs that may be called odd: of the goal, and one of 300."""


class Job(NamedTuple):
    """One job, or what it did while it was of a class."""

    recording: int
    finding_class: str
    behaviour: Behaviour
    is_unexplained: bool
    """Whether a quarter of an hour of it counts as nothing useful, without any detector."""


class Rows:
    """Takes the pictures of one recording: each job every five minutes."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._truth = Truth(labels)
        self._next_at = 0.0
        self._booked: dict[str, tuple[float, float]] = {}
        self.jobs: list[str] = []
        self.classes: list[str] = []
        self.shares: list[float] = []
        """Of its time since the last look, what is unexplained."""
        self.features: list[Floats] = []

    def take(self, tick: Tick) -> None:
        """A picture; most are passed over."""
        if tick.at < self._next_at or tick.history is None or tick.ledger is None:
            return
        self._next_at = tick.at + EVERY_S
        view = view_of(tick)
        before, self._booked = self._booked, {}
        for job in view.running:
            total = tick.ledger.job(job.job.job_id)
            if total is not None:
                self._booked[job.job.job_id] = (total.unexplained_s, total.allocated_s)
        asked = [
            (job, told)
            for job in view.running
            if job.gpus and tick.at - job.all_held_since >= LEAST_AGE_S
            and (told := self._truth.at(job.job.job_id, job.uuids, tick.at)) is not None
        ]  # fmt: skip
        table = features_of(view, [job for job, _ in asked]).values
        for (job, (classes, _)), row in zip(asked, table, strict=True):
            name = job.job.job_id
            then, now = before.get(name, (0.0, 0.0)), self._booked.get(name, (0.0, 0.0))
            passed_s = now[1] - then[1]
            is_told = name in before and passed_s > 0.0
            self.jobs.append(name)
            self.classes.append("+".join(sorted(classes)))
            self.shares.append((now[0] - then[0]) / passed_s if is_told else np.nan)
            self.features.append(row)


def main() -> None:
    """Make what is missing, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.novelty", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", choices=SETS, help="only this one; may repeat")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.set or ["shifted", "first"]:
        paths = [made(asked.folder, name, seed) for seed in SETS[name].seeds]
        jobs = [job for number, path in enumerate(paths) for job in jobs_in(number, path)]
        print(f"\n{name}: {len(paths)} recordings\n")
        print(table_of_ways(jobs))
        print(by_class(jobs))
        print(by_past(jobs))


def made(folder: Path, name: str, seed: int) -> Path:
    """A recording with its labels; it is written where it is not there yet."""
    path = folder / f"{name}-{seed}.gpumon.zst"
    if not path.with_name(f"{path.name}.labels.json").exists():
        if not SETS[name].words:
            lessons.written(path, seed)
            return path
        words = ["simulate", str(path), "--force", "--seed", str(seed), *SETS[name].words]
        if gpumon(words):
            message = f"seed {seed} was not written"
            raise RuntimeError(message)
    return path


def played(path: Path) -> dict[str, NDArray[np.generic]]:
    """What its jobs did: played once, then kept beside it."""
    kept = path.with_name(f"{path.name}.rows.npz")
    if not kept.exists():
        found = labelled(path)
        assert found is not None
        rows = Rows(found.labels)
        play(found.recording, rows.take, History, None, is_wanted=lambda *_: True)
        np.savez_compressed(
            kept, jobs=rows.jobs, classes=rows.classes, share=rows.shares, features=rows.features
        )
    with np.load(kept) as held:
        return {key: held[key] for key in held.files}


def jobs_in(number: int, path: Path) -> Iterator[Job]:
    """Healthy jobs, and of the others what they did while they were of a class."""
    rows = played(path)
    names, classes = rows["jobs"], [set(str(one).split("+")) - {""} for one in rows["classes"]]
    features = rows["features"].astype(np.float64)
    is_seen = features[:, COLUMN["observed"]] >= LEAST_AGE_S
    for name in dict.fromkeys(names.tolist()):
        own = (names == name) & is_seen
        ever = set[str]().union(*(classes[row] for row in np.flatnonzero(names == name)))
        for key in sorted(ever) or [HEALTHY]:
            mine = own & np.array([not ever or key in one for one in classes])
            if mine.sum() < LEAST_STRETCHES:
                continue
            with np.errstate(all="ignore"):
                row = _mean(features[mine])
            told = Behaviour(f"{number}:{name}", "", 0.0, 0.0, 0.0, int(mine.sum()), row)
            unclear = int((rows["share"][mine] >= LEAST_SHARE).sum())
            yield Job(number, key, told, unclear >= LEAST_STRETCHES)


def _mean(table: Floats) -> Floats:
    known = np.isfinite(table)
    total = np.where(known, table, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def scored(jobs: Sequence[Job], score: Score, most: int | None = None) -> Floats:
    """How odd each job is, by the healthy ones of other recordings; -1 where nobody knows.

    Args:
        jobs: Of all recordings.
        score: How it is measured.
        most: So many of the others, those that follow in turn; None: all of them.
    """
    found = np.full(len(jobs), -1.0)
    numbers = sorted({job.recording for job in jobs})
    for place, number in enumerate(numbers):
        others = (numbers[place + 1 :] + numbers[:place])[:most]
        usual = [j.behaviour for j in jobs if j.recording in others and j.finding_class == HEALTHY]
        places = [place for place, job in enumerate(jobs) if job.recording == number]
        found[places] = np.nan_to_num(score(usual, [jobs[p].behaviour for p in places]), nan=-1.0)
    return found


def _gate(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    """What is shipped; of few usual jobs it says nothing."""
    return Usual(usual).times(asked) if len(usual) >= LEAST_USUAL else np.full(len(asked), np.nan)


def _chance(_: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    return np.random.default_rng(len(asked)).random(len(asked))


def _utilisation(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    """How far mean utilisation lies from the median."""
    place = COLUMN["util_15m"]
    middle = np.nanmedian(table_of(usual)[:, place])
    return np.abs(table_of(asked)[:, place] - middle)


def _cut(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> tuple[Floats, Floats]:
    """Features in spreads, 0 where they are missing, which is what these estimators can do."""
    places = [place for place, one in enumerate(FEATURES) if one.key not in CIRCUMSTANCES]
    known = table_of(usual)[:, places]
    middle, spread = middle_and_spread(known)
    both = (known, table_of(asked)[:, places])
    first, second = (np.nan_to_num(np.clip((one - middle) / spread, -3, 3)) for one in both)
    return first, second


def _forest(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    known, others = _cut(usual, asked)
    found: Floats = -IsolationForest(random_state=0).fit(known).score_samples(others)
    return found


def _nearest(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    known, others = _cut(usual, asked)
    found: Floats = NearestNeighbors(n_neighbors=5).fit(known).kneighbors(others)[0].mean(axis=1)
    return found


def _local(usual: Sequence[Behaviour], asked: Sequence[Behaviour]) -> Floats:
    known, others = _cut(usual, asked)
    fitted = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(known)
    found: Floats = -fitted.score_samples(others)
    return found


WAYS: Final[dict[str, Score]] = {
    "**the gate**": _gate,
    "five nearest, scikit-learn": _nearest,
    "local outlier factor": _local,
    "isolation forest": _forest,
    "distance of utilisation": _utilisation,
    "chance": _chance,
}


def recall(
    scores: Floats, is_healthy: NDArray[np.bool_], asked: NDArray[np.bool_], at: float
) -> float:
    """Share of some jobs that are odder than all but so large a share of the healthy ones."""
    healthy = np.sort(scores[is_healthy])[::-1]
    return float((scores[asked] > healthy[int(at * len(healthy))]).mean())


def table_of_ways(jobs: Sequence[Job]) -> str:
    """What each way of measuring finds."""
    healthy = np.array([job.finding_class == HEALTHY for job in jobs])
    loses = np.array([not h and CLASSES[job.finding_class].loss is not Loss.NONE
                      for h, job in zip(healthy, jobs, strict=True)])  # fmt: skip
    classes = len({job.finding_class for job in jobs}) - 1
    lines = [
        f"{healthy.sum()} healthy jobs, {(~healthy).sum()} of {classes} classes\n",
        "| | all classes, 1 % | of those that lose time, 1 % | all, 1 of 300 |\n|---|---|---|---|",
    ]
    for name, way in WAYS.items():
        scores = scored(jobs, way)
        cells = [_bounded(scores, healthy, asked, at)
                 for asked, at in ((~healthy, FALSE_ALARMS[0]), (loses, FALSE_ALARMS[0]),
                                   (~healthy, FALSE_ALARMS[1]))]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _bounded(
    scores: Floats, healthy: NDArray[np.bool_], asked: NDArray[np.bool_], at: float
) -> str:
    """A recall with its interval of 95 % over resampled jobs."""
    dice = np.random.default_rng(1)
    places = np.flatnonzero(healthy), np.flatnonzero(asked)
    tried = []
    for _ in range(1000):
        drawn = [dice.choice(part, len(part)) for part in places]
        both = np.concatenate(drawn)
        is_healthy = np.arange(len(both)) < len(drawn[0])
        tried.append(recall(scores[both], is_healthy, ~is_healthy, at))
    low, high = np.percentile(tried, (2.5, 97.5))
    return f"{recall(scores, healthy, asked, at):.2f} [{low:.2f}, {high:.2f}]"


def by_class(jobs: Sequence[Job]) -> str:
    """What the gate finds of each class at 1 % and as it is set, and how much is unexplained."""
    scores = scored(jobs, _gate)
    classes = np.array([job.finding_class for job in jobs])
    healthy = classes == HEALTHY
    unclear = np.array([job.is_unexplained for job in jobs])
    bar = np.sort(scores[healthy])[::-1][int(FALSE_ALARMS[0] * healthy.sum())]
    head = "| class | jobs | at 1 % | as set | unexplained | of these as set |"
    lines = ["", head, f"{'|---' * 6}|"]
    for key in (HEALTHY, *sorted(set(classes[~healthy].tolist()))):
        mine = classes == key
        counts = (mine, mine & (scores > bar), mine & (scores >= ODD_FROM), mine & unclear,
                  mine & unclear & (scores >= ODD_FROM))  # fmt: skip
        lines.append(f"| `{key}` | {' | '.join(str(int(one.sum())) for one in counts)} |")
    every = ~healthy
    found, false = ((scores[some] >= ODD_FROM).mean() for some in (every, healthy))
    lines.append(f"\nas set ({ODD_FROM}): {found:.2f} of all classes, {false:.4f} of healthy jobs")
    return "\n".join(lines)


def by_past(jobs: Sequence[Job]) -> str:
    """What the gate finds at 1 % by how many other recordings stand for the past."""
    healthy = np.array([job.finding_class == HEALTHY for job in jobs])
    count = len({job.recording for job in jobs})
    lines = ["", "| recordings of the past | usual jobs | all classes, 1 % |", "|---|---|---|"]
    for most in range(1, count):
        usual = round(healthy.sum() * most / count)
        if usual < LEAST_USUAL:
            continue
        told = _bounded(scored(jobs, _gate, most), healthy, ~healthy, FALSE_ALARMS[0])
        lines.append(f"| {most} | {usual} | {told} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
