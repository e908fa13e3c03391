"""What zoom asks of a node: a faster beat within bounds, and only GPUs that are its own."""

from __future__ import annotations

import pytest

from gpumon.sources.probes.zoom import FASTEST_S, MAX_WORDS, OFF, Zoom

WATCHED = Zoom(("gpu01",))


@pytest.mark.parametrize(
    ("period_s", "zoomed_s"),
    [(0.1, 0.1), (0.25, 0.25), (0.4, FASTEST_S), (1.0, 0.5), (2.0, 1.0), (30.0, 1.0)],
)
def test_a_node_that_is_looked_at_beats_faster_and_never_slower(
    period_s: float, zoomed_s: float
) -> None:
    assert WATCHED.period_s({"gpu01"}, period_s) == zoomed_s
    assert WATCHED.period_s({"gpu02"}, period_s) == period_s
    assert Zoom().period_s({"gpu01"}, period_s) == period_s


def test_a_node_is_found_by_any_of_its_names() -> None:
    assert WATCHED.words({"gpu01.cluster", "gpu01"}, ("GPU-1",)) == "zoom GPU-1"
    assert WATCHED.words({"gpu010", "gpu0"}, ("GPU-1",)) == OFF
    assert WATCHED.words(frozenset(), ("GPU-1",)) == OFF


def test_only_gpus_that_the_node_has_are_named() -> None:
    zoom = Zoom(("gpu01",), ("GPU-1", "GPU-9"))
    assert zoom.words({"gpu01"}, ("GPU-0", "GPU-1")) == "zoom GPU-1"
    assert zoom.words({"gpu01"}, ("GPU-0",)) == OFF
    assert WATCHED.words({"gpu01"}, ()) == OFF


@pytest.mark.parametrize("uuid", ["", "GPU 1", "GPU-1\nperiod 0", "GPU-1,GPU-2", "x" * 65, "GPU-é"])
def test_what_is_no_uuid_never_gets_into_the_line(uuid: str) -> None:
    assert WATCHED.words({"gpu01"}, (uuid,)) == OFF


def test_a_line_stays_as_short_as_a_probe_reads() -> None:
    uuids = tuple(f"GPU-{number:036d}" for number in range(500))
    words = WATCHED.words({"gpu01"}, uuids)
    assert len(words) <= MAX_WORDS
    assert words.removeprefix("zoom ").split(",") == list(uuids[: words.count(",") + 1])
