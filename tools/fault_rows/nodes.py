"""What nodes do, and the ways to them."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

NODES: Final = (
    Fault(
        "a node sends noise without end",
        "all other nodes; the node is started again",
        "before the probe's hello|a line of more than",
        "its values, until it speaks as a probe does",
        ("tests/unit/sources/probes/test_pool.py::test_endless_noise_is_one_error",),
    ),
    Fault(
        "a login shell prints into the report",
        "all other nodes",
        "not a probe's output.*login shell",
        "its values, until the next start",
        (
            "tests/unit/sources/probes/test_pool.py::test_rubbish_is_one_error_with_a_way_out_and_another_start",
        ),
    ),
    Fault(
        "a line never ends",
        "all other nodes",
        "a line of more than|longer than",
        "its values, until the next start",
        ("tests/unit/sources/probes/test_stream.py::test_a_line_without_end_is_given_up",),
    ),
    Fault(
        "a node claims more GPUs, links or processes than there can be",
        "the first of them, and all other nodes",
        "rows of gpu; .* are read",
        "what is beyond the bound",
        (
            "tests/unit/sources/probes/test_decode.py::test_of_a_node_that_claims_too_much_the_first_is_read_and_the_rest_refused",
        ),
    ),
    Fault(
        "a node claims another node's GPUs",
        "the node that had them first, with its jobs",
        "claims GPU-n1-0 and 1 more, which n1 had first",
        "nothing",
        (
            "tests/unit/fleet/join/test_disputes.py::test_a_node_that_claims_another_one_s_gpus_does_not_get_them",
        ),
    ),
    Fault(
        "GPUs of a job are claimed twice",
        "the job's own",
        "n9 claims GPU-n1-1 of job 7, too",
        "nothing",
        (
            "tests/unit/fleet/join/test_disputes.py::test_the_jobs_whose_gpus_are_claimed_twice_say_so",
        ),
    ),
    Fault(
        "the last words of a node are escape sequences",
        "all other nodes",
        r"ended \(1\): .\[31mred",
        "nothing",
        ("tests/unit/sources/probes/test_stream.py::test_trouble_is_one_harmless_line",),
    ),
    Fault(
        "a probe of another version answers",
        "all other nodes",
        "speaks protocol 2, not 1",
        "its values",
        ("tests/unit/sources/probes/test_stream.py::test_another_protocol_is_named",),
    ),
    Fault(
        "the way to a node breaks, or its probe is killed",
        "all other nodes",
        "ssh ended .255.: no reason given; .*ssh gpu01",
        "its values, until it answers; it is tried again after pauses that double",
        ("tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",),
    ),
    Fault(
        "no probe comes up",
        "all other nodes",
        "no probe came up within .* s; .*python3",
        "its values, until it answers; it is tried again after pauses that double",
        ("tests/unit/sources/probes/test_pool.py::test_a_silent_node_is_given_up",),
    ),
    Fault(
        "many nodes hang at login",
        "those that answer, one after the other",
        "waits to be tried, as do 2 more nodes",
        "values of those that were not tried yet, for minutes",
        (
            "tests/unit/sources/probes/test_pool.py::test_those_that_nobody_has_tried_yet_are_told_of",
        ),
    ),
    Fault(
        "a report is one that gpumon stumbles over",
        "all other nodes",
        "could not handle its report: ZeroDivisionError.*report this line",
        "its values, until the next start",
        (
            "tests/unit/sources/probes/test_pool.py::test_a_surprise_in_one_report_leaves_the_other_nodes_alone",
        ),
    ),
    Fault(
        "a node has Python 2 alone, or none",
        "all other nodes",
        "it has no python3; .*install python3",
        "its values",
        (
            "tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",
            "tests/unit/sources/probes/test_program.py::test_a_node_without_python_says_so_in_one_line",
        ),
    ),
    Fault(
        "a node's host key has changed",
        "all other nodes",
        "its host key has changed; .*administrator",
        "its values; nothing is accepted unseen",
        ("tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",),
    ),
    Fault(
        "a node's host key is not known",
        "all other nodes",
        "host key is not known here; .*by hand",
        "its values",
        (
            "tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",
            "tests/lab/test_gpumon.py::test_a_refused_key_is_one_line_and_the_rest_stays_live",
        ),
    ),
    Fault(
        "a node refuses the key",
        "all other nodes",
        "the key is refused; .*ssh gpu01",
        "its values, unless a step of the user's own job reads them",
        ("tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",),
    ),
    Fault(
        "a node lets in only who has a job there",
        "all other nodes",
        "it closed the connection; .*a job of yours",
        "its values",
        ("tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",),
    ),
    Fault(
        "a node does not answer",
        "all other nodes",
        "it does not answer|does not answer; ",
        "its values, until it answers; it is tried again after pauses that double",
        ("tests/unit/sources/probes/test_ssh.py::test_every_failure_has_a_message_and_a_way_out",),
    ),
    Fault(
        "nothing listens on a node's ssh port",
        "all other nodes",
        "nothing listens on its ssh port",
        "its values, until it answers; it is tried again after pauses that double",
        (
            "tests/unit/sources/probes/test_ssh.py::test_a_refused_connection_is_told_through_the_real_client",
        ),
    ),
    Fault(
        "a name that no host has",
        "other targets",
        "no-such-host.invalid.*not known",
        "its values",
        (
            "tests/unit/cli/commands/test_watch.py::test_a_host_that_does_not_exist_is_one_line_and_exit_1",
        ),
    ),
    Fault(
        "there is no ssh here",
        "other targets",
        "cannot start /no/such/ssh: No such file",
        "values of all nodes that ssh leads to",
        ("tests/unit/sources/probes/test_pool.py::test_what_cannot_be_started_is_told",),
    ),
    Fault(
        "an ssh is killed",
        "all other nodes; no probe is left on the node",
        "ssh .*ended|ended .*ssh|closed the connection",
        "its values, until it answers; it is tried again after pauses that double",
        (
            "tests/lab/test_gpumon.py::test_no_probe_survives_the_kill_of_ssh_and_the_node_comes_back",
        ),
    ),
    Fault(
        "a cable is cut",
        "all other nodes; no probe is left on the node after its lease",
        "it stopped answering; is the node up",
        "its values, shown as stale, until it is mended",
        ("tests/lab/test_gpumon.py::test_no_probe_survives_a_cut_cable_and_the_rest_stays_live",),
    ),
    Fault(
        "Slurm refuses a step in a job",
        "nodes by ssh",
        "Slurm refuses a step in this job; .*own user",
        "values of the job's nodes where ssh is refused too",
        (
            "tests/unit/sources/slurm/poll/test_srun.py::test_every_failure_has_a_message_and_a_way_out",
        ),
    ),
    Fault(
        "the login node refuses the key",
        "nothing behind it",
        "Permission denied",
        "the queue and its nodes, until it does not",
        ("tests/lab/test_transports.py::test_a_login_node_that_refuses_the_key_is_one_line",),
    ),
    Fault(
        "the login node's host key is not known",
        "nothing behind it",
        "Host key verification failed",
        "the queue and its nodes",
        ("tests/lab/test_transports.py::test_a_login_node_with_an_unknown_key_is_one_line",),
    ),
    Fault(
        "the login node is down",
        "nothing behind it",
        "Connection refused",
        "the queue and its nodes, until it is up",
        ("tests/lab/test_transports.py::test_a_login_node_that_is_down_is_one_line",),
    ),
)
"""What nodes do, and the ways to them."""
