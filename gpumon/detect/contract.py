"""What the author of a detector writes against.

A detector is a class whose parameters are the keywords of `__init__`, each with a default and each
only stored, as scikit-learn's estimators do it. Its class attributes say what it claims, what it
needs to see, and for how long. Its one method turns a read-only view into findings::

    class HotGpu(Detector):
        name = "hot_gpu"
        version = "1"
        finding_classes = ("hot_gpu",)
        needs = ("temp_c",)
        supported_after_s = 300.0
        established_after_s = 900.0

        def __init__(self, limit_c: float = 83.0) -> None:
            self.limit_c = limit_c

        def evaluate(self, view: View) -> Iterable[Finding]:
            ...

No I/O and no state between calls: everything that it may know is in the view. Inheriting from
`Detector` is not required, having its attributes is.

A second method, which may be left out, says of whom it cannot speak although what it `needs` is
known, and why: no finding is no praise then.
"""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar

from gpumon.base.errors import GpumonError
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding_classes import Category
from gpumon.model.records.ledger import STATES
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.detect.view import View
    from gpumon.model.finding import Finding

_T = TypeVar("_T")

GROUP: Final = "gpumon.detectors"
"""Entry-point group in which distributions register their detectors."""

CLASS_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""How detectors, classes of findings and named patterns are called."""
_LEDGER_KEYS: Final = frozenset({*STATES, "wasted", "suspected"})
"""What the ledger calls its shares: no class is called so."""

LONGEST_WINDOW_S: Final = 366 * 86400.0
"""No claim reaches further back than a year."""

_LONGEST_PAUSE_S: Final = 3600.0
"""A subject that is looked at more rarely than once an hour is not watched."""

_PART_CHARS: Final = 60
"""Characters of what a detector misses without a field: several stand on one line."""

SUBJECTS: Final = ("job", "gpu", "node")


class DetectorError(GpumonError):
    """A detector does not keep the contract; the message is one line for its author."""


class Detector(ABC):
    """Base of a detector; holds the defaults and the parameters' accessors."""

    name: ClassVar[str]
    """Lower case with underscores, unique among the detectors of an installation."""
    version: ClassVar[str]
    """Changes whenever the same input may give another finding."""
    finding_classes: ClassVar[tuple[str, ...]]
    """Classes of inefficiency that it may claim."""
    needs: ClassVar[tuple[str, ...]]
    """Catalogue keys, of any block, without which it cannot judge a subject."""
    wants: ClassVar[Mapping[str, str]] = {}
    """Further keys without which it judges a subject in part only, each with what it misses then,
    in a few words: `memory of hosts`. The coverage shows these, so no finding does not mean that
    all is well."""
    supported_after_s: ClassVar[float]
    """Seconds observed from which a claim is *supported*; before it is a *hypothesis*."""
    established_after_s: ClassVar[float]
    """Seconds observed from which a claim is *established*."""
    subjects: ClassVar[Literal["job", "gpu", "node"]] = "job"
    """What it judges one by one; coverage counts these."""
    categories: ClassVar[Mapping[str, str]] = {}
    """Category by class, for classes that are not on gpumon's own list."""
    every_s: ClassVar[float] = 0.0
    """Seconds between two evaluations of one subject, for an expensive detector; 0: every one."""
    is_instant: ClassVar[bool] = False
    """Whether one sample proves the claim, as an event or an error counter does. Its windows may be
    0, and its findings enter and clear at once."""
    longest_period_s: ClassVar[float] = 0.0
    """Longest seconds between two samples with which it can judge; 0: any. Beyond that it is blind,
    which the page of a job shows."""
    is_off_by_default: ClassVar[bool] = False
    """Whether it runs only if the configuration names it (`detectors.enabled`). Until then a job's
    page lists its classes under *not looked for*, unless another detector finds them."""
    guesses: ClassVar[tuple[str, ...]] = ()
    """Classes about which it is too often wrong: its claims stay a *hypothesis*, and the classes
    are *not looked for* unless another detector finds them."""
    is_learned: ClassVar[bool] = False
    """Whether an estimator makes its claims: the ledger charges their losses as suspected, at any
    confidence, because no rule proves them."""

    @abstractmethod
    def evaluate(self, view: View) -> Iterable[Finding]:
        """Findings of this evaluation; the same view always gives the same findings."""

    def cannot_judge(self, view: View) -> Mapping[str, str]:  # noqa: ARG002
        """Subjects that it cannot judge now, each with the reason in a few words.

        Only those of which all that it `needs` is known: the others are blind anyhow.
        """
        return {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Parameters by name; scikit-learn passes `deep`."""
        return parameters(self)


class Declaration(NamedTuple):
    """A detector's class attributes, checked."""

    name: str
    version: str
    finding_classes: tuple[str, ...]
    needs: tuple[str, ...]
    supported_after_s: float
    established_after_s: float
    subjects: str = "job"
    categories: tuple[tuple[str, str], ...] = ()
    """Pairs of class and category."""
    every_s: float = 0.0
    is_instant: bool = False
    is_off_by_default: bool = False
    longest_period_s: float = 0.0
    is_learned: bool = False
    guesses: tuple[str, ...] = ()
    wants: tuple[tuple[str, str], ...] = ()
    """Pairs of key and what is missed without it."""


def declaration_of(detector: object) -> Declaration:
    """What a detector, or its class, declares.

    Raises:
        DetectorError: An attribute is missing or wrong.
    """
    absent = [key for key in Declaration._fields[:6] if not hasattr(detector, key)]
    if absent:
        raise DetectorError(f"the attributes {', '.join(absent)} are missing")
    values = {key: getattr(detector, key) for key in Declaration._fields[:6]}
    for key, default in Declaration._field_defaults.items():
        values[key] = getattr(detector, key, default)
    for key in ("finding_classes", "needs", "guesses"):
        if not isinstance(values[key], tuple | list):
            raise DetectorError(f"{key} must be a tuple of strings")
        values[key] = tuple(values[key])
    for key in ("categories", "wants"):
        if isinstance(values[key], Mapping):
            values[key] = tuple(values[key].items())
    return checked(Declaration(**values))


def checked(given: Declaration) -> Declaration:
    """The same declaration, if it is one.

    Raises:
        DetectorError: It is not.
    """
    if not isinstance(given.name, str) or not CLASS_NAME.fullmatch(given.name):
        raise DetectorError(f"name must be lower case with underscores, not {given.name!r:.80}")
    is_text = isinstance(given.version, str) and plain(given.version, 64) == given.version
    if not is_text or not given.version:
        raise DetectorError("version must be a short string")
    wrong = [
        key
        for key in given.finding_classes
        if not isinstance(key, str) or not CLASS_NAME.fullmatch(key)
    ]
    if wrong or not given.finding_classes:
        raise DetectorError("finding_classes must be lower case with underscores, at least one")
    taken = [c for c in given.finding_classes if c in _LEDGER_KEYS]
    if taken:
        raise DetectorError(f"finding_classes: {taken[0]} is a word of the ledger")
    for key in given.needs:
        if not isinstance(key, str) or key not in CATALOGUE:
            raise DetectorError(f"needs: {key!r:.80} is not a field of the catalogue")
    windows = (given.supported_after_s, given.established_after_s)
    for seconds in windows:
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        # A whole number has no bound in JSON; the next test has one.
        if not is_number or not abs(seconds) < math.inf:
            raise DetectorError("supported_after_s and established_after_s must be seconds")
    if not 0 <= windows[0] <= windows[1] <= LONGEST_WINDOW_S:
        raise DetectorError("0 <= supported_after_s <= established_after_s must hold")
    if not windows[0] and given.is_instant is not True:
        raise DetectorError("supported_after_s may be 0 only where is_instant is True")
    if given.subjects not in SUBJECTS:
        raise DetectorError("subjects must be 'job', 'gpu' or 'node'")
    _check_extras(given)
    return given


def _check_extras(given: Declaration) -> None:
    if not set(given.guesses) <= set(given.finding_classes):
        raise DetectorError("guesses must be among its finding_classes")
    for key, missed in given.wants:
        if not isinstance(key, str) or key not in CATALOGUE or key in given.needs:
            raise DetectorError(
                f"wants: {key!r:.80} is not a field of the catalogue beside its needs"
            )
        if not isinstance(missed, str) or not missed or plain(missed, _PART_CHARS) != missed:
            raise DetectorError("wants must map keys to a few words")
    known = ", ".join(Category)
    for pair in given.categories:
        if pair[0] not in given.finding_classes or pair[1] not in tuple(Category):
            raise DetectorError(f"categories must map its own classes to one of {known}")
    is_number = isinstance(given.every_s, int | float) and not isinstance(given.every_s, bool)
    if not is_number or not 0 <= given.every_s <= _LONGEST_PAUSE_S:
        raise DetectorError(f"every_s must be between 0 and {_LONGEST_PAUSE_S:.0f} seconds")
    longest = given.longest_period_s
    is_number = isinstance(longest, int | float) and not isinstance(longest, bool)
    if not is_number or not 0 <= longest <= LONGEST_WINDOW_S:
        raise DetectorError("longest_period_s must be seconds")
    for key in ("is_instant", "is_off_by_default", "is_learned"):
        if not isinstance(getattr(given, key), bool):
            raise DetectorError(f"{key} must be True or False")


def parameters(detector: object) -> dict[str, Any]:
    """Parameters of `__init__` with the values that the instance stores under their names."""
    if type(detector).__init__ is object.__init__:
        return {}
    signature = inspect.signature(type(detector))
    return {name: getattr(detector, name) for name in signature.parameters}


def clone(detector: _T) -> _T:
    """New detector of the same class with the same parameters."""
    return type(detector)(**parameters(detector))
