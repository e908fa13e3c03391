"""This machine's probe, started before anybody asked for it."""

from __future__ import annotations

from signal import SIGKILL
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import main
from gpumon.sources import early
from gpumon.sources.local import local_endpoint
from tests.probing import Probe, children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]


@pytest.fixture(autouse=True)
def _no_child_stays() -> Iterator[None]:
    before = children()
    yield
    early.end()
    assert children() <= before


def test_the_first_probe_of_this_machine_is_the_child_that_waits(standin: Start) -> None:
    node = standin("h100", gpus=2)
    before = children()
    early.begin()
    (begun,) = children() - before
    with Probe(local_endpoint("gpu03"), once=True) as probe:
        frame = probe.frame()
        assert probe.pid == begun
    assert frame.node == "gpu03"
    assert frame.block("gpu").keys == tuple(node.state.values[f"gpu.{i}.uuid"] for i in range(2))


def test_the_next_one_is_started_as_ever(standin: Start) -> None:
    standin("h100", gpus=1)
    early.begin()
    with Probe(local_endpoint(), once=True) as first, Probe(local_endpoint(), once=True) as second:
        assert first.pid != second.pid
        assert second.frame().block("gpu").keys == first.frame().block("gpu").keys


def test_a_child_that_nobody_takes_is_ended() -> None:
    before = children()
    early.begin()
    assert children() - before
    early.end()
    assert children() <= before
    assert early.take() is None


def test_a_child_that_cannot_be_started_is_left_to_who_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> tuple[str, ...]:
        raise FileNotFoundError

    monkeypatch.setattr(early, "early_start", missing)
    early.begin()
    assert early.take() is None


def test_the_command_line_begins_it_for_this_machine_and_ends_what_was_begun_in_vain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spawn, begun = early.spawn, []

    def noted(argv: tuple[str, ...]) -> Popen[bytes]:
        begun.append(spawn(argv))
        return begun[-1]

    monkeypatch.setattr(early, "spawn", noted)
    assert main(["--json", "--steps", "local"]) == 2
    assert "--steps is about one job" in capsys.readouterr().err
    assert [child.returncode for child in begun] == [-SIGKILL]
    assert main(["--json", "--steps", "demo"]) == 2
    assert len(begun) == 1
