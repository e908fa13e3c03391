"""What this machine and session lack, and what plugins do."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

MACHINE: Final = (
    Fault(
        "no file can be opened at all",
        "nothing: exit code 1",
        "no more files can be opened: .*ulimit -n",
        "this run",
        ("tests/unit/cli/test_limits.py::test_where_no_file_can_be_opened_it_is_one_line",),
    ),
    Fault(
        "too few files for a probe",
        "other targets",
        "Too many open files.*ulimit -n",
        "values of that node",
        ("tests/unit/cli/test_limits.py::test_with_too_few_files_it_is_said_what_they_lack_for",),
    ),
    Fault(
        "too few files for detection or the past",
        "jobs, nodes and their values",
        "no more files can be opened.*ulimit -n",
        "findings, or what needs a past",
        (
            "tests/unit/cli/test_limits.py::test_without_files_for_detection_the_jobs_are_told_all_the_same",
        ),
    ),
    Fault(
        "too little memory for the past",
        "jobs, nodes and their values",
        "no memory is left.*ulimit -a",
        "curves and findings",
        ("tests/unit/cli/test_limits.py::test_without_memory_for_the_past_the_present_is_told",),
    ),
    Fault(
        "a signal while gpumon starts",
        "nothing; no traceback",
        "nothing; (signal|exit code)",
        "this run",
        ("tests/unit/cli/test_signals.py::test_while_it_starts",),
    ),
    Fault(
        "a signal while it looks",
        "nothing; no traceback",
        "nothing; (signal|exit code)",
        "this run",
        ("tests/unit/cli/test_signals.py::test_while_it_looks",),
    ),
    Fault(
        "a signal while it writes a document",
        "nothing; no traceback",
        "nothing; (signal|exit code)",
        "the rest of the document",
        ("tests/unit/cli/test_signals.py::test_while_it_writes_a_document",),
    ),
    Fault(
        "a signal between two documents of a stream",
        "documents so far, whole",
        "nothing; (signal|exit code)",
        "nothing",
        ("tests/unit/cli/test_signals.py::test_between_two_documents_of_a_stream",),
    ),
    Fault(
        "a signal in the terminal",
        "nothing; no traceback",
        "nothing; exit code (129|130|143), the terminal as before",
        "nothing",
        ("tests/tui/test_terminal.py::test_quit_and_signals",),
    ),
    Fault(
        "a signal while it records",
        "the recording, whole",
        "recorded .* ticks?",
        "nothing",
        ("tests/unit/cli/commands/test_recording.py::test_recording_ends_well_when_it_is_told_to",),
    ),
    Fault(
        "the clock is set forward",
        "sampling; the ledger, which counts by a clock that no one sets",
        "was set forward by 3600 s; .*timedatectl",
        "nothing; ages of before are those of the old clock",
        (
            "tests/unit/fleet/sampler/test_sampler.py::test_a_clock_that_is_set_is_told_for_a_while_and_sampling_goes_on",
        ),
    ),
    Fault(
        "the clock is set back",
        "sampling; the ledger, which counts by a clock that no one sets",
        "was set back by 86400 s; .*timedatectl",
        "the past on screen, which begins again",
        (
            "tests/unit/fleet/sampler/test_sampler.py::test_a_clock_that_is_set_is_told_for_a_while_and_sampling_goes_on",
        ),
    ),
    Fault(
        "a machine too busy to keep the period",
        "all values, late",
        "! 9.0 s late",
        "nothing",
        ("tests/tui/test_status.py::test_a_late_picture_stays_said",),
    ),
    Fault(
        "more nodes than this machine can run ssh clients for",
        "all nodes, in turns",
        "reads .* of .* nodes at a time, in turns of .*, because",
        "values of a node between two of its turns",
        (
            "tests/unit/sources/probes/test_start_order.py::test_beyond_the_bound_nodes_take_turns_and_one_line_says_so",
        ),
    ),
    Fault(
        "a source breaks its contract",
        "all other targets",
        "itself failed reading bad: ZeroDivisionError",
        "values of that target",
        (
            "tests/unit/fleet/sampler/test_sampler.py::test_a_source_that_breaks_its_contract_leaves_the_others_live",
        ),
    ),
    Fault(
        "a tick cannot be made",
        "the last tick, with its own time",
        "itself failed joining: ",
        "one tick",
        (
            "tests/unit/fleet/sampler/test_sampler.py::test_where_no_picture_can_be_made_the_last_one_stands",
        ),
    ),
    Fault(
        "sampling ends for good",
        "nothing: the terminal ends with one line",
        "itself failed sampling: ",
        "all that would come",
        (
            "tests/unit/fleet/sampler/test_sampler.py::test_the_end_of_the_thread_is_told_with_the_reason_and_everything_is_closed",
            "tests/tui/test_terminal.py::test_the_end_of_the_samplers_thread_ends_the_terminal_with_one_line",
        ),
    ),
    Fault(
        "the terminal crashes",
        "the shell's terminal, as before",
        "gpumon: the terminal failed: .*crash.log",
        "the view; a log for its owner alone says why",
        ("tests/tui/test_terminal.py::test_a_crash_is_one_line_and_a_private_log",),
    ),
    Fault(
        "a feed cannot be closed",
        "the end of the program",
        "closing failed: OSError: cannot close",
        "nothing",
        ("tests/tui/test_terminal.py::test_a_feed_that_cannot_close_is_told_in_one_line",),
    ),
    Fault(
        "gpumon itself fails",
        "nothing: exit code 1",
        r"itself failed .*: LookupError: what is this \(please report this",
        "this run",
        ("tests/unit/cli/commands/test_watch.py::test_an_error_of_its_own_is_one_line_and_exit_1",),
    ),
)
"""What this machine and session lack or do: files, memory, signals, the clock, gpumon itself."""

PLUGINS: Final = (
    Fault(
        "a detector raises",
        "all other detectors",
        "raised ValueError|ValueError: ",
        "its findings; it is tried again ever later",
        (
            "tests/unit/detect/engine/test_engine.py::test_a_detector_that_raises_is_muted_and_shown",
        ),
    ),
    Fault(
        "a detector returns rubbish",
        "all other detectors",
        "returned an invalid answer",
        "its findings",
        ("tests/unit/detect/engine/test_engine.py::test_a_detector_that_returns_rubbish_is_muted",),
    ),
    Fault(
        "a detector never ends",
        "all other detectors",
        "took longer than 0.5 s",
        "its findings",
        (
            "tests/unit/detect/engine/test_ends_of_the_worker.py::test_a_detector_that_overruns_is_killed_and_the_rest_still_answer",
        ),
    ),
    Fault(
        "a detector takes its process down",
        "all other detectors, in another process",
        "signal 11",
        "its findings",
        (
            "tests/unit/detect/engine/test_ends_of_the_worker.py::test_a_detector_that_takes_the_worker_down_is_muted",
        ),
    ),
    Fault(
        "a detector runs out of memory",
        "all other detectors",
        "MemoryError",
        "its findings",
        (
            "tests/unit/detect/engine/test_ends_of_the_worker.py::test_a_detector_without_memory_left_is_told_as_that",
        ),
    ),
    Fault(
        "a detector does what it may not",
        "all other detectors say what they would without it",
        "detector bad: ",
        "its findings",
        (
            "tests/unit/detect/worker/test_worker_isolation.py::test_a_bad_plugin_is_muted_and_named_and_the_others_say_what_they_would_without_it",
        ),
    ),
    Fault(
        "a detector cannot be loaded",
        "all other detectors",
        "no_such_module_at_all",
        "its findings",
        (
            "tests/unit/detect/engine/test_engine.py::test_what_cannot_be_loaded_is_told_and_does_not_stop_the_rest",
        ),
    ),
    Fault(
        "the detection worker never starts",
        "all values",
        "exit status 1; this Python must be able to run",
        "findings",
        (
            "tests/unit/detect/engine/test_ends_of_the_worker.py::test_a_worker_that_never_starts_is_told",
        ),
    ),
    Fault(
        "detection itself fails",
        "all values",
        "itself failed judging: ",
        "findings of one tick",
        ("tests/unit/fleet/sampler/test_sampler.py::test_detection_that_fails_leaves_the_picture",),
    ),
)
"""What detectors do: each is foreign code in a process of its own."""
