"""A model: per class how likely it is, why, and how much it loses.

It is a JSON file of numbers, so that loading it runs nothing. It names the features that it looks
at; where they mean something else now, it is refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpumon.detect.features.table import COLUMN, FEATURES, VERSION
from gpumon.detect.learning.json_file import FileError, json_in
from gpumon.detect.learning.trees import ModelError, Trees, trees_from

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats

OTHER_FEATURES: Final = "made with other features than this version has; train it again"
FORMAT: Final = "gpumon-model/1"

MOST_BYTES: Final = 16 * 2**20
"""A file beyond this is no model of ours: the shipped one takes a few per cent of it."""

ABSTAINS_BELOW: Final = 0.6
"""Calibrated probability below which nothing is claimed (reference: abstain below .6)."""


LARGEST: Final = 2.0**63
"""No feature and no time is so large."""

_MOST_GPUS: Final = 2**20
"""GPUs of a job at most, many times those of the largest."""

MOST_REASONS: Final = 4
"""So many features are named as the reason of a verdict at most."""

MOST_EXEMPLARS: Final = 8
"""So many jobs of the lessons come with a class at most."""


class Verdict(NamedTuple):
    """What a model says of one job."""

    probability: float
    """Calibrated, 0 to 1."""
    lost: float
    """Share of the job's GPU time that is lost, 0 to 1."""
    reasons: tuple[tuple[str, float, float], ...]
    """Features that carry it, the heaviest first: key, value, median of healthy jobs. Were they as
    in healthy jobs, the class would not be claimed, or of a guess not be guessed."""
    is_sure: bool
    """Whether it is a claim, and not a guess only."""


class Exemplar(NamedTuple):
    """One job of the class that the model learnt from."""

    lost: float
    """Share of its GPU time that it lost, 0 to 1; NaN where no label said."""
    row: Floats
    """What the class looks at; NaN where it was not known."""


class Learnt(NamedTuple):
    """One class."""

    key: str
    looks_at: tuple[str, ...]
    needs: tuple[str, ...]
    least_gpus: int
    claims_from: float
    """Calibrated probability from which it is claimed; from `ABSTAINS_BELOW` on it is guessed."""
    slope: float
    offset: float
    """Of the logistic curve that makes a probability of what the trees say (Platt)."""
    trees: Trees
    lost: Trees
    healthy: Floats
    """Median of healthy jobs that could be of the class, by feature; NaN: never known of them."""
    bounds: Floats
    """Lowest and highest value met in training, by feature: beyond them nothing was learnt."""
    directions: NDArray[np.int_]
    """By feature 1 where more of it can only speak for the class, -1 where less of it can, else 0.
    A value beyond all that was met speaks as much as the last one did where it goes on that way."""
    seen: Mapping[str, float]
    """How good it was on recordings that it was not fitted on: `jobs`, `precision`, `recall`."""
    exemplars: tuple[Exemplar, ...] = ()
    """Some of the jobs that it was taught with, as unlike each other as may be."""

    @property
    def columns(self) -> list[int]:
        """Of a table of features, those that it looks at."""
        return [COLUMN[key] for key in self.looks_at]

    def rows(self, features: Floats) -> Floats:
        """The columns that it looks at, of rows with all features."""
        return features[:, self.columns]

    def probabilities(self, rows: Floats) -> Floats:
        """Calibrated, per row of what it looks at."""
        with np.errstate(over="ignore"):
            found: Floats = 1.0 / (1.0 + np.exp(-(self.slope * self.trees.of(rows) + self.offset)))
        return found

    def can_judge(self, features: Floats) -> NDArray[np.bool_]:
        """Per row of all features whether enough is known, and like what it was taught with."""
        can_judge: NDArray[np.bool_] = self._is_enough(features) & ~self._beyond(features).any(
            axis=1
        )
        return can_judge

    def unlike(self, features: Floats) -> tuple[str, ...]:
        """Per row of all features the one by which it is unlike all that was met in training.

        Empty where none is, or where too little is known for the class to be told anyhow.
        """
        beyond = self._beyond(features) & self._is_enough(features)[:, None]
        return tuple(self.looks_at[row.argmax()] if row.any() else "" for row in beyond)

    def _is_enough(self, features: Floats) -> NDArray[np.bool_]:
        needed = features[:, [COLUMN[key] for key in self.needs]]
        gpus = features[:, COLUMN["gpus"]]
        is_large: NDArray[np.bool_] = gpus >= np.log2(self.least_gpus)
        is_large &= np.isfinite(needed).all(axis=1)
        return is_large

    def _beyond(self, features: Floats) -> NDArray[np.bool_]:
        """Per row and feature that it looks at whether it lies beyond, and nobody knows more."""
        rows = self.rows(features)
        with np.errstate(invalid="ignore"):
            is_beyond: NDArray[np.bool_] = (rows < self.bounds[0]) & (self.directions >= 0)
            is_beyond |= (rows > self.bounds[1]) & (self.directions <= 0)
        return is_beyond

    def verdict(self, row: Floats) -> Verdict:
        """What it says of one row of what it looks at, with the reasons."""
        probability = float(self.probabilities(row[None, :])[0])
        lost = float(np.clip(self.lost.of(row[None, :])[0], 0.0, 1.0))
        is_sure = probability >= self.claims_from
        least = self.claims_from if is_sure else ABSTAINS_BELOW
        return Verdict(probability, lost, self._reasons(row, least), is_sure)

    def _reasons(self, row: Floats, least: float) -> tuple[tuple[str, float, float], ...]:
        """Features without which it would be less likely than that, found one after the other.

        Each time the one is set to the healthy median that lowers the probability most.
        """
        left, named = row.copy(), []
        for _ in range(MOST_REASONS):
            open_now = [place for place in range(len(row))
                        if place not in named and np.isfinite(row[place])
                        and np.isfinite(self.healthy[place])]  # fmt: skip
            if not open_now:
                break
            tried = np.repeat(left[None, :], len(open_now), axis=0)
            tried[np.arange(len(open_now)), open_now] = self.healthy[open_now]
            likely = self.probabilities(tried)
            best = int(np.argmin(likely))
            named.append(open_now[best])
            left[open_now[best]] = self.healthy[open_now[best]]
            if likely[best] < least:
                break
        return tuple((self.looks_at[place], float(row[place]), float(self.healthy[place]))
                     for place in named)  # fmt: skip

    @property
    def uses(self) -> frozenset[str]:
        """Keys of the features that it must find as they were."""
        return frozenset({*self.looks_at, *self.needs, "gpus"})

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        healthy = [_known_or_none(value) for value in self.healthy]
        return {
            "looks_at": list(self.looks_at),
            "needs": list(self.needs),
            "least_gpus": self.least_gpus,
            "claims_from": round(self.claims_from, 4),
            "calibration": [round(self.slope, 7), round(self.offset, 7)],
            "seen": dict(self.seen),
            "healthy": healthy,
            "bounds": np.round(self.bounds, 7).tolist(),
            "directions": self.directions.tolist(),
            "trees": self.trees.plain(),
            "lost": self.lost.plain(),
            "exemplars": [
                {"lost": _known_or_none(one.lost), "row": [_known_or_none(v) for v in one.row]}
                for one in self.exemplars
            ],
        }


def _known_or_none(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 7)


class Model(NamedTuple):
    """What was learnt, class by class."""

    classes: tuple[Learnt, ...]
    made_of: Mapping[str, Any]
    """What it was learnt from: recordings, jobs, versions."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": FORMAT,
            "features": features_mark(),
            "features_of": {one.key: features_mark(one.uses) for one in self.classes},
            "made_of": dict(self.made_of),
            "classes": {one.key: one.plain() for one in self.classes},
        }

    @property
    def mark(self) -> str:
        """What tells two models apart: the first digits of a hash of what they say."""
        text = json.dumps(self.plain()["classes"], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def features_mark(keys: Collection[str] | None = None) -> str:
    """Changes whenever a feature is called, measured or defined otherwise.

    Args:
        keys: Of which features; None: of all, so that it changes with a new one, too.
    """
    described = [
        VERSION,
        *sorted(
            [one.key, one.unit, list(one.fields)]
            for one in FEATURES
            if keys is None or one.key in keys
        ),
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]


def read_model(path: Path) -> Model:
    """The model in a file.

    Raises:
        ModelError: It cannot be read, or is none that this version can use.
    """
    try:
        value = json_in(path, MOST_BYTES, "model")
    except FileNotFoundError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    except FileError as error:
        raise ModelError(f"{path}: {error}") from error
    try:
        return model_from(value)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def model_from(value: object) -> Model:
    """A model as JSON told it.

    Raises:
        ModelError: It is none that this version can use.
    """
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ModelError(f"no {FORMAT}")
    is_same, marks = value.get("features") == features_mark(), value.get("features_of")
    # A model of an earlier version does not say which features each of its classes looks at.
    known = marks if isinstance(marks, dict) else {}
    if not is_same and not known:
        raise ModelError(OTHER_FEATURES)
    classes, made_of = value.get("classes"), value.get("made_of")
    if not isinstance(classes, dict) or not isinstance(made_of, dict):
        raise ModelError("classes or made_of are missing")
    found = tuple(_learnt(key, one) for key, one in classes.items())
    if not is_same and any(known.get(one.key) != features_mark(one.uses) for one in found):
        raise ModelError(OTHER_FEATURES)
    return Model(found, made_of)


def _learnt(key: str, value: object) -> Learnt:
    if not isinstance(value, dict):
        raise ModelError(f"{key!r:.80} is not an object")
    try:
        return _checked(key, value)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{key!r:.80} is not complete") from error


def _checked(key: str, value: dict[str, Any]) -> Learnt:
    looks_at, needs = tuple(value["looks_at"]), tuple(value["needs"])
    if not looks_at or not {*looks_at, *needs} <= COLUMN.keys():
        raise ModelError(f"{key!r:.80} uses a feature that does not exist")
    slope, offset = map(float, value["calibration"])
    healthy = _row(value["healthy"])
    bounds = np.array(value["bounds"], np.float64)
    # A model of an earlier version does not say: then no way is open.
    directions = np.array(value.get("directions", [0] * len(looks_at)), np.int_)
    claims_from, least_gpus = float(value["claims_from"]), int(value["least_gpus"])
    if healthy.shape != (len(looks_at),) or bounds.shape != (2, len(looks_at)):
        raise ModelError(f"{key!r:.80}: healthy and bounds are not one number a feature")
    if directions.shape != (len(looks_at),) or not np.isin(directions, (-1, 0, 1)).all():
        raise ModelError(f"{key!r:.80}: directions are not -1, 0 or 1 a feature")
    # Larger ones are no feature's, and become endless where they are rounded.
    numbers = np.abs([slope, offset, *bounds.ravel(), *np.nan_to_num(healthy)])
    if not (numbers < LARGEST).all():
        raise ModelError(f"{key!r:.80}: a number is missing")
    if not 1 <= least_gpus <= _MOST_GPUS:
        raise ModelError(f"{key!r:.80}: least_gpus is not a number of GPUs")
    if not ABSTAINS_BELOW <= claims_from <= 1.0:
        raise ModelError(f"{key!r:.80}: claims_from lies between {ABSTAINS_BELOW} and 1")
    seen = {str(name): float(number) for name, number in value["seen"].items()}
    # A model of an earlier version has none.
    exemplars = tuple(
        Exemplar(float(_row([one["lost"]])[0]), _row(one["row"]))
        for one in value.get("exemplars", ())[: MOST_EXEMPLARS + 1]
    )
    is_whole = all(one.row.shape == (len(looks_at),) for one in exemplars)
    if len(exemplars) > MOST_EXEMPLARS or not is_whole:
        raise ModelError(f"{key!r:.80}: exemplars are not a few rows of one number a feature")
    return Learnt(
        key=key, looks_at=looks_at, needs=needs, least_gpus=least_gpus, claims_from=claims_from,
        slope=slope, offset=offset,
        trees=trees_from(value["trees"], len(looks_at)),
        lost=trees_from(value["lost"], len(looks_at)),
        healthy=healthy, bounds=bounds, directions=directions, seen=seen, exemplars=exemplars,
    )  # fmt: skip


def _row(values: Sequence[float | None]) -> Floats:
    """Numbers, NaN for null.

    Raises:
        ValueError: One is endless.
    """
    found = np.array([np.nan if one is None else one for one in values], np.float64)
    if np.isinf(found).any():
        raise ValueError
    return found
