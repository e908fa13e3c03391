"""A filter whose words are columns, for tables and for maps of the same rows."""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpumon.tui.screens.base.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.columns import Column


class ColumnFiltered(View):
    """A view with a filter prompt in which Tab writes out the name of a column."""

    @abstractmethod
    def filter_columns(self) -> Sequence[Column[Any]]:
        """The columns that a filter may name."""

    async def action_filter(self) -> None:
        """Ask for a filter."""
        from gpumon.tui.widgets.text.prompt import FilterPrompt

        hint = "any text, or user==ada & sm<20: Tab completes, Enter applies it, Esc drops it"
        await self.ask(FilterPrompt(self.needle(), hint))
        # What the first character needs is there before it, but the prompt does not wait for it.
        self.call_after_refresh(import_module, "gpumon.report.filter.bind")

    def complete_prompt(self) -> None:
        """Write out the name of a column, or the rest of a command."""
        from gpumon.report.filter.names import completed
        from gpumon.tui.widgets.text.prompt import FilterPrompt

        prompt = self.prompt
        if isinstance(prompt, FilterPrompt):
            prompt.write(completed(prompt.value, self.filter_columns()))
        else:
            super().complete_prompt()
