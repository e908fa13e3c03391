"""What servers that gather the pages of exporters do, and whatever stands in their place."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

_OTHERS: Final = "all that other targets report"
_ITS_VALUES: Final = "its values, until it answers: asked again after 1 s, doubling to 60 s"
_CLIENT: Final = "tests/unit/sources/prometheus/test_client.py::"
_ELSE: Final = (_CLIENT + "test_whatever_else_answers_is_named_with_the_way_out",)
_QUESTIONS: Final = "tests/unit/sources/prometheus/test_questions.py::"
_LIMITS: Final = "tests/lab/test_server_limits.py::"
_RECALL: Final = "tests/unit/sources/prometheus/test_recall.py::"
_SERVER: Final = "tests/unit/sources/prometheus/test_server.py::"

PROMETHEUS: Final = (
    Fault(
        "Prometheus is stopped",
        _OTHERS,
        "cannot be reached: Connection refused; check that the server runs",
        "its values, until a period after it is back",
        (_CLIENT + "test_nobody_listens",),
    ),
    Fault(
        "Prometheus is away for minutes, or just begins",
        _OTHERS,
        r"answers with an error \(HTTP 503\)",
        "its values, two of its intervals after it was last read; what was missed is filled in",
        (_RECALL + "test_of_an_outage_only_what_was_missed_is_asked_and_counters_go_on",),
    ),
    Fault(
        "Prometheus has no past: too much, too large, or too busy",
        "its present values",
        "has no past: answers with an error",
        "the time before gpumon's start: it is asked in ever smaller pieces first",
        (_RECALL + "test_a_server_without_a_past_says_so_in_one_line_and_its_present_stands",),
    ),
    Fault(
        "a metric is beyond a limit of Prometheus",
        "its other values",
        "shows no DCGM_FI_DEV",
        "that metric, which is named",
        (_QUESTIONS + "test_a_metric_that_is_too_much_for_the_server_is_left_out_by_its_name",),
    ),
    Fault(
        "a metric of hosts is beyond a limit of Prometheus",
        "its other values, those of hosts among them",
        "shows no node_load5",
        "that metric, which is named",
        (_QUESTIONS + "test_a_metric_of_hosts_that_is_too_much_is_one_line_and_their_others_stay",),
    ),
    Fault(
        "the times of samples are beyond a limit of Prometheus",
        "its values",
        "does not say how old its values are",
        "their ages: a value may be 5 min old",
        (
            _QUESTIONS
            + "test_where_the_times_of_samples_are_too_much_values_are_shown_and_it_is_said",
        ),
    ),
    Fault(
        "samples over time are beyond a limit of Prometheus",
        "its present values",
        "does not say how often it reads GPUs",
        "its past, until gpumon has seen three samples",
        (
            _QUESTIONS + "test_where_the_interval_is_too_much_the_present_is_shown_and_it_is_said",
            _LIMITS + "test_what_is_beyond_a_servers_limit_costs_itself_alone",
        ),
    ),
    Fault(
        "Prometheus reports nothing of an outage that is over",
        "its present values, and what was remembered",
        "has nothing of the time in which it was not read",
        "what was missed",
        (_RECALL + "test_what_was_missed_and_is_refused_is_one_line_and_its_present_stands",),
    ),
    Fault(
        "Prometheus takes the question and never answers, or drips",
        _OTHERS,
        "gave no complete answer within",
        _ITS_VALUES,
        (
            _CLIENT + "test_a_server_that_says_nothing_is_given_up",
            _CLIENT + "test_a_byte_now_and_then_puts_off_no_deadline",
        ),
    ),
    Fault(
        "an answer of Prometheus has no end, or unpacks to any number of bytes",
        _OTHERS,
        "its answer is larger than .* and was cut off",
        _ITS_VALUES,
        (_CLIENT + "test_an_answer_that_is_too_large_is_cut_off",),
    ),
    Fault("an answer of Prometheus breaks off", _OTHERS, "broke off", _ITS_VALUES, _ELSE),
    Fault(
        "an answer of Prometheus has another form, or is no UTF-8",
        _OTHERS,
        "something in another form",
        _ITS_VALUES,
        _ELSE,
    ),
    Fault("Prometheus answers with an error", _OTHERS, "with an error", _ITS_VALUES, _ELSE),
    Fault("Prometheus lets no one in", _OTHERS, "does not let gpumon in", _ITS_VALUES, _ELSE),
    Fault("Prometheus redirects", _OTHERS, "which is not followed", _ITS_VALUES, _ELSE),
    Fault(
        "a proxy or portal answers in place of Prometheus",
        _OTHERS,
        "a web page: a proxy or portal, not Prometheus",
        _ITS_VALUES,
        _ELSE,
    ),
    Fault(
        "an exporter ends whose pages Prometheus gathers",
        "all other nodes, on their period",
        "the server has no present sample of its GPUs",
        "its values, after two of the server's intervals, though the server repeats them for 5 min",
        (_SERVER + "test_samples_that_are_too_old_are_no_picture_of_now",),
    ),
    Fault(
        "a part of what Prometheus asks for is missing",
        "all values that there are",
        "warns, and some of its values may be missing",
        "what that part holds",
        (_SERVER + "test_series_without_a_gpu_and_warnings_are_told_once",),
    ),
    Fault(
        "a secret file is open to others or holds none",
        _OTHERS,
        "is open to others|holds no token|holds no login",
        "its values: what cannot be used is not sent",
        (_CLIENT + "test_a_secret_that_cannot_be_used_is_not_sent",),
    ),
)
"""Servers with Prometheus' interface."""
