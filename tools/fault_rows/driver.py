"""What the driver does, by the stand-in driver."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

DRIVER: Final = (
    Fault(
        "the driver's library is not found",
        "the host's values, all other nodes",
        "Library Not Found; no NVIDIA driver library",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "the kernel module is not loaded",
        "the host's values, all other nodes",
        "Driver Not Loaded; .*modprobe nvidia",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "this user may not open the driver",
        "the host's values, all other nodes",
        "nvmlInit: Insufficient Permissions; .*/dev/nvidia",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "the driver was updated under its kernel module (code 18)",
        "the host's values, all other nodes",
        "version mismatch.*; .*reboot the node",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "interrupts of a GPU do not arrive",
        "the host's values, all other nodes",
        "nvmlInit: Interrupt Request Issue; .*dmesg",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "the driver does not open for an unknown reason (999)",
        "the host's values, all other nodes",
        "nvmlInit: Unknown Error; look at dmesg and nvidia-smi",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "the driver finds no memory",
        "the host's values, all other nodes",
        "nvmlInit: Insufficient Memory; .*out of memory",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU was lost before the start",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*GPU is lost; .*power-cycle",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU is lost later",
        "the other GPUs, the host, all other nodes",
        "GPU 1 GPU-.*: GPU is lost.*; .*power-cycle",
        "that GPU, from then on",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU is not opened",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*Unknown Error; .*dmesg",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "this user may not open a GPU",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*Insufficient Permissions; .*job's GPUs",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU's interrupts do not arrive",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*Interrupt Request Issue; ",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU's infoROM is corrupted",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*infoROM; ",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a GPU requires a reset",
        "the other GPUs, the host, all other nodes",
        "GPU index 1: .*requires restart; .*reset",
        "that GPU",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "no GPU is opened",
        "the host's values, all other nodes",
        "GPU index 0: .*Unknown Error; ",
        "all GPUs of the node",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "one reading of a GPU fails (999)",
        "the other GPUs, the host, all other nodes",
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature: Unknown Error; ",
        "that value; HEALTH says no `ok`",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "one reading of a GPU finds no memory",
        "the other GPUs, the host, all other nodes",
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature: Insufficient Memory; ",
        "that value; HEALTH says no `ok`",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "a call never returns",
        "the other GPUs, the host, all other nodes",
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature has not returned for",
        "that GPU, until the call returns",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "all GPUs hang",
        "the host's values, all other nodes",
        "GPU 0 GPU-.*: .*has not returned for",
        "all GPUs, until they answer; the node's host stays live",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "the driver never opens",
        "the host's values, all other nodes",
        "NVML: nvmlInit has not returned for",
        "all GPUs of the node; its host stays live",
        (
            "tests/unit/cli/commands/test_driver_troubles.py::test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about",
            "tests/unit/cli/commands/test_driver_troubles.py::test_a_table_calls_no_gpu_ok_that_it_is_about",
        ),
    ),
    Fault(
        "more calls hang than threads may be given up",
        "the host's values",
        "the driver as a whole hangs: 3 calls",
        "all GPUs, until it answers",
        (
            "tests/unit/probe/driver/test_sweep.py::test_when_more_calls_hang_than_threads_may_be_given_up_it_is_the_driver",
        ),
    ),
    Fault(
        "a node's driver hangs, seen over ssh",
        "the other GPUs, keys and screen; no probe is left",
        "has not returned for|as a whole",
        "the GPU that hangs",
        (
            "tests/lab/test_hung_driver.py::test_a_script_is_told_the_call_and_the_gpu_and_all_of_the_rest",
        ),
    ),
    Fault(
        "the driver opens slowly",
        "the host's values, at once",
        "waits for nvmlInit for 7 s",
        "GPUs, for as long",
        (
            "tests/unit/probe/driver/test_opening.py::test_what_opens_the_driver_is_named_from_patience_to_trouble",
        ),
    ),
    Fault(
        "two GPUs report one UUID",
        "the first of them",
        "it has the UUID of index 0",
        "the second one",
        (
            "tests/unit/probe/driver/test_opening.py::test_two_gpus_of_one_uuid_are_told_apart_and_only_one_is_read",
        ),
    ),
    Fault(
        "the driver hides processes of others",
        "all other values",
        "hides the processes of 3 GPUs from this user; root",
        "which GPUs are used by whom",
        ("tests/unit/probe/driver/test_opening.py::test_hidden_process_lists_are_one_line",),
    ),
    Fault(
        "a storm of Xids",
        "all values",
        "events were too many to show; .*dmesg",
        "the oldest events; the kernel's log has them",
        (
            "tests/unit/probe/driver/test_sweep.py::test_a_storm_of_xids_is_bounded_and_the_rest_counted",
        ),
    ),
    Fault(
        "waiting for events hangs",
        "all values",
        "nvmlEventSetWait_v2 has not returned",
        "events of the driver",
        (
            "tests/unit/probe/driver/test_sweep.py::test_waiting_for_events_that_hangs_costs_the_events_only",
        ),
    ),
    Fault(
        "a file of the kernel hangs",
        "the GPUs; the last values with their own time",
        "reading network ports has not returned for 7 s",
        "what it reports, until it returns",
        (
            "tests/unit/probe/test_surroundings.py::test_a_read_that_never_returns_is_named_and_the_last_values_stay",
        ),
    ),
    Fault(
        "the binding is not installed",
        "other targets",
        "nvidia-ml-py is not installed",
        "values of this machine",
        (
            "tests/unit/sources/probes/test_pool.py::test_a_missing_binding_is_told_in_its_own_words",
        ),
    ),
)
"""What the driver does, by the stand-in driver."""
