"""What a target will take: connections, calls to Slurm and memory, told before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.cli.configuration import ConfigurationError, load
from gpumon.cli.examined.check import ABSENT, LESS, OK, Check
from gpumon.fleet.history.retention import DEFAULT_MAX_BYTES
from gpumon.report.text import units
from gpumon.sources.own_login import own_login
from gpumon.sources.probes.clients import LOGIN_CPU_S, OWN_BYTES, bound, read_limits
from gpumon.sources.probes.start_order import Places, in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick
    from gpumon.sources.address import Target
    from gpumon.sources.probes.clients import Bound

NODE_BYTES: Final = 1_300_000
"""Memory of gpumon itself for each node of eight GPUs that it reads, minutes after the start:
`python -m tests.bench.fan_out`, 600 nodes. History grows from there to its own limit."""

BASE_BYTES: Final = 100_000_000
"""Likewise of gpumon and its detection worker before any node."""

HISTORY_NODE_BYTES: Final = 16_000_000
"""History of one node of eight GPUs at a beat of 1 s: an hour of 67 fields is 7.7 MB, and the
coarser past, links, ports and processes are as much again (arithmetic)."""

WHAT: Final = "forecast"
"""What the check is about: that a target takes little does not make it one that is well."""

ALL_NODES, THIS_MACHINE = "all nodes", "this machine"
YOUR_JOBS, ALL_JOBS = "your jobs", "all jobs"

_PERIOD_S: Final = 1.0
"""Beat of the terminal where nothing else is asked for."""


class Forecast(NamedTuple):
    """What one way to watch a target takes at most."""

    target: str
    """The target as a URL."""
    whose: str
    """`all nodes`, `this machine`, or whose jobs' nodes: `your jobs`, `all jobs`."""
    nodes: int
    """Nodes in all."""
    connections: int
    """ssh clients at once: two a node behind a login node."""
    nodes_at_once: int
    """Nodes that are read at a time."""
    slurm_calls_per_minute: float
    """At most; all gpumons of a user on a machine share them."""
    client_bytes: int
    """Memory of the ssh clients."""
    own_bytes: int
    """Memory of gpumon and its worker, without history."""
    history_bytes: int
    """Most that history may grow to."""
    login_cpu_s: float
    """CPU time that all logins take on this machine."""


def forecasts(
    targets: Iterable[Target], sample_of: Callable[[Target], Tick], limit: Bound | None = None
) -> Iterator[tuple[Check, Forecast | None]]:
    """A line for each way to watch each target, with its numbers.

    Args:
        targets: What is to be watched.
        sample_of: Asks a target once; of a Slurm target's nodes none is reached.
        limit: How many clients may run here; None: it is found out.
    """
    for asked in targets:
        if asked.scheme == "slurm":
            yield from _of_slurm(asked, sample_of, limit)
        elif asked.scheme == "ssh":
            yield _forecast_of(asked, ALL_NODES, len(asked.hosts), limit)
        elif asked.scheme == "local":
            yield _forecast_of(asked, THIS_MACHINE, 0, limit)


def _of_slurm(
    asked: Target, sample_of: Callable[[Target], Tick], limit: Bound | None
) -> Iterator[tuple[Check, Forecast | None]]:
    """By the nodes of the running jobs, which Slurm is asked for as it is at every check."""
    tick = sample_of(asked._replace(nodes_by="none"))
    if tick.queue_at is None:
        message = f"how much {asked.url} will use is not known: Slurm does not say where jobs run"
        yield Check(WHAT, ABSENT, message), None
        return
    user = asked.user or own_login()
    mine = _nodes(view for view in tick.jobs if view.job.user == user)
    every = _nodes(tick.jobs)
    yield _forecast_of(asked, YOUR_JOBS, len(mine), limit)
    if every != mine:
        yield _forecast_of(asked, ALL_JOBS, len(every), limit)


def _nodes(views: Iterable[JobView]) -> set[str]:
    """Nodes on which running jobs hold GPUs: those that are read."""
    return {
        allocation.node
        for view in views
        if view.job.state in ("RUNNING", "SUSPENDED")
        for allocation in view.job.allocations
        if allocation.gpu_count
    }


def _forecast_of(
    asked: Target, whose: str, nodes: int, limit: Bound | None
) -> tuple[Check, Forecast]:
    is_reached = asked.nodes_by != "none"
    each = 2 if asked.hop else 1
    limit = limit or bound(read_limits())
    at_once = min(nodes, max(1, limit.clients // each)) if is_reached else 0
    found = Forecast(
        target=asked.url,
        whose=whose,
        nodes=nodes,
        connections=at_once * each,
        nodes_at_once=at_once,
        slurm_calls_per_minute=_calls_per_minute(asked),
        client_bytes=at_once * each * OWN_BYTES,
        own_bytes=BASE_BYTES + (nodes if is_reached else 0) * NODE_BYTES,
        history_bytes=min(
            _most_history_bytes(), max(1, nodes if is_reached else 0) * HISTORY_NODE_BYTES
        ),
        login_cpu_s=nodes * each * LOGIN_CPU_S if is_reached else 0.0,
    )
    if is_reached and at_once < nodes:
        error = in_turns(asked.url, Places(at_once, nodes), limit, _PERIOD_S)
        return Check(WHAT, LESS, f"{_words(found)}; {error.message}", error.hint), found
    return Check(WHAT, OK, _words(found)), found


def _words(found: Forecast) -> str:
    parts = [_counted(found.connections, "ssh connection")]
    if found.slurm_calls_per_minute:
        parts.append(f"at most {found.slurm_calls_per_minute:.1f} calls to Slurm a minute")
    memory = found.client_bytes + found.own_bytes
    ssh = f", {units.decimal_size(found.client_bytes)} of it for ssh" if found.client_bytes else ""
    history = units.decimal_size(found.history_bytes)
    parts.append(
        f"about {units.decimal_size(memory)} of memory{ssh}, and up to {history} of history"
    )
    if found.login_cpu_s:
        cores = _counted(os.cpu_count() or 1, "core")
        parts.append(f"{units.seconds(found.login_cpu_s, 1)} of CPU for the logins ({cores} here)")
    return f"{found.target} will use for {_subject(found)}: {', '.join(parts)}"


def _subject(found: Forecast) -> str:
    nodes = _counted(found.nodes, "node")
    if found.whose == THIS_MACHINE:
        return found.whose
    if found.whose == ALL_NODES:
        return nodes
    return f"the {nodes} of {found.whose}{' (--all)' * (found.whose == ALL_JOBS)}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _calls_per_minute(asked: Target) -> float:
    """By the beats on which Slurm is asked; all gpumons of a user on a machine share them."""
    if asked.scheme != "slurm":
        return 0.0
    from gpumon.sources.slurm.poll.poll_loop import COMMAND_PERIODS_S, PERIODS_S

    periods_s = COMMAND_PERIODS_S if asked.rest is None else PERIODS_S
    return sum(60.0 / period_s for period_s in periods_s.values())


def _most_history_bytes() -> int:
    try:
        return int(load().number("history.max_mib") * 2**20)
    except ConfigurationError:
        return DEFAULT_MAX_BYTES
