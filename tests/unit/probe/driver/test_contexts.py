"""Processes on a GPU: of which type, and how busy each made it, 0 only when it was idle."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpumon.probe.driver.contexts import COUNTS, Contexts
from gpumon.probe.driver.driver import Driver
from gpumon.probe.rows import Row

SM = "context_sm_util_ratio"

COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"


class Card:
    """One GPU with two processes, whose samples a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.samples: list[tuple[int, int, int]] = []
        self.error: int | None = None
        self.asked: list[int] = []
        self.contexts = Contexts(Driver(lambda: 5.0), "handle", "GPU-1")
        self.pids = [7, 8]
        self.instances: dict[str, int] = {}
        self.drawing: list[int] = []
        self.refusals: dict[str, int] = {}
        self.listings: list[str] = []
        monkeypatch.setattr(pynvml, COMPUTE, self.running)
        monkeypatch.setattr(pynvml, COMPUTE + "_v2", self.running)
        monkeypatch.setattr(pynvml, GRAPHICS, partial(self.displaying, GRAPHICS))
        monkeypatch.setattr(pynvml, GRAPHICS + "_v2", partial(self.displaying, GRAPHICS + "_v2"))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", self.utilization)

    def running(self, _: Any) -> list[Any]:
        if COMPUTE in self.refusals:
            raise pynvml.NVMLError(self.refusals[COMPUTE])
        common = {"usedGpuMemory": None, **self.instances}
        return [SimpleNamespace(pid=pid, **common) for pid in self.pids]

    def displaying(self, call: str, _: Any) -> list[Any]:
        self.listings.append(call)
        if call in self.refusals:
            raise pynvml.NVMLError(self.refusals[call])
        return [SimpleNamespace(pid=pid, usedGpuMemory=pid << 20) for pid in self.drawing]

    def utilization(self, _: Any, since: int) -> list[Any]:
        self.asked.append(since)
        if self.error is not None:
            raise pynvml.NVMLError(self.error)
        return [
            SimpleNamespace(pid=p, timeStamp=t, smUtil=sm, memUtil=sm // 2, encUtil=7, decUtil=0)
            for p, t, sm in self.samples
        ]

    def types(self) -> tuple[dict[str, Any], dict[int, str]]:
        """What the GPU's row has of its processes, and the type of each."""
        gpu = Row("GPU-1", 5.0)
        rows = self.contexts.read(gpu, is_due=True)
        counts = {key: gpu.values.get(key, gpu.missing.get(key)) for key in COUNTS}
        return counts, {p: row.labels.get("type", row.missing.get("type", "")) for p, row in rows}

    def read(
        self, is_due: bool = True, mem_used: int = 0, at: float = 5.0, *, is_shown: bool = True
    ) -> dict[int, Any]:
        gpu = Row("GPU-1", at)
        gpu.values["mem_used_bytes"] = mem_used
        rows = self.contexts.read(gpu, is_due, is_shown)
        return {pid: row.values.get(SM, row.missing.get(SM)) for pid, row in rows}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    return Card(monkeypatch)


def test_the_first_answer_only_tells_where_the_next_begins(card: Card) -> None:
    card.samples = [(7, 1000, 90), (8, 1000, 5)]
    assert card.read() == {7: "not_sampled", 8: "not_sampled"}
    card.samples = [(7, 2000, 60)]
    assert card.read() == {7: 0.6, 8: 0.0}
    assert card.asked == [0, 1000]
    card.read()
    assert card.asked[-1] == 2000


def test_what_a_process_does_beside_its_kernels_comes_with_the_same_answer(card: Card) -> None:
    rest = ("context_mem_util_ratio", "context_encoder_util_ratio", "context_decoder_util_ratio")

    def read() -> dict[int, list[Any]]:
        rows = card.contexts.read(Row("GPU-1", 5.0), is_due=True)
        return {pid: [row.values.get(k, row.missing.get(k)) for k in rest] for pid, row in rows}

    card.samples = [(7, 1000, 90)]
    assert read() == dict.fromkeys((7, 8), ["not_sampled"] * 3)
    card.samples = [(7, 2000, 60)]
    assert read() == {7: [0.3, pytest.approx(0.07), 0.0], 8: [0.0] * 3}
    card.error = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert read() == dict.fromkeys((7, 8), ["not_supported"] * 3)
    assert len(card.asked) == 3


def test_a_short_look_is_asked_once_more_and_hears_a_number(card: Card) -> None:
    card.samples = [(7, 1000, 90)]
    card.read()
    assert card.read(is_due=False, at=5.1) == {7: "not_sampled", 8: "not_sampled"}
    card.samples = [(7, 2000, 60)]
    assert card.read(is_due=False, at=6.0) == {7: 0.6, 8: 0.0}
    card.samples = [(7, 3000, 50)]
    assert card.read(is_due=False, at=7.0) == {7: 0.6, 8: 0.0}
    assert card.asked == [0, 1000]


def test_use_is_not_asked_while_nobody_looks_and_begins_anew_once_somebody_does(card: Card) -> None:
    card.samples = [(7, 1000, 90)]
    card.read()
    card.samples = [(7, 2000, 60)]
    assert card.read() == {7: 0.6, 8: 0.0}
    assert card.read(is_shown=False) == {7: "not_sampled", 8: "not_sampled"}
    card.pids.append(9)
    assert card.read(is_shown=False) == dict.fromkeys((7, 8, 9), "not_sampled")
    assert card.asked == [0, 1000]
    # The first answer is of all the time since: it only gives where the next begins.
    card.samples = [(7, 3000, 33)]
    assert card.read(is_due=False, at=30.0) == dict.fromkeys((7, 8, 9), "not_sampled")
    card.samples = [(7, 4000, 60), (8, 4000, 20)]
    assert card.read(is_due=False, at=31.0) == {7: 0.6, 8: 0.2, 9: 0.0}
    assert card.asked == [0, 1000, 2000, 3000]


@pytest.mark.parametrize("code", [None, pynvml.NVML_ERROR_NOT_FOUND])
def test_nothing_new_so_soon_is_no_idleness(code: int | None, card: Card) -> None:
    """The driver may not have sampled again: of a whole period it would mean idle."""
    card.samples = [(7, 1000, 90)]
    card.read()
    card.error = code
    assert card.read(is_due=False, at=6.0) == {7: "not_sampled", 8: "not_sampled"}
    card.samples = [(7, 2000, 60)]
    card.error = None
    assert card.read(at=10.0) == {7: 0.6, 8: 0.0}


def test_nothing_found_means_idle(card: Card) -> None:
    card.error = pynvml.NVML_ERROR_NOT_FOUND
    assert card.read() == {7: 0.0, 8: 0.0}


def test_the_binding_s_success_that_it_raises_means_idle(card: Card) -> None:
    card.error = pynvml.NVML_SUCCESS
    assert card.read() == {7: 0.0, 8: 0.0}


def test_stale_rows_do_not_count_and_the_newest_wins(card: Card) -> None:
    card.samples = [(7, 1000, 1)]
    card.read()
    card.samples = [(7, 3000, 30), (8, 900, 99), (7, 2000, 20)]
    assert card.read() == {7: 0.3, 8: 0.0}


def test_a_process_that_came_after_the_last_sample_is_not_called_idle(card: Card) -> None:
    card.error = pynvml.NVML_ERROR_NOT_FOUND
    card.read()
    card.pids.append(9)
    assert card.read(is_due=False) == {7: 0.0, 8: 0.0}
    assert card.read(is_due=False, mem_used=5) == {7: 0.0, 8: 0.0, 9: "not_sampled"}
    assert card.read()[9] == 0.0


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"gpuInstanceId": 5, "computeInstanceId": 0}, [5, 0]),
        ({"gpuInstanceId": 2**32 - 1, "computeInstanceId": 2**32 - 1}, ["not_supported"] * 2),
        ({}, ["not_supported"] * 2),
    ],
)
def test_a_process_names_the_mig_instance_that_it_runs_in(
    given: dict[str, int], wanted: list[Any], card: Card
) -> None:
    card.instances = given
    (_, row), _ = card.contexts.read(Row("GPU-1", 5.0), is_due=True)
    keys = ("context_gpu_instance", "context_compute_instance")
    assert [row.values.get(key, row.missing.get(key)) for key in keys] == wanted


def test_a_gpu_that_cannot_tell_is_asked_once(card: Card) -> None:
    card.error = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert card.read() == {7: "not_supported", 8: "not_supported"}
    assert card.read() == {7: "not_supported", 8: "not_supported"}
    assert len(card.asked) == 1


def counts_of(every: Any, computing: Any) -> dict[str, Any]:
    return {"process_count": every, "compute_process_count": computing}


def test_who_draws_is_a_process_too_and_who_does_both_is_one(card: Card) -> None:
    card.drawing = [8, 21, 34]
    assert card.types() == (counts_of(4, 2), {7: "C", 8: "C+G", 21: "G", 34: "G"})
    rows = dict(card.contexts.read(Row("GPU-1", 5.0), is_due=False))
    assert rows[21].values["context_mem_used_bytes"] == 21 << 20
    card.pids.clear()
    assert card.types() == (counts_of(3, 0), {8: "G", 21: "G", 34: "G"})


def test_a_driver_without_the_newest_form_is_asked_by_the_one_before(card: Card) -> None:
    card.drawing = [55]
    card.refusals = {GRAPHICS: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    assert card.types() == (counts_of(3, 2), {7: "C", 8: "C", 55: "G"})
    card.types()
    assert card.listings == [GRAPHICS, GRAPHICS + "_v2", GRAPHICS + "_v2"]


def test_a_board_that_cannot_draw_has_processes_that_compute_and_is_asked_once(card: Card) -> None:
    code = pynvml.NVML_ERROR_NOT_SUPPORTED
    card.refusals = {GRAPHICS: code, GRAPHICS + "_v2": code}
    for _ in range(3):
        assert card.types() == (counts_of(2, 2), {7: "C", 8: "C"})
    assert card.listings == [GRAPHICS, GRAPHICS + "_v2"]


def test_a_list_that_is_closed_leaves_the_whole_number_unknown(card: Card) -> None:
    card.refusals = {GRAPHICS: pynvml.NVML_ERROR_NO_PERMISSION}
    why = "no_permission"
    assert card.types() == (counts_of(why, 2), {7: why, 8: why})
    card.drawing, card.refusals = [3], {COMPUTE: pynvml.NVML_ERROR_NO_PERMISSION}
    assert card.types() == (counts_of(why, why), {})
    card.refusals = {}
    assert card.types() == (counts_of(3, 2), {7: "C", 8: "C", 3: "G"})


def test_rows_are_made_when_something_was_listed_or_sampled(card: Card) -> None:
    """Who holds them knows by that whether anything is new."""

    def held(at: float, *, is_due: bool = False, mem_used: int = 0) -> object:
        gpu = Row("GPU-1", at)
        gpu.values["mem_used_bytes"] = mem_used
        return card.contexts.read(gpu, is_due)

    first = held(5.0, is_due=True)
    assert held(5.5) is first
    listed = held(5.6, mem_used=1)
    assert listed is not first
    assert held(5.7, mem_used=1) is listed
    assert held(10.0, is_due=True, mem_used=1) is not listed
    card.refusals[COMPUTE] = pynvml.NVML_ERROR_NOT_SUPPORTED
    gone = held(15.0, is_due=True, mem_used=1)
    assert gone == []
    assert held(20.0, is_due=True, mem_used=1) is gone
