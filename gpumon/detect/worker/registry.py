"""Which detectors are installed, and how one is loaded."""

from __future__ import annotations

import importlib
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from gpumon.detect.contract import GROUP, DetectorError, declaration_of
from gpumon.detect.worker.tuning import ParameterError, made

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.detect.contract import Detector
    from gpumon.model.settings import Parameter

_TARGET: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Entry(NamedTuple):
    """One detector that could be loaded."""

    key: str
    """Name of the entry point, or the `MODULE:CLASS` that was asked for."""
    target: str
    """`MODULE:CLASS`."""
    distribution: str
    """Name and version of the distribution that registers it; empty for an explicit path."""


def entries(paths: Iterable[str] = (), *, installed: bool = True) -> tuple[Entry, ...]:
    """Detectors by entry point, in order of name, then the paths; imports none of them.

    A name that two distributions use counts for the first; the other gets its own after an `@`.
    """
    found: dict[str, Entry] = {}
    points = metadata.entry_points(group=GROUP) if installed else ()
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else ""
        entry = Entry(point.name, point.value, origin)
        known = found.get(point.name)
        if known is None:
            found[entry.key] = entry
        elif known.target != entry.target:
            key = f"{point.name}@{origin}"
            found[key] = entry._replace(key=key)
    for path in paths:
        found[path] = Entry(path, path, "")
    return tuple(found.values())


def load_class(target: str) -> type:
    """The class at `MODULE:CLASS`.

    Raises:
        DetectorError: There is none, or its module cannot be imported.
    """
    if not _TARGET.fullmatch(target):
        raise DetectorError(f"{target!r:.80} is not MODULE:CLASS")
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    # Foreign code may raise anything while it is imported, sys.exit included.
    except (Exception, SystemExit) as error:
        raise DetectorError(f"{target}: {type(error).__name__}: {error}") from error
    if not isinstance(found, type):
        raise DetectorError(f"{target} is not a class")
    return found


def load(entry: Entry, parameters: Mapping[str, Parameter] | None = None) -> Detector:
    """An instance with default parameters but for those given, its declaration checked.

    Raises:
        DetectorError: It cannot be made, or does not keep the contract.
        ParameterError: It does not take these parameters.
    """
    found = load_class(entry.target)
    try:
        detector = made(found, parameters or {})
    except ParameterError:
        raise
    # Foreign code may raise anything in its constructor, sys.exit included.
    except (Exception, SystemExit) as error:
        raise DetectorError(f"{entry.target}: {type(error).__name__}: {error}") from error
    declaration_of(detector)
    if not callable(getattr(detector, "evaluate", None)):
        raise DetectorError(f"{entry.target} has no method evaluate")
    # The contract asks for the attributes, not for the base class.
    return cast("Detector", detector)
