"""What the configuration says of detectors: which are not run, and with which parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon.detect.contract import DetectorError
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.detect.contract import Declaration
    from gpumon.model.settings import Parameter, Settings


class ParameterError(DetectorError):
    """A detector does not take what the configuration gives it; the message is one line."""


class Tuning(NamedTuple):
    """Choices about detectors, by the names of `gpumon detectors list`."""

    disabled: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, Parameter]] = {}
    disabled_origin: str = "default"
    """Where it was set: `FILE:LINE`, a variable or an option."""
    parameters_origin: str = "default"
    enabled: tuple[str, ...] = ()
    """Those that run although they are off by default."""
    enabled_origin: str = "default"

    @classmethod
    def of(cls, settings: Settings) -> Tuning:
        """The choices that the settings hold."""
        disabled, parameters = "detectors.disabled", "detectors.parameters"
        enabled = "detectors.enabled"
        return cls(
            disabled=settings.texts(disabled),
            parameters=settings.parameters(parameters),
            disabled_origin=settings.chosen[disabled].origin,
            parameters_origin=settings.chosen[parameters].origin,
            enabled=settings.texts(enabled),
            enabled_origin=settings.chosen[enabled].origin,
        )

    def runs(self, key: str, declared: Declaration) -> bool:
        """Whether a detector runs: unless it is disabled, or off by default and not enabled."""
        return key not in self.disabled and (not declared.is_off_by_default or key in self.enabled)

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """One line for every name of the configuration that no detector has."""
        known = set(names)
        named = (
            (self.disabled_origin, self.disabled),
            (self.enabled_origin, self.enabled),
            (self.parameters_origin, self.parameters),
        )
        return tuple(
            f"{origin}: no detector is called {plain(name)[:80]}"
            for origin, asked in named
            for name in asked
            if name not in known
        )


def made(found: type, given: Mapping[str, Parameter]) -> object:
    """An instance of a detector's class with these parameters, its own defaults for all others.

    Raises:
        ParameterError: It has no such parameter, or one of another type.
    """
    has_own = any("__init__" in vars(base) for base in found.__mro__[:-1])
    has = inspect.signature(found).parameters if has_own else {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in has:
            known = f"it has {', '.join(has)}" if has else "it has none"
            raise ParameterError(f"{found.__name__} has no parameter {plain(name)[:80]}; {known}")
        values[name] = _as(has[name].default, value, f"{found.__name__}: {name}")
    return found(**values)


def _as(default: object, value: Parameter, what: str) -> Parameter:
    """The value in the type of the default; what has no default of these types takes any."""
    if isinstance(default, bool) or isinstance(value, bool):
        is_right, kind = isinstance(default, bool) is isinstance(value, bool), "true or false"
        kind = kind if isinstance(default, bool) else "a number or a text"
    elif isinstance(default, int | float):
        is_right, kind = isinstance(value, int | float), "a number"
    elif isinstance(default, str):
        is_right, kind = isinstance(value, str), "a text"
    else:
        return value
    if not is_right:
        raise ParameterError(f"{what} takes {kind}")
    if isinstance(default, float) and not isinstance(value, str):
        return float(value)
    return value
