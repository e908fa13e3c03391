"""Every thread and every lock of gpumon, as `threads.toml` beside this lists them.

Whoever starts a thread or makes a lock adds its row; how long an end is waited for is the code's.
"""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
LISTED: Final = ROOT / "tools" / "threads.toml"
STARTED: Final = frozenset({"Thread", "LoopThread", "WritingThread"})
"""What starts a thread once it is called."""
LOCKS: Final = frozenset({"Lock", "RLock", "Condition"})

HEAD: Final = """# Threads and locks

A tick and all in it is immutable, so reading one needs no lock. Every thread is a daemon: none
keeps gpumon alive, and an end waits for it no longer than the table says.
"""


class Thread(NamedTuple):
    """One thread, or one kind."""

    module: str
    name: str
    does: str
    hangs: str
    joined: str = ""
    """`module:NAME` of the constant that says how long its end is waited for; empty: not at all."""

    @property
    def joined_s(self) -> float | None:
        """Seconds that its end is waited for at most."""
        module, _, name = self.joined.partition(":")
        return float(getattr(import_module(f"gpumon.{module}"), name)) if name else None


class Lock(NamedTuple):
    """A lock: where it is, what it guards, and what may be taken within."""

    module: str
    lock: str
    guards: str
    within: tuple[str, ...] = ()
    """Locks that are taken while it is held, as `module:name`."""

    @property
    def key(self) -> str:
        """As others name it."""
        return f"{self.module}:{self.lock}"


def listed() -> tuple[list[Thread], list[Lock]]:
    """The rows of both lists, in their order."""
    data = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    locks = [Lock(**{**row, "within": tuple(row.get("within", ()))}) for row in data["locks"]]
    return [Thread(**row) for row in data["threads"]], locks


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted((ROOT / "gpumon").rglob("*.py")):
        place = file.relative_to(ROOT / "gpumon").with_suffix("")
        yield ".".join(place.parts), ast.parse(file.read_text(encoding="utf-8"))


def _called(node: ast.AST) -> str:
    """Name of what a call calls; empty where it is no call."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def in_code() -> tuple[set[str], set[str]]:
    """Modules that start threads, and locks that the code makes, as `module:name`."""
    threads, locks = set(), set()
    for module, tree in _modules():
        for node in ast.walk(tree):
            if _called(node) in STARTED:
                threads.add(module)
            if isinstance(node, ast.Assign) and _called(node.value) in LOCKS:
                locks |= {f"{module}:{ast.unparse(to).rpartition('.')[2]}" for to in node.targets}
    return threads, locks


def threads_page() -> str:
    """Both lists as a page."""
    threads, locks = listed()
    lines = [HEAD, "| thread | what it alone does | what may hold it up | end | module |"]
    lines.append("|---|---|---|---|---|")
    for one in threads:
        end = "not waited for" if one.joined_s is None else f"{one.joined_s:g} s"
        lines.append(f"| {one.name} | {one.does} | {one.hangs} | {end} | `{one.module}` |")
    lines += ["", "One lock is taken within another only in this order:", ""]
    lines += [f"- `{one.key}`, then `{inner}`" for one in locks for inner in one.within]
    lines += ["", "| lock | what it guards |", "|---|---|"]
    lines += [f"| `{one.key}` | {one.guards} |" for one in locks]
    return "\n".join(lines)
