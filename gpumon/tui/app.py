"""The application: takes ticks from a feed, shows the newest to the view on top."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from functools import cached_property
from math import inf
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar, Final

from textual.events import Event, Key, Paste

from gpumon.report.text import units
from gpumon.report.text.cells import fit
from gpumon.sources.source import Wish
from gpumon.tui.attention import Attention
from gpumon.tui.coming import Coming
from gpumon.tui.feed import TickReady
from gpumon.tui.look.saved_choices import NO_HABITS
from gpumon.tui.screens.base.root_view import has_jobs_in_view
from gpumon.tui.screens.base.take_along import REPORTED_S
from gpumon.tui.screens.base.view import View
from gpumon.tui.screens.open import AllViews, ViewsAhead, first_view
from gpumon.tui.status import Mood
from gpumon.tui.textual_private.app_hooks import act_first, take
from gpumon.tui.textual_private.one_layout import draw_afresh
from gpumon.tui.textual_private.signals import catch_signals
from gpumon.tui.themed_app import DressedApp
from gpumon.tui.time_travel import ReplayTravel, travel_of
from gpumon.tui.widgets.text.time_slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from textual.screen import Screen

    from gpumon.fleet.replay.catch_up import Progress
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.tui.actions.action import ViewName
    from gpumon.tui.beside import Beside, Discovering, Judged, LedgerReader, Outputs
    from gpumon.tui.feed import Feed
    from gpumon.tui.job_changes import Changes
    from gpumon.tui.look.saved_choices import Habits, Shelf
    from gpumon.tui.screens.base.contract import Application, Muted
    from gpumon.tui.time_travel import Travel
    from gpumon.tui.widgets.text.prompt import Prompt

SILENT_PERIODS: Final = 3.0
"""Periods without a tick after which the status line says so."""

SILENT_GRACE_S: Final = 2.0
"""Seconds on top, so that one slow sweep is no alarm."""

FILLING_S: Final = 0.5
"""While a feed still lives through its past, its progress is shown this often, seconds."""

SILENCE_PERIOD_S: Final = 3.0
"""How often it is looked whether ticks still come."""

FOOTPRINT_PERIOD_S: Final = 10.0
"""How often gpumon's own cost is measured: a mean over seconds says more than a spike."""

PASTED: Final = "pasted text does nothing here: / and : open a line that takes it"

LITTLE_S: Final = 3600.0
"""What was watched for so long may be lost without a question."""


class GpumonApp(DressedApp):
    """One feed, one tick at a time, a stack of views."""

    ENABLE_COMMAND_PALETTE = False
    is_mine: bool = False
    """Whether only one's own jobs are wanted, in every view of jobs."""
    crash: Exception | None = None
    _warned_at: float = -inf
    """When the user was last warned what quitting would lose."""
    _period_s: float = 1.0
    _has_begun: bool = False
    _shows_processes: bool = True
    """What the sources know of the screen; at first they take processes to be on it."""
    discovery: Discovering | None = None
    stored_ledger: LedgerReader | None = None
    outputs: Outputs | None = None
    cases: Judged | None = None
    CSS: ClassVar[str] = """
    Screen { layout: vertical; background: $background; overflow: hidden; }
    * { scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-color: $tone-past;
        scrollbar-color-hover: $tone-dim; scrollbar-color-active: $tone-dim; }
    """

    def __init__(
        self,
        feed: Feed,
        title: str = "",
        monotonic: Callable[[], float] = time.monotonic,
        passes: RowFilter | None = None,
        shelf: Shelf | None = None,
        habits: Habits = NO_HABITS,
        *,
        allows_actions: bool = False,
        rings_bell: bool = False,
        beside: Callable[[], Beside] | None = None,
    ) -> None:
        """Make it ready to run.

        Args:
            feed: Where ticks come from.
            title: What is watched.
            monotonic: The clock that measures silence.
            passes: The row filter to begin with.
            shelf: Where to keep what the user chooses; None: it is forgotten at the end.
            habits: What was chosen before.
            allows_actions: Whether commands that change something may be run when asked for.
            rings_bell: Whether the terminal's bell is rung for what is new and grave.
            beside: Makes what is read beside the ticks, once the first is shown; None: nothing is.
        """
        super().__init__(shelf, habits)
        self._beside = beside
        self.animation_level = "none"
        self.digest: Digest | None = None
        self.mood = Mood()
        self.watched = title
        self.name_shown = fit(f"gpumon {title}", min(30, len(title) + 7)).strip()
        # Its put may come in the middle of another, from the handler of a second signal.
        self.exit_codes: SimpleQueue[int] = SimpleQueue()
        """Exit codes with which the process is asked to end."""
        self._loop_now: asyncio.AbstractEventLoop | None = None
        self._feed = feed
        self.views = AllViews()
        self._ahead = ViewsAhead(self.set_interval, lambda: self.typed_s)
        self.monotonic = monotonic
        self.allows_actions = allows_actions
        self._rings_bell = rings_bell
        self._attention = Attention()
        self.travel = travel_of(feed)
        self._passes = passes
        self.muted: list[Muted] = []
        """What this terminal has muted."""
        self.met: set[tuple[str, str, str]] = set()
        """Identities of findings that were gone to from row to row."""
        self._changes: Changes | None = None
        self._zoom = Wish()
        """What the view on top wants to see closer."""
        self._newest: Tick | None = None
        slices = Slices(self.set_timer, typed_s=lambda: self.typed_s, heard_s=lambda: self.heard_s)
        self.coming = Coming(self, slices)
        self._drawn_at = -FILLING_S
        self._heard_at = self._began_at = monotonic()

    def get_default_screen(self) -> Screen[None]:
        """The jobs."""
        jobs = self.views.jobs()
        if self._passes is not None and self._passes.jobs is not None:
            jobs.apply_needle(self._passes.text)
        return jobs

    def on_mount(self) -> None:
        """Begin to sample once the first screen is out."""
        self._catch_signals()
        # The end of the refresh comes some frames after the screen itself, or in its place where
        # another textual paints otherwise.
        self.call_after_refresh(self._start_feed)
        # A process with nothing to do should not wake up for this; a recording's time goes on.
        check_period_s = 1.0 if isinstance(self.travel, ReplayTravel) else SILENCE_PERIOD_S
        self.set_interval(check_period_s, self.check_silence)
        self.set_interval(FOOTPRINT_PERIOD_S, self.measure_footprint)

    def note_frame(self, renderable: RenderableType | None) -> None:
        """Begin to sample as soon as the first screen is on its way."""
        super().note_frame(renderable)
        if renderable is not None and not self._has_begun:
            self.call_next(self._start_feed)

    def _start_feed(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._heard_at = self.monotonic()
        self._feed.start(self.take)
        if self._beside is not None:
            self.discovery, self.stored_ledger, self.outputs, self.cases = self._beside()

    def _catch_signals(self) -> None:
        """End in good order, which restores the terminal, when a signal asks for it."""
        if threading.current_thread() is not threading.main_thread() or self.is_headless:
            return
        self._loop_now = asyncio.get_running_loop()
        catch_signals(self.leave, self._soon, self._draw_afresh)

    def leave(self, code: int) -> None:
        """End with an exit code; from any thread, and from the handler of a signal."""
        self.exit_codes.put(code)
        self._soon(self.exit, code)

    def _soon(self, what: Callable[..., object], *given: object) -> None:
        loop = self._loop_now
        if loop is not None:
            # Once the loop is closed there is nothing left to do.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(what, *given)

    def _draw_afresh(self) -> None:
        draw_afresh(self.screen)

    async def on_event(self, event: Event) -> None:
        """Act upon a key before the next one, which may be meant for what this one opens.

        Textual would send it through the widgets first, and let the next one overtake its effect.
        """
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            if isinstance(event, Key):
                self.note_key()
            prompt = self.screen.prompt if isinstance(self.screen, View) else None
            if prompt is None:
                is_done = await act_first(self, event)
                if isinstance(event, Paste) and isinstance(self.screen, View):
                    self.screen.report(PASTED)
            else:
                is_done = self.focused is prompt and await self._type(prompt, event)
            if is_done:
                return
        await super().on_event(event)

    async def _type(self, prompt: Prompt, event: Key | Paste) -> bool:
        """Whether what was typed has been taken by a prompt, which it may have closed."""
        if await act_first(self, event):
            return True
        is_taken = take(event)
        if is_taken:
            await prompt.on_event(event)
        return is_taken

    def note_key(self) -> None:
        """A key has come: somebody looks."""
        super().note_key()
        self._attention.note_key(self.monotonic())
        self._ahead.note_key()

    @property
    def news(self) -> frozenset[tuple[str, str, str]]:
        """Identities of the findings in the tick that are new since the user last pressed a key."""
        return frozenset() if self.digest is None else self.digest.news

    def on_key(self, event: Key) -> None:
        """A key that nothing was done for: the view says where it does something."""
        if isinstance(self.screen, View):
            self.screen.hear_stray(event)

    # Ticks

    def take(self, tick: Tick) -> None:
        """Accept a tick from any thread."""
        self.travel.take(tick)
        try:
            self.post_message(TickReady(tick))
        except RuntimeError:
            # The event loop is gone: the user has quit, and the feed is about to hear of it.
            return

    def on_tick_ready(self, message: TickReady) -> None:
        """Store the tick, and show it unless the view is paused."""
        if (progress := getattr(self._feed, "progress", None)) is not None:
            self._show_progress(progress)
            return
        is_first = self._newest is None
        self._newest = message.tick
        if self._changes is not None:
            self._changes.hear(message.tick)
        if self.discovery is not None:
            self.discovery.take(message.tick)
        self._heard_at = self.monotonic()
        self._period_s = message.tick.period_s
        self.mood = self.mood._replace(silent_s=None, progress=None)
        if self._attention.take(message.tick, self._heard_at) and self._rings_bell:
            self.bell()
        if is_first:
            self._choose_first_view(message.tick)
            views = self.views.roots_to_come(message.tick)
            self._ahead.take(views, is_queue=has_jobs_in_view(message.tick))
        is_held = self.travel.shown(message.tick) is not message.tick
        if is_held and not is_first:
            self.mood = self.mood._replace(place=self.travel.place())
            if isinstance(self.screen, View):
                self.screen.draw_frame()
            return
        self.coming.show_when_ready()
        self.note_shown()

    def _show_progress(self, progress: Progress) -> None:
        """Show how far the past is, not the past itself: nobody can read rows that jump."""
        now = self.monotonic()
        if now - self._drawn_at >= FILLING_S:
            self._drawn_at = now
            self.mood = self.mood._replace(progress=progress)
            self.show_again()

    def _choose_first_view(self, tick: Tick) -> None:
        """Show the view that comes first, unless the user has gone elsewhere already."""
        view = first_view(tick, self.root, self._passes)
        if view == "jobs" or not isinstance(self.screen, View) or self.screen.view != "jobs":
            return
        self.go(view)
        passes = self._passes
        if passes is None or not isinstance(self.screen, View):
            return
        if passes.gpus is not None or passes.processes is not None:
            self.screen.apply_needle(passes.text)

    def show_newest(self) -> None:
        """Hand the newest tick, or the one that is held, to the view on top."""
        self.coming.show_at_once()

    def wanted(self) -> tuple[Tick | None, float | None]:
        """The newest tick, or the one that is held, and since when what is found is new."""
        self.mood = self.mood._replace(place=self.travel.place())
        tick = None if self._newest is None else self.travel.shown(self._newest)
        return tick, self._attention.since

    def show_again(self) -> None:
        """Draw the tick once more."""
        if isinstance(self.screen, View):
            self.screen.show(self.digest)

    def check_silence(self) -> None:
        """Say so when ticks stop coming; those of a recording come as its time passes.

        Where they have stopped for good there is nothing to stay for.
        """
        if self._feed.failure is not None:
            self.exit(1)
            return
        if self._newest is None:
            return
        if isinstance(self.travel, ReplayTravel):
            self._learn(self.mood._replace(place=self.travel.place()))
            return
        silent_s = self.monotonic() - self._heard_at
        limit_s = self._period_s * SILENT_PERIODS + SILENT_GRACE_S
        self._learn(self.mood._replace(silent_s=silent_s if silent_s > limit_s else None))

    def _learn(self, mood: Mood) -> None:
        """Draw the status again where there is something new to say."""
        is_new, self.mood = mood != self.mood, mood
        view = self.screen
        # A place that was reached just after its tick was drawn is known, and not on screen.
        if isinstance(view, View) and (is_new or view.drawn_place != mood.place):
            view.draw_frame()

    async def action_quit(self) -> None:
        """Quit at once, as textual's own key for it does in every prompt."""
        self.exit(0)

    def unsaved_words(self) -> str:
        """What quitting would lose; empty: little, or it is being asked for the second time.

        A recording can be played again. Of what is watched live the past is in memory only.
        """
        now = self.monotonic()
        watched_s = now - self._began_at
        is_again, self._warned_at = now - self._warned_at < REPORTED_S, now
        if is_again or watched_s <= LITTLE_S or isinstance(self.travel, ReplayTravel):
            return ""
        return f"{units.short_duration(watched_s)} were watched and are not recorded"

    def measure_footprint(self) -> None:
        """Learn what gpumon itself costs; the status line shows it with the next tick."""
        if self._newest is None:
            return
        # Imported here: the first screen should not wait for it.
        from gpumon.base.footprint import footprint

        cost = footprint()
        self.mood = self.mood._replace(own_cpu_ratio=cost.cpu_ratio, own_rss_bytes=cost.rss_bytes)

    # What views ask for

    def wish(self, wish: Wish) -> None:
        """Pass a wish on to the feed; closer sampling waits while the past is on screen."""
        if wish.is_about_zoom:
            self._zoom = wish
            if not self.travel.is_live:
                return
        self._feed.wish(wish)

    def note_shown(self) -> None:
        """Tell the sources whether what is on screen needs processes, once it is known."""
        shows = not isinstance(self.screen, View) or self.screen.shows_processes
        if self._newest is not None and shows != self._shows_processes:
            self._shows_processes = shows
            self._feed.wish(Wish(shows_processes=shows))

    @property
    def changes(self) -> Changes:
        """What changes jobs; made when it is first asked for, as few terminals change any."""
        if self._changes is None:
            from gpumon.tui.job_changes import Changes

            self._changes = Changes(self, self._newest)
        return self._changes

    @property
    def now(self) -> float:
        """Unix time of the newest tick, also while the past is on screen."""
        return self._newest.at if self._newest is not None else 0.0

    @property
    def is_real(self) -> bool:
        """Whether what is shown is there: neither simulated nor recorded."""
        return not (self._is_demo or isinstance(self.travel, ReplayTravel))

    @property
    def _is_demo(self) -> bool:
        targets = self._newest.targets if self._newest is not None else ()
        return any(target.url.startswith("demo") for target in targets)

    @cached_property
    def own_user(self) -> str:
        """Who looks, as the queue in view calls its users; the demo's are invented."""
        if self._is_demo:
            from gpumon.simulate.cluster.people import YOU

            return YOU
        from gpumon.sources.own_login import own_login

        return own_login()

    def acknowledge(self, identity: tuple[str, str, str], is_known: bool) -> bool:
        """Note that the user knows of a finding; False: it is not open."""
        return self._feed.acknowledge(identity, is_known=is_known)

    def mute(self, muted: Muted) -> None:
        """Be silent of something for a while."""
        self._feed.mute(muted.until, muted.finding_class, muted.subject)
        what = (muted.finding_class, muted.subject)
        self.muted = [one for one in self.muted if (one.finding_class, one.subject) != what]
        self.muted.append(muted)

    def unmute(self) -> None:
        """Show everything again that this terminal has muted."""
        for muted in self.muted:
            self._feed.mute(0.0, muted.finding_class, muted.subject)
        self.muted = []

    def move_time(self, move: Callable[[Travel], object]) -> None:
        """Show another instant, or pause, or go on."""
        was_live = self.travel.is_live
        move(self.travel)
        is_live = self.travel.is_live
        if was_live != is_live and self._zoom.zoom_nodes:
            self._feed.wish(self._zoom if is_live else Wish())
        self.show_newest()

    def go(self, view: ViewName) -> None:
        """Show a view of the whole fleet; the jobs lie below everything and stay as they are."""
        made = self.views.root(view)
        with self.batch_update():
            while len(self.screen_stack) > 2:
                self.pop_screen()
            if made is None:
                if len(self.screen_stack) > 1:
                    self.pop_screen()
            elif len(self.screen_stack) > 1:
                self.switch_screen(made)
            else:
                self.push_screen(made)

    # Failure

    def note_failure(self, error: Exception) -> None:
        """Keep the error for `run_terminal`, which reports it in one line."""
        self.crash = self.crash or error

    def panic(self, *_renderables: RenderableType) -> None:
        """Leave as after a hang-up: the terminal cannot be read any more."""
        self.leave(128 + signal.SIGHUP)


if TYPE_CHECKING:
    from gpumon.tui.job_changes import Changes

    # Refused by mypy where the application lacks something that its screens ask for.
    _FULFILLED: type[Application] = GpumonApp
