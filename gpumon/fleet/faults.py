"""What failed inside gpumon while a picture was made; it is told, and the next one is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpumon.model.fault import fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.fault import SourceError

_T = TypeVar("_T")


class Faults:
    """Collects errors of gpumon's own until they are told."""

    def __init__(self) -> None:
        self._errors: dict[SourceError, None] = {}

    def trying(self, doing: str, step: Callable[[], _T], otherwise: _T) -> _T:
        """The result of a step, or `otherwise` where it fails, which is noted down."""
        try:
            return step()
        # One broken part must not take the whole picture, nor the next one, with it.
        except Exception as error:  # noqa: BLE001
            self._errors[fault(doing, error)] = None
            return otherwise

    def told(self) -> tuple[SourceError, ...]:
        """Everything since the last time, each once."""
        errors, self._errors = self._errors, {}
        return tuple(errors)
