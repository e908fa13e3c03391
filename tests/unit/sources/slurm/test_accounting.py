"""Ended jobs on demand: how often they are asked for, by which words, and what trouble says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.frame import SourceError
from gpumon.sources.slurm.accounting import (
    MAX_WINDOW_S,
    PERIOD_S,
    USE_PERIOD_S,
    Accounting,
    explained,
)
from gpumon.sources.slurm.address import RestAddress
from gpumon.sources.slurm.commands import SlurmCommands
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.rest import RestClient
from gpumon.sources.slurm.rest_accounting import RestAccounting
from gpumon.sources.slurm.sacct_commands import SacctCommands, new_delimiter
from gpumon.sources.slurm.sacct_usage import EndedList
from gpumon.sources.slurm.sstat_text import parse_use
from gpumon.sources.source import SystemClock
from tests.probing import eventually
from tests.unit.sources.slurm.restd import Restd, jwt, told
from tests.unit.sources.slurm.test_sacct import JSON, MARK, TEXT

if TYPE_CHECKING:
    from gpumon.model.accounting import StepUsage

USE = (
    "JobID|NTasks|AveCPU|MaxRSS|ConsumedEnergyRaw|TRESUsageInTot|\n"
    "1.extern|2|00:00:00|1724416|0|cpu=00:00:00,energy=0,fs/disk=13952,mem=3375104,pages=0|\n"
    "1.batch|1|00:00:00|11038720|0|cpu=00:00:00,energy=0,mem=11038720,vmem=292880384|\n"
    "1.0|2|01:00:30|3043328|7200|gres/gpumem=2048M,gres/gpuutil=150,mem=3420160|\n"
)
"""As a real 22.05 printed it but for the last line's CPU time, energy and GPUs."""

EPOCH = 1_800_000_000.0
DAY_S = 86400.0


class StillClock:
    """Moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return EPOCH + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(min(seconds, 0.01))


class Told:
    """A ledger that takes its pretended time, or fails."""

    def __init__(self, clock: StillClock, took_s: float = 0.1) -> None:
        self.windows: list[float] = []
        self.error: SourceError | None = None
        self.is_closed = False
        self.unreadable = 0
        self.took_s = took_s
        self._clock = clock

    def ended(self, window_s: float) -> EndedList:
        self.windows.append(window_s)
        self._clock.seconds += self.took_s
        if self.error is not None:
            raise CommandFailedError(self.error)
        return EndedList((), self.unreadable)

    def running(self, job_id: str) -> tuple[StepUsage, ...]:
        self.windows.append(float(job_id))
        self._clock.seconds += self.took_s
        if self.error is not None:
            raise CommandFailedError(self.error)
        return parse_use(USE) or ()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def ledger(clock: StillClock) -> Told:
    return Told(clock)


@pytest.fixture
def accounting(clock: StillClock, ledger: Told) -> Accounting:
    return Accounting("slurm", ledger, clock)


def answered(accounting: Accounting, since: float) -> Any:
    accounting.wish(since)
    accounting.answer()
    (frame,) = accounting.poll()
    return frame.ended


def test_nobody_asks_unless_somebody_wishes(accounting, ledger):
    accounting.answer()
    assert (ledger.windows, accounting.poll()) == ([], [])
    assert not accounting.pending()
    assert accounting.due_in_s() > PERIOD_S


def test_a_wish_is_answered_once(accounting, ledger):
    accounting.wish(EPOCH - DAY_S)
    assert accounting.pending()
    accounting.answer()
    accounting.answer()
    assert ledger.windows == [DAY_S]
    assert not accounting.pending()
    (frame,) = accounting.poll()
    assert (frame.ended.records.since, frame.ended.records.at) == (EPOCH - DAY_S, EPOCH)
    assert frame.ended.errors == ()


def test_the_window_is_bounded(accounting, ledger, clock):
    report = answered(accounting, 0.0)
    assert ledger.windows == [MAX_WINDOW_S]
    assert report.records.since == EPOCH - MAX_WINDOW_S
    clock.seconds += 10 * DAY_S
    answered(accounting, EPOCH + 99 * DAY_S)
    assert ledger.windows[1] == 60.0


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.1, PERIOD_S - 0.1), (30.0, 600.0)])
def test_the_next_question_waits_for_twenty_times_the_last(accounting, ledger, took_s, rest_s):
    ledger.took_s = took_s
    answered(accounting, EPOCH - 60)
    accounting.wish(EPOCH - 60)
    assert accounting.due_in_s() == pytest.approx(rest_s)


def test_failures_are_one_line_and_keep_the_last_answer(accounting, ledger, clock):
    first = answered(accounting, EPOCH - DAY_S)
    ledger.error = SourceError("sacct", "Problem talking to the database: Connection refused")
    clock.seconds += 120
    second = answered(accounting, EPOCH - DAY_S)
    assert second.records == first.records
    (error,) = second.errors
    assert error.where == "accounting"
    assert "slurmdbd" in error.message
    accounting.wish(EPOCH)
    assert accounting.due_in_s() == pytest.approx(2 * PERIOD_S - ledger.took_s)
    ledger.error = None
    clock.seconds += 1000
    assert answered(accounting, EPOCH).errors == ()


def test_records_left_out_are_said(accounting, ledger):
    ledger.unreadable = 2
    (error,) = answered(accounting, EPOCH - DAY_S).errors
    assert "2 of 2 records could not be read" in error.message


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("ended with status 1: Slurm accounting storage is disabled", "keeps no accounting"),
        ("cannot reach Slurm's controller: Problem talking to the database: x", "(slurmdbd)"),
        ("answered HTTP 200 with an error: Failed connecting to slurmdbd: Unable", "(slurmdbd)"),
        ("gave no answer within 30 s and was stopped", "sacct gave no answer within 30 s"),
    ],
)
def test_trouble_is_explained(said, means):
    error = explained(SourceError("sacct", said, "hint"))
    assert error.where == "accounting"
    assert means in error.message
    assert error.hint


def test_the_thread_answers_wishes_and_ends(ledger):
    accounting = Accounting("slurm", ledger, SystemClock())
    woken = threading.Event()
    accounting.start(woken.set)
    accounting.wish(EPOCH)
    assert woken.wait(10)
    accounting.close()
    assert ledger.is_closed
    names = [thread.name for thread in threading.enumerate()]
    assert "gpumon accounting slurm" not in names


def test_a_wish_before_the_start_is_answered_after_it(ledger):
    accounting = Accounting("slurm", ledger, SystemClock())
    accounting.wish(EPOCH)
    accounting.start(lambda: None)
    eventually(lambda: not accounting.pending(), "an answer")
    accounting.close()
    assert len(ledger.windows) == 1


def test_running_steps_have_a_beat_of_their_own(accounting, ledger):
    accounting.wish(EPOCH - DAY_S)
    accounting.wish_use("1")
    assert accounting.pending()
    accounting.answer()
    assert not accounting.pending()
    assert ledger.windows == [DAY_S, 1.0]
    last = accounting.poll()[-1].ended
    assert last.records is not None
    assert [step.step for step in last.running.steps["1"]] == ["extern", "batch", "0"]
    accounting.wish_use("1")
    assert accounting.due_in_s() == pytest.approx(USE_PERIOD_S - ledger.took_s)
    accounting.answer()
    assert len(ledger.windows) == 2


def test_trouble_with_steps_leaves_the_ended_jobs_as_they_are(accounting, ledger):
    answered(accounting, EPOCH - DAY_S)
    ledger.error = SourceError("sstat", "is refused: getting StepId=1.0: Invalid user id")
    accounting.wish_use("1")
    accounting.answer()
    (frame,) = accounting.poll()
    assert frame.ended.records is not None
    assert frame.ended.running is None
    (error,) = frame.ended.errors
    assert "nobody but its owner" in error.message


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


def test_a_login_name_that_is_none_is_not_asked_for():
    asker, commands = sacct(TEXT, user="-rf; x")
    with pytest.raises(CommandFailedError, match="no login name"):
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
    with pytest.raises(CommandFailedError, match="no job id"):
        asker.running(job_id)
    assert commands.asked == []


def test_slurmrestd_cannot_tell_of_running_steps(restd):
    with pytest.raises(CommandFailedError, match="no use of running steps"):
        by_rest(restd).running("1")
    assert restd.asked == []


def test_each_delimiter_is_another():
    assert new_delimiter() != new_delimiter()
    assert "|" not in new_delimiter()


@pytest.fixture
def restd():
    server = Restd()
    server.answers["jobs"] = told(jobs=JSON["jobs"], errors=[])
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
    assert paths(restd) == ["/slurmdb/v0.0.38/jobs?start_time=now-3600&users=alice"]


def test_slurmrestd_is_asked_for_everybodys_jobs(restd):
    found = by_rest(restd, everyone=True).ended(3600)
    assert {ended.job.user for ended in found.jobs} == {"alice", "bob"}
    assert paths(restd) == ["/slurmdb/v0.0.38/jobs?start_time=now-3600"]


def error(description: str, number: int) -> dict[str, Any]:
    return {"description": description, "error_number": number, "error": description}


def test_finding_nothing_is_no_error(restd):
    restd.answers["jobs"] = told(jobs=[], errors=[error("Nothing found", 9003)])
    assert by_rest(restd, everyone=True).ended(3600) == EndedList((), 0)


def test_a_complaint_beside_the_records_is_passed_on(restd):
    restd.answers["jobs"] = told(jobs=JSON["jobs"], errors=[error("Half of it is missing", 9)])
    (remark,) = by_rest(restd).ended(3600).remarks
    assert "Half of it is missing" in remark.message


def test_a_server_that_does_not_know_users_is_asked_for_all(restd):
    asker = by_rest(restd)
    refusal = told(500, errors=[error("Unknown Query field", 9000)])
    whole = restd.answers["jobs"]
    restd.answer_of = lambda path: refusal if "users" in path else whole
    assert {ended.job.user for ended in asker.ended(3600).jobs} == {"alice"}
    asker.ended(3600)
    assert ["users" in path for path in paths(restd)] == [True, False, False]


def test_a_dead_slurmdbd_is(restd):
    restd.answers["jobs"] = told(jobs=[], errors=[error("Failed connecting to slurmdbd", 7000)])
    with pytest.raises(CommandFailedError) as failed:
        by_rest(restd, everyone=True).ended(3600)
    assert "cannot be reached" in explained(failed.value.error).message


def test_records_of_which_none_can_be_read_are_an_error(restd):
    restd.answers["jobs"] = told(jobs=[{"job_id": 1}], errors=[])
    with pytest.raises(CommandFailedError, match="1 of 1 ended jobs could not be read"):
        by_rest(restd, everyone=True).ended(3600)
