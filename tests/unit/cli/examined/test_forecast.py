"""What the doctor says of a target before anything of it runs."""

from __future__ import annotations

import pytest

from gpumon.cli import main
from gpumon.cli.examined import checks, forecast, permissions
from gpumon.cli.examined.check import ABSENT, LESS, OK
from gpumon.cli.examined.forecast import BASE_BYTES, NODE_BYTES, forecasts
from gpumon.model.records.cluster import Allocation
from gpumon.sources.address import parse
from gpumon.sources.probes.clients import LOGIN_CPU_S, OWN_BYTES, Bound
from gpumon.sources.slurm.poll.poll_loop import COMMAND_PERIODS_S
from tests.worlds import tick as ticks
from tests.worlds.schemas import checked

ROOM = Bound(1480, "an eighth of the memory", "")
NARROW = Bound(100, "each ssh client takes 3 of the 556 files that may be open", "ask for more")


def never(_target):
    raise AssertionError("nothing is started for it")


def told(url, look=never, limit=ROOM):
    return list(forecasts([parse(url)], look, limit))


def running(user, nodes, state="RUNNING", gpus=8):
    allocations = tuple(Allocation(node, gpus, None) for node in nodes)
    view, _ = ticks.job_with_gpus("7", {"n1": 1})
    return view._replace(job=view.job._replace(user=user, state=state, allocations=allocations))


@pytest.fixture
def queue(monkeypatch):
    """A look at a queue of three users' jobs, and which targets were looked at."""
    monkeypatch.setattr(forecast, "own_login", lambda: "ada")
    asked = []

    def look(target):
        asked.append(target)
        jobs = (
            running("ada", ["n1", "n2"]),
            running("ada", ["n2", "n3"], state="SUSPENDED"),
            running("ada", ["n9"], state="PENDING"),
            running("ada", ["c1"], gpus=0),
            running("bob", [f"n{n}" for n in range(3, 203)]),
        )
        return ticks.tick((), [])._replace(jobs=jobs, queue_at=5.0)

    return look, asked


def test_every_node_of_an_ssh_target_is_a_connection():
    ((line, numbers),) = told("ssh://n[001-300]")
    assert (line.state, line.what) == (OK, "forecast")
    assert line.says.startswith("ssh://n[001-300] will use for ")
    assert "300 nodes: 300 ssh connections, " in line.says
    assert "Slurm" not in line.says
    assert numbers.client_bytes == 300 * OWN_BYTES
    assert numbers.own_bytes == BASE_BYTES + 300 * NODE_BYTES
    assert numbers.login_cpu_s == pytest.approx(300 * LOGIN_CPU_S)


def test_beyond_the_bound_it_says_how_many_at_a_time_and_why():
    ((line, numbers),) = told("ssh://n[001-300]", limit=NARROW)
    assert (line.state, numbers.connections, numbers.nodes_at_once) == (LESS, 100, 100)
    assert "reads 100 of 300 nodes at a time" in line.says
    assert "3 of the 556 files" in line.says
    assert line.way_out == "watch fewer nodes, or ask for more"


def test_slurm_is_asked_where_jobs_run_and_no_node_is_reached(queue):
    look, asked = queue
    (mine, numbers), (every, of_all) = told("slurm", look)
    assert [target.nodes_by for target in asked] == ["none"]
    assert "the 3 nodes of your jobs: 3 ssh connections" in mine.says
    assert "the 202 nodes of all jobs (--all): 202 ssh connections" in every.says
    calls = sum(60.0 / period_s for period_s in COMMAND_PERIODS_S.values())
    assert numbers.slurm_calls_per_minute == of_all.slurm_calls_per_minute == calls
    assert f"at most {calls:.1f} calls to Slurm a minute" in mine.says


def test_behind_a_login_node_each_node_takes_two_clients(queue):
    (_, numbers), (line, of_all) = told("slurm+ssh://login", queue[0], NARROW)
    assert (numbers.nodes, numbers.connections) == (3, 6)
    assert (of_all.connections, of_all.nodes_at_once) == (100, 50)
    assert "reads 50 of 202 nodes at a time" in line.says


def test_where_nodes_are_not_reached_only_slurm_is_asked(queue):
    (line, numbers), _ = told("slurm?nodes=none", queue[0])
    assert (numbers.connections, numbers.client_bytes, numbers.login_cpu_s) == (0, 0, 0.0)
    assert (line.state, numbers.own_bytes) == (OK, BASE_BYTES)


def test_a_slurm_that_does_not_answer_is_told():
    ((line, numbers),) = told("slurm", lambda _: ticks.tick((), [])._replace(queue_at=None))
    assert (line.state, numbers) == (ABSENT, None)
    assert "not known" in line.says


@pytest.mark.parametrize("url", ["demo:3x4", "./old.gpumon"])
def test_what_takes_nothing_of_anybody_is_not_forecast(url):
    assert told(url) == []


def test_the_doctor_says_it_first_and_in_its_document(monkeypatch, capsys):
    order = []

    def check(target):
        order.append(target.url)
        return iter(())

    monkeypatch.setattr(permissions, "every", lambda: iter(()))
    monkeypatch.setattr(checks, "driver", lambda: iter(()))
    monkeypatch.setattr(checks, "slurm", lambda: iter(()))
    monkeypatch.setattr(checks, "target", check)
    main(["doctor", "ssh://n[1-2]"])
    first = capsys.readouterr().out.splitlines()[0]
    assert "ssh://n[1-2]" in first
    assert "2 ssh connections" in first
    main(["doctor", "--json", "ssh://n[1-2]"])
    document = checked("doctor-1", capsys.readouterr().out)
    (numbers,) = document["forecasts"]
    assert (numbers["target"], numbers["connections"]) == ("ssh://n[1-2]", 2)
    assert "will use" in document["checks"][0]["says"]
    assert order == ["ssh://n[1-2]"] * 2
