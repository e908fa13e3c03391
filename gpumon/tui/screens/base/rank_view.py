"""What the views of a job's ranks share: the ways on from the rank at hand."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from gpumon.report.facts.rank_groups import rank_name, rank_place
from gpumon.report.tables.gpu import row_node
from gpumon.tui.screens.base.view import View

if TYPE_CHECKING:
    from gpumon.report.facts.tick_index import RankRow

_NO_GPU: Final = "no telemetry names a GPU of this rank"


class RankView(View):
    """A view with a rank or GPU of a job at hand."""

    none_here = "no rank here"

    @abstractmethod
    def current_rank(self) -> RankRow | None:
        """The one that the keys are about."""

    @abstractmethod
    def job_trail(self) -> tuple[str, ...]:
        """The crumbs of the job."""

    def open_rank(self, row: RankRow) -> None:
        """Open the rank's GPU."""
        if row.gpu is None:
            self.report(_NO_GPU)
        else:
            self.open_gpu(row.gpu.uuid)

    def action_rank(self) -> None:
        """Curves of everything around the rank or GPU."""
        row = self.current_rank()
        if row is None:
            self.report(self.none_here)
        elif row.gpu is None:
            self.report(_NO_GPU)
        else:
            name = f"rank {rank_name(row)}" if row.rank is not None else rank_place(row)
            subject = f"rank:{row.gpu.uuid}" + (f"/{row.rank.pid}" if row.rank else "")
            self.app.push_screen(self.gpumon.views.curves(subject, (*self.job_trail(), name)))

    def action_node(self) -> None:
        """The node of the rank or GPU."""
        row = self.current_rank()
        if row is not None and (node := row_node(row)):
            self.open_node(node)
        else:
            self.report(self.none_here)
