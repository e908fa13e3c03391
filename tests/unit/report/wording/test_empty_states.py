"""What is shown in place of what cannot be shown."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import Node
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.gpu import fleet_why
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.text.units import clock_time
from gpumon.report.wording.empty_states import (
    gone_job_words,
    job_errors,
    no_gpus_words,
    nothing_lines,
    resting_words,
    silent_lines,
    silent_nodes_lines,
    silent_s,
    stale_subject_lines,
)
from tests.worlds.tick import AT, IDLE, failed, fleet, gpu, job_with_gpus, tick, uuid_of


def plain(lines):
    return "\n".join("".join(cell.text for cell in line) for line in lines)


def silent():
    view, gpus = job_with_gpus("7", {"n1": 2, "n2": 2}, stale_s=42.0)
    return tick((view,), gpus)


def test_what_failed_stands_below_the_words_with_its_way_out():
    text = plain(nothing_lines(Digest(failed()), ("Nothing.", "Esc goes back."), 60))
    assert text.split("\n") == [
        "",
        " Nothing.",
        " → Esc goes back.",
        "",
        " ✗ slurm: squeue: command not found",
        "   → load the slurm module",
    ]


@pytest.mark.parametrize(
    ("given_tick", "expected", "unexpected"),
    [
        (tick(), "Job 6_1 is not in the queue", "not known"),
        (failed(), "whether job 6_1 is in it is not known", "sacct"),
    ],
)
def test_a_job_is_only_called_gone_where_the_queue_was_read(given_tick, expected, unexpected):
    text = " ".join(gone_job_words(Digest(given_tick), "6_1", "7"))
    assert expected in text
    assert unexpected not in text


def test_accounting_is_named_for_ids_that_it_knows():
    assert "sacct -j 6_1 shows" in " ".join(gone_job_words(Digest(tick()), "6_1", "7"))
    assert "sacct" not in " ".join(gone_job_words(Digest(tick()), "x", "x; reboot"))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("CANCELLED", "has ended"),
        ("TIMEOUT", "has ended"),
        ("RUNNING", "yet"),
        ("SUSPENDED", "yet"),
    ],
)
def test_a_job_that_has_ended_is_not_waited_for(state, expected):
    view, gpus = job_with_gpus("7", {"n1": 2})
    digest = Digest(tick((view,), gpus))
    words = no_gpus_words(digest, view._replace(job=view.job._replace(state=state)))
    assert expected in words[0]


def test_a_job_answers_for_its_own_nodes_only():
    own, other = (SourceError(name, "connection refused", "") for name in ("n1", "n3"))
    view, gpus = job_with_gpus("7", {"n1": 1, "n2": 1})
    made = tick((view,), gpus)
    nodes = {**made.nodes, "n1": made.nodes["n1"]._replace(errors=(own, own))}
    nodes["n3"] = made.nodes["n2"]._replace(name="n3", errors=(other,))
    assert job_errors(Digest(made._replace(nodes=nodes)), view) == (own,)


def test_all_nodes_are_silent_only_once_the_last_one_is():
    assert silent_s(tick()) is None
    assert silent_s(fleet()) is None
    assert silent_s(silent()) == pytest.approx(42.0)
    assert plain(silent_lines(silent(), 80)) == (
        "! stale 42s: no node answers any more; values are not shown"
    )
    assert silent_lines(fleet(), 80) == []


def test_silent_nodes_are_named_as_long_as_others_answer():
    some = fleet()
    assert plain(silent_nodes_lines(some, 80)) == "! stale: 1 node no longer answers: gpu04"
    more = {**some.nodes, "gpu03": some.nodes["gpu03"]._replace(is_stale=True)}
    words = plain(silent_nodes_lines(some._replace(nodes=more), 80))
    assert words.startswith("! stale: 2 nodes no longer answer: ")
    assert silent_nodes_lines(silent(), 80) == []
    assert silent_nodes_lines(tick(), 80) == []


def test_where_no_gpu_is_known_a_table_of_nodes_says_what_failed_and_the_way_out():
    error = SourceError("NVML", "nvmlInit: NVML Shared Library Not Found", "install the driver")
    node = Node("vm", (), AT, False, None, (error,))
    given_tick = tick()._replace(nodes={"vm": node})
    words = plain(silent_nodes_lines(given_tick, 80))
    assert "nvmlInit: NVML Shared Library Not Found" in words
    assert "→ install the driver" in words
    assert silent_nodes_lines(given_tick._replace(nodes={}), 80) == []


def test_nodes_that_were_never_heard_are_not_called_stale():
    given_tick = silent()
    never = given_tick.nodes["n1"]._replace(taken_at=None, is_stale=False)
    assert silent_s(given_tick._replace(nodes={"n1": never, "n2": never})) is None
    assert silent_s(given_tick._replace(nodes={**given_tick.nodes, "n3": never})) == pytest.approx(
        42.0
    )


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("job:7", "none of its nodes answers any more"),
        (f"gpu:{uuid_of('n1', 0)}", "the node no longer answers"),
        ("node:n2", "the node no longer answers"),
    ],
)
def test_the_age_of_what_is_stale_is_told_of_jobs_gpus_and_nodes(subject, why):
    assert plain(stale_subject_lines(Digest(silent()), subject, 80)).startswith(
        f"! stale 42s: {why}"
    )
    fresh, gpus = job_with_gpus("7", {"n1": 2, "n2": 2})
    assert stale_subject_lines(Digest(tick((fresh,), gpus, at=AT)), subject, 80) == []
    assert stale_subject_lines(Digest(tick()), subject, 80) == []


def left(*names):
    """A job of the past whose nodes are watched no more since the last minute."""
    given_tick = silent()
    nodes = {
        name: node._replace(left_at=AT - 41.0) if name in names else node
        for name, node in given_tick.nodes.items()
    }
    return given_tick._replace(nodes=nodes)


def test_nodes_that_were_left_on_purpose_are_not_called_silent():
    assert silent_s(left("n1")) == pytest.approx(42.0)
    assert silent_s(left("n1", "n2")) is None
    assert silent_lines(left("n1", "n2"), 80) == []


@pytest.mark.parametrize("subject", ["job:7", f"gpu:{uuid_of('n1', 0)}", "node:n2"])
def test_a_node_that_was_left_on_purpose_says_so_without_a_warning(subject):
    lines = stale_subject_lines(Digest(left("n1", "n2")), subject, 120)
    words = f"not watched since {clock_time(AT - 41.0)}: no job in view is there"
    assert plain(lines).startswith(words)
    assert {cell.tone for line in lines for cell in line} == {Tone.DIM}


def test_the_tables_of_gpus_tell_it_dim_and_in_few_cells():
    digest = Digest(left("n1"))
    cells = {row.node.name: fleet_why(digest, row) for row in digest.gpu_rows}
    assert cells["n1"] == Cell("not watched for 41s", Tone.DIM)
    assert cells["n2"] == Cell("stale 42s", Tone.WARN)


def test_where_nothing_holds_a_gpu_detectors_rest_and_elsewhere_they_are_awaited():
    free = tick((), [gpu("here", 0, {**IDLE, "process_count": 0.0})], queue_at=None)
    assert resting_words(free)[0] == "Nothing holds a GPU, so the detectors rest."
    assert resting_words(fleet()) == resting_words(failed()) == ()
