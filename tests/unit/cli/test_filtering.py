"""`--filter`: what it keeps in documents and tables, and how it refuses."""

from __future__ import annotations

import json

import pytest

from gpumon.cli import main
from gpumon.cli.filtering import narrowed, passing, passing_gpus
from gpumon.cli.options import parser
from gpumon.model.records.cluster import Process
from gpumon.report.document.document import document
from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.filter_tables import understood
from gpumon.report.lists.once import table
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon.report.tables.gpu import FLEET_COLUMNS
from tests.worlds.tick import fleet, gpu, tick, uuid_of


def passes(text):
    return parser().parse_args(["--filter", text]).passes


def test_a_document_holds_the_jobs_that_pass_and_their_findings():
    made = fleet()
    chosen = passes("user==grace")
    found = document(made, passing(chosen, made))
    assert [job["job_id"] for job in found["jobs"]] == ["4711"]
    assert [finding["subject"] for finding in found["findings"]] == ["job:4711"]
    chosen = passes("gpus>=16")
    found = document(made, passing(chosen, made))
    assert {job["job_id"] for job in found["jobs"]} == {"4690", "4730"}
    assert found["findings"] == []


def test_it_narrows_what_was_wanted_anyway():
    made = fleet()
    keeps = passing(passes("gpus>=16"), made, lambda view: view.job.job_id == "4690")
    assert [view.job.job_id for view in made.jobs if keeps(view)] == ["4690"]


def test_without_a_filter_all_is_kept():
    made = fleet()
    assert all(map(passing(None, made), made.jobs))


def test_a_table_holds_the_jobs_that_pass():
    text = table(fleet(), 120, understood("sm<60"))
    assert "4711" in text
    assert "4690" not in text
    assert "3 of 8 GPUs ran nothing" in text
    assert "3 of 8 GPUs ran nothing" not in table(fleet(), 120, understood("user==ada"))


def test_columns_that_only_gpus_have_make_it_their_table():
    text = table(fleet(), 140, understood("node==gpu01 & c<40"))
    assert "NODE" in text.split("\n\n")[1].splitlines()[0]
    rows = [line for line in text.splitlines() if line.startswith("gpu0")]
    assert len(rows) == 3


def test_without_jobs_the_filter_is_about_gpus():
    made = fleet()
    text = table(tick((), list(made.gpus.values()), queue_at=None), 140, understood("sm<10"))
    assert len([line for line in text.splitlines() if line.startswith("gpu0")]) == 3


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("usr==ada", "no column 'usr' here; did you mean user? (character 1)"),
        ("sm<20 & gpus>many", "gpus takes a number, such as 8 (character 14)"),
        ("(a", "a ( without its ) (character 1)"),
        ("sm<20%%", "sm takes percent"),
    ],
)
@pytest.mark.parametrize("command", [[], ["replay", "x.gpumon"]])
def test_an_error_is_one_line_and_a_usage_error(capsys, command, expression, said):
    assert main([*command, "--json", "--filter", expression]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["demo"], ["replay", "x.gpumon"]])
@pytest.mark.parametrize(("about", "whose"), [("uuid==ab*", "GPUs"), ("pid==3", "processes")])
def test_a_document_takes_no_filter_about_gpus(capsys, command, about, whose):
    assert main([*command, "--json", "--filter", about]) == 2
    assert f"only {whose} have" in capsys.readouterr().err


def test_the_demo_with_a_filter(capsys):
    assert main(["demo", "--json", "--for", "0", "--filter", "state==running & gpus>=8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jobs"]
    assert all(job["state"] == "RUNNING" for job in found["jobs"])


def workstation():
    """A machine without a queue: who computes, who draws, and whom the node does not name."""

    def one(pid, uid, user, index, kind="C"):
        uuid = uuid_of("desk", index)
        return Process(
            *("desk", pid, "python", uid, None, None, {}, None, (uuid,), {uuid: 2e9}),
            user=user, types={uuid: kind},
        )  # fmt: skip

    on = {
        0: (one(11, 1501, "paula", 0), one(12, 1502, None, 0)),
        1: (one(13, 0, "root", 1, "G"), one(14, 1503, "quirin", 1)),
        2: (one(15, 1501, "paula", 2, "G"),),
        3: (),
    }
    boards = [gpu("desk", index, processes=held) for index, held in on.items()]
    made = tick((), boards, queue_at=None, queue=None)
    return made._replace(nodes={"desk": made.nodes["desk"]._replace(state=None)})


def shown(text):
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("desk ")]


@pytest.mark.parametrize(
    ("user", "gpus", "pids"),
    [
        ("paula", [0, 2], [[11], [15]]),
        ("1502", [0], [[12]]),
        ("root", [1], [[13]]),
        ("paul", [], []),
    ],
)
def test_a_user_without_a_queue_has_processes_and_the_gpus_they_are_on(user, gpus, pids):
    made = workstation()
    assert shown(table(made, 160, user=user)) == gpus
    (node,) = document(made, user=user)["nodes"]
    assert [one["index"] for one in node["gpus"]] == gpus
    assert [[p["pid"] for p in one["processes"]] for one in node["gpus"]] == pids


@pytest.mark.parametrize(
    ("expression", "gpus"),
    [
        ("user==paula", [0, 2]),
        ("user==1502", [0]),
        ("user==quirin", [1]),
        ("user!=paula", [1]),
        ("user==-", [3]),
        ("paula", [0, 2]),
    ],
)
def test_a_filter_knows_the_users_of_gpus_that_no_job_holds(expression, gpus):
    made, chosen = workstation(), passes(expression)
    assert shown(table(made, 160, chosen)) == gpus
    found = document(made, passing(chosen, made), passes_gpu=passing_gpus(chosen))
    assert [one["index"] for one in found["nodes"][0]["gpus"]] == gpus


def test_the_cell_names_who_computes_first_and_how_many_more():
    made = workstation()
    (column,) = [column for column in FLEET_COLUMNS if column.key == "user"]
    cells = [column.cell(Digest(made), row).text for row in Digest(made).gpu_rows]
    assert cells == ["paula +1", "quirin +1", "paula", ""]


def test_gpus_of_a_queue_s_nodes_are_all_in_the_document():
    made = fleet()
    every = [len(node["gpus"]) for node in document(made)["nodes"]]
    chosen = passes("user==nobody")
    narrowed = document(made, passing(chosen, made), None, passing_gpus(chosen), "nobody")
    assert [len(node["gpus"]) for node in narrowed["nodes"]] == every


def test_findings_go_with_their_gpus():
    made = workstation()
    told = [fleet().findings[0]._replace(subject=f"gpu:{uuid_of('desk', i)}") for i in (0, 1)]
    found = document(made._replace(findings=tuple(told)), user="quirin")["findings"]
    assert [one["subject"] for one in found] == [f"gpu:{uuid_of('desk', 1)}"]


@pytest.mark.parametrize("user", ["paula", "we ird", 'quo"te', "a'b"])
def test_the_terminal_begins_with_the_user_s_gpus(user):
    chosen = narrowed(None, user=user)
    assert chosen is not None
    assert chosen.gpus is not None
    both = narrowed(passes("sm<10 | sm>20"), user=user)
    assert both is not None
    assert both.text.startswith("(sm<10 | sm>20) & user==")


def test_a_job_that_was_named_narrows_the_filter_and_nobody_s_name_nothing():
    chosen = narrowed(passes("sm<10"), job="5_2", user="paula")
    assert chosen is not None
    assert chosen.text == '(sm<10) & job=="5_2"'
    assert narrowed(None) is None


@pytest.mark.parametrize("named", ["700_3", "4730"])
def test_a_task_of_an_array_is_found_by_its_label_and_by_its_number(named):
    made = fleet()
    (view,) = [view for view in made.jobs if view.job.job_id == "4730"]
    task = view._replace(job=view.job._replace(label="700_3"))
    chosen = narrowed(None, job=named)
    assert chosen is not None
    assert chosen.jobs is not None
    digest = Digest(made)
    assert chosen.jobs(digest, task)
    assert not any(chosen.jobs(digest, one) for one in made.jobs if one is not view)


def test_a_name_that_no_filter_can_hold_changes_nothing():
    chosen = passes("sm<10")
    assert narrowed(chosen, user="both\"and'") is chosen


def test_a_finding_names_the_users_of_its_gpu_as_the_node_does():
    made = workstation()
    told = fleet().findings[0]._replace(subject=f"gpu:{uuid_of('desk', 0)}", owners=(1501, 1502))
    (column,) = [column for column in FINDING_COLUMNS if column.key == "user"]
    assert column.cell(Digest(made), told).text == "paula +1"
    assert column.words is not None
    assert column.words(Digest(made), told) == ("paula", "uid 1502")
