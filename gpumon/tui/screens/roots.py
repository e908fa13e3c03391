"""Which screen shows which view of the whole fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.tui.screens.ended import EndedView
from gpumon.tui.screens.fleet import HeatView
from gpumon.tui.screens.gpus import GpusView
from gpumon.tui.screens.groups import AccountsView, UsersView
from gpumon.tui.screens.nodes import NodesView
from gpumon.tui.screens.partitions import PartitionsView
from gpumon.tui.screens.pending import PendingView
from gpumon.tui.screens.reservations import ReservationsView

if TYPE_CHECKING:
    from gpumon.tui.actions import ViewName
    from gpumon.tui.screens.view import View

_VIEWS: Final[dict[ViewName, type[View]]] = {
    "gpus": GpusView,
    "nodes": NodesView,
    "pending": PendingView,
    "ended": EndedView,
    "users": UsersView,
    "accounts": AccountsView,
    "partitions": PartitionsView,
    "reservations": ReservationsView,
    "fleet": HeatView,
}


def root_view(view: ViewName) -> View | None:
    """A new screen of the view; None for the jobs, which lie below all others."""
    made = _VIEWS.get(view)
    return made() if made else None
