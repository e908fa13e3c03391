"""What disks, folders and recordings do."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

FILES: Final = (
    Fault(
        "the disk of standard output is full",
        "nothing: exit code 1",
        "standard output: No space left on device",
        "the document",
        ("tests/unit/cli/test_output.py::test_a_full_disk_is_one_line_and_exit_1",),
    ),
    Fault(
        "the disk fills up within a document",
        "nothing: exit code 1",
        "standard output: File too large",
        "the rest of the document",
        ("tests/unit/cli/test_output.py::test_a_disk_that_fills_up_within_a_document_is_an_error",),
    ),
    Fault(
        "standard output is closed",
        "nothing: exit code 1",
        "standard output: it is closed",
        "the document",
        ("tests/unit/cli/test_output.py::test_a_closed_output_is_one_line_and_exit_1",),
    ),
    Fault(
        "the disk of a recording is full",
        "what was written can be read",
        "recording ended: File too large",
        "what came later",
        (
            "tests/unit/cli/commands/test_recording.py::test_a_full_disk_ends_recording_with_one_line",
        ),
    ),
    Fault(
        "the disk is full as a command begins to write",
        "what lies there",
        "No space left on device; (name a place with room|GPUMON_CONFIG names another place)",
        "the file; exit code 1",
        (
            "tests/unit/cli/test_full_disk.py::test_a_command_says_it_in_one_line_and_leaves_nothing",
        ),
    ),
    Fault(
        "the file server of a recording hangs as it begins",
        "nothing: exit code 1",
        "cannot record: .*: its file system does not answer; name another",
        "the recording",
        (
            "tests/unit/cli/commands/test_recording.py::test_a_file_system_that_hangs_at_the_start_is_one_line",
        ),
    ),
    Fault(
        "the disk of what was chosen in the terminal is full",
        "the choices, until the terminal ends",
        "your choices were not saved: .*/terminal.json cannot be written: No space left on device",
        "the choices, when the terminal ends",
        ("tests/unit/cli/test_full_disk.py::test_choices_that_find_no_room_are_told_at_the_end",),
    ),
    Fault(
        "the terminal crashes, and the disk of its log is full",
        "the shell's terminal, as before",
        "the terminal failed: .*; the log could not be written: .*No space left on device",
        "where it failed",
        ("tests/unit/cli/test_full_disk.py::test_a_crash_is_told_where_its_log_has_no_room",),
    ),
    Fault(
        "the disk of the ledger is full",
        "the totals on screen; what was not written is tried again",
        "No space left on device",
        "nothing, if room comes before the end",
        (
            "tests/unit/fleet/ledger/test_writer.py::test_a_full_disk_is_tried_again_when_more_comes_and_at_the_end",
            "tests/unit/fleet/ledger/test_journal.py::test_a_full_disk_is_said_and_made_up_for_without_doubling",
        ),
    ),
    Fault(
        "the file server of the ledger hangs",
        "all booking and the screen; all is written once it answers",
        "the ledger waits to be written: .* does not answer",
        "nothing",
        (
            "tests/unit/fleet/ledger/test_writer.py::test_a_disk_that_does_not_answer_is_said_and_no_longer_when_it_does",
        ),
    ),
    Fault(
        "the file server of the ledger hangs at the start",
        "the totals on screen",
        "the ledger is not stored: .* does not answer",
        "this run's ledger",
        (
            "tests/unit/fleet/ledger/test_writer.py::test_a_folder_that_does_not_answer_is_given_up_and_not_locked",
        ),
    ),
    Fault(
        "the file server of the ledger hangs for hours",
        "the newest ledger",
        "GPU-h of ended jobs were not written",
        "jobs that ended meanwhile in the ledger; they are counted",
        (
            "tests/unit/fleet/ledger/test_writer.py::test_what_is_forgotten_before_it_could_be_written_is_counted",
        ),
    ),
    Fault(
        "two gpumons write one user's ledger",
        "the first one's ledger",
        "another gpumon writes",
        "the second one's ledger; it shows its own totals",
        (
            "tests/unit/fleet/ledger/test_journal.py::test_one_process_writes_and_the_other_says_that_it_does_not",
        ),
    ),
    Fault(
        "the folder of the ledger cannot be made",
        "the totals on screen",
        "cannot be stored",
        "the ledger on disk",
        (
            "tests/unit/fleet/ledger/test_journal.py::test_a_folder_that_cannot_be_made_is_said",
            "tests/unit/fleet/sampler/test_sampler.py::test_books_that_are_not_written_are_one_error_of_each_tick",
        ),
    ),
    Fault(
        "a page of the ledger is a link",
        "what was booked, in memory; it is written once the link is gone",
        "it is a link, which is not followed; move it",
        "nothing, unless gpumon ends before",
        (
            "tests/unit/fleet/ledger/test_writer.py::test_a_page_that_is_a_link_is_said_at_once_by_its_name_and_written_once_it_is_gone",
        ),
    ),
    Fault(
        "what was acknowledged or muted cannot be stored",
        "the screen, where it holds",
        "cannot be written: File exists; .*lost when this terminal closes",
        "what was acknowledged or muted, when the terminal ends",
        (
            "tests/unit/detect/engine/test_notes_file.py::test_notes_that_are_not_kept_are_an_error_of_the_report",
        ),
    ),
    Fault(
        "what was acknowledged or muted cannot be read",
        "the file, which is not written over",
        "is not JSON; it is not changed, .*repair it or move it away",
        "what is acknowledged or muted from then on, when the terminal ends",
        (
            "tests/unit/detect/engine/test_notes_file.py::test_rubbish_says_nothing_and_is_not_written_over",
        ),
    ),
    Fault(
        "a command may not write its file",
        "what lies in its place",
        "Not a directory|File exists",
        "the file; exit code 1",
        (
            "tests/unit/cli/test_unwritable.py::test_a_file_that_cannot_be_written_is_one_line_with_the_way_out",
        ),
    ),
    Fault(
        "the disk fills while a fleet is simulated",
        "no half recording is left",
        "was not written: File too large",
        "the recording; exit code 1",
        (
            "tests/unit/cli/test_unwritable.py::test_a_disk_that_fills_leaves_no_recording_that_ends_early",
        ),
    ),
    Fault(
        "a folder of ledgers leads round in a circle",
        "nothing: exit code 1",
        "Too many levels of symbolic links",
        "the report",
        (
            "tests/unit/cli/commands/test_report.py::test_a_folder_that_leads_round_in_a_circle_is_one_line",
        ),
    ),
    Fault(
        "a configuration with mistakes",
        "nothing: exit code 2",
        "perod_s is not a setting; did you mean period_s",
        "this run; each mistake is a line",
        (
            "tests/unit/cli/commands/test_watch.py::test_a_wrong_configuration_is_a_line_per_mistake_and_exit_2_or_3",
        ),
    ),
)
"""What disks, folders and file servers do to what gpumon writes and reads."""

RECORDINGS: Final = (
    Fault(
        "a recording is cut off",
        "all ticks before the cut",
        "is cut off: its recorder was ended",
        "the last tick",
        ("tests/unit/sources/recording/test_files.py::test_a_line_that_was_cut_off_is_said",),
    ),
    Fault(
        "a line of a recording is garbage",
        "the passages before and after it",
        "line 10 is not what a recorder writes",
        "the rest of its passage, at most a minute",
        (
            "tests/unit/sources/recording/test_files.py::test_a_line_that_is_garbage_is_named_and_the_next_passage_read",
        ),
    ),
    Fault(
        "a line of a recording is beyond all measure",
        "all others",
        "line 9 is longer than 1 MiB",
        "that line",
        (
            "tests/unit/sources/recording/test_files.py::test_a_line_beyond_the_bound_is_passed_over",
        ),
    ),
    Fault(
        "a few bytes unpack to a very long text",
        "what is before them",
        "become more than 500 times as much text",
        "what is behind them",
        (
            "tests/unit/sources/recording/test_files.py::test_a_few_bytes_that_stand_for_a_very_long_text_end_the_reading_in_one_line",
        ),
    ),
    Fault(
        "a file is not a recording",
        "nothing: exit code 1",
        "is not a recording of gpumon",
        "nothing; it is not written to",
        ("tests/unit/sources/recording/test_files.py::test_a_foreign_file_is_refused_in_one_line",),
    ),
    Fault(
        "a recording is of a later format",
        "nothing: exit code 1",
        "recording of format 2",
        "nothing",
        ("tests/unit/sources/recording/test_files.py::test_a_foreign_file_is_refused_in_one_line",),
    ),
    Fault(
        "a recording's name leads round in a circle",
        "nothing: exit code 1",
        "Too many levels of symbolic links",
        "nothing",
        (
            "tests/unit/cli/commands/test_recording.py::test_what_is_no_recording_is_said_in_one_line",
            "tests/unit/cli/commands/test_patterns.py::test_what_cannot_be_read_is_named_in_one_line",
        ),
    ),
)
"""What recordings may be that gpumon did not write, or not to their end."""
