"""Reports of several probes on one output, cut into short lines that srun keeps whole.

srun carries the output of every task of a step on one stream, in messages of at most 1,024 bytes:
a longer line is torn, and another task's words may stand in between. Each piece therefore says
which task it is from, which message it belongs to, its place in it, and its own length.
"""

import os
from typing import TextIO

PIECE_CHARS = 900
"""Payload of one piece; with its head it stays below the 1,024 bytes of one message of srun's."""


class Pieces:
    """Stands in for standard output: every line written leaves as pieces."""

    def __init__(self, out: TextIO, task: int) -> None:
        """`task` is the number of this task within the step."""
        self._out = out
        self._task = task
        self._number = 0

    def write(self, text: str) -> int:
        """Write one whole line of plain ASCII."""
        line = text.rstrip("\n")
        parts = [line[at : at + PIECE_CHARS] for at in range(0, len(line), PIECE_CHARS)]
        for place, part in enumerate(parts):
            head = (self._task, self._number, place, len(parts), len(part))
            self._out.write("~%d.%d.%d.%d.%d " % head + part + "\n")
        self._number += 1
        return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        self._out.flush()


def of_this_task(out: TextIO) -> Pieces:
    """Output of this task of its step, as Slurm numbers it."""
    return Pieces(out, int(os.environ.get("SLURM_PROCID", "0")))
