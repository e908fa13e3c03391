"""What a server records for an overview: used where it is there, and all else of what is near."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import main
from gpumon.sources.address import parse
from gpumon.sources.prometheus import questions
from gpumon.sources.prometheus.rules import RECORDED, SAMPLED_AT, rules
from gpumon.sources.prometheus.server import PrometheusServer
from gpumon.sources.source import SystemClock, Wish
from tests.unit.sources.prometheus.engine import Engine, labels
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.frame import Frame

GPUS = [labels("GPU-0", "gpu01.site"), labels("GPU-1", "gpu01.site"), labels("GPU-2", "gpu02.site")]


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    found.hold("DEV_GPU_UTIL", *((one, 97.0) for one in GPUS))
    found.hold("DEV_POWER_USAGE", *((one, 300.0) for one in GPUS))
    found.hold("DEV_GPU_TEMP", *((one, 60.0) for one in GPUS))
    found.record()
    yield found
    found.stop()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet is large with two GPUs."""
    monkeypatch.setattr(questions, "MANY_GPUS", 1)


@pytest.fixture
def source(engine: Engine) -> Iterator[PrometheusServer]:
    address = parse(f"{engine.target}?history=0").engine
    assert address is not None
    made = PrometheusServer(engine.target, address, 0.1, SystemClock(), once=False)
    made.start(lambda: None)
    yield made
    made.close()


def newest(source: PrometheusServer) -> dict[str, Frame]:
    found: dict[str, Frame] = {}

    def is_whole() -> bool:
        found.update((frame.node, frame) for frame in source.poll())
        return len(found) == 2

    eventually(is_whole, "both nodes are read")
    return found


def asked(engine: Engine) -> list[str]:
    return [params["query"] for path, params in engine.asked if path == "query"]


def test_what_is_recorded_is_asked_in_place_of_what_it_is_made_of(
    engine: Engine, source: PrometheusServer
) -> None:
    frames = newest(source)
    gpus = frames["gpu01.site"].block("gpu")
    assert gpus.value("gpu_util_ratio", 0) == 0.97
    assert gpus.value("power_w", 1) == 300.0
    assert gpus.value("temp_c", 0) == 60.0
    assert gpus.label("name", 0) == "NVIDIA H100 80GB HBM3"
    questions_asked = asked(engine)
    assert f"{SAMPLED_AT} + 0" in questions_asked
    assert not any("timestamp(" in one for one in questions_asked)
    assert not any(one.endswith("(DCGM_FI_DEV_GPU_UTIL)") for one in questions_asked)


def test_of_a_large_fleet_all_else_is_asked_of_the_nodes_alone_that_are_looked_at(
    engine: Engine, few: None, source: PrometheusServer
) -> None:
    frames: dict[str, Frame] = {}

    def are_whole(*nodes: str) -> bool:
        frames.update((frame.node, frame) for frame in source.poll() if frame.blocks)
        temps = {n: f.block("gpu").value("temp_c", 0) for n, f in frames.items()}
        powers = {n: f.block("gpu").value("power_w", 0) for n, f in frames.items()}
        return set(powers.values()) == {300.0} and {n for n in temps if temps[n]} == set(nodes)

    eventually(are_whole, "the overview is what is recorded")
    # Slurm's name of the node, and the GPUs of a job there.
    source.wish(Wish(zoom_nodes=("gpu02",)))
    eventually(lambda: are_whole("gpu02.site"), "one node is there whole")
    near = r'(DCGM_FI_DEV_GPU_TEMP{instance=~"(gpu02\\.site)(:[0-9]+)?"})'
    assert any(near in one for one in asked(engine))
    source.wish(Wish())
    eventually(are_whole, "no node is watched closer any more")


@pytest.mark.parametrize("label", ["instance", "node", "hostname"])
def test_what_is_looked_at_is_asked_for_by_the_label_that_the_server_has(
    engine: Engine, few: None, source: PrometheusServer, label: str
) -> None:
    host = {"instance": "gpu07:9400", "node": "gpu07", "hostname": "gpu07"}[label]
    pod = "nvidia-dcgm-exporter-cwbcm" if label == "node" else ""
    own = labels("GPU-7", pod, **{"instance": "10.1.2.3:9400", label: host})
    for name in ("DEV_GPU_UTIL", "DEV_GPU_TEMP"):
        engine.hold(name, (own, 50.0), *((one, 50.0) for one in GPUS))
    engine.record()
    source.wish(Wish(zoom_nodes=("gpu07",)))
    found: dict[str, Frame] = {}

    def is_whole() -> bool:
        found.update((frame.node, frame) for frame in source.poll() if frame.blocks)
        return "gpu07" in found and found["gpu07"].block("gpu").value("temp_c", 0) == 50.0

    eventually(is_whole, "the node is there whole")


def test_rules_that_have_ended_are_done_without(engine: Engine, source: PrometheusServer) -> None:
    newest(source)
    for name in list(engine.series):
        if name.startswith("gpumon:"):
            engine.series[name] = []
    engine.asked.clear()
    eventually(lambda: any("timestamp(" in one for one in asked(engine)), "it asks what there is")
    frames = newest(source)
    assert frames["gpu02.site"].block("gpu").value("gpu_util_ratio", 0) == 0.97


def test_as_old_as_what_was_recorded(engine: Engine, source: PrometheusServer) -> None:
    engine.gap_s = 30.0
    engine.record(age_s=20.0)
    frame = newest(source)["gpu01.site"]
    assert 15.0 < SystemClock().now() - frame.taken_at < 40.0


def test_what_a_rule_tells_late_is_of_the_present(engine: Engine, source: PrometheusServer) -> None:
    engine.gap_s = 30.0
    engine.record(age_s=90.0)
    assert newest(source)["gpu01.site"].stale_after_s == 120.0
    # Of a page itself it would be over.
    engine.record(age_s=130.0)
    gone: list[Frame] = []

    def is_over() -> bool:
        source.wish(Wish(is_by_hand=True))
        gone.extend(frame for frame in source.poll() if not frame.blocks)
        return {"gpu01.site", "gpu02.site"} <= {frame.node for frame in gone}

    eventually(is_over, "it is no longer of the present")


def test_the_rules_are_printed_for_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "rules"]) == 0
    printed = capsys.readouterr().out
    assert printed == rules()
    records = re.findall(r"- record: (\S+)", printed)
    assert records == [SAMPLED_AT, *RECORDED.values()]
    assert printed.count("    expr: ") == len(records)
