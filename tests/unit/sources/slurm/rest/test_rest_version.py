"""Which version of the interface is asked for, and what one gpumon tells the next about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.slurm.commands.answer_cache import SharedAnswers
from gpumon.sources.slurm.rest.client import GUESS_LIFE_S, VERSIONS
from tests.unit.sources.slurm.rest.test_client import JOB, Now, client, failure
from tests.unit.sources.slurm.restd import EXPIRES_AT, Restd, jwt, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def restd() -> Iterator[Restd]:
    server = Restd()
    yield server
    server.stop()


def test_the_newest_version_that_is_served_is_found_and_remembered(restd: Restd) -> None:
    restd.versions = ("v0.0.36", "v0.0.37", "v0.0.38")
    asked = client(restd)
    restd.answers["jobs"] = reply(jobs=[JOB], errors=[])
    answer = asked.get("jobs")
    assert answer is not None
    assert answer["jobs"] == [JOB]
    first = VERSIONS[: VERSIONS.index("v0.0.38") + 1]
    assert [one.path for one in restd.asked] == [f"/slurm/{version}/jobs" for version in first]
    asked.get("nodes")
    assert [one.path for one in restd.asked[len(first) :]] == ["/slurm/v0.0.38/nodes"]
    assert asked.version == "v0.0.38"


def test_a_version_without_reservations_has_none_and_is_asked_once(restd: Restd) -> None:
    """v0.0.36 serves no such path; the other versions would not either."""
    asked = client(restd)
    asked.get("jobs")
    before = len(restd.asked)
    assert asked.get("reservations") == {"reservations": []}
    assert len(restd.asked) == before + 1
    restd.answers["reservations"] = reply(reservations=[{"name": "a"}])
    assert asked.get("reservations") == {"reservations": [{"name": "a"}]}


def test_an_upgraded_server_is_found_anew(restd: Restd) -> None:
    asked = client(restd)
    asked.get("jobs")
    restd.versions = ("v0.0.41", "v0.0.42")
    asked.get("jobs")
    assert asked.version == "v0.0.42"


def test_a_server_without_any_known_version_is_said(
    restd: Restd, said: Callable[..., None]
) -> None:
    restd.versions = ("v0.0.99",)
    assert failure(client(restd)).message == "serves none of the versions v0.0.46 to v0.0.36"
    error = failure(client(restd))
    said(error.message, error.hint)


def asked_for(restd: Restd) -> list[str]:
    """Versions in the questions since the last look."""
    found = [one.path.split("/")[2] for one in restd.asked]
    restd.asked.clear()
    return found


def test_the_version_that_one_gpumon_found_is_the_next_ones_first_guess(
    restd: Restd, tmp_path: Path
) -> None:
    folder = tmp_path / "gpumon"
    client(restd, folder=folder).get("jobs")
    assert asked_for(restd)[-2:] == ["v0.0.39", "v0.0.38"]
    client(restd, folder=folder).get("jobs")
    assert asked_for(restd) == ["v0.0.38"]
    # Another service or user finds out by itself.
    client(restd, folder=folder, service="slurmdb").get("jobs")
    client(restd, jwt("bob"), folder=folder).get("jobs")
    assert asked_for(restd).count("v0.0.46") == 2


def test_a_guess_that_is_wrong_or_old_costs_no_more_than_a_question(
    restd: Restd, tmp_path: Path
) -> None:
    folder = tmp_path / "gpumon"
    restd.versions = ("v0.0.41", "v0.0.42")
    client(restd, folder=folder).get("jobs")
    restd.versions = ("v0.0.43", "v0.0.44")
    asked_for(restd)
    client(restd, folder=folder).get("jobs")
    assert asked_for(restd) == ["v0.0.42", "v0.0.46", "v0.0.45", "v0.0.44"]
    restd.versions = ("v0.0.44", "v0.0.45")
    client(restd, folder=folder).get("jobs")
    assert asked_for(restd) == ["v0.0.44"]
    # A new day, a new look for the newest.
    token = jwt(expires_at=EXPIRES_AT + 100_000)
    clock = Now(EXPIRES_AT - 60.0 + GUESS_LIFE_S)
    client(restd, token, clock=clock, folder=folder).get("jobs")
    assert asked_for(restd) == ["v0.0.46", "v0.0.45"]


@pytest.mark.parametrize("left", ["", "v0.0.99", "../../x", "v0.0.38\r\nX: y"])
def test_a_guess_that_is_no_version_is_not_asked_for(
    restd: Restd, tmp_path: Path, left: str
) -> None:
    folder = tmp_path / "gpumon"
    asked = client(restd, folder=folder)
    SharedAnswers(folder, asked.identity()).leave_note("version", left, Now())
    asked.get("jobs")
    assert asked_for(restd)[0] == "v0.0.46"


def test_a_guess_does_not_pass_for_knowledge(restd: Restd, tmp_path: Path) -> None:
    """Only a server that has answered this client is believed that it lacks a kind of record."""
    folder = tmp_path / "gpumon"
    client(restd, folder=folder).get("jobs")
    restd.versions = ("v0.0.42",)
    restd.answers["reservations"] = reply(reservations=[{"name": "a"}])
    found = client(restd, folder=folder).get("reservations")
    assert found == {"reservations": [{"name": "a"}]}


def test_each_version_of_which_an_answer_was_recorded_is_asked_for() -> None:
    data = Path(__file__).parents[1] / "data"
    recorded = {path.stem.rpartition("-")[2] for path in data.glob("*-v0.0.*.json")}
    assert len(recorded) > 5
    assert recorded <= set(VERSIONS), "VERSIONS in gpumon/sources/slurm/rest/client.py lacks one"
