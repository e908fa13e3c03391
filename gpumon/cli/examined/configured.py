"""What is wrong with settings although every value is of its form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.cli.request import chosen_targets
from gpumon.model.text import plain
from gpumon.sources.address import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.settings import Settings


def problems_beyond(settings: Settings) -> tuple[str, ...]:
    """What is wrong although every value is of its form: targets, names of detectors, parameters.

    Imports the detectors that are given parameters.
    """
    return (*_of_targets(settings), *_of_detectors(settings))


def _of_targets(settings: Settings) -> Iterator[str]:
    """What is wrong with the targets."""
    try:
        chosen_targets((), settings)
    except TargetError as error:
        yield str(error)


def _of_detectors(settings: Settings) -> Iterator[str]:
    """What is wrong with what is said of detectors."""
    from gpumon.detect.contract import DetectorError
    from gpumon.detect.worker import registry
    from gpumon.detect.worker.tuning import Tuning

    tuning = Tuning.of(settings)
    if not (tuning.disabled or tuning.enabled or tuning.parameters):
        return
    found = {entry.key: entry for entry in registry.entries()}
    yield from tuning.unknown(found)
    for key, parameters in tuning.parameters.items():
        try:
            if key in found:
                registry.load(found[key], parameters)
        except DetectorError as error:
            yield f"{tuning.parameters_origin}: {plain(str(error))}"
