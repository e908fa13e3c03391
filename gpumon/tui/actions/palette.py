"""The command line behind `:`: what can be gone to by name, how it is completed and understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import InputError
from gpumon.tui.actions.action import ROOTS
from gpumon.tui.look.themes import SHORT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.report.facts.groups import ScopeKind
    from gpumon.report.facts.tick_index import Digest

SCOPES: Final[tuple[ScopeKind, ...]] = ("user", "account", "partition", "reservation")
"""Words for groups of jobs."""

PAGES: Final = ("findings", "errors", "patterns", "ledger", "help", "ascii", "quit")
"""Words that do what the action of the same name does."""

NAMING: Final = ("name", "unname")
"""Words that give a pattern a name, and take one back."""

KINDS: Final = ("job", "node", "gpu", *SCOPES, "theme", *NAMING)
"""Words that are followed by a name."""

ALIASES: Final = {
    "q": "quit",
    "alerts": "findings",
    "books": "ledger",
    "queue": "pending",
    "pd": "pending",
    "ps": "processes",
}
"""What people type who know other tools."""

_HOW_TO_NAME: Final = "give a pattern's number and a name, such as: name 2 slow_tokeniser"

MOST_DIGITS: Final = 9
"""Of a pattern's number."""

MOST_NAMES: Final = 200
"""Names that are tried for a completion: more fit on no line."""


class Destination(NamedTuple):
    """Where a command leads."""

    kind: str
    """One of `ROOTS`, `PAGES` or `KINDS`."""
    name: str = ""
    """Job id, node, GPU's UUID, group or theme, for one of `KINDS`."""


class UnknownCommandError(InputError):
    """A command leads nowhere; the message says why."""


def names_of(digest: Digest | None, kind: str) -> tuple[str, ...]:
    """The names that a kind of thing has in this tick, as people write them, sorted."""
    if kind == "theme":
        return tuple(SHORT_NAMES)
    if kind in NAMING:
        # Only who looks for patterns knows how many there are, and who keeps names which.
        return ()
    if digest is None:
        return ()
    tick = digest.tick
    found: Iterable[str]
    if kind == "job":
        found = (view.job.label for view in tick.jobs)
    elif kind == "node":
        found = tick.nodes
    elif kind == "gpu":
        found = _gpu_names(digest)
    elif kind == "user":
        found = (view.job.user for view in tick.jobs)
    elif kind == "account":
        found = (view.job.account for view in tick.jobs)
    elif kind == "partition":
        listed = tick.queue.partitions if tick.queue else ()
        found = [part.name for part in listed] or [view.job.partition for view in tick.jobs]
    else:
        found = (what.name for what in (tick.queue.reservations if tick.queue else ()))
    return digest.remembered(("names", kind), lambda: tuple(sorted({n for n in found if n})))


def _gpu_names(digest: Digest) -> dict[str, str]:
    """UUIDs by `node:index`, as the crumbs name GPUs."""
    gpus = digest.tick.gpus.values()
    return {f"{g.node}:{g.nvml_index}": g.uuid for g in gpus if g.nvml_index is not None}


def completions(text: str, digest: Digest | None) -> tuple[str, ...]:
    """Whole commands that begin like this text, the likeliest first."""
    head, blank, rest = text.lstrip().partition(" ")
    if not blank:
        words = (*ROOTS, *KINDS, *PAGES)
        return tuple(word for word in words if word.startswith(head.lower()))
    kind = _word(head, KINDS)
    if kind is None:
        return ()
    rest = rest.strip()
    names = (name for name in names_of(digest, kind) if name.startswith(rest))
    return tuple(f"{kind} {name}" for name, _ in zip(names, range(MOST_NAMES), strict=False))


def completed(text: str, digest: Digest | None) -> str:
    """The text continued as far as all its completions agree."""
    found = completions(text, digest)
    if not found:
        return text
    first, last = min(found), max(found)
    same = next((i for i, char in enumerate(first) if last[i : i + 1] != char), len(first))
    agreed = first[:same]
    if len(found) == 1 and agreed in KINDS:
        return f"{agreed} "
    return agreed if len(agreed) > len(text.lstrip()) else text


def understood(text: str, digest: Digest | None) -> Destination:
    """Where a command leads: a view, a kind and a name, or a bare name that only one thing has.

    Raises:
        UnknownCommandError: Nothing is called so, or too much.
    """
    head, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    head = ALIASES.get(head.lower(), head)
    if not head:
        raise UnknownCommandError("nothing typed: Tab completes, Esc leaves")
    kind = _word(head, KINDS)
    if rest:
        if kind is None:
            raise UnknownCommandError(f"no kind of thing is called “{head}”: {', '.join(KINDS)}")
        return Destination(kind, _named(digest, kind, rest))
    if (view := _word(head, (*ROOTS, *PAGES))) is not None:
        return Destination(view)
    if kind == "name":
        raise UnknownCommandError(_HOW_TO_NAME)
    if kind is not None:
        raise UnknownCommandError(f"{kind}: which one? Tab completes its name")
    owners = [kind for kind in KINDS if head in names_of(digest, kind)]
    if len(owners) == 1:
        return Destination(owners[0], _named(digest, owners[0], head))
    if owners:
        raise UnknownCommandError(f"“{head}” is several things: type {' or '.join(owners)} first")
    raise UnknownCommandError(f"nothing is called “{head}”: try {', '.join(ROOTS)}")


def _word(head: str, words: tuple[str, ...]) -> str | None:
    """The word that is meant: the same one, or the first that begins so."""
    head = head.lower()
    return head if head in words else next((word for word in words if word.startswith(head)), None)


def _named(digest: Digest | None, kind: str, name: str) -> str:
    """The identity behind a name.

    Raises:
        UnknownCommandError: Nothing of this kind is called so.
    """
    if kind == "theme" and name in SHORT_NAMES:
        return SHORT_NAMES[name]
    if kind == "unname":
        return name
    if kind == "name":
        number, _, chosen = name.partition(" ")
        if not (number.isdecimal() and len(number) < MOST_DIGITS and chosen.strip()):
            raise UnknownCommandError(_HOW_TO_NAME)
        return f"{number} {chosen.strip()}"
    if digest is not None and name in names_of(digest, kind):
        if kind == "gpu":
            return _gpu_names(digest)[name]
        if kind == "job":
            return next(v.job.job_id for v in digest.tick.jobs if v.job.label == name)
        return name
    if digest is not None and kind == "job" and digest.tick.job(name) is not None:
        return name
    if digest is not None and kind == "gpu" and name in digest.tick.gpus:
        return name
    raise UnknownCommandError(f"no {kind} is called “{name}”")
