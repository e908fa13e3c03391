"""Patterns that an operator has named: what they are told by, who named them, and when.

They lie in one JSON file of a user's own. Naming a pattern again adds a version, and the newest one
counts; taking one back leaves the version before.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from gpumon.base.errors import DamagedError
from gpumon.base.paths import state_folder
from gpumon.detect.contract import CLASS_NAME
from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.json_file import FileError, json_in, rewritten
from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.ledger import STATES
from gpumon.model.records.pattern import Trait
from gpumon.model.text import plain as harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.model.records.pattern import PatternCard

FORMAT: Final[Literal["gpumon-named-patterns/1"]] = "gpumon-named-patterns/1"
FILE: Final = "patterns.json"
"""Its name in the folder of a user's state."""

MOST_BYTES: Final = 2**20
"""Largest file of named patterns: 1,000 of 1 kB."""
MOST_VERSIONS: Final = 1000
"""Versions of patterns in a file. A choice: more than one person names."""

MOST_TRAITS: Final = 8
"""Traits of a pattern. A choice: as many as one line of a page shows."""

_TAKEN: Final = frozenset({*CLASSES, *STATES, "healthy", "wasted", "suspected", "named_pattern"})

_LONGEST: Final = 200
"""Characters of an owner or of a job's id."""


class NamedError(DamagedError):
    """Patterns that cannot be read, or a name that cannot be given; the message is one line."""


class Named(NamedTuple):
    """One version of a named pattern."""

    name: str
    version: int
    """From 1 on."""
    owner: str
    """Who named it."""
    at: float
    """Unix time at which that was."""
    traits: tuple[Trait, ...]
    jobs: int
    """Jobs in which it was found."""
    gpu_seconds: float
    """What nobody could explain of their time."""
    exemplar: str
    """The job in their middle."""

    def matches(self, features: Floats) -> bool:
        """Whether each of its traits lies nearer to its own value than to the usual one.

        Args:
            features: All features of one job; of one that is missing nobody knows.
        """
        own = features[[COLUMN[trait.key] for trait in self.traits]]
        value, usual = (
            np.array([getattr(trait, which) for trait in self.traits])
            for which in ("value", "usual")
        )
        with np.errstate(invalid="ignore"):
            return bool((np.abs(own - value) < np.abs(own - usual)).all())


def own_patterns() -> Path:
    """Where this user's named patterns lie."""
    return Path(state_folder(), FILE)


def named_patterns(path: Path | None = None) -> tuple[Named, ...]:
    """The patterns that have a name, by name; none where there is no file.

    Args:
        path: A file of them; None: this user's own.

    Raises:
        NamedError: It cannot be read, or holds something else.
    """
    return newest(read_named(own_patterns() if path is None else path))


def newest(versions: Sequence[Named]) -> tuple[Named, ...]:
    """The version of each name that counts, by name."""
    latest: dict[str, Named] = {}
    for one in versions:
        if one.name not in latest or one.version > latest[one.name].version:
            latest[one.name] = one
    return tuple(latest[name] for name in sorted(latest))


def names_of(
    card: PatternCard, features: Mapping[str, Floats], named: Sequence[Named]
) -> tuple[str, ...]:
    """Names of the patterns that a card's jobs match in their middle, by name.

    Args:
        card: What is shown of a pattern.
        features: All features of a job by its id; of jobs that are not there the card's traits,
            which are medians of its jobs, are all that is known.
        named: The patterns that have a name.
    """
    middle = np.full(len(FEATURES), np.nan)
    rows = [features[job_id] for job_id in card.jobs if job_id in features]
    if rows:
        table = np.array(rows, np.float64)
        is_known = np.isfinite(table).any(axis=0)
        middle[is_known] = np.nanmedian(table[:, is_known], axis=0)
    for trait in card.traits:
        middle[COLUMN[trait.key]] = trait.value
    return tuple(sorted(one.name for one in named if one.matches(middle)))


def with_name(versions: Sequence[Named], added: Named) -> tuple[Named, ...]:
    """The versions with one more, which counts from now on.

    Raises:
        NamedError: The name is none that a class can have, or there are too many.
    """
    if not CLASS_NAME.fullmatch(added.name):
        raise NamedError(
            f"{added.name!r:.80} is not a name: use lower case, digits and underscores"
        )
    if added.name in _TAKEN:
        raise NamedError(f"{added.name} already has a meaning; choose another name")
    if len(versions) >= MOST_VERSIONS:
        raise NamedError(f"no more than {MOST_VERSIONS} versions are stored; remove some first")
    before = max((one.version for one in versions if one.name == added.name), default=0)
    return (*versions, added._replace(version=before + 1))


def without_newest(versions: Sequence[Named], name: str) -> tuple[Named, ...]:
    """The versions without the newest one of a name: the one before counts again, if there is one.

    Raises:
        NamedError: Nothing is called so.
    """
    mine = [one for one in newest(versions) if one.name == name]
    if not mine:
        raise NamedError(f"no pattern is called {name!r:.80}")
    return tuple(one for one in versions if one != mine[0])


def plain(versions: Sequence[Named]) -> dict[str, Any]:
    """As JSON."""
    return {
        "format": FORMAT,
        "patterns": [
            {**one._asdict(), "traits": [trait._asdict() for trait in one.traits]}
            for one in versions
        ],
    }


def read_named(path: Path) -> tuple[Named, ...]:
    """All versions in a file; none where there is no file.

    Raises:
        NamedError: It cannot be read, or holds something else.
    """
    try:
        value = json_in(path, MOST_BYTES, "list of patterns")
    except FileNotFoundError:
        return ()
    except FileError as error:
        raise NamedError(f"{path}: {error}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise NamedError(f"{path}: no {FORMAT}")
    listed = value.get("patterns")
    if not isinstance(listed, list) or len(listed) > MOST_VERSIONS:
        raise NamedError(f"{path}: no list of patterns")
    return tuple(_one(path, number, one) for number, one in enumerate(listed, 1))


def names_rewritten(
    path: Path, change: Callable[[tuple[Named, ...]], tuple[Named, ...]]
) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """All versions in a file before and after a change, which is on disk then.

    Raises:
        NamedError: The file cannot be read, or the change cannot be made.
        OSError: It cannot be written; what was there is there still.
    """
    return rewritten(
        path, read_named, change, lambda all_of: json.dumps(plain(all_of), allow_nan=False)
    )


def _one(path: Path, number: int, value: object) -> Named:
    try:
        return _checked(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NamedError(f"{path}: pattern {number} is not complete") from error


def _checked(value: Any) -> Named:  # noqa: ANN401
    traits = tuple(
        Trait(str(one["key"]), _number(one["value"]), _number(one["usual"]))
        for one in value["traits"][: MOST_TRAITS + 1]
    )
    name = str(value["name"])
    owner, exemplar = (harmless(str(value[key]), _LONGEST) for key in ("owner", "exemplar"))
    is_known = all(trait.key in COLUMN for trait in traits)
    if not 1 <= len(traits) <= MOST_TRAITS or not is_known:
        raise ValueError
    if not CLASS_NAME.fullmatch(name) or name in _TAKEN:
        raise ValueError
    return Named(
        name=name, version=_count(value["version"]), owner=owner, at=_number(value["at"]),
        traits=traits, jobs=_count(value["jobs"]),
        gpu_seconds=_number(value["gpu_seconds"]), exemplar=exemplar,
    )  # fmt: skip


def _count(value: str | float) -> int:
    number = int(value)
    if not 0 <= number < 2**63:
        raise ValueError
    return number


def _number(value: str | float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number
