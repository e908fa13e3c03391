"""The command line: what is understood, what is completed, what is refused and why."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.tui.actions.palette import (
    Destination,
    UnknownCommandError,
    completed,
    completions,
    names_of,
    understood,
)
from tests.worlds.queue import cluster, waits
from tests.worlds.tick import uuid_of

DIGEST = Digest(cluster(waits("12", label="6_1", user="users"), waits("13", user="nlp")))


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("jobs", "jobs", ""),
        (" Pend ", "pending", ""),
        ("q", "quit", ""),
        ("nodes", "nodes", ""),
        ("node", "nodes", ""),
        ("err", "errors", ""),
        ("node gpu02", "node", "gpu02"),
        ("job 6_1", "job", "12"),
        ("job 12", "job", "12"),
        ("user grace", "user", "grace"),
        ("us grace", "user", "grace"),
        ("grace", "user", "grace"),
        ("gpu gpu01:3", "gpu", uuid_of("gpu01", 3)),
        (f"gpu {uuid_of('gpu01', 3)}", "gpu", uuid_of("gpu01", 3)),
        ("partition h100", "partition", "h100"),
        ("maint-oct", "reservation", "maint-oct"),
        ("4711", "job", "4711"),
        ("patterns", "patterns", ""),
        ("pat", "patterns", ""),
        ("name 2  slow_start ", "name", "2 slow_start"),
        ("unname slow_start", "unname", "slow_start"),
    ],
)
def test_understood(text, kind, name):
    assert understood(text, DIGEST) == Destination(kind, name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing typed"),
        ("theme", "theme: which one"),
        ("name", "give a pattern's number and a name"),
        ("name two slow_start", "give a pattern's number and a name"),
        ("name ² slow_start", "give a pattern's number and a name"),
        ("unname", "unname: which one"),
        ("node zzz", "no node is called “zzz”"),
        ("job 6_2", "no job is called “6_2”"),
        ("planet mars", "no kind of thing is called “planet”"),
        ("nowhere", "nothing is called “nowhere”"),
        ("nlp", "“nlp” is several things: type user or account first"),
    ],
)
def test_refused(text, words):
    with pytest.raises(UnknownCommandError, match=words):
        understood(text, DIGEST)


def test_without_a_tick_only_views_are_known():
    assert understood("users", None) == Destination("users")
    assert names_of(None, "job") == ()
    with pytest.raises(UnknownCommandError):
        understood("job 1", None)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("pe", "pending"),
        ("res", "reservation"),
        ("reservation ", "reservation maint-oct"),
        ("node gpu0", "node gpu0"),
        ("node x", "node x"),
        ("user gr", "user grace"),
        ("nod", "node"),
        ("job 46", "job 4690"),
        ("zzz", "zzz"),
    ],
)
def test_completed(text, whole):
    assert completed(text, DIGEST) == whole


def test_completions_are_whole_commands():
    assert completions("job 4", DIGEST) == ("job 4690", "job 4711")
    assert completions("planet ", DIGEST) == ()
    assert completions("", DIGEST)[0] == "jobs"
