"""Twenty questions of three keys: in the demo, on the lab's recording, in two weeks of a ledger."""

from __future__ import annotations

import random
import re
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.journal_reader import Entry, page_name
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.ledger.stored import StoredLedger
from gpumon.fleet.replay import replay
from gpumon.fleet.replay.replay import ReplayFeed
from gpumon.model.records.ledger import NO_PRICES
from gpumon.sources.recording.source import Recording
from gpumon.tui.time_travel import LiveTravel, ReplayTravel
from tests.tui.demo_past import PATIENCE_S
from tests.tui.keyboard import pressed
from tools.questions import DEMO, KEPT, LAB, MOST_KEYS
from tools.screenshots import ROOT
from tools.tasks import LAB_FILE

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick
    from gpumon.tui.time_travel import Travel

pytestmark = pytest.mark.slow

SIZES = [(80, 24), (160, 50)]


class World(NamedTuple):
    """What a terminal is opened on."""

    newest: Tick
    travel: Travel
    stored: StoredLedger | None = None


def wrote(folder, now, tick):
    """Two weeks of a ledger: input was the trouble, hangs are now; and the jobs of last night."""
    dice = random.Random(81)
    entries = []
    for day in range(14, 0, -1):
        start = now - day * 86400.0
        for number in range(24):
            length_s, gpus = dice.uniform(3600.0, 20_000.0), dice.choice([1, 2, 4, 8])
            total_s = length_s * gpus
            wasted = {"input_bound": 0.35 * total_s} if day > 7 else {"hang": 0.12 * total_s}
            wasted["idle_held"] = 0.04 * total_s
            left_s = total_s - sum(wasted.values())
            entries.append(
                Entry(
                    start, start + length_s, f"{day}00{number}", start, dice.choice(["ada", "bob"]),
                    "ml", "h100", "gpu001", "NVIDIA H100 80GB HBM3",
                    tuple(f"G{one}" for one in range(gpus)), {**wasted, "useful": left_s}, 0.0, 0.0,
                    start,
                )
            )  # fmt: skip
    for ended in tick.ended.jobs:
        job = ended.job
        if job.gpu_count and job.start_at is not None and job.end_at is not None:
            each_s = (job.end_at - job.start_at) * job.gpu_count / 2
            seconds = {"partial_gpus_idle": each_s, "useful": each_s}
            entries.append(
                Entry(
                    job.start_at, job.end_at, job.job_id, job.start_at, job.user, job.account,
                    job.partition, "gpu001", "NVIDIA H100 80GB HBM3",
                    tuple(f"G{one}" for one in range(job.gpu_count)), seconds, 0.0, 0.0,
                    job.start_at,
                )
            )  # fmt: skip
    for entry in entries:
        with (folder / page_name(entry.end)).open("ab") as page:
            page.write(entry.line())


@pytest.fixture(scope="module")
def worlds(demo_past, tmp_path_factory):
    """The three that the questions are asked in, made when somebody asks."""
    made: dict[str, World] = {}
    ends = []

    def stored() -> World:
        folder = tmp_path_factory.mktemp("books")
        newest = demo_past.newest
        wrote(folder, newest.at, newest)
        journal = JournalFile(folder)
        ends.append(journal.close)
        ledger = Ledger(NO_PRICES, journal)
        earlier = ledger.summary().earlier
        books = newest.ledger._replace(earlier=earlier)
        return World(
            newest._replace(ledger=books),
            LiveTravel(demo_past.tape),
            StoredLedger(folder, NO_PRICES),
        )

    def lab() -> World:
        recording = Recording(ROOT / LAB_FILE)
        feed = ReplayFeed(recording, History, DetectionEngine, start=recording.span.end)
        feed.pause()
        shown, has_come = [], threading.Event()

        def take(tick):
            if abs(tick.at - recording.span.end) <= 2.0 and tick.findings:
                shown.append(tick)
                has_come.set()

        feed.start(take)
        ends.append(feed.close)
        assert has_come.wait(2 * PATIENCE_S)
        return World(shown[-1], ReplayTravel(feed))

    makers = {
        "demo": lambda: World(demo_past.newest, LiveTravel(demo_past.tape)),
        "stored": stored,
        "lab": lab,
    }

    def world(name: str) -> World:
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    yield world
    for end in ends:
        end()


CASES = [
    pytest.param(name, asked, answer, id=f"{name}-{asked}")
    for name, answers in (("demo", DEMO), ("stored", KEPT), ("lab", LAB))
    for asked, answer in answers.items()
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("name", "asked", "answer"), CASES)
async def test_a_question_is_answered_in_three_keys(
    stage, worlds, monkeypatch, name, asked, answer, size
):
    monkeypatch.setattr(replay, "SOUGHT_S", PATIENCE_S)
    assert len(answer.keys) <= MOST_KEYS
    world = worlds(name)
    async with stage(size=size) as s:
        s.app.stored_ledger, s.app.travel = world.stored, world.travel
        await s.give(world.newest)
        await pressed(s, answer.keys)
        if world.stored is not None and world.stored._thread is not None:
            # What is read on a thread is drawn with the next tick.
            world.stored._thread.join(PATIENCE_S)
            await s.give(world.newest)
        for text in answer.texts:
            assert re.search(text, s.text), (asked, s.text)


def test_every_world_is_asked_every_question():
    assert set(DEMO) == set(KEPT) == set(LAB)
    assert len(DEMO) == 19


async def test_what_is_new_since_lunch_is_on_the_first_screen(stage, demo_past):
    """The twentieth: a key, an hour away, and a finding meanwhile."""
    async with stage(demo_past.newest, (80, 24)) as s:
        await s.press("j", "k")
        s.now[0] += 3600.0
        at = demo_past.newest.at + 3600.0
        newest = demo_past.newest
        later = newest._replace(at=at, queue_at=at, number=newest.number + 1)
        fresh = next(one for one in later.findings if one.finding_class == "hang")
        others = tuple(one for one in later.findings if one is not fresh)
        fresh = fresh._replace(first_seen=later.at - 60.0)
        await s.give(later._replace(findings=(fresh, *others)))
        assert "· ‼ 1 new" in s.lines[1]
        assert "‼● new: hangs" in s.text
