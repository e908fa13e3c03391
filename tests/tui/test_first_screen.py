"""The first screen: which jobs, how bad and what to do, at each size of the terminal."""

from __future__ import annotations

import re

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.paragraphs import row_lines

pytestmark = pytest.mark.slow

ROW = re.compile(r"^ +[\d.~–]+ 48\d+", re.MULTILINE)
SENTENCES = {
    "48214": "hangs since",
    "48211": "gpu006 GPU 3 throttled",
    "48217": "3 of 8 GPUs unused",
    "48215": "2 GPUs idle",
}


def rows_of(stage):
    """The lines of jobs by their number."""
    found = (re.match(r"^ +\S+ (48\d+)", line) for line in stage.lines)
    return {match[1]: match.string for match in found if match}


async def test_a_small_terminal_shows_fifteen_jobs_with_loss_and_sentence(stage, demo_past):
    async with stage(demo_past.newest, (80, 24)) as s:
        assert len(ROW.findall(s.text)) >= 15
        shown = rows_of(s)
        for job_id, words in SENTENCES.items():
            assert words in shown[job_id]
            assert re.match(r" +\d[\d.]* ", shown[job_id])
        assert not re.search("NEXT|LAST 2H", s.text)


@pytest.mark.parametrize(
    ("width", "has_trend", "has_next"), [(90, False, False), (100, True, False), (120, True, True)]
)
async def test_the_next_step_goes_first_and_then_the_trend(
    stage, demo_past, width, has_trend, has_next
):
    async with stage(demo_past.newest, (width, 24)) as s:
        assert ("LAST 2H" in s.text, "NEXT" in s.text) == (has_trend, has_next)
        assert all(words in rows_of(s)[job_id] for job_id, words in SENTENCES.items())


async def test_the_row_under_the_cursor_is_written_out_below_a_small_list(stage, demo_past):
    """What its columns cut off: the sentence and the next step, in a line each."""
    async with stage(demo_past.newest, (80, 24)) as s:
        assert re.match(r" ‼● hangs since .*: 15 of 16 GPUs only wait, perhaps for", s.lines[-4])
        assert s.lines[-3].startswith(" → See where its processes wait: srun --jobid=48214")
        assert s.lines[-3].rstrip().endswith("…")
        assert len(ROW.findall(s.text)) >= 15
        await s.press("j")
        assert re.match(r" ‼● gpu006 GPU 3 throttled since ..:..: software therm", s.lines[-4])
        await s.press("G")
        assert s.lines[-4].rstrip() == " waits: JobArrayTaskLimit: array's task limit reached"
        assert s.lines[-3].startswith(" → a larger number after % in --array lets more tasks run")


async def test_with_more_lines_it_is_written_out_whole(stage, demo_past):
    async with stage(demo_past.newest, (120, 40)) as s:
        await s.press("j")
        below = " ".join(s.text[s.text.rindex("───") :].split())
        assert "34 % of the clock lost; 15 GPUs of the job wait for it →" in below
        assert "Run elsewhere until it is repaired: sbatch --exclude=gpu006 …" in below


async def test_a_terminal_with_fewer_lines_has_the_list_alone(stage, demo_past):
    async with stage(demo_past.newest, (80, 23)) as s:
        assert not s.lines[-3].startswith(" →")
        assert len(ROW.findall(s.text)) >= 15


async def test_no_pane_is_where_there_is_no_room(stage, demo_past):
    async with stage(demo_past.newest, (120, 40)) as s:
        assert "Evidence" not in s.text
        assert not re.search(r"^ *· ", s.text, re.MULTILINE)


@pytest.mark.parametrize("size", [(160, 40), (120, 50), (160, 50), (200, 60)], ids=str)
async def test_the_job_under_the_cursor_is_shown_beside_the_list(stage, demo_past, size):
    """Its sentence whole, evidence, curve and next step; of the next one after `j`."""
    async with stage(demo_past.newest, size) as s:
        assert len(ROW.findall(s.text)) >= 15
        assert "GPU-h lost since" in s.text
        assert "· at work before: SMs 92 %, power 658 W" in s.text
        assert "→ See where its processes wait" in s.text
        assert re.search(r"100 %│", s.text)
        await s.press("j")
        assert "· at work before" not in s.text
        assert re.search(r"throttled: established, [\d.]+ GPU-h lost since", s.text)
        assert re.search(r"100 %│", s.text)


@pytest.mark.parametrize("size", [(160, 50), (200, 60)], ids=str)
async def test_a_large_terminal_cuts_no_name_and_gives_most_sentences_whole(stage, demo_past, size):
    async with stage(demo_past.newest, size) as s:
        for name in ("sam2-video", "dinov2-giant", "vit-finetune", "histopath-tiles"):
            assert re.search(rf"^ +\S+ 48\d+ +{name} ", s.text, re.MULTILINE)
        shown = rows_of(s)
        assert "3 of 8 GPUs unused for at least 2.0 h" in shown["48217"]
        assert "2 GPUs idle with 104.8 GiB of memory" in shown["48215"]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_gpus_that_nobody_sees_are_counted_where_the_others_are(stage, demo_past, size):
    async with stage(demo_past.newest, size) as s:
        await s.press("2")
        assert "80 of 88 GPUs on 11 nodes" in s.lines[0]
        assert re.search(r"of 88 GPUs held|88 GPUs: ", s.lines[1])


@pytest.mark.parametrize("job_id", ["48211", "48217", "48209"])
async def test_a_small_terminal_has_all_that_was_booked_of_a_job(stage, demo_past, job_id):
    """Five ranks that do the same and three GPUs without any, or two findings, leave it room."""
    async with stage(demo_past.newest, (80, 24)) as s:
        await s.press("colon", *f"job {job_id}", "enter")
        assert "booked" in s.text
        assert re.search(r"wasted [\d.]+ GPU-h", s.text)


async def test_peers_that_leave_no_room_are_folded_where_the_screen_is_small(stage, demo_past):
    async with stage(demo_past.newest, (80, 24)) as s:
        await s.press("colon", *"job 48217", "enter")
        assert "more lines" not in s.text
        assert "4 more like it" in s.text
        assert s.text.count("no process") == 3
        await s.press("z")
        assert "more like it" not in s.text
    async with stage(demo_past.newest, (120, 40)) as s:
        await s.press("colon", *"job 48217", "enter")
        assert "more like it" not in s.text


async def test_a_job_on_a_small_terminal_tells_what_became_of_its_time(stage, demo_past):
    """Its sixteen ranks are two lines, so that nothing above them is cut."""
    async with stage(demo_past.newest, (80, 24)) as s:
        await s.press("enter")
        assert "more lines" not in s.text
        assert re.search(r"wasted [\d.]+ GPU-h", s.text)
        assert re.search(r"^ +6 gpu007 .*‼ hang", s.text, re.MULTILINE)
        assert "14 more like it" in s.text


@pytest.mark.parametrize(
    ("width", "height"), [(20, 1), (20, 2), (20, 3), (20, 4), (60, 3), (200, 4)]
)
def test_a_row_written_out_fits_into_any_room(demo_past, width, height):
    """Also into the one line that a pane may have while the terminal takes another size."""
    digest = Digest(demo_past.newest)
    for view in demo_past.newest.jobs:
        lines = row_lines(digest, view, width, height)
        assert 1 <= len(lines) <= height
        assert all(sum(len(cell.text) for cell in line) <= width for line in lines)
