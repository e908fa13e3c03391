"""What the options ask of the floors below."""

from __future__ import annotations

import pytest

from gpumon.cli.commands.watch import watch
from gpumon.cli.exits import USAGE
from gpumon.cli.options import parser
from gpumon.sources.address import TIERS, Look, parse
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
    look = Look(1.0, True, lambda _: True, False, ("hot", "slow"))
    open_source(parse(url), look, SystemClock()).close()
    assert given == [{"gpm": False, "tiers": ["hot", "slow"]}]


@pytest.mark.parametrize("words", [["local"], ["demo", "--json"], ["demo"]])
def test_a_past_is_invented_for_the_demos_terminal_only(words, capsys):
    assert watch([*words, "--past", "2h"]) == USAGE
    assert "--past" in capsys.readouterr().err
