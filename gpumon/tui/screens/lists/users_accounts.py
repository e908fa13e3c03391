"""Users and accounts: what each holds, uses, loses and waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gpumon.report.facts.groups import group_steps, groups
from gpumon.report.tables.group import ACCOUNT_COLUMNS, USER_COLUMNS, group_order, group_search
from gpumon.report.wording.loss_words import LOSING
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.groups import Group, GroupKind
    from gpumon.report.facts.tick_index import Digest


class GroupsView(FleetView["Group"]):
    """One line per group of jobs."""

    kind: ClassVar[GroupKind]

    def rows(self, digest: Digest) -> Sequence[Group]:
        """Every group that has a job."""
        return groups(digest, self.kind)

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """A few hundred jobs at a time."""
        return group_steps(digest, self.kind)

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No queue, or an empty one."""
        words = self.no_queue_words(digest)
        return words or ("The queue lists no jobs.", "Tab shows the other views.")

    def open_row(self, row: Group) -> None:
        """The jobs of the group."""
        self.open_group(self.kind, row.name)


class UsersView(GroupsView):
    """One line per user."""

    view = "users"
    BINDINGS = bindings_of("users")
    noun = "users"
    kind = "user"
    plan = Plan(USER_COLUMNS, lambda group: group.name, group_order, group_search, led_by=LOSING)


class AccountsView(GroupsView):
    """One line per account."""

    view = "accounts"
    BINDINGS = bindings_of("accounts")
    noun = "accounts"
    kind = "account"
    plan = Plan(ACCOUNT_COLUMNS, lambda group: group.name, group_order, group_search, led_by=LOSING)
