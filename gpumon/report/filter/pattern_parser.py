"""How the patterns of row filters are written: the common part of regular expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpumon.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[[str], bool]

MOST_CHARS: Final = 128
"""Length of a pattern."""

MOST_GROUPS: Final = 16
"""Groups inside of each other."""

MOST_COUNT: Final = 64
"""Largest number in `{m,n}`."""


class PatternError(InputError, ValueError):
    """A pattern cannot be understood."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at
        """Position in the pattern, from 0."""


@dataclass(frozen=True, slots=True)
class One:
    """One character that passes a test; it is asked in lower case."""

    test: Test


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of the text."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the text."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Parts one of which must match."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part again and again."""

    part: Part
    least: int
    most: int | None
    """None: as often as it comes."""


Part = One | Start | End | Sequence | Alternatives | Repeat


def syntax_of(text: str) -> Part:
    """The parts of a pattern.

    Raises:
        PatternError: It is wrong, too long, or uses what is not offered here.
    """
    if len(text) > MOST_CHARS:
        raise PatternError(f"a pattern has at most {MOST_CHARS} characters", MOST_CHARS)
    reader = _Reader(text)
    found = reader.alternatives()
    if reader.peek():
        raise PatternError("a ) without its ( in the pattern", reader.at)
    return found


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: Final[dict[str, Test]] = {"d": str.isdigit, "w": _is_word, "s": str.isspace}


def _not(test: Test) -> Test:
    return lambda char: not test(char)


def _same(wanted: str) -> Test:
    lower = wanted.lower()
    return lambda char: char == lower


def _between(low: str, high: str) -> Test:
    """A range that ignores case."""
    return lambda char: low <= char <= high or low <= char.upper() <= high


class _Reader:
    """Goes through a pattern once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.at = 0

    def peek(self) -> str:
        """The next character; empty: there is none."""
        return self._text[self.at : self.at + 1]

    def _take(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def alternatives(self) -> Part:
        """Up to a parenthesis that closes, or the end."""
        parts = [self._sequence()]
        while self.peek() == "|":
            self.at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while (char := self.peek()) and char not in "|)":
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, part: Part) -> Part:
        while (char := self.peek()) and char in "*+?{":
            at = self.at
            least, most = self._count()
            if isinstance(part, Start | End):
                raise PatternError(f"nothing to repeat before {char}", at)
            part = Repeat(part, least, most)
            if self.peek() == "?":
                # Whether a match is short or long makes no difference to whether there is one.
                self.at += 1
        return part

    def _count(self) -> tuple[int, int | None]:
        at, char = self.at, self._take()
        if char != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        end = self._text.find("}", self.at)
        low, comma, high = self._text[self.at : max(end, self.at)].partition(",")
        is_number = (low.isascii() and low.isdigit(), high.isascii() and high.isdigit())
        if end < 0 or not is_number[0] or (high and not is_number[1]):
            raise PatternError("{ counts: {2}, {2,} or {2,5}; \\{ is the character", at)
        self.at = end + 1
        least = int(low)
        most = int(high) if high else None if comma else least
        if least > MOST_COUNT or (most is not None and not least <= most <= MOST_COUNT):
            raise PatternError(f"counts rise from 0 to at most {MOST_COUNT}", at)
        return least, most

    def _atom(self) -> Part:
        at, char = self.at, self._take()
        if char == "(":
            return self._group(at)
        if char == "[":
            return One(self._set(at))
        if char == "\\":
            return One(self._escaped(at))
        if char in "*+?{":
            raise PatternError(f"nothing to repeat before {char}", at)
        if char in "^$":
            return Start() if char == "^" else End()
        return One(_any if char == "." else _same(char))

    def _group(self, at: int) -> Part:
        self._depth += 1
        if self._depth > MOST_GROUPS:
            raise PatternError(f"more than {MOST_GROUPS} groups deep", at)
        if self._text.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise PatternError("(? is not supported", at)
        found = self.alternatives()
        if self._take() != ")":
            raise PatternError("a ( without its ) in the pattern", at)
        self._depth -= 1
        return found

    def _escaped(self, at: int) -> Test:
        char = self._take()
        if not char:
            raise PatternError("nothing behind \\", at)
        if char.lower() in _CLASSES and char.isascii():
            test = _CLASSES[char.lower()]
            return _not(test) if char.isupper() else test
        if char.isascii() and char.isalnum():
            raise PatternError(f"\\{char} is not supported", at)
        return _same(char)

    def _set(self, at: int) -> Test:
        """What is between [ and ]."""
        is_negated = self.peek() == "^"
        self.at += is_negated
        tests: list[Test] = []
        while not tests or self.peek() != "]":
            char = self._take()
            if not char:
                raise PatternError("a [ without its ]", at)
            if char == "\\":
                tests.append(self._escaped(self.at - 1))
                continue
            high = self._text[self.at + 1 : self.at + 2]
            if self.peek() == "-" and high and high not in "]\\":
                if high < char:
                    raise PatternError(f"{char}-{high} runs backwards", self.at - 1)
                self.at += 2
                tests.append(_between(char, high))
            else:
                tests.append(_same(char))
        self.at += 1
        found = tuple(tests)

        def test(char: str) -> bool:
            return any(one(char) for one in found)

        return _not(test) if is_negated else test


def _any(_char: str) -> bool:
    return True
