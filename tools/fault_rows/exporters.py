"""What exporters and whatever stands in their place do."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

_OTHERS: Final = "all other nodes, on their period"
_ITS_VALUES: Final = "its values, until it answers: asked again after 1 s, doubling to 60 s"
_FETCH: Final = "tests/unit/sources/exporters/test_fetch.py::"
_ELSE: Final = (_FETCH + "test_whatever_else_answers_is_named_with_the_way_out",)
_PLAN: Final = "tests/unit/sources/exporters/test_series_layout.py::"
_DCGM: Final = "tests/unit/sources/exporters/test_dcgm.py::"

EXPORTERS: Final = (
    Fault(
        "an exporter is stopped",
        _OTHERS,
        "cannot be reached: Connection refused; check that the exporter runs",
        "its values, until a period after it is back",
        (_FETCH + "test_nobody_listens",),
    ),
    Fault(
        "a node takes no connection to its exporter",
        _OTHERS,
        "cannot be reached: no answer; check whether the node is up",
        _ITS_VALUES,
        (_FETCH + "test_a_node_that_takes_no_connection_is_told_to_be_silent",),
    ),
    Fault(
        "an exporter takes the question and never answers",
        _OTHERS,
        "gave no complete page within",
        _ITS_VALUES,
        (_FETCH + "test_a_server_that_says_nothing_is_given_up",),
    ),
    Fault(
        "more exporters hang than are asked for at once",
        _OTHERS,
        "gave no complete page within",
        "their values; the others wait for 1 s at most",
        (
            (
                "tests/unit/sources/exporters/test_pages.py::"
                "test_pages_that_hang_leave_their_places_to_others"
            ),
        ),
    ),
    Fault(
        "an exporter drips its answer, header or body",
        _OTHERS,
        "gave no complete page within",
        _ITS_VALUES,
        (_FETCH + "test_a_byte_now_and_then_puts_off_no_deadline",),
    ),
    Fault(
        "a page has no end",
        _OTHERS,
        "larger than .* and was cut off",
        _ITS_VALUES,
        (_FETCH + "test_a_page_that_is_too_large_is_cut_off",),
    ),
    Fault(
        "a line of a page has no end",
        _OTHERS,
        "a line without an end",
        _ITS_VALUES,
        (_FETCH + "test_a_line_without_an_end_is_given_up",),
    ),
    Fault(
        "a packed page unpacks to any number of bytes",
        _OTHERS,
        "larger than .* and was cut off",
        _ITS_VALUES,
        (_FETCH + "test_a_few_bytes_that_unpack_to_any_number_are_cut_off",),
    ),
    Fault("a page breaks off", _OTHERS, "broke off", _ITS_VALUES, _ELSE),
    Fault("an exporter answers with an error", _OTHERS, "HTTP 500", _ITS_VALUES, _ELSE),
    Fault("an exporter wants a password", _OTHERS, "does not let gpumon in", _ITS_VALUES, _ELSE),
    Fault(
        "a page redirects", _OTHERS, "redirects to .*, which is not followed", _ITS_VALUES, _ELSE
    ),
    Fault(
        "a proxy or portal answers in place of an exporter",
        _OTHERS,
        "a web page: a proxy or portal",
        _ITS_VALUES,
        _ELSE,
    ),
    Fault("a page is of another kind", _OTHERS, "not a page of metrics", _ITS_VALUES, _ELSE),
    Fault(
        "an exporter's certificate is signed by an unknown authority",
        _OTHERS,
        "CERTIFICATE.*SSL_CERT_FILE",
        _ITS_VALUES,
        (_FETCH + "test_a_certificate_is_checked_against_the_bundle_of_the_environment",),
    ),
    Fault(
        "an exporter's certificate has expired",
        _OTHERS,
        "has expired.*renew",
        _ITS_VALUES,
        (_FETCH + "test_a_certificate_that_has_expired_is_to_be_renewed",),
    ),
    Fault(
        "a page is another exporter's",
        _OTHERS,
        "not a page that gpumon reads: it has amd_gpu_power",
        "nothing: it reports no GPU that is known",
        (_PLAN + "test_what_cannot_be_shown_says_what_was_seen_and_the_way_out",),
    ),
    Fault(
        "a page reports one series twice, with different values",
        "all values, of that series the first",
        "twice, with different values; the first counts",
        "nothing",
        (_DCGM + "test_series_that_contradict_each_other_are_told_and_the_first_counts",),
    ),
    Fault(
        "a page reports several hosts and does not name them",
        _OTHERS,
        "mixes several hosts, whose values cannot be separated; name the hosts' own pages",
        "what it reports of hosts; its GPUs are shown",
        (
            (
                "tests/unit/sources/exporters/test_host_plan.py::"
                "test_a_page_of_several_hosts_is_added_up_for_none"
            ),
        ),
    ),
    Fault(
        "a label of a page is not the id of a job",
        "all values",
        "a job label that is not a job id",
        "that job, where no Slurm is asked",
        (_PLAN + "test_a_label_that_is_no_job_is_told_and_left_out",),
    ),
    Fault(
        "the label of a page contradicts Slurm",
        "what Slurm says",
        "the label of an exporter puts job 7 on .*, which Slurm gave to job 8",
        "nothing",
        (
            (
                "tests/unit/fleet/join/test_labelled_jobs.py::"
                "test_what_slurm_gave_counts_and_a_label_that_says_else_is_told"
            ),
        ),
    ),
    Fault(
        "an exporter's collection hangs while its page is served",
        _OTHERS,
        "the same values for .* min, energy among them",
        "its values, after five minutes",
        (_DCGM + "test_a_page_that_tells_the_same_for_minutes_is_no_picture_of_now",),
    ),
)
"""Pages of exporters over HTTP."""
