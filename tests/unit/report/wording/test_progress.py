"""When a job last wrote to its output, or why that is unknown."""

from __future__ import annotations

import pytest

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.progress import output_lines
from tests.worlds.tick import AT, job_with_gpus, tick


def group(age_s=None, reason=None, size=None, rate=None, job_id="7"):
    values = {
        "job_output_age_s": age_s,
        "job_output_bytes_per_s": rate,
    }
    columns = {key: column_for(False, [value]) for key, value in values.items()}
    columns["job_output_bytes"] = column_for(True, [size])
    missing = {("job_output_age_s", 0): reason} if reason else {}
    return Block((job_id,), columns, {}, missing)


def progress_texts(groups, width=120, taken_at=AT, **changes):
    names = dict.fromkeys(groups, 2)
    view, gpus = job_with_gpus("7", names, **changes)
    made = tick((view,), gpus)
    nodes = {
        name: made.nodes[name]._replace(
            blocks={"cgroup": block} if block else {}, taken_at=taken_at, is_stale=is_stale
        )
        for name, (block, is_stale) in groups.items()
    }
    digest = Digest(made._replace(nodes=nodes))
    lines = output_lines(digest, digest.tick.job("7"), width)
    return ["".join(cell.text for cell in line) for line in lines]


def test_the_age_the_rate_and_the_size():
    lines = progress_texts({"a": (group(14.0, size=3 * 2**30, rate=38_000.0), False)})
    assert lines == ["output: grew 14s ago, 38 kB/s, 3.0 GiB so far"]


def test_the_newest_write_of_all_nodes_counts_and_says_where():
    lines = progress_texts({"a": (group(400.0), False), "b": (group(20.0), False)})
    assert lines == ["output: grew 20s ago on b"]


def test_the_time_since_the_reading_is_added():
    assert progress_texts({"a": (group(14.0), False)}, taken_at=AT - 6) == ["output: grew 20s ago"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.NO_PERMISSION, "no permission"),
        (Reason.NOT_SHARED, "does not share"),
    ],
)
def test_why_nothing_is_known_where_somebody_could_change_that(reason, words):
    (line,) = progress_texts({"a": (group(reason=reason), False), "b": (None, False)})
    assert line.startswith("output: not known, ")
    assert words in line


@pytest.mark.parametrize(
    ("groups", "changes"),
    [
        pytest.param({"a": (None, False)}, {}, id="no-cgroup"),
        pytest.param({"a": (group(9.0, job_id="8"), False)}, {}, id="another-job"),
        pytest.param({"a": (group(9.0), True)}, {}, id="silent-node"),
        pytest.param({"a": (group(reason=Reason.NOT_SAMPLED), False)}, {}, id="not-asked-yet"),
        pytest.param({"a": (group(reason=Reason.NOT_SUPPORTED), False)}, {}, id="no-plain-file"),
        pytest.param({"a": (group(9.0), False)}, {"state": "COMPLETING"}, id="not-running"),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_say(groups, changes):
    assert progress_texts(groups, **changes) == []
