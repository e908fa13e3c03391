"""One probe's output: noise before the hello, rubbish after it, and why it ended."""

from __future__ import annotations

import io
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.main import Pieces
from gpumon.sources.probes import stream
from gpumon.sources.probes.decode import GarbageError
from gpumon.sources.probes.local import local_endpoint
from gpumon.sources.probes.stream import MAX_GREETING, MAX_LINE, MAX_PIECES, Endpoint, Tasks
from tests.unit.sources.pools import others_have_ended
from tests.worlds.probe import HELLO, REPORT, Probe, eventually, is_alive, talker

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

SRUN_WHOLE_BYTES = 1024
"""Longest line that srun was seen to keep in one piece."""


def lateness(script: str, count: int = 1) -> list[float]:
    """Lateness of the first frames that are understood: it tells one report from another."""
    frames: list[Frame] = []
    with Probe(talker(script)) as probe:
        while len(frames) < count:
            assert not probe.has_ended, probe.stream.trouble()
            frames += probe.read()
    return [frame.lateness_s for frame in frames]


def refusal(script: str) -> str:
    with Probe(talker(script)) as probe, pytest.raises(GarbageError) as caught:
        probe.until_end()
    return str(caught.value)


@pytest.mark.parametrize(
    "noise",
    [
        "",
        "echo Welcome to gpu01; echo; echo 'Last login: today';",
        r"printf '\033]0;title\007';",
        "printf 'quota: ok, no line end ';",
        'echo \'{"gpumon_probe":1,"nonce":"of another"}\';',
        'echo "{$nonce}";',
        'echo "$nonce";',
        r"printf '\377\376\000\n';",
        "head -c 200000 /dev/zero; echo;",
    ],
)
def test_noise_of_a_login_shell_is_discarded(noise: str) -> None:
    assert lateness(noise + HELLO + REPORT + "7") == [7.0]


def test_reports_that_arrive_in_pieces_or_together_are_whole() -> None:
    pieces = 'printf \'{"at":1,"late_s":3,\'; sleep 0.05; printf \'"errors":[],"blocks":{}}\\n\';'
    assert lateness(HELLO + pieces + REPORT + "4 5", count=3) == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "noise",
    [
        f"head -c {MAX_GREETING + 1} /dev/zero; cat;",
        f"yes | head -c {MAX_GREETING + 2}; cat;",
        "yes;",
    ],
)
def test_endless_noise_is_given_up(noise: str) -> None:
    assert str(MAX_GREETING) in refusal(noise)


def test_a_hello_with_another_nonce_starts_nothing() -> None:
    script = """printf '{"gpumon_probe":1,"nonce":"guess"}\\n';""" + REPORT + "7"
    with Probe(talker(script)) as probe:
        probe.until_end()
        assert not probe.stream.is_greeted
        assert not probe.stream.has_reported


def test_another_protocol_is_named(said: Callable[..., None]) -> None:
    script = """printf '{"gpumon_probe":2,"nonce":"%s"}\\n' "$nonce"; cat"""
    assert refusal(script) == "the probe speaks protocol 2, not 1"
    said(refusal(script))


@pytest.mark.parametrize("rest", ["", ",", "]}", "," + "[" * 100_000])
def test_a_spoilt_hello_is_refused(rest: str) -> None:
    script = """printf '{"gpumon_probe":1,"nonce":"%s"' "$nonce";""" + f"echo '{rest}'; cat"
    assert "hello" in refusal(script)


@pytest.mark.parametrize(
    "line",
    [
        "Connection to gpu01 lost",
        "",
        "null",
        "[1]",
        '{"at":1,"late_s":0}',
        '{"at":1,"late_s":NaN,"errors":[],"blocks":{}}',
        '{"at":1,"late_s":1e999,"errors":[],"blocks":{}}',
        '{"at":1,"late_s":0,"errors":[1],"blocks":{}}',
        '{"at":1,"late_s":0,"errors":[],"blocks":{"gpu":[]}}',
        '{"at":1,"late_s":0,"errors":[],"blocks":{"gpu":' + "[" * 100_000,
        r"\377",
    ],
)
def test_rubbish_after_the_hello_is_refused(line: str) -> None:
    assert refusal(f"{HELLO} printf '{line}\\n'; cat")


def test_a_line_without_end_is_given_up(said: Callable[..., None]) -> None:
    assert str(MAX_LINE) in refusal(f"{HELLO} head -c {MAX_LINE + 1} /dev/zero; cat")
    said(refusal(f"{HELLO} head -c {MAX_LINE + 1} /dev/zero; cat"))


def test_a_large_report_is_read() -> None:
    script = HELLO + 'printf \'{"at":1,"late_s":9,"errors":[],"blocks":{},"more":"\';'
    script += "head -c 4000000 /dev/zero | tr '\\0' x; printf '\"}\\n'"
    assert lateness(script) == [9.0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no such node >&2; exit 255", "ended (255): no such node"),
        (f"{HELLO} exit 3", "ended (3):"),
        ("kill -9 $$", "ended (-9):"),
        ("yes 2>&- | head -c 300000 >&2; echo the end >&2; exit 1", "ended (1): the end"),
        # What is said after standard output is closed belongs to it too.
        ("exec >&-; sleep 0.05; echo late words >&2; exit 4", "ended (4): late words"),
    ],
)
def test_an_end_is_explained_by_exit_code_and_last_words(
    script: str, message: str, said: Callable[..., None]
) -> None:
    with Probe(talker(script)) as probe:
        probe.until_end()
        trouble = probe.stream.trouble()
    assert trouble.where == "n1"
    assert trouble.message.strip() == message
    assert trouble.hint == "look"
    assert trouble.message.isprintable()
    said(trouble.message)
    assert len(trouble.message) <= 256


def test_a_child_that_only_closes_its_output_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "END_LIMIT_S", 0.01)
    with Probe(talker("exec >&-; exec sleep 600")) as probe:
        probe.until_end()
        assert probe.stream.trouble().message.strip() == "ended (None):"


def test_trouble_is_one_harmless_line(said: Callable[..., None]) -> None:
    script = r"printf '\033[31mred\r\007bell \342\200\256bidi\n' >&2; exit 1"
    with Probe(talker(script)) as probe:
        probe.until_end()
        trouble = probe.stream.trouble()
    assert trouble.message == "ended (1): \ufffd[31mred\ufffd\ufffdbell \ufffdbidi"
    said(trouble.message)


def test_a_child_that_floods_standard_error_is_read_on() -> None:
    assert lateness(f"{HELLO} yes 2>&- | head -c 500000 >&2; {REPORT} 1; cat") == [1.0]


def test_a_program_that_cannot_be_started_is_an_os_error() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        Probe(Endpoint("n1", ("/no-such-program",), lambda _: b"", lambda *_: ("", "")))


def test_a_child_that_does_not_read_blocks_nobody() -> None:
    where = Endpoint(
        "n1", ("sh", "-c", "exec sleep 600"), lambda _: b"x" * 10**6, lambda *_: ("", "")
    )
    with Probe(where) as probe:
        probe.stream.write()
        assert probe.stream.has_outgoing
        for _ in range(100):
            probe.stream.send("period 1")
        assert probe.stream.has_outgoing


def test_speaking_to_a_child_that_has_gone_is_no_error() -> None:
    with Probe(talker("exit 0")) as probe:
        probe.until_end()
        eventually(lambda: not is_alive(probe.pid), "it has gone")
        probe.stream.send("period 1")
        probe.stream.send("period 1")
        assert not probe.stream.has_outgoing


def test_cpu_time_is_that_of_the_child() -> None:
    """One that waits takes none, one that computes takes more and more."""
    counts = "n=0; while [ $n -lt 5000000 ]; do n=$((n+1)); done"
    with Probe(talker("cat")) as waits, Probe(talker(counts)) as computes:
        computes.stream.write()
        eventually(lambda: computes.stream.cpu_s > 0.2, "it computes")
        assert waits.stream.cpu_s < 0.1


def test_a_child_that_has_gone_has_no_cpu_time() -> None:
    with Probe(talker("exit 0")) as probe:
        probe.until_end()
        eventually(lambda: probe.stream.reap(0), "it is collected")
        assert probe.stream.cpu_s == 0.0


def test_ending_ends_the_whole_group() -> None:
    """Behind ssh may stand a ProxyCommand, which must not outlive it."""
    with Probe(talker(f"{HELLO} sleep 600 & {REPORT} $!; wait")) as probe:
        proxy = int(probe.frame().lateness_s)
        assert is_alive(proxy)
    eventually(lambda: not is_alive(proxy), "the proxy has ended")
    assert not is_alive(probe.pid)


def test_descriptors_are_given_back() -> None:
    def descriptors() -> set[Path]:
        return set(Path("/proc/self/fd").iterdir())

    others_have_ended()
    before = descriptors()
    with Probe(talker(f"{HELLO} {REPORT} 1; cat")) as probe:
        probe.frame()
        assert descriptors() != before
    assert descriptors() == before


def test_the_child_has_no_terminal_to_ask_at(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe() as probe:
        probe.frame()
        assert os.getsid(probe.pid) != os.getsid(0)


def test_this_machine_s_probe_says_why_it_ended(
    standin: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = local_endpoint()._replace(program=lambda _: b"9\nimport no")
    with Probe(broken) as probe:
        probe.until_end()
        trouble = probe.stream.trouble()
    assert trouble.where == "local"
    assert trouble.message.startswith("the probe ended (1): ")
    assert "No module named 'no'" in trouble.message
    assert trouble.hint == "run gpumon doctor"
    assert sys.executable == broken.argv[0]


def cut(task: int, *lines: str) -> list[bytes]:
    out = io.StringIO()
    pieces = Pieces(out, task)
    for line in lines:
        pieces.write(line + "\n")
    return out.getvalue().encode().splitlines(keepends=True)


def joined(tasks: Tasks, pieces: list[bytes]) -> list[tuple[int, bytes]]:
    found = (tasks.take(piece.rstrip(b"\n")) for piece in pieces)
    return [message for message in found if message is not None]


@pytest.mark.parametrize("length", [1, 899, 900, 901, 8000, 100_000])
def test_a_line_of_any_length_comes_out_as_it_went_in(length: int) -> None:
    line = "".join(random.Random(length).choices("{}~.0 a\\", k=length))
    pieces = cut(3, line, "next")
    assert max(map(len, pieces)) <= SRUN_WHOLE_BYTES
    assert joined(Tasks(4), pieces) == [(3, line.encode()), (3, b"next")]


def test_pieces_of_several_tasks_in_any_mixture_are_kept_apart() -> None:
    lines = {task: [f"{task}.{n} " + "x" * 3000 for n in range(20)] for task in range(5)}
    queues = {task: cut(task, *texts) for task, texts in lines.items()}
    chance = random.Random(7)
    mixed = []
    while any(queues.values()):
        task = chance.choice([task for task, queue in queues.items() if queue])
        mixed.append(queues[task].pop(0))
    tasks = Tasks(5)
    found = joined(tasks, mixed)
    for task, texts in lines.items():
        assert [text.decode() for of, text in found if of == task] == texts


def test_a_torn_piece_costs_its_own_message_only() -> None:
    pieces = cut(0, "a" * 3000, "b" * 3000, "c")
    other = cut(1, "other")
    torn = [*pieces[:1], pieces[1][:100] + other[0], *pieces[2:]]
    tasks = Tasks(2)
    assert joined(tasks, torn) == [(0, b"b" * 3000), (0, b"c")]


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_piece_costs_its_own_message_only(lost: int) -> None:
    pieces = cut(0, "a" * 3000, "b")
    del pieces[lost]
    assert joined(Tasks(1), pieces) == [(0, b"b")]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Welcome to gpu01",
        b"~",
        b"~0.0.0.1.5 four",
        b"~0.0.0.1.3 four",
        b"~9.0.0.1.4 four",
        b"~0.0.1.1.4 four",
        b"~0.0.0.0.0 ",
        b"~0.0.0.%d.4 four" % (MAX_PIECES + 1),
        b"~-1.0.0.1.4 four",
        b"~0.0.0.1.4",
        b"\xff~0.0.0.1.4 four",
    ],
)
def test_what_is_no_piece_is_no_message(line: bytes) -> None:
    assert Tasks(2).take(line) is None
