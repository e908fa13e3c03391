"""A server with Prometheus' interface from the command line: a document, a table, a recording."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import main
from tests.unit.sources.prometheus.engine import Engine, labels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine(prefix="/prom")
    gpus = (labels("GPU-0"), labels("GPU-1"))
    for name, value in (("DEV_GPU_UTIL", 97.0), ("DEV_FB_USED", 1000.0), ("DEV_FB_FREE", 79000.0)):
        found.hold(name, *((gpu, value) for gpu in gpus))
    yield found
    found.stop()


def test_a_document_has_what_the_server_tells_and_why_the_rest_is_missing(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json", "--for", "0", engine.target]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["url"], one["ok"]) for one in document["targets"]] == [(engine.target, True)]
    (node,) = document["nodes"]
    assert (node["name"], [gpu["uuid"] for gpu in node["gpus"]]) == ("gpu01", ["GPU-0", "GPU-1"])
    assert node["gpus"][0]["gpu_util_ratio"] == 0.97
    assert node["gpus"][0]["missing"]["sm_active_ratio"] == "not_shared"
    assert 0.0 < node["age_s"] < 60.0
    assert document["errors"] == []


def test_a_table_has_a_row_for_each_gpu(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--once", "--for", "0", engine.target]) == 0
    assert capsys.readouterr().out.startswith("2 GPUs on 1 node")


def test_what_is_recorded_is_replayed_and_as_fresh_as_it_was(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.gap_s, engine.age_s = 15.0, 20.0
    file = tmp_path / "it.gpumon"
    assert main(["record", str(file), "--for", "3", "--period", "0.1", engine.target]) == 0
    capsys.readouterr()
    assert main(["replay", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [gpu["gpu_util_ratio"] for gpu in document["nodes"][0]["gpus"]] == [0.97, 0.97]


def test_a_password_is_told_to_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "prometheus+http://ada:hunter2@mon"]) == 2
    told = capsys.readouterr()
    assert "?login_file=" in told.err
    assert "hunter2" not in told.err + told.out
