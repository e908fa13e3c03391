"""Several pictures of a terminal as one SVG that plays them in a loop, without any script.

Of each line only what differs from the picture before is drawn anew. CSS animations switch lines
on and off; who asked for less motion, and who cannot animate, sees the last picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from tools.screenshots import BACKGROUND, CELL_H, CELL_W, FONT, FOREGROUND, drawn_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BAR_H: Final = 40
"""Height of the line below the terminal, with the question and the keys."""
BAR: Final = "#20252d"
KEY_AHEAD: Final = "#4a5260"
KEY_DONE: Final = "#8a94a3"
KEY_NOW: Final = "#f2c14e"
KEY_GAP: Final = 8


class Scene(NamedTuple):
    """One picture and how long it stands."""

    ansi: str
    seconds: float


class _Run(NamedTuple):
    """Something that is drawn from one scene on until before another."""

    first: int
    end: int
    shapes: str


def animated(scenes: Sequence[Scene], width: int, question: str, keys: Sequence[str]) -> str:
    """The SVG; scene number n is what stands after n keys."""
    runs = [*_lines(scenes, width), *_bar(scenes, width, question, keys)]
    names = sorted({(run.first, run.end) for run in runs} - {(0, len(scenes))})
    return _document(
        scenes, width, _style(scenes, names), [_drawn(run, len(scenes)) for run in runs]
    )


def still(
    scenes: Sequence[Scene], number: int, width: int, question: str, keys: Sequence[str]
) -> str:
    """One scene of the same picture alone, for looking at."""
    runs = [*_lines(scenes, width), *_bar(scenes, width, question, keys)]
    drawn = [run.shapes for run in runs if run.first <= number < run.end]
    return _document(scenes, width, "", drawn)


def _lines(scenes: Sequence[Scene], width: int) -> Iterator[_Run]:
    """Each line of the terminal for as long as it stays the same."""
    pictures = [
        ["".join((*row.boxes, *row.words)) for row in drawn_rows(s.ansi, width, is_stacked=False)]
        for s in scenes
    ]
    for y, versions in enumerate(zip(*pictures, strict=True)):
        for first, end in _stretches(versions):
            if versions[first]:
                at = f'<g transform="translate(0,{y * CELL_H})">' if y else "<g>"
                yield _Run(first, end, f"{at}{versions[first]}</g>")


def _stretches(versions: Sequence[str]) -> Iterator[tuple[int, int]]:
    first = 0
    for number in range(1, len(versions) + 1):
        if number == len(versions) or versions[number] != versions[first]:
            yield first, number
            first = number


def _bar(scenes: Sequence[Scene], width: int, question: str, keys: Sequence[str]) -> Iterator[_Run]:
    """The question, and the keys: those to come, the one that was just pressed, those before."""
    top, count = _height(scenes), len(scenes)
    right, middle = width * CELL_W + 16, top + BAR_H / 2
    ground = f'<rect y="{top}" width="{right:.0f}" height="{BAR_H}" fill="{BAR}"/>'
    text = (
        f'<text x="16" y="{middle + 5:.0f}" fill="{FOREGROUND}" class="b">{escape(question)}</text>'
    )
    yield _Run(0, count, ground + text)
    x = right - 16 - sum(_key_width(key) + KEY_GAP for key in keys) + KEY_GAP
    for number, key in enumerate(keys, 1):
        times = (
            (0, number, KEY_AHEAD),
            (number, number + 1, KEY_NOW),
            (number + 1, count, KEY_DONE),
        )
        for first, end, colour in times:
            if first < end:
                yield _Run(first, end, _key(key, x, top + 8, colour, is_full=colour == KEY_NOW))
        x += _key_width(key) + KEY_GAP


def _key_width(key: str) -> float:
    return len(key) * CELL_W + 16


def _key(key: str, x: float, y: float, colour: str, *, is_full: bool) -> str:
    wide, high = _key_width(key), BAR_H - 16
    fill, ink = (colour, BACKGROUND) if is_full else ("none", colour)
    box = (f'<rect x="{x:.1f}" y="{y:.0f}" width="{wide:.1f}" height="{high}" rx="5" '
           f'fill="{fill}" stroke="{colour}"/>')  # fmt: skip
    text = (f'<text x="{x + 8:.1f}" y="{y + 17:.0f}" textLength="{len(key) * CELL_W:.1f}" '
            f'fill="{ink}" class="b">{escape(key)}</text>')  # fmt: skip
    return box + text


def _style(scenes: Sequence[Scene], names: Sequence[tuple[int, int]]) -> str:
    """When each stretch of scenes is in sight; without animation the last scene is."""
    starts = [0.0]
    for scene in scenes:
        starts.append(starts[-1] + scene.seconds)
    total = starts[-1]
    rules = [f".h{{visibility:hidden}}.v{{animation:{total:.1f}s step-end infinite}}"]
    for first, end in names:
        on, off = (f"{starts[number] / total * 100:.2f}%" for number in (first, end))
        steps = f"{on}{{visibility:visible}}"
        if first:
            steps = f"0%{{visibility:hidden}}{steps}"
        if end < len(scenes):
            steps += f"{off}{{visibility:hidden}}"
        rules.append(f"@keyframes {_name(first, end)}{{{steps}}}")
        rules.append(f".{_name(first, end)}{{animation-name:{_name(first, end)}}}")
    return "".join((*rules, "@media (prefers-reduced-motion:reduce){.v{animation:none}}"))


def _name(first: int, end: int) -> str:
    return f"s{first}e{end}"


def _drawn(run: _Run, count: int) -> str:
    if (run.first, run.end) == (0, count):
        return run.shapes
    hidden = "" if run.end == count else " h"
    return f'<g class="v {_name(run.first, run.end)}{hidden}">{run.shapes}</g>'


def _height(scenes: Sequence[Scene]) -> int:
    return len(scenes[0].ansi.rstrip("\n").split("\n")) * CELL_H + 16


def _document(scenes: Sequence[Scene], width: int, style: str, drawn: Sequence[str]) -> str:
    w, h = width * CELL_W + 16, _height(scenes) + BAR_H
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h}">',
            f"<style>{FONT}.b{{font-weight:bold}}{style}</style>",
            f'<rect width="{w:.0f}" height="{h}" rx="6" fill="{BACKGROUND}"/>',
            *drawn,
            "</svg>\n",
        )
    )
