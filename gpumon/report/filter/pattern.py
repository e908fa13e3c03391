"""Regular expressions whose search takes time linear in the text, with any pattern.

Python's own engine goes back and forth on some patterns for hours. This one follows all ways of
matching at once, so that a pattern typed by mistake never delays a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.filter.pattern_parser import (
    Alternatives,
    End,
    One,
    PatternError,
    Repeat,
    Sequence,
    Start,
    syntax_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.report.filter.pattern_parser import Part

MOST_TEXT: Final = 512
"""Characters of a cell that are searched, or compared."""

MOST_STATES: Final = 1000
"""Places in a pattern once its counted repeats are written out."""

_MOST_KNOWN: Final = 20_000
"""Steps that are remembered before all are forgotten: some megabytes."""


class _State:
    """A set of places that a match may have reached, with the steps from it that are known."""

    __slots__ = ("is_match", "is_match_at_end", "places", "steps")

    def __init__(self, places: frozenset[int], is_match: bool, is_match_at_end: bool) -> None:
        self.places, self.is_match, self.is_match_at_end = places, is_match, is_match_at_end
        self.steps: dict[str, _State] = {}


class Pattern:
    """A compiled pattern; it ignores case."""

    def __init__(self, text: str) -> None:
        """Raises `PatternError` for a pattern that is wrong, too large or not understood."""
        self._tests: list[Callable[[str], bool] | None] = []
        self._next: list[list[int]] = []
        self._starts: set[int] = set()
        self._ends: set[int] = set()
        self._match = self._place([])
        self._first = self._add(syntax_of(text), self._match)
        self._restart = self._closure([self._first], is_start=False)
        self._known: dict[frozenset[int], _State] = {}
        self._step_count = 0
        self._begin = self._state(self._closure([self._first], is_start=True))

    def found_in(self, text: str) -> bool:
        """Whether the text has a match anywhere."""
        state = self._begin
        if state.is_match:
            return True
        for char in text[:MOST_TEXT].lower():
            state = state.steps.get(char) or self._step(state, char)
            if state.is_match:
                return True
        return state.is_match_at_end

    # Following

    def _step(self, state: _State, char: str) -> _State:
        if self._step_count >= _MOST_KNOWN:
            self._step_count = 0
            for known in self._known.values():
                known.steps = {}
            self._known = {self._begin.places: self._begin}
        reached: set[int] = set()
        for place in state.places:
            test = self._tests[place]
            if test is not None and test(char):
                reached.update(self._next[place])
        found = self._state(self._closure(reached, is_start=False) | self._restart)
        state.steps[char] = found
        self._step_count += 1
        return found

    def _state(self, places: frozenset[int]) -> _State:
        known = self._known.get(places)
        if known is None:
            behind = (after for place in places & self._ends for after in self._next[place])
            ended = self._closure(behind, is_start=False, is_end=True)
            is_match = self._match in places
            known = _State(places, is_match, is_match or self._match in ended)
            self._known[places] = known
        return known

    def _closure(
        self, places: Iterable[int], *, is_start: bool, is_end: bool = False
    ) -> frozenset[int]:
        """The places reached without reading a character."""
        found: set[int] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place in found:
                continue
            found.add(place)
            is_barred = (place in self._starts and not is_start) or (
                place in self._ends and not is_end
            )
            if self._tests[place] is None and not is_barred:
                waiting += self._next[place]
        return frozenset(found)

    # Building

    def _place(self, after: list[int], test: Callable[[str], bool] | None = None) -> int:
        if len(self._tests) >= MOST_STATES:
            raise PatternError("the pattern is too large once its repeats are written out", 0)
        self._tests.append(test)
        self._next.append(after)
        return len(self._tests) - 1

    def _add(self, part: Part, after: int) -> int:
        """Where a part begins that goes on at `after`."""
        match part:
            case One(test):
                return self._place([after], test)
            case Sequence(parts):
                for one in reversed(parts):
                    after = self._add(one, after)
                return after
            case Alternatives(parts):
                return self._place([self._add(one, after) for one in parts])
            case Start():
                place = self._place([after])
                self._starts.add(place)
                return place
            case End():
                place = self._place([after])
                self._ends.add(place)
                return place
            case Repeat():
                return self._add_repeat(part, after)

    def _add_repeat(self, part: Repeat, after: int) -> int:
        if part.most is None:
            begin = self._place([after])
            self._next[begin].append(self._add(part.part, begin))
        else:
            begin = after
            for _ in range(part.most - part.least):
                begin = self._place([self._add(part.part, begin), after])
        for _ in range(part.least):
            before, begin = begin, self._add(part.part, begin)
            if begin == before:
                # Nothing again and again is nothing; nested, it would be written out for ever.
                break
        return begin
