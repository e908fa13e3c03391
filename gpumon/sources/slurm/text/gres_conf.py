"""Device files behind Slurm's IDX, of a gres.conf that lies on this machine.

IDX is the position of a GPU among the `File=` entries of its node. Where the file leaves the order
to autodetection, or groups several devices into one GPU, the order is not known and nothing is
assumed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.hostlist import MAX_NAMES, expand
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIRECTORIES: Final = (
    "/etc/slurm",
    "/etc/slurm-llnl",
    "/run/slurm/conf",
    "/var/spool/slurmd/conf-cache",
)
"""Where the file lies when `SLURM_CONF` does not say: packages' places, then configless ones."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest file that is read; ten thousand nodes with one line each need a tenth of it."""

MOST_NOTES: Final = 20
"""Lines that are not read and are named; of more only the number is reported."""

_LONGEST_PATH: Final = 4096
"""Linux's PATH_MAX."""

_PAIR: Final = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(\"[^\"]*\"|\S+)")
"""Nothing that was read is given back: a long word without `=` would be read again from each letter
on."""


class _Line(NamedTuple):
    """One line about GPUs."""

    nodes: frozenset[str] | None
    """Nodes it is about; None: every node that reads the file."""
    files: tuple[str, ...] | None
    """Device files in order; None: not known from this line."""


class GresConf(NamedTuple):
    """What one gres.conf says about GPUs."""

    lines: tuple[_Line, ...]
    notes: tuple[str, ...]
    """What was left out of account, one sentence each."""

    def gpu_files(self, node: str) -> tuple[str, ...]:
        """Device files of a node in IDX order; empty: not known."""
        files: list[str] = []
        for line in self.lines:
            if line.nodes is not None and node not in line.nodes:
                continue
            if line.files is None:
                return ()
            files.extend(line.files)
        return tuple(files) if len(files) == len(set(files)) else ()


NOT_FOUND: Final = GresConf((), ())
"""What is known without a file: nothing."""


def find_and_read(environ: Mapping[str, str]) -> GresConf:
    """The first gres.conf that this user may read; `NOT_FOUND` where there is none."""
    conf = environ.get("SLURM_CONF", "")
    places = ([str(Path(conf).parent)] if conf else []) + list(DIRECTORIES)
    for place in places:
        try:
            with Path(place, "gres.conf").open("rb") as file:
                return parse(file.read(MAX_BYTES + 1).decode("utf-8", "replace"))
        except OSError:
            # Absent or closed to this user: the next place may have it, and no file is no error.
            continue
    return NOT_FOUND


def parse(text: str) -> GresConf:
    """Lines about GPUs of a file's text; keys may be in any case, lines may be continued."""
    lines: list[_Line] = []
    notes: list[str] = []
    named = 0
    if len(text) > MAX_BYTES:
        notes.append(f"gres.conf is longer than {MAX_BYTES >> 20} MiB: the rest is not read")
    for number, line in enumerate(_logical_lines(text[:MAX_BYTES]), 1):
        if re.match(r"include\s", line, re.IGNORECASE):
            included = plain(line.split()[1], 80)
            notes.append(f"gres.conf includes {included}, which is not read")
            continue
        keys = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        try:
            parsed = _gpu_line(keys)
        except ValueError as error:
            notes.append(f"line {number} of gres.conf cannot be read: {error}")
            parsed = _Line(None, None)
        if parsed is not None:
            named += len(parsed.nodes or ()) + len(parsed.files or ())
            if named > MAX_NAMES:
                note = f"gres.conf names more than {MAX_NAMES} nodes and files"
                notes.insert(0, f"{note}: from line {number} on it is not read")
                break
            lines.append(parsed)
    if len(notes) > MOST_NOTES:
        left = f"{len(notes) - MOST_NOTES} more lines of gres.conf are not read"
        notes = [*notes[:MOST_NOTES], left]
    return GresConf(tuple(lines), tuple(notes))


def _logical_lines(text: str) -> Sequence[str]:
    """Lines without comments, a backslash at the end joining two, empty ones left out."""
    joined = re.sub(r"\\[ \t]*\r?\n", " ", text)
    bare = (re.split(r"(?<!\\)#", line, maxsplit=1)[0].strip() for line in joined.split("\n"))
    return [line for line in bare if line]


def _gpu_line(keys: Mapping[str, str]) -> _Line | None:
    """What one line says about GPUs; None: nothing.

    Raises:
        ValueError: a hostlist or a file list in it cannot be read.
    """
    # A line that only says AutoDetect= names no device; with File= in another the order is given.
    if keys.get("name", "").lower() != "gpu":
        return None
    nodes = frozenset(expand(keys["nodename"])) if "nodename" in keys else None
    if "file" in keys and "multiplefiles" not in keys:
        return _Line(nodes, tuple(plain(file, _LONGEST_PATH) for file in expand(keys["file"])))
    return _Line(nodes, None)
