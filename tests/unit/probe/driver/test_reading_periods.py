"""What is read rarely is read of all GPUs of a node in one period, whenever each was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpumon.probe import tiers
from gpumon.probe.driver import links
from gpumon.probe.driver.gpu import Gpu
from gpumon.probe.driver.links import Links
from gpumon.probe.driver.mig import Instance, Instances
from gpumon.probe.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    Reads = Callable[[float], bool]
    """Whether something is read again at this instant."""

OPENED_S = 0.4
"""How long after the first GPU the last one of a node is opened and read for the first time."""

PASS_S = 0.02
"""How long after the first GPU the last one is read in every later period."""


class Batch:
    """Fields of which each has a number."""

    def __init__(self, _driver: object, _handle: object, _gpu: str, fields: Any) -> None:
        self.fields = list(fields)

    def read(self) -> list[tuple[Any, int]]:
        return [(field, 2) for field in self.fields]


def of_links(monkeypatch: pytest.MonkeyPatch) -> Reads:
    monkeypatch.setattr(links, "Batch", Batch)
    driver: Any = None
    found = Links(driver, None, "GPU-1", tiers.ALL)

    def reads(now: float) -> bool:
        before = found._rows
        return found.read(now, is_zoomed=False) is not before

    return reads


def of_settled_links(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Those that have had their first rates."""
    reads = of_links(monkeypatch)
    assert [at for at in range(990) if reads(float(at))][:4] == [0, 5, 15, 25]
    return reads


def of_instances(monkeypatch: pytest.MonkeyPatch) -> Reads:
    driver: Any = None
    found = Instances(driver, None, "GPU-1", has_gpm=False)
    instance: Any = Instance
    monkeypatch.setattr(found, "_find", lambda: found._known.update({"MIG-1": instance}))
    monkeypatch.setattr(found, "_activity", dict)
    monkeypatch.setattr(found, "_row", lambda uuid, *_: Row(uuid, 0.0))

    def reads(now: float) -> bool:
        before = found._rows
        return found.read(now, is_cut=True, is_zoomed=False) is not before

    return reads


def of_a_tier(tier: str) -> Callable[[pytest.MonkeyPatch], Reads]:
    def made(_: pytest.MonkeyPatch) -> Reads:
        gpu = Gpu.__new__(Gpu)
        gpu._rows = {tier: Row("GPU-1", float("-inf"))}

        def reads(now: float) -> bool:
            if not gpu._is_due(tier, now):
                return False
            gpu._rows[tier] = Row("GPU-1", now)
            return True

        return reads

    return made


@pytest.mark.parametrize(
    ("made", "period_s"),
    [
        (of_settled_links, 10.0),
        (of_instances, 5.0),
        (of_a_tier(tiers.MEDIUM), 5.0),
        (of_a_tier(tiers.SLOW), 30.0),
    ],
)
@pytest.mark.parametrize("step_s", [1.0, 2.5])
def test_gpus_that_were_opened_one_after_the_other_are_read_in_the_same_beats(
    made: Callable[[pytest.MonkeyPatch], Reads],
    period_s: float,
    step_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, last = made(monkeypatch), made(monkeypatch)
    assert (first(1000.0), last(1000.0 + OPENED_S)) == (True, True)
    instants = [step_s * number for number in range(1, int(2 * period_s / step_s) + 1)]
    due = [(first(1000.0 + at), last(1000.0 + at + PASS_S)) for at in instants]
    assert [both[0] for both in due] == [both[1] for both in due]
    assert 2 <= sum(both[0] for both in due) <= 2 * period_s / (period_s - tiers.SLACK_S)
