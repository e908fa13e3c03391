"""Whose a GPU is that no job holds: who has most of its memory comes first."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.once import table
from gpumon.report.tables.gpu import FLEET_COLUMNS
from tests.worlds.workstation import Seat, workstation

SMALL = Seat(11, user="root", uid=0, program="monitor", mem_gib=0.4)
LARGE = Seat(70, user="ada", program="train", mem_gib=61.0)
DRAWING = Seat(5, user="gdm", uid=42, program="Xorg", mem_gib=70.0, kind="G")
UNKNOWN = Seat(90, user=None, uid=None, program=None, mem_gib=3.0)


@pytest.mark.parametrize(
    ("seats", "user", "program"),
    [
        ((SMALL, LARGE), "ada +1", "train +1"),
        ((LARGE, SMALL), "ada +1", "train +1"),
        ((DRAWING, SMALL), "root +1", "monitor +1"),
        ((DRAWING, SMALL, LARGE), "ada +2", "train +2"),
        ((LARGE,), "ada", "train"),
        # Others of whom nothing may be read are not nobody.
        ((LARGE, UNKNOWN), "ada +?", "train +1"),
        ((LARGE, SMALL, UNKNOWN), "ada +?", "train +2"),
        ((UNKNOWN,), "–", "90"),
    ],
)
def test_who_holds_most_comes_first_those_that_compute_before_those_that_draw(seats, user, program):
    digest = Digest(workstation(seats))
    cells = {c.key: c.cell(digest, digest.gpu_rows[0]).text for c in FLEET_COLUMNS}
    assert (cells["user"], cells["process"]) == (user, program)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize(
    ("seats", "shown"),
    [
        ((LARGE._replace(user="wilhelmina-orange"), SMALL), "wilhelmina-orange +1"),
        ((LARGE._replace(user="konstantin"),), "konstantin"),
        ((LARGE._replace(user="k" * 32),), "k" * 21 + "…"),
        ((LARGE, SMALL), "ada +1"),
    ],
)
def test_a_long_name_has_its_room_and_that_others_are_there_too(width, seats, shown):
    lines = table(workstation(seats), width).splitlines()
    assert f" 0 {shown} " in next(line for line in lines if line.startswith("desk"))


def test_the_column_stays_while_nobody_is_on_a_gpu():
    assert "USER" in table(workstation(()), 80).splitlines()[2].split()
