"""Every key of every view has the effect that is expected of its action, and no other key any."""

from __future__ import annotations

import re
import string
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, Self, get_args

import pytest

from gpumon.sources.source import Wish
from gpumon.tui.actions.action import LISTED, ROOTS, ViewName
from gpumon.tui.actions.registry import ACTIONS, actions_of
from tests.tui.board import board

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.tui.actions.action import Action
    from tests.tui.board import Board, Seen

    Check = Callable[[Seen, Seen, str], bool]
    """Whether what is seen after a key follows from what was seen before it."""

pytestmark = pytest.mark.slow

VIEWS: tuple[ViewName, ...] = get_args(ViewName)

WAYS: dict[ViewName, tuple[str, ...]] = {
    **{root: ("colon", *root, "enter") for root in ROOTS},
    "jobs": (),
    "job": ("enter",),
    "gpu": ("2", "enter"),
    "node": ("2", "o"),
    "page": ("question_mark",),
    "columns": ("c",),
    "findings": ("f",),
    "finding": ("f", "enter"),
    "curves": ("j", "enter", "v"),
    "ranks": ("enter", "tab"),
    "commands": ("x",),
}
"""Keys that lead from the jobs to each view."""

SMALL = (120, 12)
SIZES: dict[str, tuple[int, int]] = {"finding": SMALL, "curves": SMALL, "page": SMALL}
"""Room in which a text has more than one page; elsewhere 120 x 24."""


def to(name: str) -> Check:
    """Another view lies on top."""
    return lambda before, after, _key: after.views[-1] == name != before.views[-1]


def again(name: str) -> Check:
    """A view of this name lies on top that was not there."""
    return lambda before, after, _key: after.views[-1] == name and after.lines[0] != before.lines[0]


def asks(kind: str) -> Check:
    """A question is shown."""
    return lambda before, after, _key: before.prompt is None and after.prompt == kind


def shows(words: str) -> Check:
    """The status line tells so, and did not before."""
    return lambda before, after, _key: words in after.lines[-2] and words not in before.lines[-2]


def changed(before: Seen, after: Seen, _key: str) -> bool:
    """The same view shows something else."""
    return before.views == after.views and before.styles != after.styles


def shorter(before: Seen, after: Seen, _key: str) -> bool:
    """The view is gone."""
    return after.views == before.views[:-1]


def unfiltered(before: Seen, after: Seen, _key: str) -> bool:
    """The filter is gone, and nothing else."""
    return before.views == after.views and "/g" in before.lines[0] and "/g" not in after.lines[0]


def by_digit(before: Seen, after: Seen, key: str) -> bool:
    """The view with this number is there, or stays."""
    wanted = ROOTS[int(key) - 1]
    return after.views[-1] == wanted and (before.views[-1] != wanted or before == after)


def other_order(before: Seen, after: Seen, _key: str) -> bool:
    """Another column, or the other direction, is marked above the table."""
    return sorted(" ".join(before.lines)) != sorted(" ".join(after.lines)) or changed(
        before, after, _key
    )


def handed(before: Seen, after: Seen, _key: str) -> bool:
    """Something went to the feed or to the clipboard, and the status line or the page says so."""
    return before.handed != after.handed and before.lines != after.lines


class Expected(NamedTuple):
    """What a key does, and the keys that bring about a state in which it can."""

    check: Check
    before: tuple[str, ...] = ()


GROUPS = ("users", "accounts", "partitions", "reservations")
"""Their lines lie on no one node, which the status line says."""

MOVED = Expected(changed)
BACK_AGAIN = Expected(changed, ("G",))
PAUSED = ("comma", "comma", "comma")
FILTERED = ("slash", "g", "enter")

EXPECTED: dict[str, Expected | dict[str, Expected]] = {
    "open": {
        **dict.fromkeys(("jobs", "pending"), Expected(to("job"))),
        **dict.fromkeys(("gpus", "job"), Expected(to("gpu"))),
        **dict.fromkeys(
            ("users", "accounts", "partitions", "reservations"), Expected(to("jobs"), ("G", "k"))
        ),
        "ended": Expected(to("page")),
        "gpu": Expected(to("job")),
        "nodes": Expected(to("node")),
        "processes": Expected(to("curves")),
        "node": Expected(to("gpu"), ("1",)),
        "findings": Expected(to("finding")),
        "finding": Expected(to("node")),
    },
    "back": {view: Expected(shorter) for view in VIEWS} | {"jobs": Expected(unfiltered, FILTERED)},
    "leave": Expected(shorter),
    "open_cell": Expected(to("gpu")),
    "cell_left": {"fleet": Expected(changed, ("right",)), "ranks": MOVED},
    "cell_right": {"fleet": MOVED, "ranks": Expected(changed, ("left", "left"))},
    "field": MOVED,
    "field_back": MOVED,
    "grouping": MOVED,
    "closer": {"fleet": Expected(changed, ("Z", "Z")), "job": MOVED, "ranks": MOVED},
    "wider": MOVED,
    "mean": Expected(changed, ("c", "Z", "Z", "Z", "Z", "Z")),
    "ranks": {"job": Expected(to("ranks")), "ranks": MOVED},
    "rank": Expected(to("curves")),
    "curves": Expected(to("curves")),
    "span": MOVED,
    "roofline": MOVED,
    "acknowledge": Expected(handed),
    "mute": Expected(asks("AnswerPrompt")),
    "case": Expected(shows("stored only while a fleet is watched live")),
    "commands": Expected(to("commands")),
    "copy_command": Expected(handed),
    "copy": Expected(handed),
    "export": Expected(asks("AnswerPrompt")),
    "shell": {view: Expected(shows("simulated or recorded")) for view in VIEWS}
    | {"jobs": Expected(shows("simulated or recorded"), ("j",))}
    | dict.fromkeys((*GROUPS, "pending", "ended"), Expected(shows("no node here"))),
    "filter": {view: Expected(asks("Prompt")) for view in VIEWS}
    | dict.fromkeys((*LISTED, "fleet", "ranks"), Expected(asks("FilterPrompt"))),
    "switch": {
        view: Expected(to(ROOTS[(n + 1) % len(ROOTS)])) for n, view in enumerate(ROOTS)
    },
    "switch_back": {view: Expected(to(ROOTS[n - 1])) for n, view in enumerate(ROOTS)},
    "view": Expected(by_digit),
    "command": Expected(asks("CommandPrompt")),
    "node": Expected(to("node")),
    "next_section": MOVED,
    "previous_section": BACK_AGAIN,
    "section": BACK_AGAIN,
    "sort": {view: Expected(other_order) for view in VIEWS} | {"ranks": MOVED},
    "sort_waste": Expected(other_order),
    "reverse": Expected(other_order),
    "sort_left": Expected(other_order, ("s", "s")),
    "sort_right": Expected(other_order),
    "as_at_first": {view: Expected(other_order, ("s", "S")) for view in VIEWS}
    | {"columns": Expected(changed, ("enter",)), "fleet": Expected(changed, ("Z",))},
    "columns": Expected(to("columns")),
    "toggle_column": MOVED,
    "findings": {
        view: Expected(to("page" if view == "findings" else "findings")) for view in VIEWS
    },
    "ledger": Expected(to("page")),
    "errors": Expected(to("page")),
    "pause": Expected(shows("PAUSED")),
    "step_back": Expected(shows("PAUSED")),
    "step_on": Expected(changed, PAUSED),
    "minute_back": Expected(shows("PAUSED")),
    "minute_on": Expected(changed, PAUSED),
    "time": Expected(asks("AnswerPrompt")),
    "live": Expected(lambda b, a, key: shows("PAUSED")(a, b, key), PAUSED),
    "faster": Expected(shows("one speed")),
    "slower": Expected(shows("one speed")),
    "refresh": Expected(lambda before, after, _key: after.repaints == before.repaints + 1),
    "theme": Expected(lambda b, a, key: changed(b, a, key) and a.lines == b.lines),
    "down": MOVED,
    "up": BACK_AGAIN,
    "page_down": MOVED,
    "page_up": BACK_AGAIN,
    "top": BACK_AGAIN,
    "bottom": MOVED,
    "help": {
        view: Expected(again("page") if view == "page" else to("page")) for view in VIEWS
    },
    "suspend": Expected(shows("no shell here could resume gpumon")),
    "close": {view: Expected(shorter) for view in VIEWS}
    | dict.fromkeys(ROOTS, Expected(lambda _before, after, _key: after.exit_code == 0)),
    "tree": Expected(shows("it does not run on this machine")),
    "others": Expected(shows("these processes are elsewhere")),
    "signal": Expected(shows("--allow-actions")),
    "next_problem": MOVED,
    "previous_problem": MOVED,
    "mine": MOVED,
    "quit": Expected(lambda _before, after, _key: after.exit_code == 0),
}  # fmt: skip
"""By action; where views differ, by view. A new action or view without a line here fails."""


def expected(view: ViewName, action: Action) -> Expected:
    """What is expected of an action in a view."""
    found = EXPECTED.get(action.name)
    one = found.get(view) if isinstance(found, dict) else found
    assert one is not None, f"EXPECTED says nothing of {action.name!r} in {view!r}"
    return one


NOTHING_THERE = {("node", "9"): "a node has eight sections"}
"""Keys of an action that mean nothing in a view, and why."""

MOST_ESCAPES = 5
"""No key leads further away from a view than so many."""


TAKES_BACK = ("home", "0", "L")
"""Keys that undo what others do to a view: the cursor's place, the order and the time."""


class Desk:
    """One terminal for all keys of a view, begun afresh wherever a key cannot be taken back."""

    def __init__(self, view: ViewName) -> None:
        self._view = view
        self._terminal = AsyncExitStack()
        self._board: Board | None = None
        self._first: Seen | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._terminal.aclose()

    async def fresh(self) -> Board:
        """The view as it is when one has just come to it, to the last character and style."""
        if self._board is not None and await self._comes_back(self._board):
            return self._board
        await self._terminal.aclose()
        ready = board(*WAYS[self._view], size=SIZES.get(self._view, (120, 24)))
        made = self._board = await self._terminal.enter_async_context(ready)
        self._first = lasting(made.seen())
        return made

    async def _comes_back(self, made: Board) -> bool:
        """Whether what the last key did can be left, and nothing is other than at first."""
        first = self._first
        assert first is not None
        for _ in range(MOST_ESCAPES):
            now = made.seen()
            if now.exit_code is not None:
                return False
            if now.prompt is None and len(now.views) <= len(first.views):
                break
            await made.press("escape")
        if made.seen().views != first.views:
            await made.press(*("escape",) * (len(made.seen().views) - 1), *WAYS[self._view])
        for key in TAKES_BACK:
            if lasting(made.seen()) == first:
                return True
            await made.press(key)
        return lasting(made.seen()) == first


def lasting(seen: Seen) -> Seen:
    """What stays; how often it was drawn and what was looked at closer is of the way only."""
    left = tuple(one for one in seen.handed if not isinstance(one, Wish))
    return seen._replace(handed=left, repaints=0)


@pytest.mark.parametrize("view", VIEWS)
async def test_each_key_of_a_view_has_the_effect_of_its_action(view):
    wrong = []
    async with Desk(view) as desk:
        for action in actions_of(view):
            wanted = expected(view, action)
            for key in action.keys:
                if (view, key) in NOTHING_THERE:
                    continue
                b = await desk.fresh()
                await b.press(*wanted.before)
                before = b.seen()
                assert before.views[-1] == view, action.name
                await b.press(key)
                after = b.seen()
                if not wanted.check(before, after, key):
                    wrong.append("\n".join((f"{action.name}: {key}", *after.lines)))
    assert not wrong, "\n\n".join(wrong)


def test_nothing_is_expected_of_what_is_no_action():
    assert set(EXPECTED) == {action.name for action in ACTIONS}
    for name, by_view in EXPECTED.items():
        if isinstance(by_view, dict):
            views = next(action.views for action in ACTIONS if action.name == name)
            assert views - set(by_view) == set(), f"EXPECTED has no line for them in {name!r}"


KEYBOARD = (
    *string.ascii_letters,
    *string.digits,
    *(key for action in ACTIONS for key in action.keys),
    *(f"f{number}" for number in range(1, 13)),
    *(f"ctrl+{letter}" for letter in string.ascii_lowercase),
    *(f"{held}+{key}" for held in ("shift", "ctrl") for key in ("up", "down", "left", "right")),
    *("ctrl+home", "ctrl+end", "ctrl+pageup", "ctrl+pagedown", "shift+tab", "tab", "enter"),
    *("backspace", "delete", "insert", "at", "number_sign", "dollar_sign", "percent_sign"),
    *("ampersand", "asterisk", "left_parenthesis", "quotation_mark", "apostrophe", "semicolon"),
    *("backslash", "circumflex_accent", "underscore", "grave_accent", "vertical_line", "tilde"),
)
"""What can be pressed on a keyboard, as the terminal names it."""


def but_for_the_status(seen: Seen) -> Seen:
    """Without the line in which keys are answered."""
    lines, styles = seen.lines, seen.styles
    return seen._replace(lines=(*lines[:-2], lines[-1]), styles=(*styles[:-2], styles[-1]))


@pytest.mark.parametrize("view", VIEWS)
async def test_a_key_that_is_not_bound_in_a_view_does_nothing_but_say_so(view):
    bound = {key for action in actions_of(view) for key in action.keys}
    async with board(*WAYS[view], size=SIZES.get(view, (120, 24))) as b:
        before = b.seen()
        odd = []
        for key in dict.fromkeys(KEYBOARD):
            if key in bound:
                continue
            await b.press(key)
            after = b.seen()
            sign = key if len(key) == 1 else None
            if but_for_the_status(after) != but_for_the_status(before):
                odd.append(key)
            elif sign and not re.search(
                rf"{re.escape(sign)} (does nothing|works only in): ", after.lines[-2]
            ):
                odd.append(f"{sign}: {after.lines[-2]}")
            before = after
        assert odd == []
