"""Twenty questions of three keys: in the demo, on the lab's recording, with books of two weeks."""

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
from gpumon.fleet.ledger.kept import KeptBooks
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay import replay
from gpumon.fleet.replay.replay import ReplayFeed
from gpumon.model.records.ledger import NO_PRICES
from gpumon.sources.recording.source import Recording
from gpumon.tui.app import GpumonApp
from gpumon.tui.beside import Beside
from gpumon.tui.time_travel import LiveTravel, ReplayTravel
from tests.tui.conftest import HandFeed, Stage
from tests.tui.demo_past import PATIENCE_S
from tests.tui.keyboard import pressed
from tools.screenshots import ROOT
from tools.tasks import LAB_FILE

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick
    from gpumon.tui.time_travel import Travel

pytestmark = pytest.mark.slow

MOST_KEYS = 3
SIZES = [(80, 24), (160, 50)]


class Answer(NamedTuple):
    """What the screen answers after some keys."""

    keys: tuple[str, ...]
    texts: tuple[str, ...]
    """Patterns that are found on every size of the screen."""


DEMO = {
    "is my job healthy?": Answer((), (r"16 48214 .* you .* ‼● hangs",)),
    "since when not?": Answer((), (r"hangs since \d\d:\d\d",)),
    "mine or the machine's?": Answer(("j", "x"), ("owner sbatch --exclude=gpu006", "admin ")),
    "which rank?": Answer(("Enter",), (r" 6 gpu007 .* ‼ hang", r"14 more like it")),
    "what do I type?": Answer(("x",), ("owner srun --jobid=48214 --overlap -w gpu007 py",)),
    "is it my input?": Answer((), ("48220 .* GPUs wait for data 69 %",)),
    "does NVLink work?": Answer(("Enter",), ("NVLink [█▁-▇]+ 0 B/s", "NVLink unused")),
    "why does it wait?": Answer((), ("48213 .* waits: Resources, starts in 16h",)),
    "what did last night's job waste?": Answer(("5",), (r"481\d\d .* (!|·|–) .*",)),
    "will it fit fewer GPUs?": Answer((), ("3 of 8 GPUs unused", "would fit into a sl")),
    "what is lost now?": Answer((), (r"lost now \d\d \+ ~\d\.\d GPUs",)),
    "by whom?": Answer(("6",), (r"you +\d+ +2\d", "bjorn +2 +2.0")),
    "why?": Answer(("f",), (r"‼ hang +48214 +16 ", r"some GPUs unused +48217 +3\.0 ")),
    "which node to drain?": Answer(("3",), (r"gpu006 +5\.5 .*! sw thermal", "gpu010 .*‼ ECC")),
    "what got better?": Answer(("f", "G"), (r"no tensor cores +48216 +0 ",)),
    "is it one switch?": Answer(("9", "b"), ("verdict by leaf switch",)),
    "whom to write to?": Answer(("f", "Enter"), ("hang: 48214", "Evidence|→ See")),
    "do the books agree?": Answer((), (r"lost 21\.\d|lost since \d\d:\d\d: 21\.\d",)),
    "which nodes does nobody see?": Answer(("3",), (r"gpu011 .*down\* .*never",)),
}
"""The twentieth, what is new since lunch, has a test of its own."""

KEPT = {
    **DEMO,
    "what did last night's job waste?": Answer(
        ("5",), (r"48189 .* 192 +96\.0h ! some GPUs unused 96\.0",)
    ),
    "what got better?": Answer(
        ("B",), (r"Better than before: input bound 3\d\.\d → \d\.\d %", "Worse than before: hang")
    ),
    "by whom?": Answer(("B",), (r"\n *ada +[\d,]+ +[\d,.]+ +\d\d\.\d % +\d\d\.\d %",)),
    "do the books agree?": Answer(("B",), (r"\n *total +[\d,]+ +–",)),
}
"""With two weeks of books the past has an answer of its own."""

LAB = {
    "is my job healthy?": Answer((), (r"3\.1 4 +pretrain.* alice .* ‼◐ rank 5 \(gpu02 GPU 1\)",)),
    "since when not?": Answer(("Enter",), (r"waiting since \d\d:\d\d",)),
    "mine or the machine's?": Answer(("x",), ("owner srun --jobid=4", "admin scontrol show node")),
    "which rank?": Answer((), (r"rank 5 \(gpu02 GPU 1\)",)),
    "what do I type?": Answer(("x",), ("owner srun --jobid=4 --overlap -w gpu02 top",)),
    "is it my input?": Answer(("Enter",), (r"rests\s+39 % of the\s+time while they spin",)),
    "does NVLink work?": Answer(("Enter",), ("NVLink used, 66 GB/s",)),
    "why does it wait?": Answer(("4",), ("No job waits.",)),
    "what did last night's job waste?": Answer(
        ("G", "Enter"), ("booked 0.36", "wasted 0.00 GPU-h")
    ),
    "will it fit fewer GPUs?": Answer(("j", "Enter"), ("3 of 4 GPUs unused",)),
    "what is lost now?": Answer((), (r"lost now 6\.1 GPUs",)),
    "by whom?": Answer(("6",), (r"alice +8 +3\.1", r"bob +4 +3\.0")),
    "why?": Answer(("f",), (r"straggler +4 rank 5 +3\.1", r"some GPUs unused +5 +3\.0")),
    "which node to drain?": Answer(("3",), (r"gpu02 +1\.5 .* ok ", r"gpu03 +3\.0 .* ok ")),
    "what got better?": Answer(("B",), ("No books are kept on disk",)),
    "is it one switch?": Answer(("9", "b"), (r"gpu02  ‼52 ‼31 ‼52 ‼53",)),
    "whom to write to?": Answer((), (r"4 +pretrain.* alice", "5 +hpo-sweep bob")),
    "do the books agree?": Answer(("B",), (r"some GPUs unused +1\.00", r"straggler +0\.51")),
    "which nodes does nobody see?": Answer(("3",), (r"gpu01 .* [0-9]s ", r"gpu03 .* [0-9]s ")),
}


class World(NamedTuple):
    """What a terminal is opened on."""

    newest: Tick
    travel: Travel
    kept: KeptBooks | None = None


def wrote(folder, now, tick):
    """Two weeks of books: input was the trouble, and hangs are now; and the jobs of last night."""
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

    def kept() -> World:
        folder = tmp_path_factory.mktemp("books")
        newest = demo_past.newest
        wrote(folder, newest.at, newest)
        journal = JournalFile(folder)
        ends.append(journal.close)
        ledger = Ledger(NO_PRICES, journal)
        earlier = ledger.summary().earlier
        books = newest.ledger._replace(earlier=earlier)
        return World(
            newest._replace(ledger=books), LiveTravel(demo_past.tape), KeptBooks(folder, NO_PRICES)
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
        "kept": kept,
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
    for name, answers in (("demo", DEMO), ("kept", KEPT), ("lab", LAB))
    for asked, answer in answers.items()
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("name", "asked", "answer"), CASES)
async def test_a_question_is_answered_in_three_keys(worlds, monkeypatch, name, asked, answer, size):
    monkeypatch.setattr(replay, "SOUGHT_S", PATIENCE_S)
    assert len(answer.keys) <= MOST_KEYS
    world = worlds(name)
    feed = HandFeed()
    app = GpumonApp(feed, name, monotonic=lambda: 0.0, beside=Beside(kept=world.kept))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        stage = Stage(app, feed, pilot, [0.0])
        app.travel = world.travel
        await stage.give(world.newest)
        await pressed(stage, answer.keys)
        if world.kept is not None and world.kept._thread is not None:
            # What is read on a thread is drawn with the next picture.
            world.kept._thread.join(PATIENCE_S)
            await stage.give(world.newest)
        for text in answer.texts:
            assert re.search(text, stage.text), (asked, stage.text)


def test_every_world_is_asked_every_question():
    assert set(DEMO) == set(KEPT) == set(LAB)
    assert len(DEMO) == 19


async def test_what_is_new_since_lunch_is_on_the_first_screen(demo_past):
    """The twentieth: a key, an hour away, and a finding meanwhile."""
    now = [0.0]
    feed = HandFeed()
    app = GpumonApp(feed, "demo", monotonic=lambda: now[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        stage = Stage(app, feed, pilot, now)
        await stage.give(demo_past.newest)
        await stage.press("j", "k")
        now[0] += 3600.0
        at = demo_past.newest.at + 3600.0
        newest = demo_past.newest
        later = newest._replace(at=at, queue_at=at, number=newest.number + 1)
        fresh = next(one for one in later.findings if one.finding_class == "hang")
        others = tuple(one for one in later.findings if one is not fresh)
        fresh = fresh._replace(first_seen=later.at - 60.0)
        await stage.give(later._replace(findings=(fresh, *others)))
        assert "· ‼ 1 new" in stage.lines[1]
        assert "‼● new: hangs" in stage.text
