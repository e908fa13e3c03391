"""What a user or a site may set: each setting declared once, with its default, unit and meaning."""

from __future__ import annotations

import math
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from gpumon.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


Parameter = bool | int | float | str
"""Value of a detector's parameter."""


class Form(StrEnum):
    """What the value of a setting looks like in TOML."""

    FLAG = "true or false"
    NUMBER = "a number"
    TEXT = "a text"
    TEXTS = "a list of texts"
    NUMBERS_BY_NAME = "a table of numbers"
    TEXTS_BY_NAME = "a table of lists of texts"
    PARAMETERS_BY_NAME = "a table of tables"


class SettingError(InputError, ValueError):
    """A value that a setting cannot take; the message names what it takes."""


class Setting(NamedTuple):
    """One thing that can be set."""

    key: str
    """Dotted as in TOML: the table, then the name, which carries the unit."""
    form: Form
    default: object
    doc: str
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    @property
    def variable(self) -> str:
        """Environment variable that sets it."""
        return "GPUMON_" + self.key.replace(".", "_").upper()

    @property
    def has_variable(self) -> bool:
        """Whether its value can be set by a variable."""
        return self.form not in (Form.TEXTS_BY_NAME, Form.PARAMETERS_BY_NAME)

    def checked(self, value: object) -> object:
        """The value in the setting's own type.

        Raises:
            SettingError: it is none.
        """
        if self.form is Form.FLAG and isinstance(value, bool):
            return value
        if self.form is Form.NUMBER:
            return self._number(value)
        if self.form is Form.TEXT and isinstance(value, str):
            return self._choice(value)
        if self.form is Form.TEXTS and isinstance(value, list | tuple):
            if all(isinstance(item, str) for item in value):
                return tuple(self._choice(item) for item in value)
        elif self.form is Form.NUMBERS_BY_NAME and isinstance(value, dict):
            return {str(name): self._number(item) for name, item in value.items()}
        elif self.form is Form.TEXTS_BY_NAME and isinstance(value, dict):
            return {str(name): _texts(str(name), item) for name, item in value.items()}
        elif self.form is Form.PARAMETERS_BY_NAME and isinstance(value, dict):
            return {str(name): _scalars(str(name), table) for name, table in value.items()}
        raise SettingError(f"takes {self.form.value}, not {_shown(value)}")

    def parsed(self, text: str) -> object:
        """The value that an environment variable's text means.

        Raises:
            SettingError: it means none.
        """
        if self.form is Form.FLAG:
            known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
            return self.checked(known.get(text.strip().lower(), text))
        if self.form is Form.NUMBER:
            return self.checked(_number_of(text))
        if self.form is Form.TEXTS:
            return self.checked([word.strip() for word in text.split(",") if word.strip()])
        if self.form is Form.NUMBERS_BY_NAME:
            pairs = (pair.rpartition("=") for pair in text.split(",") if pair.strip())
            return self.checked({name.strip(): _number_of(item) for name, _, item in pairs})
        if not self.has_variable:
            raise SettingError("can be set in a file only")
        return self.checked(text)

    def _number(self, value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # A whole number has no bound in TOML; nan is no smaller than any.
        if not is_number or not abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
            raise SettingError(f"takes {Form.NUMBER.value}, not {_shown(value)}")
        number = float(value)  # type: ignore[arg-type]
        if not self.least <= number <= self.most:
            raise SettingError(f"takes {self._range()}, not {number:g}")
        return number

    def _range(self) -> str:
        if self.most == math.inf:
            return f"at least {self.least:g}"
        return f"{self.least:g} to {self.most:g}"

    def _choice(self, value: str) -> str:
        if self.choices and value not in self.choices:
            raise SettingError(f"takes one of {', '.join(self.choices)}, not {_shown(value)}")
        return value


def _number_of(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _scalars(name: str, table: object) -> dict[str, Parameter]:
    """A detector's parameters."""
    if not isinstance(table, dict):
        raise SettingError(f"takes a table of parameters for {name}, not {_shown(table)}")
    wrong = [key for key, item in table.items() if not isinstance(item, bool | int | float | str)]
    if wrong:
        raise SettingError(f"{name}.{wrong[0]} takes a number, a text, true or false")
    return dict(table)


def _texts(name: str, value: object) -> tuple[str, ...]:
    """One list of a table of them."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingError(f"takes a list of texts for {name}, not {_shown(value)}")
    return tuple(value)


def _shown(value: object) -> str:
    return repr(value if not isinstance(value, str) else value[:60])[:80]


SETTINGS: Final = (
    Setting("targets", Form.TEXTS, (), "What `gpumon` watches when no target is named."),
    Setting(
        "period_s",
        Form.NUMBER,
        1.0,
        "Seconds between two ticks.",
        choices=(),
        least=0.1,
        most=86400,
    ),
    Setting(
        "all_jobs", Form.FLAG, False, "Every job that Slurm shows, not only yours, as `--all` does."
    ),
    Setting(
        "history.max_mib",
        Form.NUMBER,
        1024.0,
        "Most memory for the past, MiB. A small fleet takes far less; a large one reaches further "
        "back with more.",
        choices=(),
        least=16,
        most=65536,
    ),
    Setting(
        "terminal.theme",
        Form.TEXT,
        "dark",
        "Theme to begin with, until one is chosen in the terminal (`t`).",
        choices=("dark", "light", "contrast", "blind", "mono"),
    ),
    Setting(
        "terminal.ascii",
        Form.FLAG,
        False,
        "Draw ASCII only, until changed in the terminal (`:ascii`).",
    ),
    Setting(
        "terminal.bell",
        Form.FLAG,
        False,
        "Ring the terminal's bell for a new warning or worse, once no key was pressed for a "
        "minute.",
    ),
    Setting(
        "detectors.disabled",
        Form.TEXTS,
        (),
        "Detectors that are not run, by the names of `gpumon detectors list`.",
    ),
    Setting(
        "detectors.enabled",
        Form.TEXTS,
        (),
        "Detectors that run although they are off by default, as `gpumon detectors describe NAME` "
        "says of them.",
    ),
    Setting(
        "detectors.parameters",
        Form.PARAMETERS_BY_NAME,
        {},
        "A table of parameters by detector, as `gpumon detectors describe NAME` lists them.",
    ),
    Setting(
        "prices.currency",
        Form.TEXT,
        "",
        "Sign or name of the currency, shown after amounts.",
        choices=(),
        least=0,
    ),
    Setting(
        "prices.gpu_hour",
        Form.NUMBERS_BY_NAME,
        {},
        'Price of an hour of a GPU by its name or a part of it; "default" for all others.',
        choices=(),
        least=0,
    ),
    Setting("prices.kwh", Form.NUMBER, 0.0, "Price of a kilowatt-hour.", choices=(), least=0),
    Setting(
        "ledger.is_kept",
        Form.FLAG,
        False,
        "Store the ledger of GPU time on disk, for `gpumon report`, while gpumon watches.",
    ),
    Setting(
        "ledger.directory",
        Form.TEXT,
        "",
        "Folder of the ledger; empty: gpumon/ledger in $XDG_STATE_HOME (~/.local/state).",
    ),
    Setting(
        "serve.listen",
        Form.TEXT,
        "127.0.0.1:9777",
        "Where `gpumon serve` listens: `HOST:PORT`, or `unix:/path` for a socket that only you can "
        "use.",
    ),
    Setting(
        "serve.token_file",
        Form.TEXT,
        "",
        "File that only you can read (mode 0600), with a line `NAME TOKEN` for each token that "
        "`gpumon serve` takes; empty: it asks for none.",
    ),
    Setting(
        "serve.tokens",
        Form.TEXTS_BY_NAME,
        {},
        'Whose jobs the token of a name shows: `["user:ada"]`, or `["*"]` for all jobs.',
    ),
    Setting(
        "serve.tls_certificate",
        Form.TEXT,
        "",
        "Certificate chain of `gpumon serve`, PEM; empty: plain HTTP.",
    ),
    Setting("serve.tls_key", Form.TEXT, "", "Its key, PEM, in a file that only you can read."),
)

BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
TABLES: Final = frozenset(
    ".".join(setting.key.split(".")[:length])
    for setting in SETTINGS
    for length in range(1, setting.key.count(".") + 1)
)
"""Names of tables that only group settings."""


class Chosen(NamedTuple):
    """The value of one setting and where it comes from."""

    value: object
    origin: str
    """`default`, `FILE:LINE`, the environment variable, or the option."""


class Settings(NamedTuple):
    """Every setting's value."""

    chosen: Mapping[str, Chosen]

    def flag(self, key: str) -> bool:
        """Whether a setting is on."""
        return bool(self.chosen[key].value)

    def number(self, key: str) -> float:
        """Value of a setting that is a number."""
        return cast("float", self.chosen[key].value)

    def text(self, key: str) -> str:
        """Value of a setting that is a text."""
        return str(self.chosen[key].value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Value of a setting that is a list of texts."""
        return cast("tuple[str, ...]", self.chosen[key].value)

    def numbers(self, key: str) -> Mapping[str, float]:
        """Value of a setting that is a table of numbers."""
        return cast("Mapping[str, float]", self.chosen[key].value)

    def lists(self, key: str) -> Mapping[str, tuple[str, ...]]:
        """Value of a setting that is a table of lists of texts."""
        return cast("Mapping[str, tuple[str, ...]]", self.chosen[key].value)

    def parameters(self, key: str) -> Mapping[str, Mapping[str, Parameter]]:
        """Value of a setting that is a table of tables."""
        return cast("Mapping[str, Mapping[str, Parameter]]", self.chosen[key].value)


DEFAULTS: Final = Settings({s.key: Chosen(s.default, "default") for s in SETTINGS})
