"""A real server whose limits allow some questions and not others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.lab.test_prometheus import CONFIG, Engine, Growing, needed, past_of, remember
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_what_is_beyond_a_servers_limit_costs_itself_alone(
    tmp_path: Path, said: Callable[..., None]
) -> None:
    needed()
    cpus = "".join(
        f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} 10\n'
        for cpu in range(2, 8)
        for mode in ("user", "idle", "system", "iowait", "irq", "softirq", "nice", "steal")
    )
    server = Growing("gpu01", cpus.encode())
    (tmp_path / "gather.yml").write_text(CONFIG % f"'127.0.0.1:{server.port}'")
    engine = Engine("prometheus", tmp_path)
    # More than its GPUs have at one instant, less than a GPU has in five minutes, or CPUs in modes.
    engine.more_words = ("--query.max-samples=40",)
    lines: dict[str, str] = {}

    def has_reported() -> bool:
        engine.joined()
        lines.update((error.message, error.hint) for error in engine.newest.errors)
        return engine.source.is_recalling

    def remarks(words: str) -> list[str]:
        return [error.message for error in engine.newest.errors if words in error.message]

    try:
        remember(engine, past_of(server, time.time()))
        engine.source.start(lambda: None)
        eventually(has_reported, "its interval is seen, and its past asked for")
        fleet = eventually(lambda: engine.shows("gpu01"), "it is read")
        assert fleet.gpus["GPU-10"].value("gpu_util_ratio") == 0.97
        host = fleet.nodes["gpu01"].block
        assert host is not None
        assert (host.value("cpu_count", 0), host.value("load_1m", 0)) == (8, 3.5)
        assert host.value("cpu_total_ticks", 0) is None
        for message, hint in lines.items():
            said(message, hint)
        beyond = {line.partition(":")[0] for line in lines if "HTTP 422" in line}
        assert beyond >= {
            "shows no node_cpu_seconds_total",
            "does not say how often it reads GPUs, so that no past is asked for",
        }
        eventually(lambda: engine.joined() and not remarks("how often"), "it is said no more")
        assert remarks("shows no node_cpu_seconds_total")
    finally:
        engine.source.close()
        engine.stop()
        server.stop()
