"""Text from outside is drawn as text, whatever it holds."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gpumon.model.fault import SourceError
from gpumon.model.records.tick import TargetState
from tests.worlds.node import block, machine
from tests.worlds.tick import finding, job_with_gpus, tick

NAMES = [
    "[red]not red[/red]",
    "[@click=app.quit]here[/]",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "a\nb\tc\r\x00",
    "evil\u202eexe.gpj",
    "日本語の名前ですよ",
    "cafe\u0301 \u2764\ufe0f \U0001f469\u200d\U0001f4bb",
    "x" * 5000,
    "\ud800half",
    "",
]


@pytest.mark.parametrize("name", NAMES)
async def test_hostile_names_everywhere(stage, name):
    view, gpus = job_with_gpus("1", {"gpu01": 2}, name=name, user=name[:40] or "u", reason=name)
    view = view._replace(contradictions=(name,))
    error = SourceError(name or "x", name, name)
    hostile = tick(
        (view,),
        gpus,
        findings=(finding("job:1", summary=name, advice=(name,), machine_advice=(name,)),),
        errors=(error,),
        targets=(TargetState(name or "slurm", False, error, None),),
    )
    async with stage(hostile) as s:
        for keys in (
            (),
            ("enter",),
            ("enter",),
            ("f",),
            ("enter",),
            ("escape", "f"),
            ("escape",),
            ("escape", "e"),
            ("escape", "escape", "escape", "tab"),
        ):
            await s.press(*keys)
            assert "\x1b" not in s.text
            assert "\u202e" not in s.text
            assert not any(ord(c) < 32 and c != "\n" for c in s.text)
            for strip in s.app.screen._compositor.render_strips():
                text = "".join(segment.text for segment in strip)
                assert cell_len(text) == 80
        if name.startswith("["):
            await s.press("escape")
            assert name[:8] in s.text


@pytest.mark.parametrize("name", NAMES)
async def test_hostile_texts_of_a_node(stage, name):
    key = name or "x"
    mounts = block("filesystem", {key: {"fs_read_bytes_per_s": 1.0}})
    full = {"size_bytes": 9e9, "used_bytes": 9e9, "free_bytes": 0.0}
    space = block("local_filesystem", {key: full})
    ports = block("nic", {f"{key}/1": {"nic_speed_gbps": 1.0}})
    more = {
        "filesystem": mounts._replace(labels={"fstype": (name,), "device": (name,)}),
        "local_filesystem": space._replace(labels={"type": (name,)}),
        "nic": ports._replace(labels={"state": (name,), "nearest_by": (name,)}),
    }
    hostile = machine(more=more)
    board = next(iter(hostile.gpus.values()))
    labels = {**board.block.labels, "serial": (name,), "common_ancestors": (name,)}
    board = board._replace(block=board.block._replace(labels=labels))
    node = hostile.nodes["n1"]
    error = SourceError(name, name, name)
    host = node.block._replace(labels={"driver_version": (name,)})
    node = node._replace(state=name, errors=(error,), block=host)
    hostile = hostile._replace(nodes={"n1": node}, gpus={**hostile.gpus, board.uuid: board})
    async with stage(hostile) as s:
        for keys in (("tab", "N"), ("4",), ("G",), ("escape", "enter"), ("G",)):
            await s.press(*keys)
            assert not any(ord(c) < 32 and c != "\n" for c in s.text)
            for strip in s.app.screen._compositor.render_strips():
                assert cell_len("".join(segment.text for segment in strip)) == 80


async def test_markup_in_a_name_changes_no_style(stage):
    tame, gpus = job_with_gpus("1", {"gpu01": 1}, name="tame")
    wild, _ = job_with_gpus("2", {"gpu02": 1}, name="[b]ad[/]")
    async with stage(tick((tame, wild), gpus), (120, 24)) as s:
        assert s.style_of("[b]ad[/]").color == s.style_of("tame").color
