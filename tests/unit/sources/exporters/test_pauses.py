"""What fails is asked less and less often, unless asking costs nobody."""

from __future__ import annotations

from gpumon.sources.exporters.pauses import Pauses


def test_pauses_double_up_to_the_longest() -> None:
    pauses = Pauses()
    failing = [pauses.pause_s(2.0, False, False) for _ in range(8)]
    assert failing == [2.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert pauses.pause_s(2.0, True, False) == 2.0
    assert pauses.pause_s(90.0, False, False) == 90.0


def test_where_nobody_listens_is_asked_on_every_beat() -> None:
    pauses = Pauses()
    assert [pauses.pause_s(2.0, False, True) for _ in range(4)] == [2.0] * 4
    assert pauses.pause_s(0.1, False, True) == 1.0
