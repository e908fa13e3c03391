"""Ended jobs on their way from sources to the tick."""

from __future__ import annotations

from gpumon.fleet.sampler.newest import Newest
from gpumon.model.fault import SourceError
from gpumon.model.records.accounting import EndedJobs, EndedReport
from gpumon.model.records.frame import Frame
from tests.unit.fleet.factories import queue

QUEUE = Frame("slurm", "", 100.0, 0.0, {}, queue=queue([], []))
GONE = SourceError("accounting", "slurmdbd cannot be reached")


def report(origin, records, *errors):
    return Frame(origin, "", 100.0, 0.0, {}, ended=EndedReport(records, errors))


def test_what_the_queue_said_stands_beside_a_report():
    newest = Newest()
    trouble = SourceError("slurm", "something")
    newest.take([QUEUE._replace(errors=(trouble,))])
    before = newest.target(QUEUE.origin, 101.0)
    newest.take([report(QUEUE.origin, EndedJobs((), 0.0, 100.0, 0))])
    assert newest.errors == (trouble,)
    assert newest.target(QUEUE.origin, 101.0) == before
    assert newest.ended == EndedJobs((), 0.0, 100.0, 0)


def test_an_error_stands_until_the_next_report_and_leaves_the_target_well():
    newest = Newest()
    newest.take([QUEUE, report(QUEUE.origin, None, GONE)])
    assert newest.ended is None
    assert newest.errors == (GONE,)
    assert newest.target(QUEUE.origin, 101.0).is_ok
    newest.take([QUEUE])
    assert newest.errors == (GONE,)
    newest.take([report(QUEUE.origin, EndedJobs((), 0.0, 100.0, 0))])
    assert newest.errors == ()


def test_several_clusters_make_one_list_of_the_time_that_all_cover():
    newest = Newest()
    newest.take([report("a", EndedJobs((), 10.0, 90.0, 1))])
    newest.take([report("b", EndedJobs((), 20.0, 95.0, 2, has_last_runs_only=True))])
    assert newest.ended == EndedJobs((), 20.0, 90.0, 3, has_last_runs_only=True)
