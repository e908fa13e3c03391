"""What Slurm and slurmrestd do."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

SLURM: Final = (
    Fault(
        "slurmctld is stopped or hangs",
        "what was last listed, with its age; the nodes' values stay live",
        "cannot reach Slurm's controller|gave no answer",
        "changes of the queue, until it is back; then they come by themselves",
        (
            "tests/lab/test_trouble.py::test_the_last_state_stays_with_its_age_until_the_controller_is_back",
        ),
    ),
    Fault(
        "slurmctld hangs as one looks once",
        "nothing of the queue",
        "gpumon: (slurm: no answer in 10 s|scontrol show job: )",
        "the queue; exit code 1",
        ("tests/lab/test_gpumon.py::test_a_controller_that_is_gone_is_said_and_comes_back",),
    ),
    Fault(
        "a command reports a failing controller, a refusal, no configuration",
        "the last answer, with its age",
        "cannot reach Slurm's controller: .*; ",
        "changes of the queue",
        ("tests/unit/sources/slurm/commands/test_commands.py::test_tells_failures_apart",),
    ),
    Fault(
        "slurmdbd is stopped",
        "the queue and all live values",
        r"\(slurmdbd\) cannot be reached; .*asks again",
        "ended jobs that are new, until it is back",
        ("tests/lab/test_accounting.py::test_records_come_back_by_themselves_when_slurmdbd_does",),
    ),
    Fault(
        "a command never ends",
        "the last answer, with its age; nothing is left running",
        "gave no answer within 30 s and was stopped",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/commands/test_commands.py::test_kills_the_whole_group_after_the_deadline",
        ),
    ),
    Fault(
        "a command prints without end",
        "the last answer, with its age",
        "printed more than 2 MiB and was stopped",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/commands/test_commands.py::test_stops_a_command_that_prints_without_end",
        ),
    ),
    Fault(
        "Slurm's commands are not there",
        "nodes that are named",
        "scontrol is not found",
        "the queue",
        (
            "tests/unit/sources/slurm/commands/test_commands.py::test_a_hop_without_the_command_says_so",
        ),
    ),
    Fault(
        "a site's wrapper prints tables",
        "all jobs, by JSON",
        "is read instead",
        "nothing",
        ("tests/lab/test_trouble.py::test_a_wrapper_that_prints_tables_does_not_hide_the_jobs",),
    ),
    Fault(
        "a record of a job cannot be read",
        "all other jobs",
        "1 of 16 jobs could not be read and are left out",
        "that job",
        (
            "tests/unit/sources/slurm/poll/test_queue.py::test_records_that_cannot_be_read_are_counted",
        ),
    ),
    Fault(
        "a job's name forges records",
        "all true jobs",
        "announced 2 jobs but printed 4",
        "nothing; the forged ones are reported",
        ("tests/unit/sources/slurm/poll/test_queue.py::test_forged_records_are_reported",),
    ),
    Fault(
        "gpumon stumbles over an answer",
        "the next rounds",
        "unexpected",
        "one round",
        (
            "tests/unit/sources/slurm/poll/test_queue.py::test_an_error_of_gpumons_own_is_told_and_the_rounds_go_on",
        ),
    ),
    Fault(
        "a node dies under its jobs",
        "all other nodes and jobs",
        "Slurm gave it up",
        "the node's values, shown as stale",
        (
            "tests/lab/test_dead_nodes.py::test_what_is_told_of_jobs_whose_node_dies_is_true_at_every_moment",
        ),
    ),
    Fault(
        "slurmd hangs while a job completes",
        "all other nodes and jobs",
        "is still completing",
        "nothing",
        (
            "tests/lab/test_dead_nodes.py::test_a_job_that_completes_for_minutes_holds_what_it_has_not_left",
        ),
    ),
)
"""What Slurm does: its daemons, its commands, its answers."""

SLURMRESTD: Final = (
    Fault(
        "slurmrestd is stopped",
        "what was last listed, with its age; the nodes' values stay live",
        "cannot be reached: .*; check that slurmrestd runs there",
        "changes of the queue, until it is back",
        (
            "tests/lab/test_rest.py::test_a_stopped_slurmrestd_is_said_and_comes_back",
            "tests/unit/sources/slurm/rest/test_client.py::test_a_closed_port_is_one_line",
        ),
    ),
    Fault(
        "slurmrestd hangs",
        "what was last listed, with its age; the nodes' values stay live",
        "gave no complete answer within 2 s",
        "changes of the queue, until it goes on",
        ("tests/lab/test_rest_trouble.py::test_a_slurmrestd_that_is_slow_is_said_and_comes_back",),
    ),
    Fault(
        "a server takes the question and never answers",
        "what was last listed, with its age; the nodes' values stay live",
        "gave no complete answer within .* s; ",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_a_server_that_never_answers_is_given_up",
        ),
    ),
    Fault(
        "a server drips its answer, header or body",
        "the last answer, with its age; nodes that are named",
        "gave no complete answer within .* s; ",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_an_answer_that_drips_is_given_up_whichever_part_does",
        ),
    ),
    Fault(
        "a server answers without end",
        "what was last listed, with its age; the nodes' values stay live",
        "answered more than 1 MiB",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_an_answer_beyond_all_measure_is_cut_off",
        ),
    ),
    Fault(
        "slurmrestd is without its controller",
        "what was last listed, with its age; the nodes' values stay live",
        "controller",
        "changes of the queue, until it is back",
        (
            "tests/lab/test_rest_trouble.py::test_without_its_controller_it_gives_one_line_and_records_again_later",
        ),
    ),
    Fault(
        "the token is wrong",
        "nodes that are named",
        "token",
        "the queue; the token is never shown",
        (
            "tests/lab/test_rest_trouble.py::test_a_token_that_is_wrong_is_one_line_without_it",
            "tests/unit/sources/slurm/rest/test_client.py::test_a_refused_token_is_one_line",
        ),
    ),
    Fault(
        "the token has expired",
        "nodes that are named",
        "the token expired 5 min ago; .*scontrol token",
        "the queue, until another one is in its file",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_an_expired_token_is_told_from_22_05s_wordless_refusal",
        ),
    ),
    Fault(
        "there is no token",
        "nodes that are named",
        "there is none: SLURM_JWT is not set",
        "the queue; nothing is asked",
        ("tests/unit/sources/slurm/rest/test_client.py::test_without_a_token_nothing_is_asked",),
    ),
    Fault(
        "others may read the token's file",
        "nodes that are named",
        "is open to others",
        "the queue",
        (
            "tests/unit/sources/slurm/commands/test_token.py::test_a_file_that_others_may_touch_is_refused",
        ),
    ),
    Fault(
        "a server repeats the token in its answer",
        "the rest",
        r"bad \(the token\)",
        "nothing; it is struck out",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_a_token_that_the_server_repeats_is_struck_out",
        ),
    ),
    Fault(
        "a proxy or portal answers",
        "what was last listed, with its age; the nodes' values stay live",
        "a web page: a proxy or portal",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_what_is_no_answer_of_slurmrestd_is_one_line",
        ),
    ),
    Fault(
        "something else listens on the port",
        "what was last listed, with its age; the nodes' values stay live",
        "broke off or is not HTTP",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_a_port_that_speaks_something_else_is_one_line",
            "tests/lab/test_rest_trouble.py::test_something_else_on_the_port_is_one_line",
        ),
    ),
    Fault(
        "a server redirects elsewhere",
        "what was last listed, with its age; the nodes' values stay live",
        "redirects to http://127.0.0.1",
        "changes of the queue; no one else is shown the token",
        ("tests/unit/sources/slurm/rest/test_client.py::test_a_redirect_is_not_followed",),
    ),
    Fault(
        "a port speaks no TLS",
        "what was last listed, with its age; the nodes' values stay live",
        "it does not speak TLS there",
        "changes of the queue",
        (
            "tests/unit/sources/slurm/rest/test_client.py::test_tls_to_a_port_that_speaks_plain_http_is_told_from_a_bad_certificate",
        ),
    ),
    Fault(
        "slurmrestd serves no known version",
        "nodes that are named",
        "serves none of the versions .*; ",
        "the queue",
        (
            "tests/unit/sources/slurm/rest/test_rest_version.py::test_a_server_without_any_known_version_is_said",
            "tests/lab/test_rest_trouble.py::test_a_version_of_the_interface_that_nobody_knows_is_one_line",
        ),
    ),
)
"""What slurmrestd, and whatever else may listen there, does."""
