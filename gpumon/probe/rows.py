"""Rows of measured values and the compact blocks that they become on the wire."""

from operator import itemgetter
from typing import Any, Dict, List

NOT_SUPPORTED = "not_supported"
NO_PERMISSION = "no_permission"
NOT_SAMPLED = "not_sampled"
NO_PROCESS = "no_process"
LOST = "lost"
NOT_SHARED = "not_shared"
FAILED = "failed"


def too_many(where: str, what: str, count: int, most: int, hint: str) -> Dict[str, str]:
    """The error with how many things of a node are passed over, and what shows them."""
    message = "%d %s: %d are read, %d are not" % (count, what, most, count - most)
    return {"where": where, "message": message, "hint": hint}


class Row:
    """Values, text labels and reasons for missing ones of a single entity."""

    __slots__ = ("at", "key", "labels", "missing", "read_at", "values")

    def __init__(self, key: str, at: float) -> None:
        """Start empty; `at` is the node's monotonic time of the reading, seconds."""
        self.key = key
        self.at = at
        self.values: Dict[str, float] = {}
        self.labels: Dict[str, str] = {}
        self.missing: Dict[str, str] = {}
        self.read_at: Dict[str, float] = {}
        """The times of counters that were read before `at`."""

    def add(self, part: "Row") -> None:
        """Take over everything that another reading of the same entity found."""
        self.values.update(part.values)
        # Of a link, of which there are many, the others are mostly empty.
        if part.labels:
            self.labels.update(part.labels)
        if part.missing:
            self.missing.update(part.missing)
        if part.read_at:
            self.read_at.update(part.read_at)

    def copy(self) -> "Row":
        """A row of its own with the same."""
        made = Row(self.key, self.at)
        made.add(self)
        return made

    def lose(self, fields: List[str], reason: str) -> None:
        """Give every field that has no value the same reason."""
        values, labels, missing = self.values, self.labels, self.missing
        for field in fields:
            if field not in values and field not in labels and field not in missing:
                missing[field] = reason


def block(rows: List[Row]) -> Dict[str, Any]:
    """Columns of the rows: `keys`, `at`, `columns`, `labels`, `missing`.

    `read_at`, where there is any, has the times of counters that were read before their row.

    A reason that holds for every row is one string, else a map from row number to reason.
    """
    if not rows:
        # Of jobs' groups, ports, mounts and events many a node has none.
        return {"keys": [], "at": [], "columns": {}, "labels": {}, "missing": {}}
    missing: Dict[str, Any] = {}
    for field, reasons in columns([row.missing for row in rows]).items():
        if reasons.count(reasons[0]) == len(reasons):
            missing[field] = reasons[0]
        else:
            missing[field] = {str(i): r for i, r in enumerate(reasons) if r is not None}
    made = {
        "keys": [row.key for row in rows],
        "at": [round(row.at, 4) for row in rows],
        "columns": columns([row.values for row in rows]),
        "labels": columns([row.labels for row in rows]),
        "missing": missing,
    }
    read_at = columns([row.read_at for row in rows])
    return {**made, "read_at": read_at} if read_at else made


NAMED = ("columns", "labels", "missing")
"""Parts of a block that hold something by name."""


class Changes:
    """Leaves out of blocks what was the same in the report before: most of a GPU's values are."""

    def __init__(self) -> None:
        """The first blocks are whole."""
        self._last: Dict[str, Dict[str, Any]] = {}

    def of(self, name: str, now: Dict[str, Any]) -> Dict[str, Any]:
        """The block, or without `keys` where what it lacks is as it was in the one before."""
        last, self._last[name] = self._last.get(name), now
        if last is None or last["keys"] != now["keys"]:
            return now
        if any(last[part].keys() != now[part].keys() for part in NAMED):
            return now
        changed = {key: part for key, part in now.items() if key != "keys"}
        for part in NAMED:
            known = last[part]
            changed[part] = {key: v for key, v in now[part].items() if known.get(key) != v}
        return changed


def columns(rows: List[Dict[str, Any]]) -> Dict[str, List[Any]]:
    """What the rows hold by name, in order; None where a row lacks it."""
    names = sorted(set().union(*rows))
    if len(names) > 1:
        # Mostly all rows hold the same, and then one call takes all of a row.
        try:
            return dict(zip(names, map(list, zip(*map(itemgetter(*names), rows)))))
        except KeyError:
            pass
    return {name: [row.get(name) for row in rows] for name in names}
