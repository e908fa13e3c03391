"""Error numbers of the driver: what is known, what an application did, what is unknown."""

from __future__ import annotations

import pynvml
import pytest

from gpumon.model.gpu.code_names import (
    FABRIC_HEALTH,
    FABRIC_STATES,
    RECOVERY_ACTIONS,
    code_name,
)
from gpumon.model.gpu.xid import XIDS, Action, Cause, Later, xid


@pytest.mark.parametrize(
    ("number", "meaning", "action"),
    [
        (13, "graphics engine exception", Action.RESTART_APP),
        (48, "double-bit ECC error", Action.CHECK_ECC),
        (63, "row remapping event", Action.NONE),
        (79, "GPU has fallen off the bus", Action.RESTART_NODE),
        (95, "uncontained memory error", Action.RESET_GPU),
        (119, "GSP RPC timeout", Action.RESET_GPU),
        (144, "NVLink 5: SAW error", Action.CHECK_LINK),
        (150, "NVLink 5: MSE error", Action.CHECK_LINK),
        (154, "recovery action changed", Action.SEE_RECOVERY),
    ],
)
def test_a_listed_number_has_its_meaning_and_action(
    number: int, meaning: str, action: Action
) -> None:
    found = xid(number)
    assert (found.meaning, found.action) == (meaning, action)
    assert found.is_known


def test_what_an_application_did_is_no_fault_of_the_machine() -> None:
    of_programs = {number for number, known in XIDS.items() if known.is_application}
    assert of_programs == {11, 13, 25, 31, 32, 37, 43, 45, 60, 68, 69, 80, 109}
    for number in (48, 64, 79, 95, 119, 140):
        assert xid(number).cause is Cause.MACHINE
    for number in of_programs:
        assert "drain" not in xid(number).advice


@pytest.mark.parametrize("number", [63, 106, 107])
def test_what_is_ignored_now_and_later_is_an_event_and_no_more(number: int) -> None:
    found = xid(number)
    assert found.is_known
    assert found.is_silent
    assert not found.is_remark
    assert (found.action, found.later) == (Action.NONE, Later.NOTHING)


@pytest.mark.parametrize("number", [38, 44, 66, 67, 92, 93, 121, 137, 141, 152, 157, 160, 161])
def test_what_is_ignored_now_and_not_later_is_a_remark(number: int) -> None:
    found = xid(number)
    assert found.is_remark
    assert found.action is Action.NONE
    assert found.advice.startswith("nothing to do now; ")


@pytest.mark.parametrize(
    "number",
    [
        *(8, 88, 89, 139),
        *range(39, 42),
        *range(70, 73),
        *range(75, 78),
        *range(82, 87),
        *range(96, 106),
        *range(126, 136),
    ],
)
def test_an_engine_that_stopped_a_program_leaves_open_whose_fault_it_is(number: int) -> None:
    found = xid(number)
    assert found.is_known
    assert not found.is_blamed
    assert found.advice == "restart the application; contact support if it repeats"


def test_advice_names_the_second_column_once() -> None:
    assert xid(79).advice == "free the node and power-cycle it; contact support if it repeats"
    assert xid(69).advice == "restart the application; check the program and its use of CUDA"
    assert xid(48).advice == Action.CHECK_ECC.value


@pytest.mark.parametrize("number", [0, 1, 14, 61, 87, 91, 108, 122, 162, 168, 172, 999, 2**31, -1])
def test_an_unlisted_number_is_said_to_be_unknown(number: int) -> None:
    found = xid(number)
    assert not found.is_known
    assert found.number == number
    assert found.meaning == "not in the catalogue"
    assert found.action is Action.ASK_VENDOR
    assert not found.is_application


def test_no_number_is_listed_twice_and_advice_fits_a_line() -> None:
    assert list(XIDS) == sorted(set(XIDS))
    assert all(0 < len(action.value) <= 80 for action in Action)
    assert all(len(later.value) <= 70 for later in Later)
    assert all(0 < len(entry.meaning) <= 50 for entry in XIDS.values())


def test_tables_hold_every_value_that_the_binding_names() -> None:
    def values(start: str, *without: str) -> set[int]:
        return {
            value
            for name, value in vars(pynvml).items()
            if name.startswith(start) and name not in without
        }

    assert values("NVML_GPU_FABRIC_STATE_") == set(FABRIC_STATES)
    assert values("NVML_GPU_FABRIC_HEALTH_SUMMARY_") == set(FABRIC_HEALTH)
    assert values("NVML_GPU_RECOVERY_ACTION_") == set(RECOVERY_ACTIONS)


def test_a_value_without_a_name_stays_a_number() -> None:
    assert code_name(2.0, RECOVERY_ACTIONS) == "reboot the node"
    assert code_name(9, RECOVERY_ACTIONS) == "9"
    assert code_name(None, RECOVERY_ACTIONS) is None


@pytest.mark.parametrize(
    ("number", "owner", "machine"),
    [
        (79, "", "free the node and power-cycle it; contact support if it repeats"),
        (69, "restart the application; check the program and its use of CUDA", ""),
        (101, "restart the application", "contact support if it repeats"),
        (92, "", "nothing to do now; contact support if it repeats"),
        (48, "", Action.CHECK_ECC.value),
        (60, "restart the application; look for the cause in software", ""),
        (119, "", "free the node and reset the GPU; look for the cause in software"),
    ],
)
def test_advice_is_told_apart_for_owner_and_machine(number: int, owner: str, machine: str) -> None:
    assert (xid(number).owner_advice, xid(number).machine_advice) == (owner, machine)


def test_every_part_of_the_advice_is_for_somebody_and_only_one() -> None:
    for found in (known for known in XIDS.values() if not known.is_silent):
        parts = [found.owner_advice, found.machine_advice]
        parts_of = [words for part in parts if part for words in part.split("; ")]
        assert sorted(parts_of) == sorted(found.advice.split("; "))
        assert "drain" not in found.owner_advice
