"""What exporters say over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.exposition.parse import LONGEST_LABEL, parse
from gpumon.sources.exposition.shape import numbers, shape_of
from tests.fuzz import mutation, oracle
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

PAGES: Final = (
    '# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01",hpc_job="7"} 97\nDCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bb",pci_bus_id="00000000:2B:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01",container="",namespace="",pod=""} 0\n',
    'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-aa",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="gpu01"} 0.250000\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa"} 9223372036854775794\nDCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa"} 40000\n',
    'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-aa"} 123456789012\nDCGM_FI_DEV_POWER_VIOLATION{gpu="0",UUID="GPU-aa"} 5e9\nDCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa",err_code="79"} 79\n',
    "node_load1 0.5\nnode_memory_MemTotal_bytes 1.34e+11 1700000000000\n",
    'rpc_duration_seconds_bucket{le="+Inf"} 5 # {trace_id="ab"} 0.5 1700000000.1\n# EOF\n',
    'msdos_file{path="C:\\\\DIR\\n\\"x\\"",error="no } brace"} 1.458255915e9\n{"utf8.name","la.bel"="x"} NaN\na{b="c"} +Inf\na{b="d"} -Inf\n',
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


TARGETS: Final = (
    Target(
        "exposition",
        _page_made,
        _page,
        ("sources/exposition/parse.py", "sources/exposition/shape.py"),
    ),
)
