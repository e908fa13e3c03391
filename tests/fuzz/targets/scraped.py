"""What exporters, and servers that gather their pages, answer over HTTP."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from gpumon.model.records.frame import Frame
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exporters.strangers import PlanError
from gpumon.sources.exposition.parse import LONGEST_LABEL, parse
from gpumon.sources.exposition.shape import numbers, shape_of
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.nodes import Nodes
from gpumon.sources.prometheus.questions import Questions
from tests.fuzz import mutation, oracle
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

    from gpumon.sources.prometheus.cut import Orders

PAGES: Final = (
    '# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01",hpc_job="7"} 97\nDCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bb",pci_bus_id="00000000:2B:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01",container="",namespace="",pod=""} 0\n',
    'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-aa",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="gpu01"} 0.250000\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa"} 9223372036854775794\nDCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa"} 40000\n',
    'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-aa"} 123456789012\nDCGM_FI_DEV_POWER_VIOLATION{gpu="0",UUID="GPU-aa"} 5e9\nDCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa",err_code="79"} 79\n',
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="gpu01"} 5\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="gpu01",pod="x"} 7\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 7\nDCGM_FI_DEV_NAME{UUID="GPU-aa"} 1\nDCGM_FI_DEV_GPU_TEMP{UUID="GPU-cc",Hostname="gpu02"} 5 1795250000000\nDCGM_FI_DEV_FB_USED{UUID="GPU-cc",Hostname="gpu02"} 5\nDCGM_FI_DEV_FB_FREE{UUID="GPU-cc",Hostname="gpu02"} 5\n',
    "node_load1 0.5\nnode_memory_MemTotal_bytes 1.34e+11 1700000000000\n",
    'go_goroutines 8\nnode_cpu_seconds_total{cpu="0",mode="idle"} 100\nnode_cpu_seconds_total{cpu="0",mode="user"} 70\nnode_disk_read_bytes_total{device="sda"} 500\nnode_network_receive_bytes_total{device="eno1"} 40\nnode_time_seconds 1.795794404e+09\nnode_boot_time_seconds 1.795794304e+09\nnode_uname_info{nodename="gpu07"} 1\n',
    'node_filesystem_size_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 100\nnode_filesystem_free_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 70\nnode_infiniband_state_id{device="mlx5_0",port="1"} 4\nnode_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10\nnode_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 4000\n',
    'node_mountstats_nfs_operations_requests_total{export="nfs:/home",operation="READ"} 7\nnode_mountstats_nfs_operations_transmissions_total{export="nfs:/home",operation="READ"} 9\nlustre_read_bytes_total{component="client",target="scratch-ffff8a4c5f3b2000"} 7000\ngpfs_perf_operations_total{fs="project",operation="writes"} 18874626\n',
    'nvidia_smi_gpu_info{driver_version="550.54.15",name="NVIDIA H100",uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa",index="3"} 1\nnvidia_smi_index{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 3\nnvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0.97\n',
    'rpc_duration_seconds_bucket{le="+Inf"} 5 # {trace_id="ab"} 0.5 1700000000.1\n# EOF\n',
    'msdos_file{path="C:\\\\DIR\\n\\"x\\"",error="no } brace"} 1.458255915e9\n{"utf8.name","la.bel"="x"} NaN\na{b="c"} +Inf\na{b="d"} -Inf\n',
)


NOW: Final = 1_795_260_000.0
_VALUE: Final = re.compile(rb"\} \S+\n")
VALUES: Final = (
    *(b"0", b"1", b"97", b"-1", b"0.5", b"1e9", b"79", b"NaN", b"+Inf", b"1_0", b"x", b"1 5"),
    *(b"2147483632", b"2147483635", b"9223372036854775794", b"140737488355328.0", b"1e300"),
)


def _page_made(rng: Random) -> bytes:
    return mutation.encoded(rng, mutation.text(rng, PAGES, ""))


def _page(given: bytes) -> None:
    page = parse(given)
    oracle.well_formed(page.wrong)
    for sample in page.samples:
        oracle.well_formed((sample.name, dict(sample.labels)))
        if max(map(len, (sample.name, *sample.labels, *sample.labels.values()))) > LONGEST_LABEL:
            raise oracle.BrokenError(f"a label of any length: {sample!r:.120}")
    oracle.well_formed(numbers(given.split()[:3]) is None)
    wanted = [number for number, one in enumerate(page.samples) if one.place is not None]
    shape = shape_of(given, page, wanted)
    words = None if shape is None else shape.words(given)
    strict = [page.samples[number].value for number in wanted]
    if words is None or repr(numbers(words)) != repr(strict):
        raise oracle.BrokenError("the short way reads something else than the strict one")


def _dcgm_made(rng: Random) -> list[bytes]:
    """Two or three pages of one address: with other values, or quite another."""
    pages = [_page_made(rng)]
    for _ in range(rng.randint(1, 2)):
        again = pages[-1]
        if rng.random() < 0.7:
            again = _VALUE.sub(lambda match: b"} " + rng.choice(VALUES) + b"\n", again)
        pages.append(again if rng.random() < 0.8 else _page_made(rng))
    return pages


def _dcgm(given: list[bytes]) -> None:
    reader = PageReader("gpu01")
    for number, body in enumerate(given):
        at = number * 200.0
        try:
            readings = reader.read(body, NOW + at, at)
        except PlanError as error:
            oracle.well_formed((error.message, error.hint))
            continue
        oracle.frames(
            Frame(
                *("dcgm+http://x", "gpu01", NOW + at, 0.0, one.blocks, one.errors),
                host_names=(one.host_name,),
            )
            for one in readings
        )


_GPU: Final = (
    '"UUID":"GPU-aa","gpu":"0","device":"nvidia0","Hostname":"gpu01","instance":"gpu01:9400"',
    '"UUID":"GPU-bb","gpu":"1","GPU_I_ID":"7","GPU_I_PROFILE":"1g.10gb","instance":"gpu02:9400"',
    '"uuid":"GPU-cc","hostname":"gpu03","modelName":"NVIDIA H100 80GB HBM3"',
)
_ROWS: Final = ",".join(f'{{"metric":{{{one}}},"value":[1795260000.5,"%s"]}}' for one in _GPU)
ANSWERS: Final = (
    '{"status":"success","data":{"resultType":"vector","result":['
    + _ROWS % ("97", "5", "NaN")
    + "]}}",
    '{"status":"success","data":{"resultType":"vector","result":['
    + _ROWS % ("1795259999.5", "1795259990", "1795259000")
    + ']},"warnings":["store A is down"]}',
    '{"status":"success","data":{"resultType":"scalar","result":[1795260000.5,"1795260000.5"]}}',
    '{"status":"success","data":["DCGM_FI_DEV_GPU_UTIL","DCGM_FI_DEV_FB_USED","up"]}',
    '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1795259980,"1"],[1795259995,"1"]]}]}}',
    '{"status":"error","errorType":"bad_data","error":"invalid parameter"}',
)


class _Answers:
    """Answers in place of a server: each question with the next of them, in turn."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._bodies = bodies
        self._count = 0

    def renew(self) -> None:
        """Nothing lets anybody in."""

    async def ask(
        self, path: str, params: dict[str, str], orders: Orders | None = None
    ) -> response.Answer:
        """The answer to any question: mostly one of its kind."""
        kinds = {"label/__name__/values": 3, "time()": 2}
        kind = kinds.get(path, kinds.get(params.get("query", ""), 0))
        kind = 1 if "timestamp" in params.get("query", "") else kind
        kind = 4 if "[300s]" in params.get("query", "") else kind
        self._count += 1
        own = self._bodies[kind] if self._count % 7 else self._bodies[self._count % 6]
        return response.opened(own, 200, orders)


def _answers_made(rng: Random) -> list[bytes]:
    """One answer of each kind, some of them changed."""
    return [
        mutation.encoded(rng, mutation.text(rng, (one,), ""))
        if rng.random() < 0.3
        else one.encode()
        for one in ANSWERS
    ]


def _answers(given: list[bytes]) -> None:
    for body in given:
        try:
            opened = response.opened(body, 200)
        except FetchError as error:
            oracle.well_formed((error.message, error.hint))
            continue
        oracle.well_formed(opened.warnings)
        for read in (response.names, response.instant, response.vector, response.times):
            try:
                read(opened)
            except FetchError as error:
                oracle.well_formed((error.message, error.hint))
    questions, nodes = Questions(_Answers(given)), Nodes()  # type: ignore[arg-type]
    for number in range(2):
        try:
            seen = asyncio.run(questions.poll())
        except FetchError as error:
            oracle.well_formed((error.message, error.hint))
            continue
        oracle.well_formed(seen.remarks)
        readings, errors = nodes.read(seen, NOW + number, 3600.0)
        oracle.well_formed([tuple(error) for error in errors])
        oracle.frames(
            Frame(
                *("prometheus+http://x", one.node, NOW, 0.0, one.reading.blocks),
                one.reading.errors,
                host_names=(one.reading.host_name,),
            )
            for one in readings
        )


TARGETS: Final = (
    Target(
        "prometheus",
        _answers_made,
        _answers,
        (
            "sources/prometheus/response.py",
            "sources/prometheus/questions.py",
            "sources/prometheus/nodes.py",
        ),
    ),
    Target(
        "dcgm",
        _dcgm_made,
        _dcgm,
        (
            *("sources/exporters/dcgm.py", "sources/exporters/series_layout.py"),
            *("sources/exporters/host_plan.py", "sources/exporters/host_names.py"),
        ),
    ),
    Target(
        "exposition",
        _page_made,
        _page,
        ("sources/exposition/parse.py", "sources/exposition/shape.py"),
    ),
)
