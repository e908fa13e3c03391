"""Instances of a GPU in MIG mode have rows of their own, right below their GPU."""

from __future__ import annotations

from array import array

import pytest

from gpumon.model.missing import Reason
from gpumon.report.document.document import document
from gpumon.report.facts.columns import arranged
from gpumon.report.facts.tick_index import Digest
from gpumon.report.filter.bind import row_filter
from gpumon.report.lists.all_processes import (
    ALL_PROCESS_COLUMNS,
    every_process,
    process_search,
)
from gpumon.report.lists.filter_tables import understood
from gpumon.report.lists.once import table
from gpumon.report.lists.own_rows import own_rows
from gpumon.report.lists.problems import problems_of
from gpumon.report.lists.subjects import of_row
from gpumon.report.pages.machine_glance import machine_glance
from gpumon.report.pages.node_sections import node_sections
from gpumon.report.tables.gpu import FLEET_COLUMNS, fleet_order, fleet_search_text
from gpumon.report.tables.process import PROCESS_PARTS
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE
from tests.worlds.mig import CUT, contexts, instances, mig_uuid, on_cut, picture
from tests.worlds.node import block
from tests.worlds.tick import finding, gpu, job_with_gpus, tick

COLUMN = {column.key: column for column in FLEET_COLUMNS}

WHOLE_GPU = ("power_w", "temp_c", "sm_clock_mhz", "pcie_width", "nvlink", "gpu_util_ratio")


def shown(digest, row, key):
    return COLUMN[key].cell(digest, row)


def names(digest, rows):
    return [shown(digest, row, "gpu").text for row in rows]


IN_PLACE = ["0", "1", "1:1/0", "1:5/0", "1:5/1", "2"]


def test_instances_follow_their_gpu_by_their_numbers():
    digest = Digest(picture())
    assert names(digest, digest.gpu_rows) == IN_PLACE
    assert len({row.key for row in digest.gpu_rows}) == 6
    assert digest.gpu_rows[2].key == mig_uuid(0xA1)


def test_a_gpu_that_nobody_knows_has_no_instances():
    digest = Digest(picture({"mig": instances(parent="GPU-elsewhere")}))
    assert names(digest, digest.gpu_rows) == ["0", "1", "2"]


@pytest.mark.parametrize("is_descending", [False, True])
def test_they_stay_below_their_gpu_where_rows_are_in_order_of_loss_or_of_place(is_descending):
    lost = finding(f"gpu:{CUT}")
    digest = Digest(picture(findings=(lost,)))
    listed = arranged(digest.gpu_rows, lambda row: fleet_order(digest, row))
    assert names(digest, listed) == ["1", "1:1/0", "1:5/0", "1:5/1", "0", "2"]
    order = COLUMN["node"].order
    listed = arranged(digest.gpu_rows, lambda row: order(digest, row), is_descending)
    others = ["1", "1:1/0", "1:5/0", "1:5/1"]
    assert names(digest, listed) == (["2", *others, "0"] if is_descending else ["0", *others, "2"])


def test_cells_show_what_the_instance_has_of_its_own():
    digest = Digest(picture())
    first, second, third = digest.gpu_rows[2:5]
    assert [shown(digest, row, "sm_active_ratio").text for row in (first, third)] == ["5", "61"]
    assert shown(digest, second, "sm_active_ratio") == NO_VALUE
    assert shown(digest, first, "tensor_active_ratio").text == "30"
    assert shown(digest, first, "dram_active_ratio").text == "20"
    assert shown(digest, first, "mem_used_bytes").text == "9.0/20"
    assert shown(digest, first, "model").text == "  3g.40gb"
    assert shown(digest, first, "uuid").text == "000000a1"
    assert shown(digest, first, "node").text == "n1"


def test_compute_instances_that_share_a_gpu_instance_say_whose_the_values_are():
    """NVML measures GPU instances: one of two compute instances may be idle at 61 %."""
    digest = Digest(picture())
    words = [shown(digest, row, "why").text for row in digest.gpu_rows[2:5]]
    assert words == ["MIG 3g.40gb", *["MIG 1c.2g.20gb; values of all 1:5"] * 2]


@pytest.mark.parametrize("key", WHOLE_GPU)
def test_what_only_the_whole_gpu_has_is_neither_shown_nor_sorted_by(key):
    digest = Digest(picture())
    row = digest.gpu_rows[2]
    assert shown(digest, row, key) == EMPTY_CELL
    assert COLUMN[key].order(digest, row) is None


def test_health_and_loss_are_the_gpus():
    digest = Digest(picture(findings=(finding(f"gpu:{CUT}"),)))
    board, instance = digest.gpu_rows[1:3]
    assert problems_of(digest, board)
    assert problems_of(digest, instance) == ()
    assert shown(digest, instance, "health") == EMPTY_CELL
    assert shown(digest, instance, "losing_gpus") == EMPTY_CELL
    assert COLUMN["losing_gpus"].order(digest, instance) is None
    assert COLUMN["losing_gpus"].value(digest, instance) is None
    assert shown(digest, instance, "why").text == "MIG 3g.40gb"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.NO_PERMISSION, "? this user may not read it"),
        (Reason.NOT_SUPPORTED, "MIG 3g.40gb"),
    ],
)
def test_an_instance_says_why_it_cannot_be_read_where_somebody_can_do_something(reason, words):
    slices = instances()
    column = array("d", [float("nan")] * 3)
    slices = slices._replace(
        columns={**slices.columns, "mig_mem_used_bytes": column},
        missing={("mig_mem_used_bytes", row): reason for row in range(3)},
    )
    digest = Digest(picture({"mig": slices}))
    assert shown(digest, digest.gpu_rows[2], "why").text == words
    assert shown(digest, digest.gpu_rows[2], "mem_used_bytes") == NO_VALUE


def test_another_order_goes_by_the_instances_own_values():
    digest = Digest(picture())
    order = COLUMN["sm_active_ratio"].order
    listed = arranged(digest.gpu_rows, lambda row: order(digest, row), True)
    assert names(digest, listed) == ["0", "2", "1:5/1", "1:1/0", "1", "1:5/0"]


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("sm<20", ["1:1/0"]),
        ("sm>50 & mem<20GiB", ["1:5/1"]),
        ("power>0", ["0", "1", "2"]),
        ("lost>=0", ["0", "1", "2"]),
        ("model==3g.40gb", ["1:1/0"]),
        ("gpu==1", ["1", "1:1/0", "1:5/0", "1:5/1"]),
        ("gpu=='1:5/1'", ["1:5/1"]),
        ("40gb", ["1:1/0"]),
        ("000000a0", ["1:5/1"]),
        ("node==n1", IN_PLACE),
    ],
)
def test_a_filter_judges_an_instance_by_its_own_values(text, passing):
    digest = Digest(picture())
    passes = row_filter(text, FLEET_COLUMNS, fleet_search_text)
    assert names(digest, [row for row in digest.gpu_rows if passes(digest, row)]) == passing


def test_who_is_on_an_instance_stands_in_its_row():
    two = (on_cut(71, "ada"), on_cut(72, "noether"))
    digest = Digest(picture({"context": contexts({71: (1, 0), 72: (5, 1)})}, two))
    users = [shown(digest, row, "user").text for row in digest.gpu_rows]
    assert users == ["", "ada +1", "ada", "", "noether", ""]
    assert shown(digest, digest.gpu_rows[4], "process").text == "train72"
    assert names(digest, own_rows(digest, digest.gpu_rows, "noether")) == ["1", "1:5/1"]
    assert [of_row(digest, row).pids for row in digest.gpu_rows[1:4]] == [(71, 72), (71,), ()]
    assert of_row(digest, digest.gpu_rows[2]).uuid == CUT


def test_nobody_is_named_where_the_driver_does_not_say_who_runs_where():
    digest = Digest(picture(None, (on_cut(71, "ada"),)))
    users = [shown(digest, row, "user").text for row in digest.gpu_rows]
    assert users == ["", "ada", "", "", "", ""]


def test_an_instance_names_the_job_of_what_runs_in_it():
    view, _ = job_with_gpus("7", {"n1": 2}, user="ada")
    mine = (on_cut(71, "ada", "7"),)
    digest = Digest(picture({"context": contexts({71: (1, 0)})}, mine, (view,)))
    assert [shown(digest, row, "job").text for row in digest.gpu_rows[1:4]] == ["7", "7", ""]


def test_an_old_instance_has_no_values():
    digest = Digest(picture(is_stale=True))
    board, instance = digest.gpu_rows[1:3]
    assert board.gpu.is_stale
    assert shown(digest, instance, "sm_active_ratio") == NO_VALUE
    assert shown(digest, instance, "mem_used_bytes") == NO_VALUE


def test_the_plain_table_has_them_and_room_for_their_names():
    lines = table(picture(queue_at=None), 100).split("\n")
    assert lines[0].startswith("3 GPUs on 1 node")
    assert [line.split()[1] for line in lines[3:9]] == IN_PLACE
    assert "9.0/20" in lines[5]
    plain = table(tick((), [gpu("n1", 0)], queue_at=None), 100).split("\n")
    assert lines[2].index("GPU") > plain[2].index("GPU")


def test_the_plain_table_tells_processes_once_and_findings_of_gpus_that_pass():
    one = (on_cut(71, "ada"), on_cut(72, "noether"))
    made = picture(
        {"context": contexts({71: (1, 0), 72: (5, 1)})},
        one,
        queue_at=None,
        findings=(finding(f"gpu:{CUT}"),),
    )
    assert table(made, 100).count("train71") == 1
    passing = table(made, 100, understood("sm<20"))
    assert "train71" in passing
    assert "train72" not in passing
    assert f"gpu:{CUT}" not in passing
    mine = table(made, 100, user="noether").split("\n")
    assert [line.split()[1] for line in mine if line.startswith("n1")] == ["1", "1:5/1"]


def test_a_document_does_not_change_for_them():
    passes = understood("tensor>40").gpus
    made = picture(queue_at=None)
    cut = made.nodes["n1"]
    bare = made._replace(nodes={"n1": cut._replace(blocks={})})
    listed, plain = (document(one, passes_gpu=passes)["nodes"][0]["gpus"] for one in (made, bare))
    assert [one["uuid"] for one in listed] == [one["uuid"] for one in plain]
    assert len(listed) == 3


def test_the_page_of_a_node_has_them_and_opens_their_gpu():
    digest = Digest(picture())
    node = digest.tick.nodes["n1"]
    (section,) = [one for one in node_sections(digest, node, 100) if one.title == "GPUs"]
    assert [entry.opens for entry in section.entries[1:5]] == [f"gpu:{CUT}"] * 4
    texts = ["".join(cell.text for cell in entry.line).split()[0] for entry in section.entries]
    assert texts == IN_PLACE


def test_rows_of_many_instances_are_made_in_steps():
    one = picture()
    node = one.nodes["n1"]
    many = {f"n{number}": node._replace(name=f"n{number}") for number in range(600)}
    cut, bare = Digest(one._replace(nodes=many)), picture({"mig": block("mig", {})})
    whole = Digest(
        bare._replace(nodes={name: bare.nodes["n1"]._replace(name=name) for name in many})
    )
    assert sum(1 for _ in whole.gpu_row_steps()) == 3
    assert sum(1 for _ in cut.gpu_row_steps()) > 3
    assert len(cut.gpu_rows) == 6 * 600
    assert len(whole.gpu_rows) == 3 * 600


def on_an_instance():
    """One process in an instance of the cut GPU, one of which the driver reports no instance."""
    blocks = {"context": contexts({4001: (5, 1)})}
    return picture(blocks, processes=(on_cut(4001, "ada"), on_cut(4002, "bob")))


def test_a_process_is_shown_in_its_instance():
    digest = Digest(on_an_instance())
    places = {
        row.process.pid: PROCESS_PARTS["gpu"].cell(digest, row).text
        for row in every_process(digest)
    }
    assert places == {4001: "1:5/1", 4002: "1"}


@pytest.mark.parametrize(
    ("words", "pids"),
    [("gpu==1", [4001, 4002]), ("gpu==1:5/1", [4001]), ("gpu==n1:1", [4001, 4002])],
)
def test_a_process_in_an_instance_is_found_by_its_gpu_and_by_its_instance(words, pids):
    digest = Digest(on_an_instance())
    passes = row_filter(words, ALL_PROCESS_COLUMNS, process_search)
    assert [row.process.pid for row in every_process(digest) if passes(digest, row)] == pids


def test_the_machine_shows_the_instance_of_a_process_whole():
    made = on_an_instance()
    lines = machine_glance(Digest(made), made.nodes["n1"], 120, 30)
    assert [line for line in lines if "1:5/1" in "".join(cell.text for cell in line)]
