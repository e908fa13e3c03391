"""Findings that somebody has judged: how their jobs behaved then, and whether they were right.

They lie in one JSON file of a user's own. A case holds features, which are numbers, and of its job
nothing but the id and how many GPUs it had. Who judges a finding of a job again changes the case.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpumon.base.errors import DamagedError
from gpumon.base.paths import state_folder
from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.json_file import FileError, json_in, rewritten
from gpumon.detect.learning.model import LARGEST, features_mark
from gpumon.model.text import plain as harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumon.detect.features.feature import Floats

    Cases = tuple["Case", ...]

FORMAT: Final = "gpumon-cases/1"
FILE: Final = "cases.json"
"""Its name in the folder of a user's state."""

MOST_BYTES: Final = 2**24
"""Largest file of cases: 2,000 of 3 kB, and room for long names."""
MOST_CASES: Final = 2000
"""Cases in a file. A choice: more than one person decides, at some 3 kB each."""

_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""As classes and features are called."""


_LONGEST: Final = 200
"""Characters of an owner or of a job's id."""


class CasesError(DamagedError):
    """Cases that cannot be read or stored; the message is one line."""


class Case(NamedTuple):
    """One finding that a user has judged."""

    finding_class: str
    is_right: bool
    """Whether the job was of the class."""
    job_id: str
    owner: str
    """Who judged it."""
    at: float
    """Unix time of the tick it was judged by."""
    lost: float | None
    """Share of the job's GPU time that the finding said was lost, 0 to 1; None: it did not say."""
    made_with: str
    """What tells whether these features mean the same now (`features_mark`)."""
    features: Mapping[str, float]
    """Those that were known then, by key."""

    @property
    def is_usable(self) -> bool:
        """Whether its features mean what they mean now."""
        # Those of an earlier version told of all features, of one that is new here, too.
        return self.made_with in (features_mark(self.features), features_mark())

    @property
    def row(self) -> Floats:
        """All features, in the order of a table's columns; NaN where one was not known."""
        found = np.full(len(FEATURES), np.nan)
        for key, value in self.features.items():
            if key in COLUMN:
                found[COLUMN[key]] = value
        return found


def case_of(
    finding_class: str, job_id: str, row: Floats, owner: str, at: float, lost: float | None,
    *, is_right: bool,
) -> Case:  # fmt: skip
    """A case of one job as it behaves now.

    Args:
        finding_class: What the finding claims.
        job_id: Whom it is about.
        row: All features of the job.
        owner: Who judges it.
        at: Unix time of the tick.
        lost: Share of the job's GPU time that is said to be lost; None: nobody says.
        is_right: Whether the job is of the class.
    """
    known = {key: round(float(row[place]), 7) for key, place in COLUMN.items()
             if np.isfinite(row[place])}  # fmt: skip
    return Case(
        finding_class=finding_class,
        is_right=is_right,
        job_id=job_id,
        owner=owner,
        at=at,
        lost=lost,
        made_with=features_mark(known),
        features=known,
    )


def own_cases() -> Path:
    """Where this user's cases lie."""
    return Path(state_folder(), FILE)


def with_case(cases: Sequence[Case], added: Case) -> Cases:
    """The cases with one more, in the place of what was said of that job and class before.

    Raises:
        CasesError: There are too many.
    """
    left = tuple(one for one in cases if not _is_same(one, added))
    if len(left) >= MOST_CASES:
        raise CasesError(f"no more than {MOST_CASES} cases are stored; remove some first")
    return (*left, added)


def without_case(cases: Sequence[Case], finding_class: str, job_id: str) -> Cases:
    """The cases without the one of a class and a job.

    Raises:
        CasesError: There is none.
    """
    left = tuple(one for one in cases if (one.finding_class, one.job_id) != (finding_class, job_id))
    if len(left) == len(cases):
        raise CasesError("there is no judgement to undo")
    return left


def read_cases(path: Path | None = None) -> Cases:
    """All cases in a file; none where there is no file.

    Args:
        path: The file; None: this user's own.

    Raises:
        CasesError: It cannot be read, or holds something else.
    """
    path = own_cases() if path is None else path
    try:
        value = json_in(path, MOST_BYTES, "list of cases")
    except FileNotFoundError:
        return ()
    except FileError as error:
        raise CasesError(f"{path}: {error}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise CasesError(f"{path}: no {FORMAT}")
    listed = value.get("cases")
    if not isinstance(listed, list) or len(listed) > MOST_CASES:
        raise CasesError(f"{path}: no list of cases")
    return tuple(_one(path, number, one) for number, one in enumerate(listed, 1))


def cases_rewritten(path: Path, change: Callable[[Cases], Cases]) -> Cases:
    """All cases after a change, which is on disk then.

    Raises:
        CasesError: The file cannot be read, or the change cannot be made.
        OSError: It cannot be written; what was there is there still.
    """
    return rewritten(path, read_cases, change, _text)[1]


def _text(cases: Iterable[Case]) -> str:
    listed = [{**one._asdict(), "features": dict(one.features)} for one in cases]
    return json.dumps({"format": FORMAT, "cases": listed}, allow_nan=False)


def _is_same(one: Case, other: Case) -> bool:
    return (one.finding_class, one.job_id) == (other.finding_class, other.job_id)


def _one(path: Path, number: int, value: object) -> Case:
    try:
        return _checked(value)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CasesError(f"{path}: case {number} is not complete") from error


def _checked(value: Any) -> Case:  # noqa: ANN401
    finding_class, is_right = str(value["finding_class"]), value["is_right"]
    if not _WORD.fullmatch(finding_class) or not isinstance(is_right, bool):
        raise ValueError
    job_id, owner, made_with = (
        harmless(str(value[key]), _LONGEST) for key in ("job_id", "owner", "made_with")
    )
    lost = None if value["lost"] is None else _number(value["lost"])
    if lost is not None and not 0.0 <= lost <= 1.0:
        raise ValueError
    features = value["features"]
    # Of another version there may be others; more than many times ours is no version's.
    if len(features) > 10 * len(FEATURES) or not all(map(_WORD.fullmatch, features)):
        raise ValueError
    known = {key: _number(one) for key, one in features.items()}
    return Case(
        finding_class=finding_class,
        is_right=is_right,
        job_id=job_id,
        owner=owner,
        at=_number(value["at"]),
        lost=lost,
        made_with=made_with,
        features=known,
    )


def _number(value: str | float) -> float:
    number = float(value)
    if not abs(number) < LARGEST:
        raise ValueError
    return number
