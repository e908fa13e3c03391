"""How people write a beginning."""

from __future__ import annotations

import argparse
import time

import pytest

from gpumon.cli.options import parser
from gpumon.cli.since import since

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "span_s"),
    [
        ("24h", 86400),
        ("24", 86400),
        ("90m", 5400),
        ("7days", 604800),
        ("7d", 604800),
        ("2weeks", 1209600),
        ("1.5h", 5400),
        ("30s", 30),
        ("now-2days", 172800),
        ("now-3600", 3600),
        ("now-24hours", 86400),
    ],
)
def test_a_span_reaches_back_from_now(text, span_s):
    assert since(text).seen_from(NOW) == NOW - span_s


@pytest.mark.parametrize("text", ["2026-11-20", "2026-11-20T08:00", "2026-11-20T08:00:30"])
def test_an_instant_is_of_this_machines_zone(text):
    at = since(text).seen_from(NOW)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)).startswith(text)


@pytest.mark.parametrize("text", ["", "yesterday", "20x", "-1h", "0h", "32d", "6weeks", "1h2m"])
def test_anything_else_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        since(text)


def test_ended_alone_means_a_day_and_neither_means_nothing():
    assert parser().parse_args(["--ended"]).since.seen_from(NOW) == NOW - 86400
    assert parser().parse_args(["--ended", "--since", "2h"]).since.seen_from(NOW) == NOW - 7200
    assert parser().parse_args([]).since is None
