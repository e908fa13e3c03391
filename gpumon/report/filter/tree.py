"""A row filter as a tree; it is written as people type it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gpumon.base.errors import InputError

Operator = Literal["==", "!=", "~", "!~", "<", "<=", ">", ">="]

SPECIAL: Final = frozenset("&|()!<>=~\"'")
"""Characters that end a bare word."""

ENDS_VALUE: Final = frozenset("&|()")
"""Characters that end a bare value; all others may be in it."""

MISSING_VALUE: Final = "-"
"""Bare behind `==`: the column has no value."""


class FilterError(InputError, ValueError):
    """A filter cannot be understood; the message is one line."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at
        """Position in the text that the message is about, from 0."""


@dataclass(frozen=True, slots=True)
class Word:
    """A text that the row must show, in any case."""

    text: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value."""

    name: str
    operator: Operator
    value: str
    at: int = field(default=0, compare=False)
    value_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Missing:
    """A column without a value."""

    name: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """What must not hold."""

    node: Node


@dataclass(frozen=True, slots=True)
class And:
    """Two or more that must all hold, none of them an `And`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more of which one must hold, none of them an `Or`."""

    nodes: tuple[Node, ...]


Node = Word | Compare | Missing | Not | And | Or


def joined(kind: type[And] | type[Or], nodes: list[Node]) -> Node:
    """The nodes as one; those of the same kind among them are taken apart."""
    flat: list[Node] = []
    for node in nodes:
        flat += node.nodes if isinstance(node, kind) else (node,)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def written(node: Node) -> str:
    """The filter as text that means the same tree."""
    match node:
        case Word(text):
            is_plain = text and not text.endswith("?") and not _has(text, SPECIAL)
            return text if is_plain or text == "?" else quoted(text)
        case Missing(name):
            return f"{name}?"
        case Compare(name, operator, value):
            is_plain = value and value[0] not in "\"'=~" and not _has(value, ENDS_VALUE)
            return f"{name}{operator}{value if is_plain and value != '-' else quoted(value)}"
        case Not(inner):
            text = written(inner)
            return f"!({text})" if isinstance(inner, And | Or) else f"!{text}"
        case And(nodes):
            return " & ".join(
                f"({written(one)})" if isinstance(one, Or) else written(one) for one in nodes
            )
        case Or(nodes):
            return " | ".join(written(one) for one in nodes)


def quoted(text: str) -> str:
    """The text between quotation marks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _has(text: str, characters: frozenset[str]) -> bool:
    return any(char in characters or char.isspace() for char in text)
