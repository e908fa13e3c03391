"""What a table begins with: eight columns at most, unless the user chooses more."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from gpumon.report import tables
from gpumon.report.facts.columns import Column, usual

MOST_AT_FIRST = 8

OF_A_MACHINE = "process.MACHINE_PROCESS_COLUMNS"
"""No view of its own: what a single machine shows below its GPUs, and `--once`. It has what
other tools for one machine have, GPU and kind among it."""


def shown_tables():
    """Every public list of columns."""
    for module in pkgutil.iter_modules(tables.__path__):
        named = vars(importlib.import_module(f"{tables.__name__}.{module.name}"))
        for name, value in named.items():
            is_public = name.endswith("COLUMNS") and not name.startswith("_")
            if is_public and value and isinstance(value[0], Column):
                yield f"{module.name}.{name}", value


TABLES = dict(shown_tables())


@pytest.mark.parametrize("name", sorted(TABLES.keys() - {OF_A_MACHINE}))
def test_no_table_begins_with_more_than_eight_columns(name):
    assert len(usual(TABLES[name])) <= MOST_AT_FIRST


def test_every_table_was_looked_at():
    assert OF_A_MACHINE in TABLES
    assert len(TABLES) >= 15
