"""What a screen may ask of its application and of the other screens, none of which it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from textual.screen import Screen

    from gpumon.report.facts.columns import Column, Sorting
    from gpumon.report.facts.groups import Scope
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.next_steps.commands import Change, Command, Subject
    from gpumon.report.text.cells import Line
    from gpumon.sources.source import Wish
    from gpumon.tui.actions.action import ViewName
    from gpumon.tui.beside import Discovering, Judged, LedgerReader, Outputs
    from gpumon.tui.look.theme import ThemeStyles
    from gpumon.tui.status import Mood
    from gpumon.tui.time_travel import Travel

    Entries = Callable[[Digest | None, int], list[list[Line]]]
    """Entries of a text, each the lines that a search shows or leaves out together."""

    Trail = tuple[str, ...]
    """The crumbs of the view from which another one is opened."""


class Muted(NamedTuple):
    """What is hidden for a while."""

    finding_class: str | None
    """None: every class."""
    subject: str | None
    """None: every subject."""
    until: float
    """Unix time."""
    words: str


class Views(Protocol):
    """New screens, each named by what it shows."""

    def jobs(self, scope: Scope | None = None) -> Screen[None]:
        """The jobs of a group; None: the whole queue."""
        ...

    def job(self, job_id: str, label: str, trail: Trail = ("jobs",)) -> Screen[None]:
        """One job with its ranks and GPUs."""
        ...

    def ranks(self, job_id: str, label: str, trail: Trail) -> Screen[None]:
        """The ranks of a job over time."""
        ...

    def gpu(self, uuid: str, trail: Trail) -> Screen[None]:
        """The page of a GPU."""
        ...

    def node(self, name: str, trail: Trail) -> Screen[None]:
        """The page of a node."""
        ...

    def curves(self, subject: str, trail: Trail) -> Screen[None]:
        """Curves of `gpu:UUID`, `node:NAME`, `job:ID`, `rank:UUID/PID` or `process:UUID/PID`."""
        ...

    def findings(self, trail: Trail, scope: str | None) -> Screen[None]:
        """The findings about `job:ID`, `gpu:UUID` or `node:NAME`; None: all."""
        ...

    def finding(self, identity: tuple[str, str, str], trail: Trail) -> Screen[None]:
        """One finding with its evidence."""
        ...

    def commands(self, about: Subject, trail: Trail) -> Screen[None]:
        """The commands for something."""
        ...

    def columns(
        self, table: ViewName, columns: Sequence[Column[Any]], trail: Trail
    ) -> Screen[None]:
        """Which columns of a table are shown."""
        ...

    def page(self, heading: str, trail: Trail, entries: Entries) -> Screen[None]:
        """A text."""
        ...

    def help(
        self, view: ViewName, columns: Sequence[tuple[str, str]], trail: Trail
    ) -> Screen[None]:
        """Keys and signs of a view, and its columns with what they mean."""
        ...

    def findings_in_full(self, trail: Trail, scope: str | None) -> Screen[None]:
        """Findings in full, and what the detectors could not see."""
        ...

    def errors(self, trail: Trail, mood: Callable[[], Mood]) -> Screen[None]:
        """Targets, errors, and how gpumon itself fares."""
        ...

    def patterns(self, trail: Trail, discovery: Discovering | None) -> Screen[None]:
        """Patterns in what no finding explains; None: they are not searched for."""
        ...

    def ledger(self, trail: Trail, stored: LedgerReader | None) -> Screen[None]:
        """Where GPU time went; None: no ledger is stored on disk."""
        ...


class Changing(Protocol):
    """What changes jobs, where that was allowed."""

    def refusal(self, change: Change) -> str:
        """Why a change is not to be made, or not any more; empty: it may be."""
        ...

    def send(self, command: Command, change: Change) -> None:
        """Run the command of a change, and report what became of it."""
        ...


class Application(Protocol):
    """The application as its screens know it."""

    digest: Digest | None
    mood: Mood
    watched: str
    name_shown: str
    monotonic: Callable[[], float]
    allows_actions: bool
    travel: Travel
    muted: list[Muted]
    is_mine: bool
    """Whether only one's own jobs are wanted, in every view of jobs."""
    met: set[tuple[str, str, str]]
    """Identities of findings that were gone to from row to row."""
    chosen_columns: dict[str, tuple[str, ...]]
    sortings: dict[str, Sorting]
    map_field: str | None
    map_grouping: str | None
    map_density: str | None
    is_ascii: bool
    look: ThemeStyles

    discovery: Discovering | None
    """None: patterns are not searched for."""
    stored_ledger: LedgerReader | None
    """None: no ledger is stored on disk."""
    outputs: Outputs | None
    """None: what jobs print cannot be read here."""
    cases: Judged | None
    """None: answers to findings are not stored."""

    @property
    def views(self) -> Views:
        """The screens that can be opened."""
        ...

    @property
    def changes(self) -> Changing:
        """What changes jobs."""
        ...

    @property
    def now(self) -> float:
        """Unix time of the newest tick, also while the past is on screen."""
        ...

    @property
    def news(self) -> frozenset[tuple[str, str, str]]:
        """Identities of the findings in the tick that are new since the user last pressed a key."""
        ...

    @property
    def is_real(self) -> bool:
        """Whether what is shown is there: neither simulated nor recorded."""
        ...

    def unsaved_words(self) -> str:
        """What quitting would lose; empty: little, or it is being asked for the second time."""
        ...

    @property
    def own_user(self) -> str:
        """Who looks, as the queue in view calls its users."""
        ...

    def wish(self, wish: Wish) -> None:
        """Pass a wish on to the sources."""
        ...

    def note_shown(self) -> None:
        """Let the sources know whether what is on screen now needs processes."""
        ...

    def acknowledge(self, identity: tuple[str, str, str], is_known: bool) -> bool:
        """Note that the user knows of a finding; False: it is not open."""
        ...

    def mute(self, muted: Muted) -> None:
        """Be silent of something for a while."""
        ...

    def unmute(self) -> None:
        """Show everything again that this terminal has muted."""
        ...

    def move_time(self, move: Callable[[Travel], object]) -> None:
        """Show another instant, or pause, or go on."""
        ...

    def show_newest(self) -> None:
        """Hand the newest tick, or the one that is held, to the view on top."""
        ...

    def go(self, view: ViewName) -> None:
        """Show a view of the whole fleet."""
        ...

    def save_root(self, view: str) -> None:
        """Have the next terminal begin with this view of the whole fleet."""
        ...

    def save_habits(self) -> None:
        """Have the next terminal begin with what was chosen in this one."""
        ...

    def next_theme(self) -> None:
        """The theme after this one."""
        ...

    def show_theme(self, name: str) -> None:
        """Draw everything in a theme."""
        ...

    def draw_ascii(self, is_ascii: bool) -> None:
        """Draw ASCII only, or whatever says most."""
        ...
