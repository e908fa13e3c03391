"""What the options ask of the floors below."""

from __future__ import annotations

import pytest

from gpumon.cli import main
from gpumon.cli.exits import USAGE
from gpumon.cli.options import PAST_S, parser, request_of
from gpumon.cli.request import settings_with
from gpumon.sources.address import TIERS, Sampling, parse
from gpumon.sources.open import open_source
from gpumon.sources.probes.pool import ProbePool
from gpumon.sources.source import SystemClock


def test_everything_is_read_unless_switched_off():
    options = parser().parse_args([])
    assert (options.no_gpm, options.tiers) == (False, TIERS)


@pytest.mark.parametrize(
    ("text", "tiers"),
    [
        ("hot", ("hot",)),
        ("slow,hot", ("hot", "slow")),
        (" medium , medium", ("medium",)),
        ("hot,medium,slow", TIERS),
    ],
)
def test_tiers_are_named_in_any_order(text, tiers):
    assert parser().parse_args(["--tiers", text]).tiers == tiers


@pytest.mark.parametrize("text", ["", "warm", "hot,", "hot;slow", "HOT", "hot,\x1b[31m"])
def test_a_tier_that_does_not_exist_is_wrong_usage(text, capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--tiers", text])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "hot, medium, slow" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("url", ["local", "ssh://gpu01", "slurm"])
def test_switches_reach_the_probes_of_every_target(url, monkeypatch):
    given = []
    made = ProbePool.__init__

    def noted(self, *arguments, **named):
        given.append(arguments[5])
        made(self, *arguments, **named)

    monkeypatch.setattr(ProbePool, "__init__", noted)
    look = Sampling(1.0, True, lambda _: True, False, ("hot", "slow"))
    open_source(parse(url), look, SystemClock()).close()
    assert given == [{"gpm": False, "tiers": ["hot", "slow"]}]


@pytest.mark.parametrize("words", [["local"], ["demo", "local"], ["demo", "--watch", "3"]])
def test_a_past_is_invented_of_a_demo_only_and_not_for_a_stream(words, capsys):
    assert main([*words, "--past", "90m"]) == USAGE
    assert "--past" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "url", "past_s"),
    [
        ([], "demo", PAST_S),
        (["--once"], "demo:3x8", PAST_S),
        (["--exit-status"], "demo", PAST_S),
        (["--past", "40m"], "demo:100x8", 2400.0),
        (["--json", "--past", "7m"], "demo", 420.0),
        (["--once", "--for", "2", "--past", "3m"], "demo", 180.0),
        (["--past", "0"], "demo", None),
        (["--json"], "demo", None),
        (["--watch", "2"], "demo", None),
        (["--once", "--for", "0"], "demo", None),
        ([], "demo:17x8", None),
        ([], "slurm", None),
    ],
)
def test_a_small_demo_begins_with_a_past_where_somebody_reads_it(words, url, past_s):
    options = parser().parse_args([*words, url])
    asked = request_of(options, settings_with(), [parse(url)], is_to_tty=True)
    assert asked.past_s == past_s
