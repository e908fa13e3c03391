"""What a learned verdict is charged as."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.charging import is_suspected, proven, proven_in
from gpumon.model.finding import Confidence, Finding, Severity, Window

SHOWN = '[hang]\nrecording = "x"\nauthor = "y"\nprecision = 0.96\n'


def _finding(confidence: Confidence, *, is_learned: bool) -> Finding:
    return Finding(
        "d", "comm_bound", "job:1", Severity.WARNING, confidence, "s", (), Window(0.0, 900.0, 90),
        900.0, 900.0, (), 100.0, is_learned=is_learned,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("confidence", "is_learned", "expected"),
    [
        (Confidence.HYPOTHESIS, False, True),
        (Confidence.SUPPORTED, False, False),
        (Confidence.SUPPORTED, True, True),
        (Confidence.ESTABLISHED, True, True),
    ],
)
def test_what_is_learned_is_suspected(
    confidence: Confidence, is_learned: bool, expected: bool
) -> None:
    """However sure it is, while no recording from other hands has shown it."""
    assert is_suspected(_finding(confidence, is_learned=is_learned)) is expected


def test_no_class_is_proven_yet() -> None:
    """The shipped list is empty."""
    assert proven() == frozenset()


def test_a_proven_class_says_where_it_was_shown() -> None:
    """Recording, author, and a precision that is high enough."""
    assert proven_in(SHOWN) == {"hang"}
    for wrong in ('recording = "x"\n', 'author = "y"\n', "precision = 0.96\n"):
        with pytest.raises(ValueError, match="hang lacks"):
            proven_in(SHOWN.replace(wrong, ""))
    with pytest.raises(ValueError, match="hang lacks"):
        proven_in(SHOWN.replace("0.96", "0.9"))
