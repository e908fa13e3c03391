"""Who may see some users' jobs and attaches is shown the picture that the document shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.model.staleness import stale_after_s
from gpumon.report.withheld import withheld
from gpumon.serve.frames import whole
from gpumon.sources.recording.decode import Decoder
from tests.unit.report.test_withheld import KEY, demo, leaks, mine, others

if TYPE_CHECKING:
    from gpumon.fleet.join.join import JoinedFleet
    from gpumon.model.records.tick import Tick


def seen() -> Tick:
    """The demo as one of its users may see it."""
    tick = demo()
    trouble = SourceError("demo", f"{min(others(tick, mine(tick))['user'])} stumbled")
    return withheld(tick._replace(errors=(trouble,)), frozenset({mine(tick)}), KEY)


def joined(lines: bytes, at: float) -> tuple[Newest, JoinedFleet]:
    """What a terminal makes of it."""
    decoder, newest = Decoder(), Newest()
    records = [decoder.read(raw) for raw in lines.splitlines(keepends=True)]
    newest.take([one for one in records if isinstance(one, Frame)])
    limit_s = stale_after_s(1.0)
    return newest, join(newest.frames, newest.queue, newest.node_errors, at, limit_s)


def test_no_name_of_anybody_else_is_in_the_frames() -> None:
    names = set[str]().union(*others(demo(), mine(demo())).values())
    assert len(names) > 20
    lines = whole(seen()).decode()
    assert leaks(lines, names) == set()
    assert mine(demo()) in lines


def test_what_is_made_of_them_is_the_picture_that_is_shown() -> None:
    shown = seen()
    newest, made = joined(whole(shown), shown.at)
    assert made.nodes.keys() == shown.nodes.keys()
    assert made.gpus.keys() == shown.gpus.keys()
    for uuid, gpu in shown.gpus.items():
        other = made.gpus[uuid]
        assert other.value("power_w") == pytest.approx(gpu.value("power_w"), abs=0.01)
        assert other.is_stale == gpu.is_stale
        assert {one.pid for one in other.processes} == {one.pid for one in gpu.processes}
    views = {view.job.job_id: view for view in shown.jobs}
    assert {view.job.job_id for view in made.jobs} == views.keys()
    held = {job_id: set(view.gpu_uuids) for job_id, view in views.items()}
    own = {view.job.job_id for view in shown.jobs if view.job.user == mine(demo())}
    assert any(held[job_id] for job_id in own)
    for view in made.jobs:
        assert set(view.gpu_uuids) == held[view.job.job_id]
        if view.job.job_id in own:
            assert len(view.ranks) == len(views[view.job.job_id].ranks)
    assert [error.message for error in newest.errors] == ["hidden stumbled"]


def test_a_node_that_is_silent_there_is_silent_here() -> None:
    shown = seen()
    name = next(name for name, node in shown.nodes.items() if node.gpu_uuids)
    old = shown.nodes[name]._replace(is_stale=True, taken_at=shown.at - 60.0)
    _, made = joined(whole(shown._replace(nodes={**shown.nodes, name: old})), shown.at)
    assert made.nodes[name].is_stale
    failed = old._replace(taken_at=shown.at - 1.0)
    _, made = joined(whole(shown._replace(nodes={**shown.nodes, name: failed})), shown.at)
    assert made.nodes[name].is_stale
    late = old._replace(is_stale=False)
    _, made = joined(whole(shown._replace(nodes={**shown.nodes, name: late})), shown.at)
    assert not made.nodes[name].is_stale
