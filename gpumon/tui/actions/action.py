"""What an action is, and the views that have any."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

RootName = Literal[
    "jobs",
    "gpus",
    "nodes",
    "pending",
    "ended",
    "users",
    "accounts",
    "partitions",
    "fleet",
    "reservations",
    "processes",
]
"""The views of the whole fleet."""

ViewName = Literal[
    RootName,
    "job",
    "gpu",
    "node",
    "page",
    "columns",
    "findings",
    "finding",
    "curves",
    "ranks",
    "commands",
]

ROOTS: Final[tuple[RootName, ...]] = get_args(RootName)
"""The views of the whole fleet in the order of Tab; the first nine have the digits."""

NEED_NO_QUEUE: Final[tuple[ViewName, ...]] = ("gpus", "nodes", "fleet", "processes")
"""Views that show something where none of the targets is a queue."""

FLEET: Final[frozenset[ViewName]] = frozenset(ROOTS)
MAPS: Final[frozenset[ViewName]] = frozenset({"fleet"})
TABLES: Final[frozenset[ViewName]] = (FLEET - MAPS) | {"job", "findings"}
CHARGED: Final[frozenset[ViewName]] = frozenset({"jobs", "users", "accounts", "partitions"})
"""Tables with a row for each thing that GPU time is charged to."""
SECTIONED: Final[frozenset[ViewName]] = frozenset({"gpu", "node"})
CELLS: Final[frozenset[ViewName]] = MAPS | {"ranks"}
"""Views where arrows go from cell to cell."""
MAIN: Final[frozenset[ViewName]] = FLEET | TABLES | SECTIONED | CELLS
EVERYWHERE: Final[frozenset[ViewName]] = MAIN | {"page", "columns", "finding", "curves", "commands"}
TIMED: Final[frozenset[ViewName]] = EVERYWHERE - {"columns"}
"""Views of an instant: which columns a table has is the same at any time."""
JOBS: Final[frozenset[ViewName]] = frozenset(
    {"jobs", "gpus", "pending", "ended", "findings", "processes"}
)
"""Tables whose rows are jobs, or belong to one."""
PROBLEMS: Final[frozenset[ViewName]] = frozenset({"jobs", "gpus", "nodes", "job", "findings"})
"""Tables whose rows are what findings are about."""
LISTED: Final[frozenset[ViewName]] = TABLES | {"columns", "commands"}
"""Views whose lines a filter with columns goes through."""


class Action(NamedTuple):
    """One thing the user can do."""

    name: str
    """Name of the `action_` method of the views."""
    keys: tuple[str, ...]
    """Textual's key names; the first is shown."""
    shown: str
    """The keys as people write them."""
    label: str
    """One or two words for the footer; empty: not in the footer."""
    doc: str
    views: frozenset[ViewName]
    takes_key: bool = False
    """Whether the method gets the key that was pressed."""
