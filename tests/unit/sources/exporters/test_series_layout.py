"""Pages that are none of dcgm-exporter's, or not as they should be, each in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.sources.exporters import series_layout
from gpumon.sources.exporters.series_layout import plans_of
from gpumon.sources.exporters.strangers import PlanError
from gpumon.sources.exposition.parse import parse
from gpumon.sources.probes.decode import MOST_ROWS
from tests.unit.sources.exporters.page_server import labels, page

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("body", "words", "way_out"),
    [
        (b"", "its page is empty", "up to 30 s after its start"),
        (b"# only words\n", "its page is empty", "log"),
        (b"what is this\n", "not a page of metrics", "9400"),
        (b"go_info 1\namd_gpu_power 1\namd_x 2\n", "amd_gpu_power, amd_x (an exporter of", "9400"),
        (b'node_cpu_info{cpu="0"} 1\n', "node_cpu_info (node_exporter", "collectors"),
        (b"slurm_jobs_running 4\n", "numbers of jobs, not jobs; the target slurm", "9400"),
        (b"nvidia_smi_index 1\n", "none of its 1 series names a GPU", "have the exporter add"),
        (b'all_smi_power{uuid="GPU-1"} 5\n', "all_smi_power (all-smi)", "9400"),
        (b"python_gc 1\ngo_info 1\n", "describes only its own program", "log"),
        (b"node_load1 1\nnode_load1 1\n", "mixes several hosts", "own pages"),
        (b'DCGM_FI_DEV_NAME{UUID="GPU-0"} 1\n', "none of DCGM's metrics", "-f"),
        (b"DCGM_FI_DEV_GPU_UTIL 1\n", "none of its 1 series names a GPU", "have dcgm-exporter"),
    ],
)
def test_what_cannot_be_shown_says_what_was_seen_and_the_way_out(
    body: bytes, words: str, way_out: str, said: Callable[..., None]
) -> None:
    with pytest.raises(PlanError) as caught:
        plans_of(parse(body))
    said(caught.value.message, caught.value.hint)
    assert words in caught.value.message
    assert way_out in caught.value.hint
    assert len(caught.value.message) < 256


def test_series_that_name_no_gpu_are_counted() -> None:
    _, _, remarks = plans_of(parse(page(1) + b"DCGM_FI_DEV_GPU_UTIL 1\n"))
    assert remarks[0][0].startswith("1 series name no GPU")


def test_a_node_with_more_gpus_than_any_has_is_read_in_part() -> None:
    most = MOST_ROWS["gpu"]
    (found,), wanted, remarks = plans_of(parse(page(most + 3, DEV_GPU_UTIL=1)))
    assert len(found.gpus.keys) == len(wanted) == most
    assert f"reports {most + 3} rows of gpu" in remarks[0][0]


def test_more_nodes_than_a_page_can_mean_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_layout, "MOST_NODES", 2)
    body = b"".join(page(1, host=f"gpu{number}", DEV_GPU_UTIL=1) for number in range(4))
    found, _, remarks = plans_of(parse(body))
    assert [one.host_name for one in found] == ["gpu0", "gpu1"]
    assert "2 series are of more than 2 nodes or 8,192 GPUs" in remarks[0][0]


def test_more_gpus_than_a_page_can_mean_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_layout, "MOST_GPUS", 5)
    uuids = [f"GPU-{number}" for number in range(9)]
    lines = [
        f'DCGM_FI_DEV_{name}{{UUID="{uuid}",Hostname="gpu{uuid[-1:]}"}} 1\n'
        for name in ("GPU_UTIL", "GPU_TEMP")
        for uuid in uuids
    ]
    found, wanted, remarks = plans_of(parse("".join(lines).encode()))
    assert [one.gpus.keys for one in found] == [(uuid,) for uuid in uuids[:5]]
    assert len(wanted) == 10
    assert "8 series are of more than 1,024 nodes or 5 GPUs" in remarks[0][0]


@pytest.mark.parametrize("index", ["", "x", "-1", "99999", "MIG"])
def test_an_index_that_is_none_is_missing(index: str) -> None:
    named = labels(gpu=0, device=f"nvidia{index}").replace('gpu="0"', f'gpu="{index}"')
    (found,), _, _ = plans_of(parse(f"DCGM_FI_DEV_GPU_UTIL{{{named}}} 1\n".encode()))
    assert found.gpus.given["index"] == (None,)
    assert found.gpus.given["minor_number"] == (None,)


def held(body: bytes) -> tuple[tuple[str | None, ...], tuple[str | None, ...], list[str]]:
    (found,), _, remarks = plans_of(parse(body))
    labels = found.gpus.labels
    return labels["label_jobs"], labels["label_pods"], [text for text, _ in remarks]


def page_with(*others: dict[str, str]) -> bytes:
    lines = [f"DCGM_FI_DEV_GPU_UTIL{{{labels(gpu=0, **one)}}} 5\n" for one in others]
    return "".join(lines).encode()


EXPORTER = {"pod": "nvidia-dcgm-exporter-x7k2p", "namespace": "gpu-operator", "container": "dcgm"}
"""Labels that Prometheus gives a page of Kubernetes: of the exporter itself."""


@pytest.mark.parametrize(
    ("others", "jobs", "pods"),
    [
        ([{}], None, None),
        ([{"hpc_job": "7"}], "7", None),
        ([{"hpc_job": "7"}, {"hpc_job": "8"}, {"hpc_job": "7"}], "7 8", None),
        ([{"hpc_job": "0"}], None, None),
        ([{"jobid": "1234[5].pbs01"}], "1234[5].pbs01", None),
        ([{"hpc_job": "6_1", "GPU_I_ID": "3"}, {"hpc_job": "8", "GPU_I_ID": "4"}], "6_1 8", None),
        ([{"pod": "train-0", "namespace": "ml", "container": "main"}], None, "ml/train-0/main"),
        ([{"pod": "train-0"}, {"pod": "x", "namespace": "y"}], None, "train-0 y/x"),
        ([{"exported_pod": "a", "exported_namespace": "b"}], None, "b/a"),
        ([{"exported_pod": "a", "exported_namespace": "b", **EXPORTER}], None, "b/a"),
        ([EXPORTER], None, None),
        ([{"namespace": "ml", "container": "main"}], None, None),
        ([{"pod": "A b", "namespace": "ml"}], None, None),
    ],
)
def test_labels_say_which_jobs_and_pods_hold_a_gpu(
    others: list[dict[str, str]], jobs: str | None, pods: str | None
) -> None:
    assert held(page_with(*others)) == ((jobs,), (pods,), [])


@pytest.mark.parametrize("text", ["7 8", "../x", "[red]", "-7", "a/b", "j:1", "x" * 65])
def test_a_label_that_is_no_job_is_told_and_left_out(text: str, said: Callable[..., None]) -> None:
    jobs, _, (remark,) = held(page_with({"hpc_job": text}))
    said(remark)
    assert jobs == (None,)
    assert remark.startswith("has a job label that is not a job id: ")


def test_of_any_number_of_jobs_on_a_gpu_the_first_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_layout, "MOST_HOLDERS", 2)
    jobs, _, (remark,) = held(page_with(*({"hpc_job": str(number)} for number in range(1, 5))))
    assert jobs == ("1 2",)
    assert remark == "has more than 2 jobs or pods on GPU-0; the first are read"
