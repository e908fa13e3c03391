"""Which branches of a parser are taken: both ways of each conditional jump of its bytecode."""

from __future__ import annotations

import ast
import dis
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from tests.fuzz.target import Target

GPUMON: Final = Path(__file__).parents[2] / "gpumon"

Way = tuple[int, bool]
"""Where a conditional jump is, and whether it was taken."""


class Function(NamedTuple):
    """One function of a file: its jumps, by place, with what follows where one is not taken."""

    name: str
    line: int
    nexts: dict[int, int]
    handlers: frozenset[int]
    """Of these, where an exception is compared: that none matches is an error that nobody
    documented, so it counts as one way."""

    @property
    def ways(self) -> int:
        """Ways to go."""
        return 2 * len(self.nexts) - len(self.handlers)


class Taken:
    """Watches the functions of a target's files while inputs are read."""

    def __init__(self, target: Target) -> None:
        self.every = {
            key: one for module in target.modules for key, one in _counted(module, target)
        }
        self._seen: dict[tuple[str, int, str], set[Way]] = {key: set() for key in self.every}

    @property
    def ways(self) -> int:
        """Ways that there are."""
        return sum(one.ways for one in self.every.values())

    @property
    def taken(self) -> int:
        """Ways that were taken."""
        return sum(map(len, self._seen.values()))

    def missed(self) -> list[str]:
        """Where a way was never taken, `file:line function`."""
        found = []
        for key, one in self.every.items():
            left = one.ways - len(self._seen[key])
            if left:
                found.append(f"{Path(key[0]).name}:{one.line} {one.name}: {left} of {one.ways}")
        return found

    def watch(self, run: Callable[[], None]) -> None:
        """Run something and note what it takes."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            run()
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        one = self.every.get(key)
        if one is None or len(self._seen[key]) == one.ways:
            return None
        seen, nexts, handlers = self._seen[key], one.nexts, one.handlers
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        last = -1

        def step(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal last
            if event == "opcode":
                at = frame.f_lasti
                if last in nexts and not (last in handlers and at != nexts[last]):
                    seen.add((last, at != nexts[last]))
                last = at
            elif event == "exception":
                last = -1
            return step

        return step


@cache
def _functions(module: str) -> tuple[tuple[tuple[str, int, str], Function], ...]:
    path = GPUMON / module
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    classes = _classes(path)
    return tuple(_inside(code, "", classes))


def _classes(path: Path) -> frozenset[tuple[str, int]]:
    """Name and line of each class: its body is no function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return frozenset(
        (node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)]))
        for node in found
    )


def _inside(
    code: CodeType, above: str, classes: frozenset[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int, str], Function]]:
    for const in code.co_consts:
        if not isinstance(const, type(code)):
            continue
        name = f"{above}{const.co_name}"
        if (const.co_name, const.co_firstlineno) not in classes:
            key = (const.co_filename, const.co_firstlineno, const.co_name)
            # What is outside of functions has run before any input.
            if not name.startswith("<"):
                yield key, Function(name, const.co_firstlineno, *_jumps(const))
        yield from _inside(const, f"{name}.", classes)


def _jumps(code: CodeType) -> tuple[dict[int, int], frozenset[int]]:
    """Conditional jumps, each with the instruction behind it, and those that compare exceptions."""
    steps = list(dis.get_instructions(code))
    jumps = {*dis.hasjrel, *dis.hasjabs}
    found: dict[int, int] = {}
    handlers = set()
    for before, step, behind in zip(steps, steps[1:], steps[2:], strict=False):
        is_conditional = "_IF_" in step.opname or step.opname == "FOR_ITER"
        # The end of a `with` asks whether its manager takes an error for its own: ours never do.
        if step.opcode in jumps and is_conditional and before.opname != "WITH_EXCEPT_START":
            found[step.offset] = behind.offset
            if before.opname == "CHECK_EXC_MATCH":
                handlers.add(step.offset)
    return found, frozenset(handlers)


def _counted(module: str, target: Target) -> Iterator[tuple[tuple[str, int, str], Function]]:
    for key, one in _functions(module):
        if not one.name.startswith(target.aside) or not target.aside:
            yield key, one
