"""Pages of exporters from the command line: a document, a table, a recording and its replay."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from gpumon.cli import main
from tests.unit.sources.exporters.page_server import Answer, PageServer, labels, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SCHEMA = files("gpumon.report") / "document-2.schema.json"


@pytest.fixture
def exporter() -> Iterator[PageServer]:
    server = PageServer(Answer(page(2, DEV_GPU_UTIL=97, DEV_FB_USED=1000, DEV_FB_FREE=79000)))
    yield server
    server.stop()


def test_a_document_has_what_the_page_tells_and_why_the_rest_is_missing(
    exporter: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"dcgm+{exporter.url}"
    assert main(["--json", "--for", "0", url]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["url"], one["ok"]) for one in document["targets"]] == [(url, True)]
    (node,) = document["nodes"]
    assert (node["name"], node["driver_version"]) == ("gpu01", "550.54.15")
    first, second = node["gpus"]
    assert (first["uuid"], second["index"], first["gpu_util_ratio"]) == ("GPU-0", 1, 0.97)
    assert first["mem_total_bytes"] == 80000 * 2**20
    assert first["sm_active_ratio"] is None
    assert first["missing"]["sm_active_ratio"] == "not_shared"
    assert document["errors"] == []


def test_a_page_of_a_host_alone_ends_with_a_line_that_says_what_is_not_there(
    exporter: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    host = b'node_uname_info{nodename="login2"} 1\nnode_boot_time_seconds 17\nnode_load1 3\n'
    exporter.answer = Answer(host)
    url = f"dcgm+{exporter.url}"
    assert main(["--json", "--for", "0", url]) == 1
    said = capsys.readouterr()
    assert [node["name"] for node in json.loads(said.out)["nodes"]] == ["login2"]
    hint = "name a target that has them as well"
    assert said.err == f"gpumon: {url}: answers of login2, but of no GPU and no queue ({hint})\n"


def test_a_table_has_a_row_for_each_gpu(
    exporter: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--once", "--for", "0", f"dcgm+{exporter.url}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 GPUs on 1 node")
    assert "NVML" not in shown


def test_what_is_recorded_is_replayed(
    exporter: PageServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.gpumon"
    assert (
        main(["record", str(file), "--for", "0.2", "--period", "0.1", f"dcgm+{exporter.url}"]) == 0
    )
    capsys.readouterr()
    assert main(["replay", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [gpu["gpu_util_ratio"] for gpu in document["nodes"][0]["gpus"]] == [0.97, 0.97]


def test_one_page_that_fails_is_an_error_beside_the_others(
    exporter: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"dcgm+http://127.0.0.1:{taken.getsockname()[1]}/metrics"
        assert main(["--json", "--for", "0", f"dcgm+{exporter.url}", dead]) == 0
        document = json.loads(capsys.readouterr().out)
        assert main(["--json", "--for", "0", dead]) == 1
    (error,) = document["errors"]
    assert error["message"] == "cannot be reached: Connection refused"
    assert [one["ok"] for one in document["targets"]] == [True, False]


def test_a_password_is_told_to_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "dcgm+http://ada:hunter2@gpu01:9400/metrics"]) == 2
    told = capsys.readouterr()
    assert "no password" in told.err
    assert "hunter2" not in told.err + told.out


def test_nothing_of_it_is_imported_for_another_target() -> None:
    code = (
        "import sys\nfrom gpumon.sources.address import parse, Sampling\n"
        "from gpumon.sources.open import open_source\n"
        "from gpumon.sources.source import SystemClock\n"
        "open_source(parse('demo:1x1'), Sampling(1.0, True, lambda _: True), SystemClock())\n"
        "print([m for m in sys.modules if 'expo' in m or m in ('httpx', 'asyncio')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def labelled(exporter: PageServer) -> PageServer:
    """An exporter that is told by a queue system which job holds a GPU, and one with a pod."""
    told = (labels(0, hpc_job="7"), labels(1, pod="train-0", namespace="ml"))
    lines = [f"DCGM_FI_PROF_SM_ACTIVE{{{one}}} 0.9\n" for one in told]
    exporter.answer = Answer("".join(lines).encode())
    return exporter


def test_a_job_that_only_a_label_tells_of_has_gpus_and_neither_user_nor_state(
    labelled: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json", "--for", "0.3", f"dcgm+{labelled.url}"]) == 0
    document = json.loads(capsys.readouterr().out)
    (job,) = document["jobs"]
    assert (job["job_id"], job["told_by"], job["gpus"]) == ("7", "labels", ["GPU-0"])
    unknown = ("name", "user", "account", "partition", "state", "started_at", "submitted_at")
    assert {job[key] for key in unknown} == {None}
    assert job["waste"]["allocated_gpu_seconds"] > 0
    first, second = document["nodes"][0]["gpus"]
    assert (first["label_jobs"], first["label_pods"]) == ("7", None)
    assert (second["label_jobs"], second["label_pods"]) == (None, "ml/train-0")
    assert (
        list(
            Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).iter_errors(
                document
            )
        )
        == []
    )


def test_its_row_shows_that_nobody_tells_them(
    labelled: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--once", "--for", "0", f"dcgm+{labelled.url}"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if " 7 " in line]
    assert row.split()[1:4] == ["7", "–", "–"]
    assert "RUNNING" not in row


def test_pages_of_two_exporters_of_a_host_are_one_node(
    exporter: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = PageServer(Answer(b'node_load1 5.66\nnode_uname_info{nodename="gpu01"} 1\n'))
    try:
        urls = (f"dcgm+{exporter.url}", f"dcgm+{other.url}")
        assert main(["--json", "--for", "0", *urls]) == 0
    finally:
        other.stop()
    document = json.loads(capsys.readouterr().out)
    (node,) = document["nodes"]
    assert (node["name"], node["load_1m"], node["driver_version"]) == ("gpu01", 5.66, "550.54.15")
    assert len(node["gpus"]) == 2
    assert node["missing"]["load_5m"] == "not_shared"
    assert document["errors"] == []
