"""Trees as numbers say what scikit-learn's say, and no file of them can hang or crash a reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from gpumon.detect.learning.fitting import _plain_trees
from gpumon.detect.learning.trees import MOST_NODES, MOST_TREES, ModelError, trees_from

LEAF = [-1, 0.0, 0, 0, 0, 0.5]


def _rows(seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    dice = np.random.default_rng(seed)
    rows = dice.normal(size=(600, 5))
    rows[dice.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.parametrize("seed", [3, 14, 159])
def test_they_add_up_to_what_scikit_learn_says(seed: int) -> None:
    """Missing values and all, after a way through JSON."""
    rows = _rows(seed)
    is_true = np.nan_to_num(rows[:, 0]) + np.nan_to_num(rows[:, 1]) ** 2 > 0.7
    made = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=6, random_state=seed)
    made.fit(rows, is_true)
    told = trees_from(_plain_trees(made).plain(), 5).of(rows)
    np.testing.assert_allclose(told, made.decision_function(rows), atol=1e-4)


def test_so_do_those_of_a_share() -> None:
    """A regression."""
    rows = _rows(26)
    share = 0.5 + 0.2 * np.nan_to_num(rows[:, 3])
    made = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=6).fit(rows, share)
    told = trees_from(_plain_trees(made).plain(), 5).of(rows)
    np.testing.assert_allclose(told, made.predict(rows), atol=1e-4)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "trees are missing"),
        ({"base": 0.0}, "trees are missing"),
        ({"base": "0", "trees": []}, "base"),
        ({"base": float("nan"), "trees": []}, "base"),
        ({"base": 0.0, "trees": [[LEAF]] * (MOST_TREES + 1)}, "more than"),
        ({"base": 0.0, "trees": [[]]}, "nodes"),
        ({"base": 0.0, "trees": [[LEAF] * (MOST_NODES + 1)]}, "nodes"),
        ({"base": 0.0, "trees": [[LEAF[:5]]]}, "six numbers"),
        ({"base": 0.0, "trees": [[[True, *LEAF[1:]]]]}, "six numbers"),
        ({"base": 0.0, "trees": [[[5, 0.0, 1, 2, 0, 0.0], LEAF, LEAF]]}, "does not use"),
        ({"base": 0.0, "trees": [[[0, 0.0, 0, 1, 0, 0.0], LEAF]]}, "come after it"),
        ({"base": 0.0, "trees": [[[0, 0.0, 1, 3, 0, 0.0], LEAF, LEAF]]}, "come after it"),
        ({"base": 0.0, "trees": [[LEAF, [0, 0.0, 1.5, 2, 0, 0.0], LEAF]]}, "whole numbers"),
    ],
)
def test_what_is_no_tree_is_refused_in_one_line(value: object, said: str) -> None:
    """Among them the one that would walk in a circle."""
    with pytest.raises(ModelError, match=said):
        trees_from(value, 5)


_NODE = st.lists(st.one_of(st.integers(-2, 4), st.floats(-2, 4), st.booleans()), max_size=7)


@given(st.lists(_NODE, max_size=6))
def test_any_tree_is_refused_or_comes_to_an_end(nodes: list[list[float]]) -> None:
    """Whatever a file says."""
    try:
        found = trees_from({"base": 0.0, "trees": [nodes]}, 3)
    except ModelError:
        return
    assert np.isfinite(found.of(np.zeros((2, 3)))).all()
