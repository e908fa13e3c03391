"""What a job does in each of Slurm's states: the same for everybody who asks."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger import runs
from gpumon.model.job_states import (
    ENDED_RUN_STATES,
    ENDED_STATES,
    HOLDING_STATES,
    SHORT_CODES,
    has_ended,
    run_has_ended,
)
from gpumon.sources.slurm.accounting.commands import STATES

ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "TIMEOUT",
}  # fmt: skip
"""The base states after SUSPENDED in `enum job_states` of slurm.h."""


def test_slurms_own_base_states_say_what_has_ended() -> None:
    assert ENDED_STATES == ENDED
    assert all(map(has_ended, ENDED))


@pytest.mark.parametrize("flag", ["REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL", "REQUEUED"])
def test_a_flag_on_a_job_that_may_still_wait_is_no_end(flag: str) -> None:
    assert not has_ended(flag)
    assert flag not in HOLDING_STATES


def test_a_job_that_was_stopped_by_a_signal_keeps_what_it_holds() -> None:
    assert "STOPPED" in HOLDING_STATES


def test_no_state_holds_and_has_ended() -> None:
    assert not HOLDING_STATES & ENDED_STATES


@pytest.mark.parametrize("state", ["REQUEUED", "RESIZING"])
def test_a_run_that_others_follow_has_ended_though_its_job_has_not(state: str) -> None:
    assert run_has_ended(state)
    assert not has_ended(state)


def test_whoever_asks_reads_the_same_list() -> None:
    assert runs.ENDED_STATES is ENDED_STATES
    assert sorted(STATES) == sorted(SHORT_CODES[state] for state in ENDED_RUN_STATES)
