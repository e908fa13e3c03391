"""A text that changes is drawn where it changes."""

from __future__ import annotations

import pytest

from gpumon.report.text.cells import Cell, Tone
from gpumon.tui.themed_app import DressedApp
from gpumon.tui.widgets.text.reader import Reader, changed_cells


def line(*parts):
    return tuple(Cell(*part) if isinstance(part, tuple) else Cell(part) for part in parts)


@pytest.mark.parametrize(
    ("before", "now", "stretch"),
    [
        (line("power 408 W"), line("power 408 W"), (0, 0)),
        (line("power 408 W"), line("power 411 W"), (7, 9)),
        (line("ab", "cd"), line("abc", "d"), (0, 0)),
        (line("⣉⣉⣉", "  "), line("⣉⣉⣉", "⡇ "), (3, 4)),
        (line("abc", ("def", Tone.BAD)), line("abc", ("def", Tone.GOOD)), (3, 6)),
        (line("short"), line("short and more"), (5, 14)),
        (line("longer than"), line("longer"), (6, 11)),
        (line("a語b"), line("a語c"), (3, 4)),
        (line("語b"), line("xyb"), (0, 3)),
        ((), line("new"), (0, 3)),
    ],
)
def test_the_stretch_of_a_line_that_changed(before, now, stretch):
    first, end = changed_cells(before, now)
    assert ((first, end) if end > first else (0, 0)) == stretch


class Held(DressedApp):
    """Nothing but a text."""

    def __init__(self):
        super().__init__()
        self.reader = Reader()

    def compose(self):
        yield self.reader


async def test_only_cells_in_sight_that_changed_are_drawn_again(monkeypatch):
    app = Held()
    async with app.run_test(size=(30, 6)) as pilot:
        lines = [line(f"line {n:03}") for n in range(40)]
        app.reader.show_lines(lines)
        app.reader.scroll_to(y=10, animate=False, force=True)
        await pilot.pause()
        drawn = []
        monkeypatch.setattr(app.reader, "refresh", lambda *regions, **_: drawn.extend(regions))
        changed = [*lines]
        for n in (3, 12, 30):
            changed[n] = line(f"line {n:02}x")
        app.reader.show_lines(changed)
    assert [(one.x, one.y, one.width, one.height) for one in drawn] in (
        [(5, 2, 3, 1)],
        [(7, 2, 1, 1)],
    )
