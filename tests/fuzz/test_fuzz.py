"""Some inputs of every target, always the same ones, and what the trial itself has to see."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import trial, workplace
from tests.fuzz.branches import Taken
from tests.fuzz.oracle import BrokenError, well_formed
from tests.fuzz.target import Target
from tests.fuzz.targets.every import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

INPUTS = 60
SEED = 20261126


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left() -> Iterator[None]:
    """A worker of the tests may end without a word."""
    yield
    workplace.clear()


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_parser(name: str) -> None:
    found = trial.tried(TARGETS[name], SEED, 0, INPUTS)
    assert found.failures == ()


def test_a_cleared_workplace_is_made_anew() -> None:
    """Workers of the tests may leave this module and come back to it."""
    before = workplace.file("a/b", b"1")
    workplace.clear()
    assert not before.exists()
    assert workplace.file("a/b", b"2").read_bytes() == b"2"


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_follows_from_name_seed_and_number(name: str) -> None:
    first, again = (repr(trial.made(TARGETS[name], SEED, 7)) for _ in range(2))
    assert first == again


def _digit(rng: Random) -> str:
    return "x" * rng.randint(1, 9) + "!" + "y" * 9


def _picky(given: str) -> None:
    if "!" in given:
        raise KeyError(given)


def _endless(given: str) -> None:
    while time.process_time():
        given = given[::-1]


def _greedy(given: str) -> None:
    len(given * 2**27)


def test_an_error_that_is_not_documented_is_told_with_a_short_input() -> None:
    (failure,) = trial.tried(Target("t", _digit, _picky, ()), 1, 0, 1).failures
    assert failure.error.startswith("KeyError")
    assert failure.given == "'!'"
    assert trial.tried(Target("t", _digit, _picky, (), (KeyError,)), 1, 0, 5).failures == ()


def test_what_takes_too_long_or_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "CPU_S", 0.05)
    assert "CPU time" in str(trial.fault(Target("t", _digit, _endless, ()), "x"))
    monkeypatch.setattr(trial, "MOST_MIB", 64)
    monkeypatch.setattr(trial, "CPU_S", 60.0)
    assert "memory grew" in str(trial.fault(Target("t", _digit, _greedy, ()), "x" * 8))


@pytest.mark.parametrize(
    "wrong", [float("inf"), (1, [float("nan")]), {"a": "\x1b[2J"}, "\u202e", 2**64, "x" * 9000]
)
def test_what_is_not_well_formed_is_seen(wrong: object) -> None:
    with pytest.raises(BrokenError):
        well_formed(wrong)


def test_both_ways_of_a_branch_are_counted() -> None:
    target = TARGETS["slurm.topology"]
    taken = Taken(target)
    assert taken.ways > 20
    taken.watch(lambda: target.run("nothing of it"))
    few = taken.taken
    taken.watch(
        lambda: target.run("SwitchName=s0 Level=0 Nodes=gpu[01-02]\nBlockName=b Nodes=gpu01")
    )
    assert 0 < few < taken.taken < taken.ways
