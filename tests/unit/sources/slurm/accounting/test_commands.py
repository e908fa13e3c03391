"""The words that sacct, sstat and slurmrestd are asked with, and what their refusals mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.fault import SourceError
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.accounting.accounting import explained
from gpumon.sources.slurm.accounting.commands import SacctCommands, new_delimiter, parse_use
from gpumon.sources.slurm.accounting.usage import EndedList
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.rest.accounting import RestAccounting
from gpumon.sources.slurm.rest.client import RestClient
from tests.unit.sources.slurm.accounting.test_sacct import JSON, MARK, TEXT
from tests.unit.sources.slurm.restd import Restd, jwt, reply

DAY_S = 86400.0
USE = (
    "JobID|NTasks|AveCPU|MaxRSS|ConsumedEnergyRaw|TRESUsageInTot|\n"
    "1.extern|2|00:00:00|1724416|0|cpu=00:00:00,energy=0,fs/disk=13952,mem=3375104,pages=0|\n"
    "1.batch|1|00:00:00|11038720|0|cpu=00:00:00,energy=0,mem=11038720,vmem=292880384|\n"
    "1.0|2|01:00:30|3043328|7200|gres/gpumem=2048M,gres/gpuutil=150,mem=3420160|\n"
)
"""As a real 22.05 printed it but for the last line's CPU time, energy and GPUs."""


def test_use_of_running_steps():
    found = parse_use("Welcome\n" + USE)
    assert found is not None
    step = found[-1]
    assert (step.job_id, step.step, step.task_count, step.cpu_used_s) == ("1", "0", 2, 7260.0)
    assert (step.max_rss_bytes, step.energy_j) == (3043328, 7200)
    assert (step.gpu_util_sum_ratio, step.gpu_mem_bytes) == (1.5, 2**31)
    assert found[0].energy_j is None
    assert found[0].gpu_util_sum_ratio is None


def test_a_bad_line_of_sstat_is_left_out_alone():
    found = parse_use(USE + "1.7|x|\n; rm|1|||||\n1.9||||||\n")
    assert found is not None
    assert [step.step for step in found] == ["extern", "batch", "0", "9"]
    assert found[-1].cpu_used_s is None


@given(st.text(max_size=80))
def test_no_output_of_sstat_makes_it_raise(text):
    parse_use(text)
    parse_use(USE + text)


class Scripted(SlurmCommands):
    """Runs nothing, and remembers what it was asked to run."""

    def __init__(self, *answers: str | SourceError) -> None:
        super().__init__(environ={})
        self.asked: list[tuple[str, ...]] = []
        self.complaints = ""
        self._answers = list(answers)

    def ask(self, words: tuple[str, ...], name: str) -> tuple[str, str]:
        self.asked.append(words)
        answer = self._answers.pop(0)
        if isinstance(answer, SourceError):
            raise CommandFailedError(answer)
        return answer, self.complaints


def sacct(*answers: str | SourceError, **options: Any) -> tuple[SacctCommands, Scripted]:
    commands = Scripted(*answers)
    return SacctCommands(commands, delimiter=lambda: MARK, **options), commands


@pytest.mark.parametrize(
    ("options", "whose"),
    [
        ({}, []),
        ({"user": "bob"}, ["--user=bob"]),
        ({"everyone": True, "user": "bob"}, ["--allusers"]),
    ],
)
def test_whose_jobs_are_asked_for(options, whose):
    asker, commands = sacct(TEXT, **options)
    assert asker.ended(DAY_S).jobs
    (words,) = commands.asked
    assert words[0] == "sacct"
    assert "--starttime=now-86400" in words
    assert [word for word in words if word.startswith(("--user", "--allusers"))] == whose


def test_every_run_of_a_job_is_asked_for():
    asker, commands = sacct(TEXT)
    asker.ended(DAY_S)
    (words,) = commands.asked
    assert "--duplicates" in words
    (states,) = [word for word in words if word.startswith("--state=")]
    assert {"RQ", "RS", "PR", "NF", "CA"} <= set(states.partition("=")[2].split(","))


def test_a_login_name_that_is_none_is_not_asked_for():
    asker, commands = sacct(TEXT, user="-rf; x")
    with pytest.raises(CommandFailedError, match="not a login name"):
        asker.ended(DAY_S)
    assert commands.asked == []


def test_a_version_that_knows_fewer_fields_is_asked_for_those():
    refusal = SourceError("sacct", 'ended with status 1: Invalid field requested: "Reservation"')
    asker, commands = sacct(refusal, "no titles", "none again")
    with pytest.raises(CommandFailedError, match="ended jobs"):
        asker.ended(DAY_S)
    assert "Reservation" not in " ".join(commands.asked[1])
    assert "OOM" not in " ".join(commands.asked[1])
    with pytest.raises(CommandFailedError):
        asker.ended(DAY_S)
    assert len(commands.asked) == 3


def test_sstat_is_asked_about_one_job():
    asker, commands = sacct(USE)
    assert len(asker.running("5_1")) == 3
    (words,) = commands.asked
    assert words[0] == "sstat"
    assert words[-1] == "--jobs=5_1"


def test_sstat_that_was_refused_every_step_is_an_error_though_it_ends_well():
    asker, commands = sacct(USE.partition("\n")[0] + "\n")
    commands.complaints = "sstat: error: problem getting step_layout for StepId=1: Invalid user id"
    with pytest.raises(CommandFailedError, match="Invalid user id"):
        asker.running("1")


@pytest.mark.parametrize("job_id", ["--all", "1 2", "", "$(x)"])
def test_what_is_no_job_id_reaches_no_command(job_id):
    asker, commands = sacct(USE)
    with pytest.raises(CommandFailedError, match="not a job id"):
        asker.running(job_id)
    assert commands.asked == []


def test_slurmrestd_cannot_tell_of_running_steps(restd):
    with pytest.raises(CommandFailedError, match="what running steps use"):
        by_rest(restd).running("1")
    assert restd.asked == []


def test_each_delimiter_is_another():
    assert new_delimiter() != new_delimiter()
    assert "|" not in new_delimiter()


@pytest.fixture
def restd():
    server = Restd()
    server.answers["jobs"] = reply(jobs=JSON["jobs"], errors=[])
    yield server
    server.stop()


def by_rest(restd: Restd, **options: Any) -> RestAccounting:
    address = RestAddress(f"http://127.0.0.1:{restd.port}")
    environ = {"SLURM_JWT": jwt("alice")}
    client = RestClient(address, environ=environ, service="slurmdb")
    return RestAccounting(address, client=client, environ=environ, **options)


def paths(restd: Restd) -> list[str]:
    return [asked.path for asked in restd.asked if "/v0.0.38/" in asked.path]


def test_slurmrestd_is_asked_for_ones_own_jobs(restd):
    found = by_rest(restd).ended(3600)
    assert {ended.job.user for ended in found.jobs} == {"alice"}
    assert paths(restd) == [
        "/slurmdb/v0.0.38/jobs?start_time=now-3600&users=alice&show_duplicates=true"
    ]


def test_slurmrestd_is_asked_for_everybodys_jobs(restd):
    found = by_rest(restd, everyone=True).ended(3600)
    assert {ended.job.user for ended in found.jobs} == {"alice", "bob"}
    assert paths(restd) == ["/slurmdb/v0.0.38/jobs?start_time=now-3600&show_duplicates=true"]


def error(description: str, number: int) -> dict[str, Any]:
    return {"description": description, "error_number": number, "error": description}


def test_finding_nothing_is_no_error(restd):
    restd.answers["jobs"] = reply(jobs=[], errors=[error("Nothing found", 9003)])
    assert by_rest(restd, everyone=True).ended(3600) == EndedList((), 0)


def test_24_11_warns_that_it_found_nothing_which_is_no_trouble_of_slurmdbd(restd):
    warning = {"description": "slurmdb_jobs_get(0x7f4db4000b80) found nothing", "source": "_dump"}
    restd.answers["jobs"] = reply(jobs=[], errors=[], warnings=[warning])
    assert by_rest(restd, everyone=True).ended(3600) == EndedList((), 0)


def test_a_complaint_beside_the_records_is_passed_on(restd):
    restd.answers["jobs"] = reply(jobs=JSON["jobs"], errors=[error("Half of it is missing", 9)])
    (remark,) = by_rest(restd).ended(3600).remarks
    assert "Half of it is missing" in remark.message


def test_each_run_of_a_job_is_a_record(restd):
    """A real 24.11 gives a requeued run two states at once, and the job's number to each."""
    (first, *_) = JSON["jobs"]
    times = {**first["time"], "start": 1795457633, "end": 1795457638}
    state = {"current": ["PENDING", "REQUEUED"], "reason": "None"}
    restd.answers["jobs"] = reply(jobs=[{**first, "state": state, "time": times}, first], errors=[])
    found = by_rest(restd, everyone=True).ended(3600)
    requeued, last = found.jobs
    assert (requeued.job.state, requeued.job.job_id) == ("REQUEUED", last.job.job_id)
    assert requeued.run_key != last.run_key
    assert not found.has_last_runs_only


@pytest.mark.parametrize("everyone", [True, False])
def test_a_server_that_knows_no_earlier_runs_is_said_to_tell_the_last_alone(restd, everyone):
    refusal = reply(500, errors=[error("Unknown Query field", 9000)])
    whole = restd.answers["jobs"]
    restd.answer_of = lambda path: refusal if "show_duplicates" in path else whole
    found = by_rest(restd, everyone=everyone).ended(3600)
    assert found.has_last_runs_only
    assert found.within(0.0, 10.0).has_last_runs_only


def test_a_server_that_does_not_know_users_is_asked_for_all(restd):
    asker = by_rest(restd)
    refusal = reply(500, errors=[error("Unknown Query field", 9000)])
    whole = restd.answers["jobs"]
    restd.answer_of = lambda path: refusal if "users" in path else whole
    assert {ended.job.user for ended in asker.ended(3600).jobs} == {"alice"}
    asker.ended(3600)
    assert ["users" in path for path in paths(restd)] == [True, False, False]


def test_a_dead_slurmdbd_is(restd):
    restd.answers["jobs"] = reply(jobs=[], errors=[error("Failed connecting to slurmdbd", 7000)])
    with pytest.raises(CommandFailedError) as failed:
        by_rest(restd, everyone=True).ended(3600)
    assert "cannot be reached" in explained(failed.value.error).message


def test_records_of_which_none_can_be_read_are_an_error(restd):
    restd.answers["jobs"] = reply(jobs=[{"job_id": 1}], errors=[])
    with pytest.raises(CommandFailedError, match="1 of 1 ended jobs could not be read"):
        by_rest(restd, everyone=True).ended(3600)
