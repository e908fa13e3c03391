"""Pressure stall information: how long tasks waited for CPU, memory and I/O."""

from math import isfinite
from typing import Dict

from gpumon.probe.kernel import files
from gpumon.probe.rows import NOT_SUPPORTED, Row

FILES = {"cpu": "cpu", "memory": "mem", "io": "io"}
"""Names of the files, and what the catalogue's keys call them."""


def parse(text: str) -> Dict[str, float]:
    """Share of the last 10 s by `some` and `full`; lines of another form are left out."""
    found: Dict[str, float] = {}
    for line in text.splitlines()[:8]:
        part, _, rest = line.partition(" ")
        name, _, percent = rest.partition(" ")[0].partition("=")
        if part in ("some", "full") and name == "avg10":
            try:
                share = float(percent) / 100
            except ValueError:
                continue
            if isfinite(share):
                found[part] = share
    return found


def read(row: Row, pattern: str, prefix: str) -> None:
    """Give a row the shares of CPU, memory and I/O.

    Args:
        row: Gets the values, or why they are missing.
        pattern: Path of a file with `%s` for `cpu`, `memory`, `io`; empty where there is none.
        prefix: What the catalogue's keys begin with.
    """
    for file, key in FILES.items():
        fields = {part: "%s%s_pressure_%s_ratio" % (prefix, key, part) for part in ("some", "full")}
        reason = NOT_SUPPORTED
        try:
            shares = parse(files.read(pattern % file, 4096)) if pattern else {}
        except OSError as error:
            shares, reason = {}, files.why(error)
        for part, field in fields.items():
            if part in shares:
                row.values[field] = shares[part]
        # Kernels before 5.13 have no line `full` for the CPU.
        row.lose(list(fields.values()), reason)
