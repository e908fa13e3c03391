"""The line at the bottom and the line on top: how fresh and how whole the tick is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, fit, safe, text_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.replay.catch_up import Progress
    from gpumon.model.records.tick import Tick
    from gpumon.tui.time_travel import Place

QUEUE_OLD_S: Final = 90.0
"""Queue data older than this is called old: three times the period of the job listing."""


LATE_S: Final = 0.5
"""Seconds, or half a period where that is more, after which a tick is called late."""

DEAR_CORES: Final = 1.0
"""Cores that gpumon may use of its machine without a word. A choice: who uses more is named."""
DEAR_BYTES: Final = 2 * 2**30
"""Memory that gpumon may take of its machine without a word. A choice."""

POSITION_WIDTH: Final = 12
"""Cells in which the place between the oldest and the newest tick is marked."""


LEAST_TITLE: Final = 7
"""Cells that stay of what is watched where the last crumb needs the others: `gpumon…`."""

LEAST_CRUMB: Final = 12
"""Cells of the last crumb that nothing else on its line takes: most views' whole name."""

LEAST_CUT: Final = 16
"""Cells below which a cut message means nothing: a sign, a target's name, a first word."""


class Mood(NamedTuple):
    """What the application adds to what a tick says."""

    place: Place | None = None
    """Where in time the tick is; None: it is live."""
    progress: Progress | None = None
    """How far the feed has lived through its past; None: it has."""
    silent_s: float | None = None
    """Seconds without a new tick, once that is longer than it should be."""
    own_cpu_ratio: float | None = None
    """Cores that gpumon itself uses on this machine; None: not measured yet."""
    own_rss_bytes: float | None = None
    """Memory of gpumon itself, its children included."""


def join_fitting(parts: list[Cell], width: int, gap: str = " · ") -> Line:
    """The first parts that fit into `width`, with a sign between them; what is bad is cut to it."""
    line: list[Cell] = []
    taken = 1
    for part in parts:
        between = len(gap) if line else 0
        size = text_width(safe(part.text)) + between
        if taken + size > width:
            room = width - taken - between - 1
            if line and (part.tone is not Tone.BAD or room < LEAST_CUT):
                continue
            part = Cell(fit(part.text, max(1, room)), part.tone)
            size = text_width(part.text) + between
        if line:
            line.append(Cell(gap, Tone.DIM))
        line.append(part)
        taken += size
    return (Cell(" "), *line)


def progress_words(progress: Progress) -> str:
    """How far a past has been lived through."""
    lived = units.short_duration(progress.past_s)
    return f"simulating the last {lived}: {units.percent(progress.ratio)} %"


def status_line(tick: Tick | None, mood: Mood, width: int) -> Line:
    """The instant and the period; before them what is wrong, and nothing else while all is well."""
    if tick is None:
        if mood.progress is not None:
            return (Cell(fit(f" {progress_words(mood.progress)}", width), Tone.INFO),)
        return (Cell(" waiting for the first sample", Tone.DIM),)
    # The wording of ticks is imported with the first of them.
    from gpumon.report.wording.empty_states import silent_s

    parts: list[Cell] = []
    if mood.place is not None:
        if mood.place.trouble:
            parts.append(Cell(f"✗ cannot go there: {mood.place.trouble}", Tone.BAD))
        parts += _place_parts(tick, mood.place)
    if mood.silent_s is not None:
        parts.append(Cell(f"no new sample for {units.short_duration(mood.silent_s)}", Tone.BAD))
    is_failing = any(not target.is_ok for target in tick.targets)
    # A long message of a target that fails would cut away how old the jobs on screen are.
    queue = _queue_parts(tick, is_failing=is_failing)
    wrong = queue + _target_parts(tick) if is_failing else _target_parts(tick)
    if (age_s := silent_s(tick)) is not None:
        wrong.append(Cell(f"! nodes stale {units.short_duration(age_s)}", Tone.WARN))
    if not is_failing:
        wrong += queue
    if tick.lateness_s > max(LATE_S, tick.period_s / 2):
        wrong.append(Cell(f"! {units.seconds(tick.lateness_s, 1)} late", Tone.WARN))
    parts += wrong
    if mood.place is None:
        parts.append(_live_part(tick, mood, is_well=not wrong))
    period = Cell(f"every {tick.period_s:g}s", Tone.DIM)
    if tick.zoom_period_s is not None and mood.place is None:
        period = Cell(f"this job every {tick.zoom_period_s:g}s", Tone.INFO)
    parts.append(period)
    if _is_dear(mood):
        parts.append(Cell(f"! {_cost_words(mood)}", Tone.WARN))
    return join_fitting(without_spare(parts, [period], width), width)


def _live_part(tick: Tick, mood: Mood, *, is_well: bool) -> Cell:
    """The time of the newest tick."""
    at = units.clock_time(tick.at, with_seconds=True)
    if not is_well or mood.silent_s is not None or not tick.targets:
        return Cell(f"live {at}", Tone.DIM)
    return Cell(f"✓ live {at}", Tone.GOOD)


def without_spare(parts: list[Cell], spare: list[Cell], width: int, gap: str = " · ") -> list[Cell]:
    """The parts without the first of `spare`, as many as it takes for the others to fit."""
    left = list(parts)
    for part in spare:
        if 1 + sum(text_width(safe(one.text)) + len(gap) for one in left) - len(gap) <= width:
            break
        left.remove(part)
    return left


def own_lines(tick: Tick, mood: Mood) -> list[Line]:
    """How gpumon itself fares, for the page of errors."""
    late = f"the newest came {units.seconds(tick.lateness_s, 1)} late"
    words = [f"a tick every {units.period(tick.period_s)}, {late}"]
    if tick.queue_at is not None:
        words.append(f"the queue answered {units.short_duration(tick.at - tick.queue_at)} ago")
    words.append(f"watching since {units.clock_time(tick.observed_since)}")
    if mood.own_cpu_ratio is not None and mood.own_rss_bytes is not None:
        words.append(_cost_words(mood))
    return [(Cell(text, Tone.PLAIN),) for text in words]


def _is_dear(mood: Mood) -> bool:
    return (mood.own_cpu_ratio or 0.0) >= DEAR_CORES or (mood.own_rss_bytes or 0.0) >= DEAR_BYTES


def _cost_words(mood: Mood) -> str:
    """What gpumon itself uses of this machine."""
    cpu, rss_bytes = units.percent(mood.own_cpu_ratio), mood.own_rss_bytes or 0.0
    return f"gpumon itself uses {cpu} % of a core, {units.mib(rss_bytes)} MiB"


def _queue_parts(tick: Tick, *, is_failing: bool) -> list[Cell]:
    """That the newest answer of the queue is old; how old it is also where a target fails."""
    if tick.queue_at is None:
        return []
    age_s = tick.at - tick.queue_at
    if age_s > QUEUE_OLD_S:
        return [Cell(f"! queue stale {units.short_duration(age_s)}", Tone.WARN)]
    return [Cell(f"queue {units.short_duration(age_s)} old", Tone.DIM)] if is_failing else []


def beside_the_instant(
    line_of: Callable[[int], Line], tick: Tick | None, mood: Mood, width: int
) -> Line:
    """What is shown in place of the status; in the past also the instant, at the right end.

    Args:
        line_of: Makes the line for so many cells.
        tick: The tick on screen.
        mood: Where in time it is.
        width: Cells of the whole line.
    """
    if tick is None or mood.place is None:
        return line_of(width)
    instant = _place_parts(tick, mood.place)[0]
    room = width - text_width(instant.text) - 2
    if room < LEAST_CUT:
        return (Cell(" "), instant)
    line = line_of(room)
    blanks = room - sum(text_width(cell.text) for cell in line)
    return (*line, Cell(" " * (max(0, blanks) + 1)), instant)


def _place_parts(tick: Tick, place: Place) -> list[Cell]:
    """Which instant is shown, how long ago, and where between the ends of what is known."""
    at = place.at
    is_live_feed = place.speed is None
    day = "" if is_live_feed else time.strftime("%Y-%m-%d ", time.localtime(at))
    words = f"{day}{units.clock_time(at, with_seconds=True)}"
    if place.is_seeking:
        words = f"going to {words}"
    else:
        ago_s = place.end - (tick.at if is_live_feed else at)
        words += f" (−{units.short_duration(ago_s)})" if ago_s >= 1 else ""
        is_paused = is_live_feed or place.is_paused
        words = f"PAUSED {words}" if is_paused else f"REPLAY x{place.speed:g} {words}"
    tone = Tone.WARN if place.is_paused or place.is_seeking else Tone.INFO
    parts = [Cell(words, tone)]
    if place.end > place.start:
        parts.append(Cell(position_bar(place), tone))
    if is_live_feed:
        parts.append(Cell("L live", Tone.INFO))
    return parts


def position_bar(place: Place, width: int = POSITION_WIDTH) -> str:
    """Where an instant lies between the oldest and the newest: `├────●──┤`."""
    share = (place.at - place.start) / (place.end - place.start)
    mark = max(0, min(width - 1, round(share * (width - 1))))
    return "├" + "─" * mark + "●" + "─" * (width - 1 - mark) + "┤"


def _target_parts(tick: Tick) -> list[Cell]:
    """The targets that do not answer, the first with its reason, and how many errors there are."""
    from gpumon.report.wording.paragraphs import TARGET_OLD_S

    failing = [target for target in tick.targets if not target.is_ok and target.error]
    awaited = [target for target in tick.targets if not target.is_ok and not target.error]
    parts: list[Cell] = []
    if failing:
        first = failing[0]
        why = first.error.message if first.error else ""
        parts.append(Cell(f"✗ {first.url}: {why}", Tone.BAD))
        parts.append(Cell(f"{len(failing)} of {len(tick.targets)} targets fail (e)", Tone.BAD))
    elif awaited:
        who = awaited[0].url if len(awaited) == 1 else units.counted(len(awaited), "target")
        parts.append(Cell(f"… {who}: no answer yet", Tone.DIM))
    elif old := [target for target in tick.targets if (target.age_s or 0.0) > TARGET_OLD_S]:
        # The ages of nodes and queue are beside it.
        what = old[0].url if len(old) == 1 else f"{len(old)} of {len(tick.targets)} targets stale"
        parts.append(Cell(f"! {what}", Tone.WARN))
    if not failing and tick.errors:
        parts.append(Cell(f"! {units.counted(len(tick.errors), 'error')} (e)", Tone.WARN))
    return parts


def crumb_line(title: str, crumbs: tuple[str, ...], right: str, width: int) -> Line:
    """Where the user is, and at the right end how much is shown.

    What came first is cut first: the last crumb says what is on the screen. For its beginning
    the title and then the right end give way.
    """
    texts = [safe(crumb) for crumb in crumbs]
    least = 4 * len(texts[:-1]) + sum(3 + min(LEAST_CRUMB, text_width(text)) for text in texts[-1:])
    lacking = least + 3 - (width - text_width(title) - text_width(right))
    if lacking > 0:
        shown = max(min(LEAST_TITLE, text_width(title)), text_width(title) - lacking)
        lacking -= text_width(title) - shown
        title = fit(title, shown)
        right = fit(right, max(0, text_width(right) - max(0, lacking)))
    left: list[Cell] = [Cell(f" {title}", Tone.INFO)]
    room = width - text_width(title) - text_width(right) - 3
    over = sum(text_width(text) + 3 for text in texts) - room
    for position, text in enumerate(texts):
        taken = text_width(text)
        shown = max(1, taken - max(0, over))
        over -= taken - shown
        is_last = position == len(texts) - 1
        crumb = Cell(fit(text, shown), Tone.STRONG if is_last else Tone.PLAIN)
        left += [Cell(" › ", Tone.DIM), crumb]
    taken = sum(text_width(cell.text) for cell in left)
    blanks = " " * max(1, width - taken - text_width(right) - 1)
    return (*left, Cell(blanks), Cell(right, Tone.DIM))


def trouble_line(message: str, at: int, width: int) -> Line:
    """What is wrong with a text, with a `^` below the cell that it is about, where that fits."""
    room = len(message) + 2
    if at + room <= width:
        text = f"{' ' * at}^ {message}"
    elif room + 1 <= at < width:
        text = f"{message} ^".rjust(at + 1)
    else:
        text = f" ✗ {message}"
    return (Cell(fit(text, width), Tone.BAD),)
