"""Patterns are found while somebody looks, and get names; nobody waits for either."""

from __future__ import annotations

import threading

import pytest

from gpumon.detect.learning import discovery as module
from gpumon.detect.learning.discovery import GROUPED_EVERY_S, TAKEN_EVERY_S, Discovery
from gpumon.detect.learning.grouping import Grouped, GroupingError
from gpumon.detect.learning.named import named_patterns
from gpumon.detect.learning.unexplained import EVERY_S
from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.ledger import Account, LedgerTotals
from gpumon.model.records.pattern import LEAST_USUAL, PatternCard, Trait
from tests.worlds.probe import PATIENCE_S, eventually

CARDS = (
    PatternCard(("7", "9", "11"), ("ada", "eve"), 7200.0, 1e9, "9", (Trait("util_15m", 0.2, 0.9),)),
    PatternCard(("3", "4", "5"), ("bob",), 3600.0, 1e9, "4", (Trait("read", 8.0, 6.0),)),
)

ODD = (PatternCard(("13",), ("eve",), 60.0, 1e9, "13", (Trait("read", 9.0, 6.0),), times=2.4),)


class Answers:
    """In the place of a process: answers at once, and counts how often it was asked."""

    def __init__(self, cards=CARDS, error=None):
        self.asked, self.ended = [], 0
        self._cards, self._error = cards, error

    def __call__(self, gathered):
        self.asked.append(gathered)
        return self

    def done(self):
        if self._error is not None:
            raise self._error
        return Grouped(self._cards, ("13",), ODD)

    def end(self):
        self.ended += 1


@pytest.fixture
def pictures():
    """Pictures every five minutes of a job of whose time half is unexplained."""
    scene = Scene()
    (uuid,) = scene.node("n1", 1)
    scene.job("1", (uuid,))
    seconds = {"useful": 0.0, "unexplained": 0.0}

    def next_one():
        made = scene.run(EVERY_S, {uuid: WORKING})
        seconds["useful"] += EVERY_S / 2
        seconds["unexplained"] += EVERY_S / 2
        account = Account("1", "ada", "", "", "H100", 0.0, 0.0, dict(seconds))
        return made._replace(ledger=LedgerTotals(made.at, 0.0, (account,), ()))

    return next_one


@pytest.fixture
def begun(tmp_path):
    """Begins a discovery that ends with the test."""
    made = []

    def begin(answers, **more):
        made.append(Discovery("ada", names=tmp_path / "patterns.json", grouping=answers, **more))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def shown(one, pictures, count):
    """So many pictures, each looked at before the next."""
    for _ in range(count):
        one.take(pictures())
        assert one.settle(PATIENCE_S)


def test_patterns_come_from_a_quarter_of_an_hour_on_and_are_renewed(begun, pictures):
    answers = Answers()
    one = begun(answers)
    shown(one, pictures, 4)
    assert (one.found, answers.asked) == (None, [])
    shown(one, pictures, 4)
    assert one.found.cards == CARDS
    assert one.found.single == ("13",)
    assert one.found.unexplained_s == pytest.approx(one.found.allocated_s / 2)
    before = len(answers.asked)
    shown(one, pictures, int(2 * GROUPED_EVERY_S / TAKEN_EVERY_S))
    assert len(answers.asked) == before + 2


def test_pictures_without_books_or_past_and_those_in_between_are_passed_over(begun, pictures):
    one = begun(Answers())
    tick = pictures()
    one.take(tick._replace(ledger=None))
    one.take(tick._replace(history=None))
    assert one._thread is None
    one.take(tick)
    assert one.settle(PATIENCE_S)
    one.take(tick._replace(at=tick.at + TAKEN_EVERY_S - 1.0))
    assert one._waiting is None


def test_few_gpus_without_a_job_are_not_looked_at_for_nothing_can_be_found(begun, pictures):
    one = begun(Answers())
    tick = pictures()
    one.take(tick._replace(jobs=()))
    assert one._thread is None
    many = {str(number): gpu for number in range(LEAST_USUAL) for gpu in tick.gpus.values()}
    one.take(tick._replace(jobs=(), gpus=many))
    assert one._thread is not None


def test_a_clock_that_is_set_back_stops_nothing(begun, pictures):
    answers = Answers()
    one = begun(answers)
    shown(one, pictures, 8)
    before, asked = one.found.at, len(answers.asked)
    for _ in range(8):
        tick = pictures()
        back = tick._replace(
            at=tick.at - 86400.0, ledger=tick.ledger._replace(at=tick.at - 86400.0)
        )
        one.take(back)
        assert one.settle(PATIENCE_S)
    assert len(answers.asked) > asked
    assert one.found.at < before


def test_what_cannot_be_grouped_is_told_beside_what_was_found_before(begun, pictures):
    answers = Answers()
    one = begun(answers)
    shown(one, pictures, 8)
    answers._error = GroupingError("jobs cannot be grouped: \x1b[31mred")
    shown(one, pictures, 4)
    assert one.found.cards == CARDS
    assert one.found.trouble.startswith("jobs cannot be grouped: ")
    assert "\x1b" not in one.found.trouble
    answers._error = None
    shown(one, pictures, 4)
    assert one.found.trouble == ""


def test_what_goes_wrong_inside_is_told_and_the_next_picture_looked_at(begun, pictures):
    answers = Answers()
    one = begun(answers)
    answers._error = ValueError("broken")
    shown(one, pictures, 8)
    assert (one.found.cards, one.found.trouble) == ((), "ValueError: broken")


def test_closing_ends_what_is_under_way(begun, pictures):
    held = threading.Event()

    class Hanging(Answers):
        def done(self):
            held.wait(PATIENCE_S)
            return super().done()

    answers = Hanging()
    one = begun(answers)
    for _ in range(8):
        one.take(pictures())
        eventually(lambda: one._waiting is None or answers.asked, "it was taken")
    eventually(lambda: bool(answers.asked), "it groups")
    one.close()
    assert answers.ended
    held.set()


def test_a_name_is_kept_found_anew_and_taken_back(begun, pictures, tmp_path):
    renewed = []
    one = begun(Answers(), renew=lambda: renewed.append(1), now=lambda: 1.8e9)
    assert one.name(1, "odd") == "there is no pattern 1: none has been found so far"
    shown(one, pictures, 8)
    assert one.name(4, "odd") == "there is no pattern 4: there are 3"
    assert one.name(2, "Odd Name") == (
        "'Odd Name' is not a name: use lower case, digits and underscores"
    )
    assert one.name(2, "hang") == "hang already has a meaning; choose another name"
    assert renewed == []
    assert one.name(2, "slow_tokeniser").startswith("named: slow_tokeniser, version 1")
    assert one.name(1, "slow_tokeniser").startswith("named: slow_tokeniser, version 2")
    (named,) = named_patterns(tmp_path / "patterns.json")
    assert (named.owner, named.traits, named.jobs, named.exemplar) == (
        "ada", CARDS[0].traits, 3, "9",
    )  # fmt: skip
    said = "removed: slow_tokeniser, version 2; version 1 counts again"
    assert one.unname("slow_tokeniser") == said
    said = "removed: slow_tokeniser, version 1; no pattern has this name now"
    assert one.unname("slow_tokeniser") == said
    assert one.unname("slow_tokeniser") == "no pattern is called 'slow_tokeniser'"
    assert named.at == 1.8e9
    assert len(renewed) == 4


def test_a_card_of_a_pattern_that_has_a_name_bears_it(begun, pictures):
    """From the moment on that it is named, and after gpumon was started again."""
    one = begun(Answers())
    shown(one, pictures, 8)
    assert [card.names for card in one.found.cards] == [(), ()]
    one.name(2, "slow_tokeniser")
    assert [card.names for card in one.found.cards] == [(), ("slow_tokeniser",)]
    again = begun(Answers())
    shown(again, pictures, 8)
    again.name(2, "late_reader")
    both = ("late_reader", "slow_tokeniser")
    assert [card.names for card in again.found.cards] == [(), both]
    again.unname("slow_tokeniser")
    assert [card.names for card in again.found.cards] == [(), ("late_reader",)]


def test_a_job_like_nothing_usual_gets_a_name_by_the_number_of_its_card(begun, pictures, tmp_path):
    one = begun(Answers())
    shown(one, pictures, 8)
    assert one.found.odd == ODD
    assert one.name(3, "strange_reader").startswith("named: strange_reader, version 1")
    (named,) = named_patterns(tmp_path / "patterns.json")
    assert (named.traits, named.exemplar) == (ODD[0].traits, "13")
    assert [card.names for card in one.found.odd] == [("strange_reader",)]


def test_names_that_cannot_be_read_are_not_shown(begun, pictures, tmp_path):
    (tmp_path / "patterns.json").write_text("[]")
    one = begun(Answers())
    shown(one, pictures, 8)
    assert one.found.cards == CARDS
    assert one.found.trouble == ""


def test_patterns_of_simulated_jobs_get_no_name(begun, pictures, tmp_path):
    one = begun(Answers(), is_real=False)
    shown(one, pictures, 8)
    assert "simulated" in one.name(1, "odd")
    assert not (tmp_path / "patterns.json").exists()


def test_a_home_that_fails_or_hangs_is_told(begun, pictures, tmp_path, monkeypatch):
    one = begun(Answers())
    shown(one, pictures, 8)
    path = tmp_path / "patterns.json"
    path.mkdir()
    assert str(path) in one.name(1, "odd")
    held = threading.Event()
    monkeypatch.setattr("gpumon.detect.learning.json_file.ANSWERS_WITHIN_S", 0.01)
    monkeypatch.setattr(
        "gpumon.detect.learning.named.names_rewritten", lambda *_given: held.wait(PATIENCE_S)
    )
    assert one.name(1, "odd") == f"{path} does not answer: it may not have been stored"
    held.set()


def test_no_more_jobs_are_remembered_than_there_may_be(begun, pictures, monkeypatch):
    monkeypatch.setattr(module, "MOST_JOBS", 0)
    one = begun(Answers())
    shown(one, pictures, 9)
    assert one.found is None
