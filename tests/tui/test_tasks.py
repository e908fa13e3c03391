"""Tasks of six keys at most, in the demo and in the lab's recording."""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.replay import replay
from gpumon.fleet.replay.replay import ReplayFeed
from gpumon.sources.recording.source import Recording
from gpumon.tui.app import GpumonApp
from gpumon.tui.time_travel import LiveTravel
from tests.tui.conftest import Stage
from tests.tui.demo_past import PATIENCE_S
from tests.tui.keyboard import pressed
from tools.screenshots import ROOT
from tools.tasks import DEMO, LAB, LAB_FILE, MOST_KEYS, TASKS, Task

pytestmark = pytest.mark.slow

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
    (DEMO, "rank"): Answer(("rank 11 · gpu006:3", "peers 6", "· ‼ throttle"), ("dinov2-giant",)),
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


def answered(stage: Stage, task: Task, command: str) -> None:
    answer = ANSWERS[command, task.name]
    large = answer.large if stage.app.size.width >= LARGE[0] else ()
    missing = [text for text in (*answer.texts, *large) if text not in stage.text]
    assert not missing, stage.text
    assert answer.cursor in stage.cursor_line()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_a_question_is_answered_in_the_demo(stage, demo_past, task):
    async with stage(size=LARGE) as s:
        s.app.travel = LiveTravel(demo_past.tape)
        await s.give(demo_past.newest)
        await pressed(s, task.keys_of(DEMO))
        answered(s, task, DEMO)
        if task.name == "past":
            assert s.app.screen.digest.tick.at == demo_past.newest.at - 600
        await s.resize(*SMALL)
        answered(s, task, DEMO)


class Heard(GpumonApp):
    """The application, which reports when the tick of an instant has come."""

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
        """Wait for the tick of this instant."""

        def wait():
            with self._changed:
                return self._changed.wait_for(lambda: abs(self._at - at) <= 2.0, PATIENCE_S)

        assert await asyncio.to_thread(wait), self._at


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_a_question_is_answered_on_the_recording_of_the_lab(task, monkeypatch):
    # On a busy machine the first tick is judged later than a user is to wait for that.
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
