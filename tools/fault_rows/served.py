"""What goes wrong with a gpumon that serves, and with who attaches to it."""

from __future__ import annotations

from typing import Final

from tools.fault_rows.fault import Fault

_OTHERS: Final = "all other targets, on their period"
_ITS_VALUES: Final = "its values, until it answers: asked again every period, of at least 1 s"
_SERVED: Final = "tests/unit/sources/test_served.py::"
_SERVE: Final = "tests/unit/cli/commands/test_serve.py::"
_SERVER: Final = "tests/unit/serve/test_server.py::"
_ALL_OTHERS: Final = "all other clients"
_NOTHING: Final = "nothing; the command ends before it looks at anything"

SERVED: Final = (
    Fault(
        "another gpumon, to which a terminal is attached, ends and comes back",
        _OTHERS,
        "cannot be read: .*check whether gpumon serve runs there",
        "its values, until a period after it is back",
        (_SERVED + "test_a_server_that_ends_is_told_at_once_and_its_return_as_well",),
    ),
    Fault(
        "another gpumon takes the question and never answers",
        _OTHERS,
        "gave no complete answer within",
        _ITS_VALUES,
        (_SERVED + "test_a_server_that_says_nothing_is_given_up_and_holds_up_nobody",),
    ),
    Fault(
        "an answer of another gpumon has no end",
        _OTHERS,
        "larger than .* MiB",
        _ITS_VALUES,
        (_SERVED + "test_an_answer_that_is_too_large_is_given_up",),
    ),
    Fault(
        "something else answers in place of another gpumon, or reports rubbish",
        _OTHERS,
        "which is not gpumon serve",
        _ITS_VALUES,
        (_SERVED + "test_whatever_is_wrong_is_one_line",),
    ),
    Fault(
        "the file of a token for another gpumon is open to others",
        _OTHERS,
        "is open to others",
        "its values, until the file is one's own; the token is not sent",
        (_SERVED + "test_a_token_that_others_can_read_is_not_sent",),
    ),
    Fault(
        "a server is to listen where other machines reach it, without tokens and TLS",
        _NOTHING,
        "can be reached from other machines: set serve.token_file and serve.tls_certificate",
        "what it would have served",
        (_SERVE + "test_other_machines_are_not_let_in",),
    ),
    Fault(
        "a client of a server sends half a question",
        _ALL_OTHERS,
        "was not complete within",
        "that connection, after 10 s",
        (_SERVER + "test_half_a_question_is_answered_with_what_is_missing",),
    ),
    Fault(
        "a client of a server sends a header without end",
        _ALL_OTHERS,
        "the header is longer than .* KiB",
        "that connection, at once",
        (_SERVER + "test_a_header_that_is_too_long_is_refused",),
    ),
    Fault(
        "clients of a server do not take their answers",
        _ALL_OTHERS + ", in bounded memory",
        "clients that read slowly hold too many answers",
        "answers beyond 512 MiB until they are taken, or given up after 120 s",
        (_SERVER + "test_slow_clients_hold_no_more_memory_than_there_is_for_them",),
    ),
    Fault(
        "more clients connect to a server than it has places",
        "those that are connected",
        "further ones are turned away",
        "the further ones, until others leave",
        (_SERVER + "test_beyond_the_most_connections_new_ones_are_ended_at_once",),
    ),
    Fault(
        "a server's port is taken",
        _NOTHING,
        "--listen names another place",
        "what it would have served",
        (_SERVE + "test_a_port_that_is_taken_is_said_with_the_way_out",),
    ),
    Fault(
        "a server's tokens or certificate cannot be read",
        _NOTHING,
        "No such file",
        "what it would have served",
        (_SERVE + "test_what_is_configured_wrongly_ends_it_in_one_line",),
    ),
)
