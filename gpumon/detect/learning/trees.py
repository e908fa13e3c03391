"""Boosted trees as plain numbers: a sum of small trees, computed for many rows at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

import numpy as np

from gpumon.base.errors import DamagedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_TREES: Final = 400
"""Trees of a model. A choice: several times as many as a fit makes."""
MOST_NODES: Final = 127
"""Of one tree: seven levels."""

_MOST_PLACES: Final = 2**31
"""No place in a tree or a row of features lies beyond."""


class ModelError(DamagedError):
    """A file is not a model that this version can use; the message says why, in one line."""


class Tree(NamedTuple):
    """One tree; a node's children stand behind it."""

    feature: NDArray[np.intp]
    """Which column is asked; -1: a leaf."""
    threshold: Floats
    """Up to here it goes left."""
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    is_missing_left: NDArray[np.bool_]
    """Where a missing value goes."""
    value: Floats
    """What a leaf adds."""

    def of(self, rows: Floats) -> Floats:
        """What it adds for each row."""
        at = np.zeros(len(rows), np.intp)
        while True:
            asked = self.feature[at]
            inner = np.flatnonzero(asked >= 0)
            if not len(inner):
                return self.value[at]
            node = at[inner]
            values = rows[inner, asked[inner]]
            is_left = np.where(np.isnan(values), self.is_missing_left[node],
                               values <= self.threshold[node])  # fmt: skip
            at[inner] = np.where(is_left, self.left[node], self.right[node])

    def plain(self) -> list[list[float]]:
        """As JSON: a row a node. Thresholds stay as they are: values in training may equal them."""
        columns = zip(*(part.tolist() for part in self), strict=True)
        return [[feature, threshold, left, right, int(missing), round(value, 7)]
                for feature, threshold, left, right, missing, value in columns]  # fmt: skip


class Trees(NamedTuple):
    """A sum of trees."""

    base: float
    trees: tuple[Tree, ...]

    def of(self, rows: Floats) -> Floats:
        """The sum for each row."""
        total = np.full(len(rows), self.base)
        for tree in self.trees:
            total += tree.of(rows)
        return total

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"base": round(self.base, 7), "trees": [tree.plain() for tree in self.trees]}


def trees_from(value: object, columns: int) -> Trees:
    """Trees as JSON told them.

    Raises:
        ModelError: They are none, or would not end.
    """
    if not isinstance(value, dict) or not isinstance(value.get("trees"), list):
        raise ModelError("trees are missing")
    if len(value["trees"]) > MOST_TREES:
        raise ModelError(f"more than {MOST_TREES} trees")
    base = value.get("base")
    if not _is_number(base):
        raise ModelError("the base of trees is not a number")
    return Trees(float(base), tuple(_tree(one, columns) for one in value["trees"]))


def _tree(value: object, columns: int) -> Tree:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_NODES:
        raise ModelError(f"a tree has 1 to {MOST_NODES} nodes")
    for place, node in enumerate(value):
        if not isinstance(node, list) or len(node) != 6 or not all(map(_is_number, node)):
            raise ModelError("a node of a tree is six numbers")
        feature, _, left, right = node[:4]
        if not all(isinstance(n, int) and abs(n) < _MOST_PLACES for n in (feature, left, right)):
            raise ModelError("features and children of a node are whole numbers")
        if not -1 <= feature < columns:
            raise ModelError("a tree uses a feature that the model does not use")
        # Children behind their node: no walk can go in a circle.
        if feature >= 0 and not all(place < child < len(value) for child in (left, right)):
            raise ModelError("a node's children do not come after it")
    table = np.array(value, np.float64)
    places = table[:, [0, 2, 3]].astype(np.intp)
    return Tree(
        feature=places[:, 0],
        threshold=table[:, 1],
        left=places[:, 1],
        right=places[:, 2],
        is_missing_left=table[:, 4] > 0,
        value=table[:, 5],
    )


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # A whole number has no bound in JSON; nan is no smaller than any.
    return abs(value) <= sys.float_info.max
