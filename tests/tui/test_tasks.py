"""Tasks of six keys at most, in the demo and the lab's recording, and twenty questions of three."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay import replay
from gpumon.fleet.replay.catch_up import strides_of
from gpumon.fleet.replay.kept_ticks import Tape
from gpumon.fleet.replay.replay import ReplayFeed
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.address import Look, parse
from gpumon.sources.open import open_source
from gpumon.sources.recording.source import Recording
from gpumon.tui.app import GpumonApp
from gpumon.tui.time_travel import LiveTravel
from tests.tui.conftest import HandFeed, Stage
from tests.worlds.clocks import Hasty
from tools.screenshots import ROOT
from tools.tasks import DEMO, LAB, LAB_FILE, MOST_KEYS, TASKS, Task

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

pytestmark = pytest.mark.slow

START = 1_760_000_000.0
PAST_S = 7200.0
PATIENCE_S = 60.0
LOOK_EVERY = 8
"""Of the demo's past one picture in two minutes is judged, and the last ones."""
LARGE, SMALL = (120, 40), (80, 24)


class Answer(NamedTuple):
    """What is on the screen in the end."""

    texts: tuple[str, ...]
    """On 80 x 24 as well."""
    large: tuple[str, ...] = ()
    """Where there is room."""
    cursor: str = ""
    """In the line of the cursor."""


ANSWERS = {
    (DEMO, "waste"): Answer(
        ("vit-finetune", "unused: established, 6.00 GPU-h lost", "3 of 8 GPUs unused"),
        ("wasted 6.00 GPU-h", "some GPUs unused 6.00 GPU-h"),
    ),
    (LAB, "waste"): Answer(
        ("hpo-sweep", "some GPUs unused: supported", "3 of 4 GPUs unused"),
        ("wasted 1.00 GPU-h", "some GPUs unused 1.00 GPU-h"),
    ),
    (DEMO, "rank"): Answer(("rank 11 · gpu006:3", "peers 6", "· ‼ straggle"), ("dinov2-giant",)),
    (LAB, "rank"): Answer(("rank 5 · gpu02:1", "SM active 31 % · peers 52"), ("pretrain-7b",)),
    (DEMO, "nvlink"): Answer(("sam2-video", "NVLink unused"), ("0 B/s",)),
    (LAB, "nvlink"): Answer(("pretrain-7b", "NVLink used, 66 GB/s each way, 15 % of 450 GB/s")),
    (DEMO, "past"): Answer(("fleet", "80 GPUs", "PAUSED ", "(−10m)")),
    (LAB, "past"): Answer(("fleet", "24 GPUs", "PAUSED "), ("24 GPUs: 14 held · 10 free",)),
    (DEMO, "profile"): Answer(
        ("ssh gpu006 py-spy dump --pid ", "ssh gpu006 nsys profile"),
        cursor="owner sbatch --exclude=gpu006",
    ),
    (LAB, "profile"): Answer(
        ("ssh gpu02 py-spy dump --pid 141", "ssh gpu02 nsys profile"),
        cursor="owner srun --jobid=4 --overlap -w gpu02 top",
    ),
}


AFTER = {"W": "WASTE▼", "9": "fleet › ", "s": ", by distance", "x": "Enter copies a command"}
"""What is on the screen at once after some keys."""


def pilots(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Textual's names of keys that tmux calls otherwise."""
    return tuple(key.lower() if len(key) > 1 else key for key in keys)


async def pressed(stage: Stage, keys: tuple[str, ...]) -> None:
    for key in pilots(keys):
        await stage.press(key)
        assert AFTER.get(key, "") in stage.text, key


def answered(stage: Stage, task: Task, command: str) -> None:
    answer = ANSWERS[command, task.name]
    large = answer.large if stage.app.size.width >= LARGE[0] else ()
    missing = [text for text in (*answer.texts, *large) if text not in stage.text]
    assert not missing, stage.text
    assert answer.cursor in stage.cursor_line()


class Patient(DetectionEngine):
    """The detection engine, waited for, and asked for some pictures only."""

    is_asked = False

    def submit(self, tick):
        is_wanted = tick.number % LOOK_EVERY == 0 or tick.at > START + PAST_S - 60
        self.is_asked = is_wanted and super().submit(tick)
        return self.is_asked

    def collect(self):
        if not self.is_asked:
            return super().collect()
        self.is_asked = False
        return self.finish(PATIENCE_S)


class Lived(NamedTuple):
    """A past that was watched."""

    tape: Tape
    """All pictures before the newest, as far as they are kept."""
    newest: Tick


@pytest.fixture(scope="module")
def demo() -> Lived:
    """Two hours, as `gpumon demo --past 2h` lives through them."""
    clock = Hasty(START)
    look = Look(strides_of(1.0).at(PAST_S), False, lambda _: True, everyone=True, past_s=PAST_S)
    sources = [open_source(parse(DEMO.split()[1]), look, clock)]
    tape, newest = Tape(), []
    is_over = threading.Event()

    def take(tick: Tick) -> None:
        if tick.at < START + PAST_S:
            tape.add(tick)
        elif not newest:
            newest.append(tick)
            is_over.set()

    sampler = Sampler(sources, clock, look.period_s, History, Patient, keep_books=Ledger)
    sampler.start(take)
    assert is_over.wait(3 * PATIENCE_S), sampler.failure
    yield Lived(tape, newest[0])
    sampler.close()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_a_question_is_answered_in_the_demo(demo, task):
    feed = HandFeed()
    app = GpumonApp(feed, "demo", monotonic=lambda: 0.0)
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        stage = Stage(app, feed, pilot, [0.0])
        app.travel = LiveTravel(demo.tape)
        await stage.give(demo.newest)
        await pressed(stage, task.keys_of(DEMO))
        answered(stage, task, DEMO)
        if task.name == "past":
            assert app.screen.digest.tick.at == demo.newest.at - 600
        await stage.resize(*SMALL)
        answered(stage, task, DEMO)


class Question(NamedTuple):
    """What somebody asks, and what the screen answers after three keys at most."""

    asked: str
    keys: tuple[str, ...]
    texts: tuple[str, ...]
    """Patterns that are found on every size of the screen."""


MOST_KEYS_OF_A_QUESTION = 3

QUESTIONS = (
    Question("is my job healthy?", (), (r"16 48214 .* you .* ‼● hangs",)),
    Question("since when not?", (), (r"hangs since \d\d:\d\d",)),
    Question("mine or the machine's?", ("j", "x"), ("owner sbatch --exclude=gpu006", "admin ")),
    Question("which rank?", ("Enter",), (r" 6 gpu007 .* ‼ hang", r"14 more like it")),
    Question("what do I type?", ("x",), ("owner srun --jobid=48214 --overlap -w gpu007 py",)),
    Question("is it my input?", (), ("48220 .* GPUs wait for data 69 %",)),
    Question("does NVLink work?", ("Enter",), ("NVLink [█▁-▇]+ 0 B/s", "NVLink unused")),
    Question("why does it wait?", (), ("48213 .* waits: Resources, starts in 16h",)),
    Question("what did last night's job waste?", ("5",), (r"asked for the jobs of the last 24 h",)),
    Question("will it fit fewer GPUs?", (), ("3 of 8 GPUs unused", "would fit into a sl")),
    Question("what is lost now?", (), (r"lost now \d\d \+ ~\d\.\d GPUs",)),
    Question("by whom?", ("6",), (r"you +\d+ +2\d", "bjorn +2 +2.0")),
    Question("why?", ("f",), (r"‼ hang +48214 +16 ", r"some GPUs unused +48217 +3\.0 ")),
    Question("which node to drain?", ("3",), (r"gpu006 +5\.5 .*! sw thermal", "gpu010 .*‼ ECC")),
    Question("what got better?", ("f", "G"), (r"no tensor cores +48216 +0 ",)),
    Question("is it one switch?", ("9", "b"), ("verdict by leaf switch",)),
    Question("whom to write to?", ("f", "Enter"), ("hang: 48214", "Evidence|→ See")),
    Question("do the books agree?", (), (r"lost 21\.\d|lost since \d\d:\d\d: 21\.\d",)),
    Question("which nodes does nobody see?", ("3",), (r"gpu011 .*down\* .*never",)),
)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.asked)
async def test_a_question_is_answered_in_three_keys(demo, question, size):
    assert len(question.keys) <= MOST_KEYS_OF_A_QUESTION
    feed = HandFeed()
    app = GpumonApp(feed, "demo", monotonic=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        stage = Stage(app, feed, pilot, [0.0])
        app.travel = LiveTravel(demo.tape)
        await stage.give(demo.newest)
        await pressed(stage, question.keys)
        for text in question.texts:
            assert re.search(text, stage.text), stage.text


async def test_what_is_new_since_lunch_is_on_the_first_screen(demo):
    """The twentieth: a key, an hour away, and a finding meanwhile."""
    now = [0.0]
    feed = HandFeed()
    app = GpumonApp(feed, "demo", monotonic=lambda: now[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        stage = Stage(app, feed, pilot, now)
        await stage.give(demo.newest)
        await stage.press("j", "k")
        now[0] += 3600.0
        at = demo.newest.at + 3600.0
        later = demo.newest._replace(at=at, queue_at=at, number=demo.newest.number + 1)
        fresh = next(one for one in later.findings if one.finding_class == "hang")
        others = tuple(one for one in later.findings if one is not fresh)
        fresh = fresh._replace(first_seen=later.at - 60.0)
        await stage.give(later._replace(findings=(fresh, *others)))
        assert "· ‼ 1 new" in stage.lines[1]
        assert "‼● new: hangs" in stage.text


class Heard(GpumonApp):
    """The application, which tells when a picture of an instant has come."""

    def __init__(self, feed, title):
        super().__init__(feed, title)
        self._changed = threading.Condition()
        self._at = 0.0

    def take(self, tick):
        super().take(tick)
        with self._changed:
            self._at = tick.at
            self._changed.notify_all()

    async def until(self, at):
        """Wait for the picture of this instant."""

        def wait():
            with self._changed:
                return self._changed.wait_for(lambda: abs(self._at - at) <= 2.0, PATIENCE_S)

        assert await asyncio.to_thread(wait), self._at


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_a_question_is_answered_on_the_recording_of_the_lab(task, monkeypatch):
    # On a busy machine the first picture is judged later than a user is to wait for that.
    monkeypatch.setattr(replay, "SOUGHT_S", PATIENCE_S)
    recording = Recording(ROOT / LAB_FILE)
    end = recording.span.end
    feed = ReplayFeed(recording, History, DetectionEngine, start=end)
    feed.pause()
    app = Heard(feed, "replay lab")
    async with app.run_test(size=LARGE) as pilot:
        await app.until(end)
        await pilot.pause()
        stage = Stage(app, feed, pilot, [0.0])
        await pressed(stage, task.keys_of(LAB))
        if task.name == "past":
            await app.until(end - 600)
            await pilot.pause()
        answered(stage, task, LAB)
        await stage.resize(*SMALL)
        answered(stage, task, LAB)
    feed.close()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_no_question_takes_more_than_six_keys(task):
    for command in (DEMO, LAB):
        assert 0 < len(task.keys_of(command)) <= MOST_KEYS
