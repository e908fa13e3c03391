"""Pieces of several probes on one output: cut by the probe, put together by the monitor."""

from __future__ import annotations

import io
import random

import pytest

from gpumon.probe.pieces import Pieces
from gpumon.sources.tasks import MAX_PIECES, Tasks

SRUN_KEEPS_WHOLE = 1024
"""Longest line that srun was seen to keep in one piece."""


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
    assert max(map(len, pieces)) <= SRUN_KEEPS_WHOLE
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
    assert tasks.torn == 0
    for task, texts in lines.items():
        assert [text.decode() for of, text in found if of == task] == texts


def test_a_torn_piece_costs_its_own_message_only() -> None:
    pieces = cut(0, "a" * 3000, "b" * 3000, "c")
    other = cut(1, "other")
    torn = [*pieces[:1], pieces[1][:100] + other[0], *pieces[2:]]
    tasks = Tasks(2)
    assert joined(tasks, torn) == [(0, b"b" * 3000), (0, b"c")]
    assert tasks.torn == 3


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
