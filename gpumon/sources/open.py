"""The sources that read the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.address import Sampling, Target, TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.sources.source import Clock, Source


def open_sources(targets: Iterable[Target], sampling: Sampling, clock: Clock) -> list[Source]:
    """The source of each target; clusters that are watched together differ by name.

    Raises:
        TargetError: One is a recording, whose time is its own.
    """
    listed = tuple(targets)
    if sum(target.scheme == "slurm" for target in listed) < 2:
        return [open_source(target, sampling, clock) for target in listed]
    from gpumon.sources.clusters import Claims, OneOfSeveral
    from gpumon.sources.slurm.poll.target import SlurmSource

    claims = Claims()
    found: list[Source] = []
    for number, target in enumerate(listed):
        if target.scheme != "slurm":
            found.append(open_source(target, sampling, clock))
            continue
        one = OneOfSeveral(number, _place(target), claims)
        source = SlurmSource(
            target, sampling._replace(is_wanted=one.renaming(sampling.is_wanted)), clock
        )
        found.append(one.reads(source, source))
    return found


def _place(target: Target) -> str:
    """Where a cluster is asked that doesn't report its name."""
    if target.rest is not None:
        from urllib.parse import urlsplit

        return urlsplit(target.rest.base_url).hostname or "slurm"
    return target.cluster or (target.hop.host if target.hop else "slurm")


def open_source(target: Target, sampling: Sampling, clock: Clock) -> Source:
    """The source that reads a target; nothing runs before its `start`.

    Raises:
        TargetError: It is a recording, whose time is its own.
    """
    if target.scheme == "demo":
        from gpumon.sources.demo import DemoSource

        nodes, gpus = target.demo_size
        return DemoSource(
            target.url, nodes, gpus, target.seed, clock, sampling.period_s, sampling.past_s
        )
    if target.scheme == "recording":
        message = f"{target.url!r} is a recording, which is watched on its own: gpumon replay"
        raise TargetError(message)
    options = sampling.probe_options
    if target.scheme == "slurm":
        from gpumon.sources.slurm.poll.target import SlurmSource

        return SlurmSource(target, sampling, clock)
    if target.scheme == "exporter":
        from gpumon.sources.exporters.pages import ExporterPages

        return ExporterPages(target.url, target.pages, sampling.period_s, clock, sampling.is_single)
    if target.engine is not None:
        from gpumon.sources.prometheus.server import PrometheusServer

        return PrometheusServer(
            target.url, target.engine, sampling.period_s, clock, sampling.is_single
        )
    if target.served is not None:
        from gpumon.sources.served import ServedFrames

        return ServedFrames(target.url, target.served, sampling, clock)
    if target.scheme == "ssh":
        from gpumon.sources.probes.pool import ProbePool
        from gpumon.sources.probes.road import Road

        roads = [Road(host, target.user, target.port) for host in target.hosts]
        endpoints = [road.endpoint(road.host) for road in roads]
        return ProbePool(
            target.url, endpoints, sampling.period_s, clock, sampling.is_single, options
        )
    from gpumon.sources.probes.local import local_source

    return local_source(sampling.period_s, clock, sampling.is_single, options)
