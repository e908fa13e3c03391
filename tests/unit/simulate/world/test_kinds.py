"""Every kind of job on every board: no pipe works longer than its SMs, no SM without a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.label import HEALTHY
from gpumon.simulate.physics.board import A100_PCIE, B200, H100, T4, used_at
from gpumon.simulate.physics.phase import (
    DRAM,
    FP32,
    FP64,
    LOST,
    SM,
    TENSOR,
    UTIL,
    WATTS,
)
from gpumon.simulate.physics.random_streams import stream
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.wasteful import MISPLACED, WASTEFUL

if TYPE_CHECKING:
    from gpumon.simulate.cluster.workloads import Workload

BOARDS = (H100, used_at(H100, 0.45), used_at(A100_PCIE, 0.6), B200, T4)

every_kind = pytest.mark.parametrize(
    "kind", [*BENIGN, *WASTEFUL, *MISPLACED.values()], ids=lambda kind: kind.kind
)


@every_kind
def test_counters_keep_the_order_of_what_they_count(kind: Workload) -> None:
    shape = Shape(max(1, kind.least_nodes), 4)
    for board in BOARDS:
        program = kind.build(board, shape, stream(3, kind.kind), 0)
        begin, end = program.at(0.0).integrals, program.at(4 * 3600.0).integrals
        mean = [(late - early) / (4 * 3600.0) for early, late in zip(begin, end, strict=True)]
        assert mean[SM] <= mean[UTIL] <= 1.0
        assert max(mean[TENSOR], mean[FP32], mean[FP64]) <= mean[SM] + 1e-9
        assert 0.0 <= mean[DRAM] <= 1.0
        assert 0.0 <= mean[LOST] <= 1.0 + 1e-9
        assert board.idle_w - 1e-6 <= mean[WATTS] <= board.power_limit_w + 1e-6


@every_kind
def test_what_is_well_loses_nothing_and_what_wastes_loses_what_its_class_does(
    kind: Workload,
) -> None:
    shape = Shape(max(1, kind.least_nodes), 4)
    program = kind.build(H100, shape, stream(3, kind.kind), 0)
    lost = program.at(6 * 3600.0).integrals[LOST]
    if kind.truth == HEALTHY or CLASSES[kind.truth].loss == "none":
        assert lost == 0.0
    elif kind.used_share == 1.0 and kind.kind != "stage_imbalance":
        # The heavy stage itself waits for no other; unused GPUs run no program.
        assert lost > 0.0
