"""The map of the fleet on the screen: its four states, its keys, the mouse, and no colours."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpumon.report.fleet_map.marks import FIELDS, Ink
from gpumon.tui.app import GpumonApp
from gpumon.tui.look.theme import ThemeStyles
from gpumon.tui.look.themes import THEMES
from gpumon.tui.screens.lists.fleet import MapView
from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.node import NodeScreen
from tests.tui.look.test_look import contrast
from tests.worlds.queue import cluster, waits
from tests.worlds.tick import failed, fleet, job_with_gpus, tick

FLEET = "9"
LEAST_OF_AREAS = 3.0
"""WCAG 2.1, success criterion 1.4.11, for what is no text."""


def many(nodes: int, idle: int = 1):
    view, gpus = job_with_gpus("1", {f"n{i:04}": 8 for i in range(nodes)}, idle=idle)
    return tick((view,), gpus)


def cabled(whole):
    """The same with every node of the queue on a leaf switch."""
    nodes = whole.queue.nodes
    hung = tuple(n._replace(leaf_switch=f"s{i // 2}") for i, n in enumerate(nodes))
    return whole._replace(queue=whole.queue._replace(nodes=hung))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_fleet_with_data(stage, size):
    async with stage(cluster(waits("1")), size) as s:
        await s.press(FLEET)
        assert isinstance(s.app.screen, MapView)
        assert "fleet › verdict by partition" in s.lines[0]
        assert "32 GPUs: 16 held" in s.lines[1]
        assert "gpu01  !84" in s.text
        assert "gpu01:0 · job 4711 grace finetune · SM active 84 % · ! some GPUs unused" in s.text


@pytest.mark.parametrize(
    ("nodes", "users", "first"), [(33, 2, MapView), (32, 2, JobsView), (33, 1, JobsView)]
)
async def test_who_watches_everybody_on_a_large_cluster_begins_with_it(stage, nodes, users, first):
    halves = []
    for part in range(2):
        held = {f"n{number}": 1 for number in range(part, nodes, 2)}
        halves.append(job_with_gpus(str(part), held, user=f"u{part % users}"))
    gpus = [gpu for _, mine in halves for gpu in mine]
    async with stage(tick(tuple(view for view, _ in halves), gpus)) as s:
        assert type(s.app.screen) is first
        await s.press("escape")
        assert isinstance(s.app.screen, JobsView)


async def test_before_the_first_sample_empty_and_failed(stage):
    async with stage() as s:
        await s.press(FLEET)
        assert "Waiting for the first sample" in s.text
        await s.press("c", "b", "z", "M", "l", "j", "G", "enter")
        await s.give(tick())
        assert "No GPU is known." in s.text
        await s.press("c", "j", "enter")
        await s.give(failed())
        assert "slurm: squeue: command not found" in s.text
        await s.give(fleet())
        assert "gpu01" in s.text
        await s.give(tick())
        assert "No GPU is known." in s.text


async def test_stale_nodes_are_signed_and_aged(stage):
    stale, gpus = job_with_gpus("2", {"n1": 4}, stale_s=42.0)
    async with stage(tick((stale,), gpus)) as s:
        await s.press(FLEET)
        assert " s   s   s   s" in s.line_with("n1  ")
        assert "! stale 42s" in s.lines[1]
        assert "stale 42s" in s.lines[-3]
        assert "s stale" in s.lines[-4]


async def test_the_cursor_walks_and_opens_gpu_and_node(stage):
    async with stage(fleet()) as s:
        await s.press(FLEET, "l", "right", "h")
        assert "gpu01:1 ·" in s.lines[-3]
        await s.press("j")
        assert "gpu01:1 ·" not in s.lines[-3]
        await s.press("g", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        assert "gpu01:0" in s.lines[0]
        await s.press("escape", "o")
        assert isinstance(s.app.screen, NodeScreen)
        await s.press("escape", "escape")
        assert isinstance(s.app.screen, JobsView)


async def test_the_cursor_stays_on_its_gpu_through_fields_groups_and_zoom(stage):
    async with stage(cabled(cluster(waits("1")))) as s:
        await s.press(FLEET, "G")
        here = s.lines[-3].split(" ·")[0]
        for _ in FIELDS:
            await s.press("c")
            assert s.lines[-3].split(" ·")[0] == here
        await s.press("C", "c")
        assert "verdict by" in s.lines[0]
        # Blocks and NVLink domains are reported by no source here, and passed over.
        for grouping in ("leaf switch", "name", "state", "partition"):
            await s.press("b")
            assert f"verdict by {grouping}" in s.lines[0]
            assert s.lines[-3].split(" ·")[0] == here
        await s.press("Z", "Z", "z", "0")
        assert s.lines[-3].split(" ·")[0] == here


async def test_zoom_ends_at_both_ends_and_says_what_a_cell_is(stage):
    async with stage(many(20)) as s:
        await s.press(FLEET)
        assert s.lines[0].endswith("a cell per GPU")
        await s.press(*"ZZZZZZZ")
        assert s.lines[0].endswith("2 nodes per cell: worst")
        await s.press("M")
        assert s.lines[0].endswith("2 nodes per cell: most")
        await s.press("enter")
        assert isinstance(s.app.screen, NodeScreen)
        await s.press("escape", *"zzzzzzzz")
        assert s.lines[0].endswith("SM active, % per GPU")
        await s.press("G")
        assert "n0019   84" in s.text


async def test_a_click_takes_the_cursor_and_a_second_opens(stage):
    async with stage(fleet()) as s:
        await s.press(FLEET)
        y = next(i for i, line in enumerate(s.lines) if "gpu02" in line)
        x = s.lines[y].index("gpu02") + len("gpu02") + 2
        await s.pilot.hover(offset=(x, y))
        await s.pilot.pause()
        assert s.lines[-3].startswith(" gpu02:0 ·")
        await s.pilot.click(offset=(x, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, MapView)
        await s.pilot.click(offset=(x, y))
        await s.pilot.pause()
        assert isinstance(s.app.screen, GpuScreen)
        assert "gpu02:0" in s.lines[0]


async def test_the_filter_keeps_nodes_with_a_gpu_that_passes(stage):
    async with stage(fleet()) as s:
        await s.press(FLEET, "slash", *"grace", "enter")
        assert "gpu01" in s.text
        assert "gpu02" not in s.text
        await s.press("escape")
        assert "gpu02" in s.text
        await s.press("slash", *"zzz")
        assert "No GPU passes “zzz”" in s.text


async def test_only_what_changed_is_drawn(stage, monkeypatch):
    before = many(64)
    async with stage(before, (120, 40)) as s:
        await s.press(FLEET)
        screen = s.app.screen
        drawn = []
        refresh = type(screen.map).refresh
        monkeypatch.setattr(
            type(screen.map),
            "refresh",
            lambda self, *regions, **more: drawn.extend(regions) or refresh(self, *regions, **more),
        )
        await s.give(before._replace(number=2))
        assert drawn == []
        view, gpus = job_with_gpus("1", {f"n{i:04}": 8 for i in range(64)}, idle=2)
        await s.give(tick((view,), gpus))
        assert [(region.width, region.height) for region in drawn] == [(4, 1)]


@pytest.mark.parametrize("size", [(30, 8), (12, 5), (1, 1)])
async def test_tiny_terminals_do_not_break(stage, size):
    async with stage(fleet(), size) as s:
        await s.press(FLEET, "c", "b", "z", "Z", "G", "g", "l", "j")
        assert isinstance(s.app.screen, MapView)


async def test_resizing_places_everything_again(stage):
    async with stage(many(64), (200, 60)) as s:
        await s.press(FLEET)
        for size in ((80, 24), (40, 12), (120, 40), (79, 23)):
            await s.pilot.resize_terminal(*size)
            await s.pilot.pause()
            assert "n0000" in s.text


async def test_without_colours_signs_alone_tell_everything(stage, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(many(40)) as s:
        await s.press(FLEET)
        assert "■■■■■■■■" in s.text.replace(" ", "")
        assert "▀" not in s.text
        await s.press("Z", "Z", "Z", "c", "c")
        for strip in s.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default


@pytest.mark.parametrize("name", [theme.name for theme in THEMES])
def test_areas_stand_out_from_the_ground_and_steps_from_each_other(name):
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.theme = name
    look = ThemeStyles(app.get_css_variables(), has_colour=True)
    levels = [mark.ink for mark in FIELDS[3].levels]
    for ink in levels:
        area = look.map.style(ink, None)
        assert contrast(area.color, area.bgcolor) >= LEAST_OF_AREAS
        number = look.map.style(Ink.TEXT, ink)
        assert contrast(number.color, number.bgcolor) >= 4.5
    by_light = [contrast(look.map.style(ink, None).color, look.base.bgcolor) for ink in levels]
    for low, high in pairwise(by_light):
        assert high / low >= 1.3


async def test_the_filter_completes_the_names_of_columns(stage):
    async with stage(fleet(), (100, 30)) as s:
        await s.press("colon", *"fleet", "enter", "slash", *"mod", "tab")
        assert s.app.screen.prompt.value == "model"
        await s.press(*"~zz")
        assert "No GPU passes" in s.text
        await s.press("escape", "slash", *"nod", "tab", *"==gpu01", "enter")
        assert s.app.screen.needle() == "node==gpu01"


@pytest.mark.parametrize("no_colour", [False, True])
async def test_the_cursor_reverses_the_whole_cell(stage, monkeypatch, no_colour):
    if no_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    async with stage(cluster(waits("1")), (80, 24)) as s:
        await s.press(FLEET)
        y = next(y for y, line in enumerate(s.lines) if line.startswith(" gpu01"))
        strip = s.app.screen.map.render_line(y - s.app.screen.map.region.y)
        marked = [part.text for part in strip if part.style and part.style.reverse]
        assert "".join(marked) == "!84"


async def test_the_legend_has_only_what_is_seen(stage):
    async with stage(cluster(waits("1")), (80, 24)) as s:
        await s.press(FLEET)
        assert "■ used, 10+ %" in s.lines[-4]
        whole = cluster(waits("1"))
        silent = {uuid: gpu._replace(is_stale=True) for uuid, gpu in whole.gpus.items()}
        await s.give(whole._replace(gpus=silent))
        assert "stale" in s.lines[-4]
        assert "10+ %" not in s.lines[-4]


async def test_the_frame_of_a_large_map_is_painted_before_the_map(stage, monkeypatch):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    fill = MapView._fill
    monkeypatch.setattr(MapView, "_fill", lambda _view: None)
    async with stage(many(40), (120, 40)) as s:
        await s.press(FLEET)
        assert "Drawing 40 nodes …" in s.text
        fill(s.app.screen)
        s.app.screen.map.slices.finish()
        await s.pilot.pause()
        assert "Drawing" not in s.text
        assert "320 GPUs" in s.lines[1]
    monkeypatch.setattr(MapView, "_fill", fill)
    async with stage(many(40), (120, 40)) as s:
        await s.press(FLEET)
        s.app.screen.map.slices.finish()
        await s.pilot.pause()
        assert "320 GPUs" in s.lines[1]


async def test_keys_act_on_the_map_in_sight_while_another_is_made_ready(stage, monkeypatch):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(40), (120, 40)) as s:
        await s.press(FLEET)
        drawn = s.app.screen.map
        drawn.slices.finish()
        await s.pilot.pause()
        with monkeypatch.context() as held:
            held.setattr(drawn.slices, "go_on", lambda: None)
            later = many(35)
            await s.give(later._replace(at=later.at + 5.0))
            await s.press("G")
            assert "n0039" in s.lines[-3]
            assert s.app.screen.subject_here() is not None
            await s.press("c")
            assert "SM active by partition" in s.lines[0]
            assert "n0039" in s.lines[-3]
        drawn.slices.finish()
        await s.pilot.pause()
        assert len(drawn.marks.roster.units) == 35
        assert drawn.marks.field.key == "sm"
        assert "n0039" not in s.text


@pytest.mark.parametrize(("key", "chosen"), [("c", "SM active by partition"), ("b", "by name")])
async def test_what_was_chosen_is_said_before_a_large_map_is_made_ready(
    stage, monkeypatch, key, chosen
):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(40), (120, 40)) as s:
        await press_and_draw(s, FLEET)
        events = []

        def note_frame(renderable):
            if renderable is not None:
                events.append(s.lines[0])

        monkeypatch.setattr(s.app, "note_frame", note_frame)
        monkeypatch.setattr(s.app.screen.map.slices, "begin", lambda: events.append("begins"))
        await s.press(key)
        said = next(at for at, event in enumerate(events) if chosen in event)
        assert said < events.index("begins")


async def test_a_large_map_is_drawn_every_other_second_and_at_once_when_somebody_asks(
    stage, monkeypatch
):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(40), (120, 40)) as s:
        await press_and_draw(s, FLEET)
        drawn, first = s.app.screen.map, many(40)
        for second, nodes in ((1.0, 40), (2.0, 38), (3.0, 38)):
            await s.give(many(nodes)._replace(at=first.at + second, number=int(second) + 1))
            drawn.slices.finish()
            await s.pilot.pause()
            assert drawn.marks.digest.tick.at == first.at + (2.0 if second >= 2.0 else 0.0)
        await press_and_draw(s, "comma")
        assert drawn.marks.digest.tick.at == first.at + 2.0
        await press_and_draw(s, "comma")
        assert drawn.marks.digest.tick.at == first.at + 1.0


async def press_and_draw(s, *keys):
    """Press keys for a map that is all there whenever one is pressed."""
    for key in keys:
        await s.press(key)
        s.app.screen.map.slices.finish()
        await s.pilot.pause()


async def test_a_large_map_comes_line_by_line_and_keys_are_answered_between(stage, monkeypatch):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(60), (80, 24)) as s:
        await press_and_draw(s, FLEET, "Z")
        drawn = s.app.screen.map
        before = s.text
        with monkeypatch.context() as held:
            held.setattr(drawn.slices, "go_on", lambda: None)
            await s.press("c")
        steps = drawn.slices._steps
        lines = drawn._in_sight()
        while len(drawn._coming) != len(lines) // 2:
            next(steps)
        await s.press("right")
        assert s.text != before
        drawn.slices.finish()
        await s.pilot.pause()
        done = s.text
        s.app.screen.refresh(repaint=True, layout=True)
        await s.pilot.pause()
        assert s.text == done
    async with stage(many(60), (80, 24)) as s:
        await press_and_draw(s, FLEET, "Z", "c", "right")
        assert s.text == done


async def test_lines_that_were_not_drawn_to_the_end_are_drawn_of_the_next_tick(stage, monkeypatch):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(60), (80, 24)) as s:
        await s.press(FLEET)
        drawn = s.app.screen.map
        drawn.slices.finish()
        await s.pilot.pause()
        done = s.text
        with monkeypatch.context() as held:
            held.setattr(drawn.slices, "go_on", lambda: None)
            await s.press("c")
            while not drawn._coming:
                next(drawn.slices._steps)
            await s.press("C")
        drawn.slices.finish()
        await s.pilot.pause()
        assert drawn._coming == set()
        assert s.text == done


async def test_the_words_around_a_map_that_is_all_new_have_a_step_of_their_own(stage, monkeypatch):
    monkeypatch.setattr("gpumon.tui.screens.lists.fleet.LARGE", 30)
    async with stage(many(60), (80, 24)) as s:
        await s.press(FLEET)
        drawn = s.app.screen.map
        drawn.slices.finish()
        await s.pilot.pause()
        done = []
        monkeypatch.setattr(drawn, "_prepare", lambda _digest: iter((done.append("counted"),)))
        monkeypatch.setattr(drawn, "_on_shown", lambda: done.append("written"))
        with monkeypatch.context() as held:
            held.setattr(drawn.slices, "go_on", lambda: None)
            await s.press("b")
            steps = drawn.slices._steps
            while not drawn._coming:
                next(steps)
        assert done == ["counted"]
        next(steps)
        assert done == ["counted", "written"]
        assert drawn._coming == set(drawn._in_sight())
        drawn.slices.finish()
        assert drawn._coming == set()
