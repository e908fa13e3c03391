"""A text that changes is drawn where it changes."""

from __future__ import annotations

from gpumon.report.text.cells import Cell
from gpumon.tui.themed_app import DressedApp
from gpumon.tui.widgets.text.reader import Reader


def line(*parts):
    return tuple(Cell(*part) if isinstance(part, tuple) else Cell(part) for part in parts)


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
