"""Target `local`: this machine, through a probe in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.probes import early
from gpumon.sources.probes.pool import ProbePool
from gpumon.sources.probes.program import LOCAL_START, local_program
from gpumon.sources.probes.stream import Endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.sources.source import Clock


def _explain(code: int | None, words: str) -> tuple[str, str]:
    last = words.splitlines()[-1] if words else "no reason given"
    return f"the probe ended ({code}): {last}", "run gpumon doctor"


def local_endpoint(node: str = "") -> Endpoint:
    """How the probe of this machine is started; `node` is its name where a queue gives one."""
    return Endpoint(node, LOCAL_START, local_program, _explain, early=early.take)


def local_source(
    period_s: float, clock: Clock, once: bool = False, options: Mapping[str, object] | None = None
) -> ProbePool:
    """Source of this machine's GPUs and processes.

    Args:
        period_s: Period of the probe.
        clock: Time.
        once: Take a single report.
        options: Further start options of the probe.
    """
    return ProbePool("local", [local_endpoint()], period_s, clock, once, options)
