"""The last lines of a job's output on its page."""

from __future__ import annotations

from gpumon.sources.job_output import Tail
from tests.worlds.tick import fleet


class Printed:
    def __init__(self, tail):
        self.of, self.asked = tail, []

    def tail(self, job):
        self.asked.append(job.job_id)
        return self.of


TAIL = Tail("train [b].out", ("step 811 loss 2.13", "[red]saving[/red] " + "x" * 300))


async def test_the_page_of_a_job_ends_with_what_it_printed(stage):
    async with stage(fleet(), (120, 40)) as s:
        s.app.outputs = Printed(TAIL)
        await s.press("enter")
        assert s.app.outputs.asked == ["4711"]
        place = next(n for n, line in enumerate(s.lines) if "train [b].out:" in line)
        assert s.lines[place + 1].strip() == "step 811 loss 2.13"
        assert s.lines[place + 2].strip().startswith("[red]saving[/red] xxx")
        assert all(len(line) <= 120 for line in s.lines)
        assert "gpu01" in "\n".join(s.lines[place:])


async def test_of_the_past_nothing_is_printed_now(stage):
    async with stage(fleet(), (120, 40)) as s:
        s.app.outputs = Printed(TAIL)
        await s.press("enter")
        asked = len(s.app.outputs.asked)
        await s.press("p")
        assert "step 811" not in s.text
        assert len(s.app.outputs.asked) == asked


async def test_where_nothing_is_known_no_line_is_taken(stage):
    async with stage(fleet(), (120, 40)) as s:
        before = None
        for outputs in (None, Printed(None), Printed(Tail("x.out", ()))):
            s.app.outputs = outputs
            await s.press("enter")
            assert before in (None, s.lines[:-2])
            before = s.lines[:-2]
            await s.press("escape")
