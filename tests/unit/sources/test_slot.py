"""When a node of a step was last heard: what comes late tells of the time when it was made."""

from __future__ import annotations

import pytest

from gpumon.sources.slot import Slot
from tests.probing import talker

NEVER = float("inf")


@pytest.mark.parametrize(
    ("was", "age_s", "becomes"),
    [(70.0, 0.4, 100.0), (70.0, 20.0, 80.0), (90.0, 20.0, 90.0), (NEVER, 20.0, NEVER),
     (NEVER, 0.4, 100.0)],
)  # fmt: skip
def test_only_a_fresh_report_ends_a_silence(was: float, age_s: float, becomes: float) -> None:
    slot = Slot(talker("", "job 7"))
    slot.heard_at = {"gpu03": was}
    slot.hear("gpu03", 100.0, age_s)
    slot.hear("gpu09", 100.0, 0.0)
    assert slot.heard_at == {"gpu03": becomes}
