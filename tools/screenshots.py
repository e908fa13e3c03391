"""Pictures of the terminal as a user sees it: runs a command in tmux, presses keys, draws SVG.

    python -m tools.screenshots                      every picture of the docs
    python -m tools.screenshots --only jobs,job      these views of them
    python -m tools.screenshots --keys Enter,Enter --size 80x24 --out /tmp/x.svg -- gpumon demo

Only tmux and the packages that gpumon needs anyway are used. The SVG needs no font file and
no network. With --png FOLDER, rsvg-convert draws PNGs as well.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
DEMO: Final = "gpumon demo?seed=1 --past 0"
PAST_DEMO: Final = "gpumon demo?seed=1 --past 2h"
"""With findings that were observed for long, and curves."""
LARGE_DEMO: Final = "gpumon demo:64x8?seed=1"
"""Begins with the map of the fleet, as every large cluster does."""
UNREADY: Final = ("Waiting for", "simulating the")

SETTLE_S: Final = 1.0
"""Wait after each key: the picture changes at once, a closer look one period later."""

READY_S: Final = 180.0
"""Longest wait until the program has something to show and its past is filled in."""

CELL_W: Final = 8.43
"""Advance of DejaVu Sans Mono at 14 px; textLength holds other fonts to it."""
CELL_H: Final = 18
FONT: Final = "text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
FOREGROUND: Final = "#c6ccd6"
BACKGROUND: Final = "#14171c"


class Shot(NamedTuple):
    """One picture."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    command: str = DEMO


VIEWS: Final = (
    ("gpu", ("Enter", "Enter")),
    ("gpu-links", ("Enter", "Enter", "5")),
    ("node", ("Tab", "o")),
    ("gpus", ("Tab",)),
    ("pending", ("4",)),
    ("waiting-job", ("4", "j", "Enter")),
    ("partitions", ("8",)),
    ("reservations", (":", "reservations", "Enter")),
    ("processes", (":", "processes", "Enter")),
    ("filter", ("/", "st==r & gpus>=2 & usr==you")),
    ("columns", ("c", "j", "j", "Enter")),
    ("help", ("?",)),
)
"""Every view and the keys that lead to it."""

PAST_VIEWS: Final = (
    ("jobs", ()),
    ("job", ("j", "j", "Enter")),
    ("users", ("6",)),
    ("nodes", ("3",)),
    ("findings", ("f",)),
    ("finding", ("j", "j", "Enter", "f", "Enter")),
    ("curves", ("j", "j", "Enter", "v", "w")),
    ("ranks", ("j", "Enter", "Tab")),
    ("ranks-map", ("j", "Enter", "Tab", "Tab")),
)
"""What a past shows: the second job has a slow rank, the third leaves GPUs unused."""

LARGE_VIEWS: Final = (("fleet", ()), ("fleet-sm", ("c",)))
"""The same of a larger cluster."""

SHOTS: Final = tuple(
    Shot(name + suffix, size, keys, command)
    for views, command in ((VIEWS, DEMO), (PAST_VIEWS, PAST_DEMO), (LARGE_VIEWS, LARGE_DEMO))
    for name, keys in views
    for suffix, size in (("", (160, 50)), ("-80x24", (80, 24)))
)


def tmux(server: Path, *arguments: str) -> str:
    """Output of one tmux command on a server of our own."""
    done = subprocess.run(
        ["tmux", "-S", str(server), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


class Pane:
    """A program in tmux that keys can be sent to."""

    def __init__(self, server: Path) -> None:
        self._server = server

    def press(self, key: str) -> None:
        """Send a key by tmux's name for it."""
        tmux(self._server, "send-keys", "-t", "shot", key)

    def screen(self) -> str:
        """What is on it, with its colours."""
        return tmux(self._server, "capture-pane", "-e", "-p", "-N", "-t", "shot")

    def wait_until_ready(self) -> None:
        """Wait while the program shows nothing, or says that it is not ready yet."""
        ends_at = time.monotonic() + READY_S
        while time.monotonic() < ends_at:
            text = self.screen()
            if text.strip() and not any(words in text for words in UNREADY):
                return
            time.sleep(0.5)


@contextmanager
def running(command: str, size: tuple[int, int]) -> Iterator[Pane]:
    """A command in a terminal of this size; it ends with the block.

    What the user of this machine has configured or chosen plays no part.
    """
    width, height = size
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}"
    with TemporaryDirectory() as folder:
        server = Path(folder, "tmux")
        settings = {"PATH": path, "COLORTERM": "truecolor", "XDG_STATE_HOME": folder,
                    "XDG_CONFIG_HOME": folder, "XDG_CONFIG_DIRS": folder}  # fmt: skip
        line = " ".join(("env", *(shlex.quote(f"{k}={v}") for k, v in settings.items()), command))
        tmux(server, "-f", "/dev/null", "new-session", "-d", "-s", "shot",
             "-x", str(width), "-y", str(height), line)  # fmt: skip
        try:
            yield Pane(server)
        finally:
            # A program that has ended took its server with it.
            with suppress(subprocess.CalledProcessError):
                tmux(server, "kill-server")


def capture(command: str, size: tuple[int, int], keys: tuple[str, ...], warm_up_s: float) -> str:
    """The pane with its colours after the keys were pressed, one key each `SETTLE_S`."""
    with running(command, size) as pane:
        pane.wait_until_ready()
        time.sleep(warm_up_s)
        for key in keys:
            pane.press(key)
            time.sleep(SETTLE_S)
        return pane.screen()


class DrawnRow(NamedTuple):
    """One line of a pane as SVG."""

    boxes: tuple[str, ...]
    """Rectangles of its backgrounds, which lie below all words."""
    words: tuple[str, ...]


def drawn_rows(ansi: str, width: int, *, is_stacked: bool = True) -> list[DrawnRow]:
    """The lines of a captured pane, each below the other, or all in the first one's place."""
    console = Console(width=width, color_system="truecolor", file=StringIO(), force_terminal=True)
    # One decoder for all rows: tmux does not repeat a style at the start of a row.
    decoder = AnsiDecoder()
    drawn = []
    for number, row in enumerate(ansi.rstrip("\n").split("\n")):
        x, y = 0, number if is_stacked else 0
        boxes: list[str] = []
        words: list[str] = []
        text = decoder.decode_line(row)
        text.no_wrap, text.end = True, ""
        for segment in console.render(text):
            style = segment.style or Style()
            boxes += _box(x, y, segment.cell_length, style)
            words += _words(x, y, segment.text, style)
            x += segment.cell_length
        drawn.append(DrawnRow(tuple(boxes), tuple(words)))
    return drawn


def svg(ansi: str, width: int) -> str:
    """The captured pane as SVG: one rectangle per background, one text per word."""
    rows = drawn_rows(ansi, width)
    boxes = [box for row in rows for box in row.boxes]
    words = [word for row in rows for word in row.words]
    w, h = width * CELL_W + 16, len(rows) * CELL_H + 16
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h}">'
    return "\n".join(
        (
            head,
            f"<style>{FONT}.b{{font-weight:bold}}</style>",
            f'<rect width="{w:.0f}" height="{h}" rx="6" fill="{BACKGROUND}"/>',
            *boxes,
            *words,
            "</svg>\n",
        )
    )


def _colours(style: Style) -> tuple[str, str | None]:
    """Foreground and background as the terminal shows them."""
    colour, ground = style.color, style.bgcolor
    front = FOREGROUND if colour is None or colour.is_default else colour.get_truecolor().hex
    back = None if ground is None or ground.is_default else ground.get_truecolor().hex
    return (back or BACKGROUND, front) if style.reverse else (front, back)


def _box(x: int, y: int, cells: int, style: Style) -> list[str]:
    back = _colours(style)[1]
    if back is None or back == BACKGROUND:
        return []
    at = f'x="{8 + x * CELL_W:.2f}" y="{8 + y * CELL_H}"'
    size = f'width="{cells * CELL_W + 0.3:.2f}" height="{CELL_H}"'
    return [f'<rect {at} {size} fill="{back}" shape-rendering="crispEdges"/>']


def _words(x: int, y: int, text: str, style: Style) -> list[str]:
    drawn = []
    for word in re.finditer(r"\S+", text):
        left = x + cell_len(text[: word.start()])
        length = cell_len(word.group()) * CELL_W
        bold = ' class="b"' if style.bold else ""
        at = f'x="{8 + left * CELL_W:.2f}" y="{8 + y * CELL_H + 14}" textLength="{length:.2f}"'
        colour = _colours(style)[0]
        drawn.append(f'<text {at} fill="{colour}"{bold}>{escape(word.group())}</text>')
    return drawn


def png(source: Path, folder: Path) -> Path:
    """The SVG as PNG, for looking at."""
    target = folder / f"{source.stem}.png"
    subprocess.run(["rsvg-convert", "--zoom=1", "-o", str(target), str(source)], check=True)
    return target


def main() -> int:
    """Draw one picture, or those of the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", default="", help="tmux key names, separated by commas")
    parser.add_argument("--only", default="", help="views of the docs, separated by commas")
    parser.add_argument("--size", default="80x24")
    parser.add_argument("--out", type=Path, help="without it: the pictures of the docs")
    parser.add_argument(
        "--warm-up", type=float, default=16.0, help="seconds from when it is ready to the first key"
    )
    parser.add_argument("--png", type=Path, help="folder to draw PNGs into as well")
    parser.add_argument("command", nargs="*", default=[])
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        print("tmux is not installed", file=sys.stderr)
        return 1
    command = shlex.join(options.command) if options.command else DEMO
    width, height = (int(number) for number in options.size.split("x"))
    keys = tuple(key for key in options.keys.split(",") if key)
    alone = Shot(options.out.stem, (width, height), keys, command) if options.out else None
    only = {name for name in options.only.split(",") if name}
    known = dict.fromkeys(shot.name.removesuffix("-80x24") for shot in SHOTS)
    if unknown := only - known.keys():
        wrong = f"no such view: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        print(wrong, file=sys.stderr)
        return 2
    docs = [shot for shot in SHOTS if not only or shot.name.removesuffix("-80x24") in only]
    shots = docs if alone is None else [alone]
    for shot in shots:
        target = options.out or IMAGES / f"{shot.name}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        ansi = capture(shlex.join(shlex.split(shot.command)), shot.size, shot.keys, options.warm_up)
        target.write_text(svg(ansi, shot.size[0]), encoding="utf-8")
        print(target, png(target, options.png) if options.png else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
