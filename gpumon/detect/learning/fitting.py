"""Fits models to examples. The one module that imports scikit-learn."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from gpumon.detect.features.table import COLUMN
from gpumon.detect.learning.model import ABSTAINS_BELOW, MOST_EXEMPLARS, Exemplar, Learnt, Model
from gpumon.detect.learning.signatures import SIGNATURES
from gpumon.detect.learning.trees import Tree, Trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.examples import Examples
    from gpumon.detect.learning.signatures import Signature

LEAST_JOBS: Final = 8
"""Jobs of a class from which it is learnt: two for each of the parts that test each other."""

LEAST_PRECISION: Final = 0.95
"""Share of claims that must be true on recordings that a class was not fitted on. A choice: false
claims accuse people."""
LEAST_RECALL: Final = 0.5
"""Share of true cases that must be found there. A choice: below it rules serve better."""

_PARTS: Final = 4
"""Parts of the recordings, each of which is judged by a model of the others."""

_TREES: Final = 60
_LEAVES: Final = 4
_RATE: Final = 0.1
_LEAST_LEAF: Final = 30
"""Small trees that learn slowly: they hold on other recordings (docs/numbers.md)."""

_TRUE_WEIGHT: Final = 0.25
"""Weight of all examples of a class together, of 1: a class is rare, but not overlooked."""

_CLAIMS: Final = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Probabilities from which a class may be claimed; none is below `ABSTAINS_BELOW`."""

_COPIES: Final = 1
"""Altered copies of each example, as from another site."""


_PROFILED: Final = ("sm_", "tensor_", "dram_", "fp64", "fp32", "power_per_sm")
_LINKED: Final = ("rx_", "tx_", "nvlink", "pause_copies")
_HOST: Final = (
    *("cores_", "cpu_", "host_", "iowait", "mem_pressure", "io_pressure", "blocked", "read"),
    *("write", "network", "ports", "pause_"),
)
_MISSING: Final[tuple[tuple[tuple[str, ...], float], ...]] = (
    (_PROFILED, 0.35),
    (_LINKED, 0.25),
    (_HOST, 0.15),
)
"""Counters that some boards, drivers and sites lack, and how often a copy lacks them (our
choice)."""

_SCALED: Final[tuple[tuple[str, ...], ...]] = (
    ("sm_", "tensor_", "dram_", "fp32"),
    ("power",),
    ("util",),
)
_SCALE: Final = 0.2
_NOISE: Final = 0.08
"""Programs fill boards differently, boards draw differently: by so much (standard deviations of
logarithms, our choice)."""


_RELATIVE: Final = ("_per_", "_leader", "_stages", "_together", "_nodes")
"""Shares of two such numbers, which the scale leaves as they are."""

_MOST: Final = 1e300
"""In place of infinity, up to which everything that is known goes left: JSON has none."""


class Score(NamedTuple):
    """How good a class is told in recordings that the model was not fitted on."""

    key: str
    jobs: int
    told: float
    """Share of these jobs of which enough is known to say anything."""
    precision: float
    recall: float
    """Of the jobs of which enough is known."""
    claims_from: float
    calibration_error: float
    """Expected calibration error, in ten parts of the probabilities."""
    is_kept: bool


def fitted(
    examples: Examples, keys: Sequence[str] | None = None, seed: int = 0
) -> tuple[Model, tuple[Score, ...]]:
    """A model of the classes that are told well enough, and how good each of them was.

    Args:
        examples: From two recordings at least.
        keys: Classes to learn; None: all that have a signature and enough jobs.
        seed: Of the altered copies and of what trees draw.
    """
    with warnings.catch_warnings():
        # Of a machine without lscpu: how many threads are used then makes no other model.
        warnings.filterwarnings("ignore", "Could not find the number of physical cores")
        return _fitted(examples, keys, seed)


def _fitted(
    examples: Examples, keys: Sequence[str] | None, seed: int
) -> tuple[Model, tuple[Score, ...]]:
    parts = min(_PARTS, len(set(examples.recordings)))
    wanted = [key for key in SIGNATURES if keys is None or key in keys]
    found, scores = [], []
    for key in wanted:
        if examples.jobs_of(key) < LEAST_JOBS or parts < 2:
            continue
        learnt, score = _Class(key, SIGNATURES[key], examples, parts, seed).learnt()
        scores.append(score)
        if score.is_kept:
            found.append(learnt)
    made_of = {
        "recordings": len(set(examples.recordings)),
        "jobs": len(set(examples.jobs)),
        "examples": len(examples.jobs),
        "cases": sum(one != "" for one in examples.judged),
        "scikit_learn": sklearn.__version__,
        "seed": seed,
    }
    return Model(tuple(found), made_of), tuple(scores)


def exemplars_of(key: str, examples: Examples) -> tuple[Exemplar, ...]:
    """Jobs of one class alone: the one in their middle, then each time the farthest one."""
    places = _alone(key, examples)
    # A job is one, however often it was looked at.
    places = places[np.unique(np.array(examples.jobs)[places], return_index=True)[1]]
    if not len(places):
        return ()
    rows = examples.features[places][:, _columns_of(key)]
    low, high = _bounds(rows)
    # What is not known counts as in the middle: it tells nobody apart.
    scaled = (rows - low) / (high - low)
    scaled = np.where(np.isfinite(scaled), scaled, 0.5)
    chosen = [int(np.linalg.norm(scaled - np.median(scaled, axis=0), axis=1).argmin())]
    nearest = np.linalg.norm(scaled - scaled[chosen[0]], axis=1)
    while len(chosen) < MOST_EXEMPLARS and nearest.max() > 0.0:
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(scaled - scaled[chosen[-1]], axis=1))
    return tuple(Exemplar(float(examples.lost[places[one]]), rows[one]) for one in chosen)


def _columns_of(key: str) -> list[int]:
    """Of a table of features, those that a class looks at."""
    return [COLUMN[name] for name in SIGNATURES[key].looks_at]


def _is_usable(key: str, examples: Examples) -> NDArray[np.bool_]:
    """Per example whether enough is known to tell a class, and whether it is one."""
    signature = SIGNATURES[key]
    needed = examples.features[:, [COLUMN[name] for name in signature.needs]]
    gpus = examples.features[:, COLUMN["gpus"]]
    is_usable: NDArray[np.bool_] = np.isfinite(needed).all(axis=1) & examples.speaks_of(key)
    is_usable &= gpus >= np.log2(signature.least_gpus)
    return is_usable


def _alone(key: str, examples: Examples) -> NDArray[np.intp]:
    """Examples of one class and no other of which enough is known."""
    alone = np.array([one == {key} for one in examples.classes], np.bool_)
    return np.flatnonzero(alone & _is_usable(key, examples))


class _Class:
    """One class while it is learnt."""

    def __init__(
        self, key: str, signature: Signature, examples: Examples, parts: int, seed: int
    ) -> None:
        self._key, self._signature, self._seed = key, signature, seed
        self._examples, self._parts = examples, parts
        self._is_usable = _is_usable(key, examples)
        self._is_true = examples.is_of(key)
        self._is_whole = np.array([not one for one in examples.judged], np.bool_)
        jobs = np.array(examples.jobs)
        self._weights = 1.0 / np.bincount(jobs)[jobs]
        self._rows = examples.features[:, _columns_of(key)]

    def learnt(self) -> tuple[Learnt, Score]:
        """The class fitted to all recordings, and its score on those left out in turn."""
        raw = self._left_out()
        slope, offset = self._calibration(raw)
        likely = 1.0 / (1.0 + np.exp(-(slope * raw + offset)))
        score = self._score(likely)
        every = np.flatnonzero(self._is_usable)
        # Of a job about which one finding was judged nobody knows what else is wrong.
        is_healthy = np.array([not one for one in self._examples.classes]) & self._is_whole
        healthy = self._rows[is_healthy & self._is_usable]
        with np.errstate(all="ignore"):
            median = _median(healthy)
        shares = {name: round(getattr(score, name), 4) for name in ("told", "precision", "recall")}
        learnt = Learnt(
            key=self._key, looks_at=self._signature.looks_at, needs=self._signature.needs,
            least_gpus=self._signature.least_gpus,
            claims_from=score.claims_from, slope=slope, offset=offset, trees=self._fit(every),
            lost=self._lost(), healthy=median,
            bounds=_bounds(self._rows[every]),
            directions=np.array(self._signature.directions, np.int_),
            seen={"jobs": float(score.jobs), **shares},
            exemplars=exemplars_of(self._key, self._examples),
        )  # fmt: skip
        return learnt, score

    def _left_out(self) -> Floats:
        """What trees say of each example, fitted on the other recordings; NaN where untold."""
        raw = np.full(len(self._rows), np.nan)
        groups = self._examples.recordings
        for taught, asked in GroupKFold(self._parts).split(self._rows, groups=groups):
            taught, asked = (part[self._is_usable[part]] for part in (taught, asked))
            if len(asked) and 0 < self._is_true[taught].sum() < len(taught):
                raw[asked] = self._fit(taught).of(self._rows[asked])
        return raw

    def _fit(self, places: NDArray[np.intp]) -> Trees:
        rows, which = _altered(self._rows[places], self._signature.looks_at, self._seed)
        is_true, weights = self._is_true[places][which], self._weights[places][which].copy()
        for side, share in ((is_true, _TRUE_WEIGHT), (~is_true, 1.0 - _TRUE_WEIGHT)):
            weights[side] *= share * len(weights) / weights[side].sum()
        has_some = np.isfinite(rows).any(axis=0)
        # A column without a value cannot be cut into steps; no tree will ask for this one.
        rows[:, ~has_some] = 0.0
        made = HistGradientBoostingClassifier(
            max_iter=_TREES, learning_rate=_RATE, max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST_LEAF, l2_regularization=2.0, max_features=0.5,
            early_stopping=False, random_state=self._seed,
            monotonic_cst=self._signature.directions,
        ).fit(rows, is_true, sample_weight=weights)  # fmt: skip
        return _plain_trees(made)

    def _lost(self) -> Trees:
        """The share lost, of examples of this class alone of which it is known."""
        places = _alone(self._key, self._examples)
        places = places[np.isfinite(self._examples.lost[places])]
        if not len(places):
            return Trees(0.0, ())
        rows, which = _altered(self._rows[places], self._signature.looks_at, self._seed)
        rows[:, ~np.isfinite(rows).any(axis=0)] = 0.0
        made = HistGradientBoostingRegressor(
            max_iter=_TREES, learning_rate=_RATE, max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST_LEAF, early_stopping=False, random_state=self._seed,
        ).fit(rows, self._examples.lost[places][which],
              sample_weight=self._weights[places][which])  # fmt: skip
        return _plain_trees(made)

    def _calibration(self, raw: Floats) -> tuple[float, float]:
        """Slope and offset of the logistic curve that fits what was left out (Platt, 1999)."""
        known = np.isfinite(raw)
        if not 0 < self._is_true[known].sum() < known.sum():
            return 1.0, 0.0
        made = LogisticRegression(C=10.0).fit(
            raw[known, None], self._is_true[known], sample_weight=self._weights[known]
        )
        return float(made.coef_[0, 0]), float(made.intercept_[0])

    def _score(self, likely: Floats) -> Score:
        """At the lowest probability at which enough claims are true; else at the best one."""
        tried = [(self._at(likely, at), at) for at in _CLAIMS]
        good = [(score, at) for score, at in tried if score[0] >= LEAST_PRECISION]
        (precision, recall), at = good[0] if good else max(tried, key=lambda one: min(one[0]))
        is_good = precision >= LEAST_PRECISION and recall >= LEAST_RECALL
        jobs = self._examples.jobs_of(self._key)
        own = np.array(self._examples.jobs)[self._is_true & self._is_usable]
        return Score(
            key=self._key, jobs=jobs, told=len(np.unique(own)) / jobs, precision=precision,
            recall=recall, claims_from=max(at, ABSTAINS_BELOW),
            calibration_error=_calibration_error(likely, self._is_true, self._weights),
            is_kept=is_good,
        )  # fmt: skip

    def _at(self, likely: Floats, at: float) -> tuple[float, float]:
        """Precision and recall by job that can be told: claimed where two examples of it are.

        Of a case that somebody judged there is one, and that decides.
        """
        claimed: dict[tuple[int, bool], int] = {}
        every = zip(self._examples.jobs, self._is_true.tolist(), likely.tolist(),
                    self._is_whole.tolist(), strict=True)  # fmt: skip
        for job, is_true, one, is_whole in every:
            if np.isnan(one):
                continue
            counts = (one >= at) * (1 if is_whole else 2)
            claimed[job, is_true] = claimed.get((job, is_true), 0) + counts
        true = [count >= 2 for (_, is_true), count in claimed.items() if is_true]
        false = [count >= 2 for (_, is_true), count in claimed.items() if not is_true]
        claims = sum(true) + sum(false)
        return (sum(true) / claims if claims else 0.0), (sum(true) / len(true) if true else 0.0)


def _altered(rows: Floats, looks_at: Sequence[str], seed: int) -> tuple[Floats, NDArray[np.intp]]:
    """Rows, and copies as from sites with other boards and fewer counters; which row is whose."""
    dice = np.random.default_rng(seed)
    found = [rows.copy()]
    for _ in range(_COPIES):
        copy = rows.copy()
        for begins, share in _MISSING:
            places = list(_columns(looks_at, begins))
            is_lacking = np.zeros(copy.shape, np.bool_)
            is_lacking[:, places] = (dice.random(len(copy)) < share)[:, None]
            copy[is_lacking] = np.nan
        for begins in _SCALED:
            places = [
                place
                for place in _columns(looks_at, begins)
                if not any(word in looks_at[place] for word in _RELATIVE)
            ]
            copy[:, places] *= np.exp(dice.normal(0.0, _SCALE, len(copy)))[:, None]
        found.append(copy * np.exp(dice.normal(0.0, _NOISE, copy.shape)))
    which = np.tile(np.arange(len(rows)), len(found))
    return np.concatenate(found), which


def _columns(looks_at: Sequence[str], begins: tuple[str, ...]) -> Iterator[int]:
    for place, name in enumerate(looks_at):
        if name.startswith(begins):
            yield place


def _median(rows: Floats) -> Floats:
    """Per column the median of what is known, NaN without any."""
    known = np.isfinite(rows).any(axis=0)
    found = np.full(rows.shape[1], np.nan)
    found[known] = np.nanmedian(rows[:, known], axis=0)
    return found


def _bounds(rows: Floats) -> Floats:
    """Per column the lowest and the highest value, and a tenth of the way more to either side."""
    low = np.fmin.reduce(rows, axis=0, initial=np.inf)
    high = np.fmax.reduce(rows, axis=0, initial=-np.inf)
    is_known = low <= high
    low, high = np.where(is_known, low, 0.0), np.where(is_known, high, 0.0)
    room = 0.1 * (high - low) + 1e-6
    return np.stack([low - room, high + room])


def _calibration_error(likely: Floats, is_true: NDArray[np.bool_], weights: Floats) -> float:
    known = np.isfinite(likely)
    if not known.any():
        return float("nan")
    likely, is_true, weights = likely[known], is_true[known], weights[known]
    parts = np.minimum((likely * 10).astype(np.intp), 9)
    total = np.bincount(parts, weights, 10)
    gap = np.abs(
        np.bincount(parts, weights * likely, 10) - np.bincount(parts, weights * is_true, 10)
    )
    return float(gap.sum() / total.sum())


def _plain_trees(
    made: HistGradientBoostingClassifier | HistGradientBoostingRegressor,
) -> Trees:
    """The fitted trees as numbers: scikit-learn's own arrays, without scikit-learn's objects."""
    base = float(np.ravel(made._baseline_prediction)[0])
    return Trees(base, tuple(_plain_tree(one[0].nodes) for one in made._predictors))


def _plain_tree(nodes: NDArray[Any]) -> Tree:
    is_leaf = nodes["is_leaf"].astype(np.bool_)
    return Tree(
        feature=np.where(is_leaf, -1, nodes["feature_idx"]).astype(np.intp),
        threshold=np.where(is_leaf, 0.0, np.clip(nodes["num_threshold"], -_MOST, _MOST)).astype(
            np.float64
        ),
        left=np.where(is_leaf, 0, nodes["left"]).astype(np.intp),
        right=np.where(is_leaf, 0, nodes["right"]).astype(np.intp),
        is_missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=np.where(is_leaf, nodes["value"], 0.0).astype(np.float64),
    )
