"""Several pictures of a terminal as one SVG that plays them in a loop, without any script.

Each line is drawn once, however often it comes back. CSS animations switch lines on and off; who
asked for less motion, and who cannot animate, sees the last picture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from tools.screenshots import BACKGROUND, CELL_H, CELL_W, FONT, FOREGROUND, drawn_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BAR_H: Final = 40
"""Height of the line below the terminal, with the question and the keys."""
BAR: Final = "#20252d"
KEY_AHEAD: Final = "#4a5260"
KEY_DONE: Final = "#8a94a3"
KEY_NOW: Final = "#f2c14e"
KEY_GAP: Final = 8
_INK: Final = f' fill="{FOREGROUND}"'


class Scene(NamedTuple):
    """One picture and how long it stands."""

    ansi: str
    seconds: float


class Part(NamedTuple):
    """One question: scene number n is what stands after n of its keys."""

    question: str
    keys: Sequence[str]
    scenes: Sequence[Scene]


class _Run(NamedTuple):
    """Something that is drawn in some scenes."""

    stretches: tuple[tuple[int, int], ...]
    """From one scene on until before another, in the order of time."""
    shapes: str

    def is_at(self, number: int) -> bool:
        """Whether it is drawn in a scene."""
        return any(first <= number < end for first, end in self.stretches)


def animated(parts: Sequence[Part], width: int) -> str:
    """The SVG that plays one question after the other."""
    scenes, runs = _played(parts, width)
    moving = sorted({run.stretches for run in runs} - {((0, len(scenes)),)})
    # By number: a line of many stretches has a name as short as any.
    names = {stretches: f"s{number}" for number, stretches in enumerate(moving)}
    drawn = [_drawn(run, names.get(run.stretches), len(scenes)) for run in runs]
    return _document(scenes, width, _style(scenes, names), drawn)


def still(parts: Sequence[Part], number: int, width: int) -> str:
    """One scene of the same picture alone, for looking at."""
    scenes, runs = _played(parts, width)
    return _document(scenes, width, "", [run.shapes for run in runs if run.is_at(number)])


def _played(parts: Sequence[Part], width: int) -> tuple[list[Scene], list[_Run]]:
    """All scenes in a row, and what is drawn in them."""
    scenes = [scene for part in parts for scene in part.scenes]
    runs, first = list(_lines(scenes, width)), 0
    for part in parts:
        runs += _bar(part, first, _height(scenes), width)
        first += len(part.scenes)
    return scenes, runs


def _lines(scenes: Sequence[Scene], width: int) -> Iterator[_Run]:
    """Each line of the terminal, for as long and as often as it stands there."""
    images = [
        ["".join((*row.boxes, *row.words)) for row in drawn_rows(s.ansi, width, is_stacked=False)]
        for s in scenes
    ]
    for y, versions in enumerate(zip(*images, strict=True)):
        found: dict[str, list[tuple[int, int]]] = {}
        for first, end in _stretches(versions):
            found.setdefault(versions[first], []).append((first, end))
        for shapes, stretches in found.items():
            if shapes:
                at = f'<g transform="translate(0,{y * CELL_H})">' if y else "<g>"
                yield _Run(tuple(stretches), f"{at}{shapes}</g>")


def _stretches(versions: Sequence[str]) -> Iterator[tuple[int, int]]:
    first = 0
    for number in range(1, len(versions) + 1):
        if number == len(versions) or versions[number] != versions[first]:
            yield first, number
            first = number


def _bar(part: Part, begin: int, top: int, width: int) -> Iterator[_Run]:
    """The question, and the keys: those to come, the one that was just pressed, those before."""
    count = len(part.scenes)
    right, middle = width * CELL_W + 16, top + BAR_H / 2
    ground = f'<rect y="{top}" width="{right:.0f}" height="{BAR_H}" fill="{BAR}"/>'
    text = (
        f'<text x="16" y="{middle + 5:.0f}" fill="{FOREGROUND}" class="b">'
        f"{escape(part.question)}</text>"
    )
    yield _Run(((begin, begin + count),), ground + text)
    x = right - 16 - sum(_key_width(key) + KEY_GAP for key in part.keys) + KEY_GAP
    for number, key in enumerate(part.keys, 1):
        times = (
            (0, number, KEY_AHEAD),
            (number, number + 1, KEY_NOW),
            (number + 1, count, KEY_DONE),
        )
        for first, end, colour in times:
            if first < end:
                shapes = _key(key, x, top + 8, colour, is_full=colour == KEY_NOW)
                yield _Run(((begin + first, begin + end),), shapes)
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


def _style(scenes: Sequence[Scene], names: Mapping[tuple[tuple[int, int], ...], str]) -> str:
    """When each stretch of scenes is in sight; without animation the last scene is."""
    starts = [0.0]
    for scene in scenes:
        starts.append(starts[-1] + scene.seconds)
    total = starts[-1]
    rules = [f".h{{visibility:hidden}}.v{{animation:{total:.1f}s step-end infinite}}"]
    for stretches, name in names.items():
        steps = "" if stretches[0][0] == 0 else "0%{visibility:hidden}"
        for first, end in stretches:
            steps += f"{starts[first] / total * 100:.2f}%{{visibility:visible}}"
            if end < len(scenes):
                steps += f"{starts[end] / total * 100:.2f}%{{visibility:hidden}}"
        rules.append(f"@keyframes {name}{{{steps}}}")
        rules.append(f".{name}{{animation-name:{name}}}")
    return "".join((*rules, "@media (prefers-reduced-motion:reduce){.v{animation:none}}"))


def _drawn(run: _Run, name: str | None, count: int) -> str:
    """What is drawn; always where there is no name of a style."""
    if name is None:
        return run.shapes
    hidden = "" if run.stretches[-1][1] == count else " h"
    return f'<g class="v {name}{hidden}">{run.shapes}</g>'


def _height(scenes: Sequence[Scene]) -> int:
    return len(scenes[0].ansi.rstrip("\n").split("\n")) * CELL_H + 16


def _document(scenes: Sequence[Scene], width: int, style: str, drawn: Sequence[str]) -> str:
    w, h = width * CELL_W + 16, _height(scenes) + BAR_H
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h}"{_INK}>',
            f"<style>{FONT}.b{{font-weight:bold}}{style}</style>",
            f'<rect width="{w:.0f}" height="{h}" rx="6" fill="{BACKGROUND}"/>',
            # Most words have the colour of the whole, which they need not say again.
            *(re.sub(rf"(<text [^>]*){_INK}", r"\1", one) for one in drawn),
            "</svg>\n",
        )
    )
