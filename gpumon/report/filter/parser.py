"""The language of row filters, the same behind `/` and for `--filter`: text to a tree.

either  := both ('|' both)*
both    := single ('&'? single)*
single  := '!' single | '(' either ')' | column op value | column '?' | word | "text"
op      := == != ~ !~ < <= > >=
"""

from __future__ import annotations

from typing import Final

from gpumon.report.filter.tree import (
    ENDS_VALUE,
    MISSING_VALUE,
    SPECIAL,
    And,
    Compare,
    FilterError,
    Missing,
    Node,
    Not,
    Operator,
    Or,
    Word,
    joined,
)

MOST_CHARS: Final = 512
"""Length of a filter: more fits on no line, and bounds what a hostile caller may ask for."""

MOST_NESTED: Final = 32
"""Parentheses and negations inside of each other."""

_OPERATORS: Final[tuple[tuple[str, Operator], ...]] = (
    ("==", "=="), ("!=", "!="), ("!~", "!~"), ("=~", "~"), ("~=", "~"), ("<=", "<="),
    (">=", ">="), ("<", "<"), (">", ">"), ("=", "=="), ("~", "~"),
)  # fmt: skip
"""How operators may be written, the longer ones first."""


def parse(text: str) -> Node:
    """The tree of a filter.

    Raises:
        FilterError: It cannot be understood.
    """
    if len(text) > MOST_CHARS:
        raise FilterError(f"longer than {MOST_CHARS} characters", MOST_CHARS)
    return _Parser(text).whole()


def is_word(text: str) -> bool:
    """Whether a filter that can be understood is one text to look for, and nothing else."""
    return isinstance(parse(text), Word)


class _Parser:
    """Goes through the text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        """All of the text.

        Raises:
            FilterError: Something is left over, or missing.
        """
        found = self._either()
        if self._peek():
            raise FilterError("a ) without its (", self._at)
        return found

    def _peek(self) -> str:
        """The next character that is not blank; empty: there is none."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _either(self) -> Node:
        nodes = [self._both()]
        while self._peek() == "|":
            self._skip("|")
            nodes.append(self._both())
        return joined(Or, nodes)

    def _both(self) -> Node:
        nodes = [self._single()]
        while (char := self._peek()) and char not in "|)":
            if char == "&":
                self._skip("&")
            nodes.append(self._single())
        return joined(And, nodes)

    def _skip(self, sign: str) -> None:
        """Pass `&` or `|`, which may be doubled."""
        self._at += 2 if self._text.startswith(sign * 2, self._at) else 1

    def _single(self) -> Node:
        char, at = self._peek(), self._at
        if char in ("!", "(") and not self._operator():
            self._depth += 1
            if self._depth > MOST_NESTED:
                raise FilterError(f"more than {MOST_NESTED} signs deep", at)
            self._at += 1
            found = Not(self._single()) if char == "!" else self._bracketed(at)
            self._depth -= 1
            return found
        if char and char in "\"'":
            return Word(self._quoted(), at)
        word = self._run(SPECIAL)
        if not word:
            raise FilterError(self._nothing_here(char), at)
        return self._term(word, at)

    def _nothing_here(self, char: str) -> str:
        if not char:
            return "something is missing at the end"
        if self._operator():
            return "a column is missing before the operator"
        return f"something is missing before {char}"

    def _bracketed(self, at: int) -> Node:
        found = self._either()
        if self._peek() != ")":
            raise FilterError("a ( without its )", at)
        self._at += 1
        return found

    def _term(self, word: str, at: int) -> Node:
        """A comparison, a test for what is missing, or a bare word."""
        end = self._at
        self._peek()
        pair = self._operator()
        if pair is None:
            self._at = end
            if word.endswith("?") and len(word) > 1:
                return Missing(word[:-1], at)
            return Word(word, at)
        shape, operator = pair
        self._at += len(shape)
        char, value_at = self._peek(), self._at
        if char and char in "\"'":
            return Compare(
                name=word, operator=operator, value=self._quoted(), at=at, value_at=value_at
            )
        value = self._pattern() if operator in ("~", "!~") else self._run(ENDS_VALUE)
        if not value:
            raise FilterError(f"nothing to compare {word} with", value_at)
        if value == MISSING_VALUE and operator in ("==", "!="):
            missing = Missing(word, at)
            return missing if operator == "==" else Not(missing)
        return Compare(name=word, operator=operator, value=value, at=at, value_at=value_at)

    def _operator(self) -> tuple[str, Operator] | None:
        return next((p for p in _OPERATORS if self._text.startswith(p[0], self._at)), None)

    def _run(self, ends: frozenset[str]) -> str:
        """The characters up to a blank or one of `ends`."""
        start = self._at
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in ends or char.isspace():
                break
            self._at += 1
        return self._text[start : self._at]

    def _pattern(self) -> str:
        """A bare pattern: its own parentheses may hold `|`."""
        start, depth = self._at, 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace() or char == "&" or (depth == 0 and char in "|)"):
                break
            depth += (char == "(") - (char == ")")
            self._at += 2 if char == "\\" else 1
        self._at = min(self._at, len(self._text))
        return self._text[start : self._at]

    def _quoted(self) -> str:
        """The text between two equal quotation marks; what follows a backslash is literal."""
        start = self._at
        mark = self._text[start]
        found: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            following = self._text[self._at + 1 : self._at + 2]
            if char == "\\" and following and following in (mark, "\\"):
                found.append(following)
                self._at += 2
                continue
            self._at += 1
            if char == mark:
                return "".join(found)
            found.append(char)
        raise FilterError("a quotation mark is not closed", start)
