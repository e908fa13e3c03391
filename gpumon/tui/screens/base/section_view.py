"""What the views in sections share: one GPU, one node."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from gpumon.report.lists.subjects import of_scope
from gpumon.report.tables.sections import Section, line_entries
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.report.wording.empty_states import nothing_lines
from gpumon.tui.screens.base.view import View
from gpumon.tui.widgets.text.sections import Sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.next_steps.commands import Subject
    from gpumon.report.text.cells import Line


class SectionView(View):
    """Facts on top, sections below, all in one text that scrolls."""

    def __init__(self) -> None:
        super().__init__()
        self.list = Sections()

    def body(self) -> Sections:
        """What takes keys: sections one below the other."""
        return self.list

    # To be given by each view

    @abstractmethod
    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Facts above the first section; empty where what is shown is gone."""

    @abstractmethod
    def sections(self, digest: Digest, width: int) -> list[Section]:
        """What is shown below."""

    @abstractmethod
    def gone_words(self) -> tuple[str, ...]:
        """What to say when the subject is not listed."""

    @abstractmethod
    def open_entry(self, opens: str) -> None:
        """Open what a line names: `gpu:UUID`, `job:ID`; empty: a line that names nothing."""

    def subject_here(self) -> Subject | None:
        """What the line names, else what the view is about; all of a GPU's lines are about it."""
        entry = self.list.current
        is_of_gpu = (self.finding_scope() or "").startswith("gpu:")
        if entry is not None and entry.opens and self.digest is not None and not is_of_gpu:
            return of_scope(self.digest, entry.opens)
        return super().subject_here()

    # Drawing

    def draw(self) -> None:
        """Hand the sections of the tick to the widget."""
        # One column is the scrollbar's.
        width = max(20, self.size.width - 2)
        digest = self.digest
        if digest is None:
            self.list.show((), [(), *_indented(paragraph("Waiting …", width, Tone.DIM))])
            return
        head = self.head_lines(digest, width)
        if not head:
            self.list.show((), nothing_lines(digest, self.gone_words(), width))
            return
        top = Section("", line_entries(head, "head"))
        self.list.show((top, *self.sections(digest, width)), self._nothing(width))

    def _nothing(self, width: int) -> list[Line]:
        text = f"No line contains “{self.needle()}”. Esc clears the filter."
        return [(), *_indented(paragraph(text, width))]

    # Filter

    def needle(self) -> str:
        """The text that lines must contain."""
        return self.list.needle

    def apply_needle(self, needle: str) -> None:
        """Show only lines with this text."""
        self.list.set_needle(needle)
        self.list.notice = self._nothing(max(20, self.size.width - 2))

    # Actions

    def action_open(self) -> None:
        """Open what the cursor is on."""
        entry = self.list.current
        self.open_entry(entry.opens if entry else "")

    def on_sections_opened(self) -> None:
        """A click on the cursor opens."""
        self.action_open()

    def open_job(self, job_id: str) -> None:
        """Open a job that is listed, unless one came from it."""
        view = self.digest.tick.job(job_id) if self.digest else None
        if view is None:
            return
        if self.came_from("job", job_id):
            self.app.pop_screen()
        else:
            self.app.push_screen(self.gpumon.views.job(job_id, view.job.label))

    def action_section(self, key: str) -> None:
        """To the section with this number."""
        if not self.list.jump(int(key)):
            self.report(f"there is no section {key} here: {self.list.count} have numbers")

    def action_next_section(self) -> None:
        """Move the cursor to the title of the section below."""
        self.list.jump_by(1)

    def action_previous_section(self) -> None:
        """To the section above."""
        self.list.jump_by(-1)

    def action_down(self) -> None:
        """Down one line."""
        self.list.move_by(1)

    def action_up(self) -> None:
        """Up one line."""
        self.list.move_by(-1)

    def action_page_down(self) -> None:
        """Move the cursor as many lines down as are on screen."""
        self.list.move_page(1)

    def action_page_up(self) -> None:
        """Move the cursor as many lines up as are on screen."""
        self.list.move_page(-1)

    def action_top(self) -> None:
        """To the first line."""
        self.list.move_to_end(is_last=False)

    def action_bottom(self) -> None:
        """To the last line."""
        self.list.move_to_end(is_last=True)


def _indented(lines: list[Line]) -> list[Line]:
    return [(Cell(" "), *line) for line in lines]


def explained(*tables: Iterable[Column]) -> Sequence[tuple[str, str]]:  # type: ignore[type-arg]
    """Titles and meanings of the columns of several tables."""
    return [(column.title, column.doc) for table in tables for column in table]
