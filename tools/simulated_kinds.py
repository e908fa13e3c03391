"""Tables of the kinds of job that the simulation knows."""

from __future__ import annotations

from functools import partial
from inspect import getdoc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.cluster.workloads import Workload

KIND_HEAD: Final = ("kind", "labelled", "what happens", "of 16 ranks and more")


def kind_rows(kinds: Sequence[Workload]) -> list[tuple[str, ...]]:
    """One row per kind, in the words of what builds it."""
    return [(f"`{one.kind}`", f"`{one.truth}`", _first_line(one), _largest(one)) for one in kinds]


def _first_line(workload: Workload) -> str:
    """What a kind's programs do, by the first sentence of their builder."""
    build = workload.build.func if isinstance(workload.build, partial) else workload.build
    return (getdoc(build) or "").partition("\n\n")[0].replace("\n", " ")


def _largest(workload: Workload) -> str:
    """Whether it is ever large."""
    return "yes" if any(shape.world >= 16 for shape, _ in workload.shapes) else ""
