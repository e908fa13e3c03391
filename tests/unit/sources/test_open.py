"""Which source reads which target."""

from __future__ import annotations

import pytest

from gpumon.sources.address import Sampling, parse
from gpumon.sources.demo import DemoSource
from gpumon.sources.exporters.pages import ExporterPages
from gpumon.sources.open import open_source
from gpumon.sources.probes.pool import ProbePool
from gpumon.sources.slurm.poll.target import SlurmSource
from gpumon.sources.source import SystemClock

SAMPLING = Sampling(1.0, is_single=False, is_wanted=lambda _: True)


@pytest.mark.parametrize(
    ("text", "kind", "nodes"),
    [
        ("local", ProbePool, [""]),
        ("ssh://ada@gpu[1-2]:2200", ProbePool, ["gpu1", "gpu2"]),
        ("slurm", SlurmSource, None),
        ("demo:2x4", DemoSource, None),
        ("dcgm+http://gpu[1-2]:9400/metrics", ExporterPages, None),
    ],
)
def test_each_kind_of_target_has_its_source(text: str, kind: type, nodes: list[str] | None) -> None:
    source = open_source(parse(text), SAMPLING, SystemClock())
    try:
        assert isinstance(source, kind)
        assert source.url == text
        if nodes is not None and isinstance(source, ProbePool):
            assert list(source._slots) == nodes
            argv = source._slots[nodes[-1]].endpoint.argv
            assert ("2200" in argv and "ada" in argv) is text.startswith("ssh")
    finally:
        source.close()
