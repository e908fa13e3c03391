"""Pages of nvidia_gpu_exporter: GPUs by the names of nvidia-smi."""

from __future__ import annotations

import pytest

from gpumon.model.missing import Reason
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exporters.gpu_names import SMI
from gpumon.sources.exporters.strangers import PlanError

BARE = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
INFO = (
    f'driver_version="550.54.15",name="NVIDIA H100",uuid="{BARE}",vbios_version="96.0",'
    'pci_bus_id="00000000:1B:00.0",serial="[N/A]",index="3"'
)
PAGE = f"""nvidia_smi_command_exit_code 0
nvidia_smi_clocks_current_sm_clock_hz{{uuid="{BARE}"}} 1.98e+09
nvidia_smi_clocks_event_reasons_active{{uuid="{BARE}"}} 4
nvidia_smi_enforced_power_limit_watts{{uuid="{BARE}"}} 700
nvidia_smi_gpu_info{{{INFO}}} 1
nvidia_smi_index{{uuid="{BARE}"}} 3
nvidia_smi_memory_total_bytes{{uuid="{BARE}"}} 8.5899345920e+10
nvidia_smi_memory_used_bytes{{uuid="{BARE}"}} 2147483648
nvidia_smi_name{{uuid="{BARE}"}} 2080
nvidia_smi_pcie_link_gen_current{{uuid="{BARE}"}} 5
nvidia_smi_power_draw_watts{{uuid="{BARE}"}} 412.5
nvidia_smi_pstate{{uuid="{BARE}"}} 0
nvidia_smi_temperature_gpu{{uuid="{BARE}"}} 61
nvidia_smi_utilization_gpu_ratio{{uuid="{BARE}"}} 0.97
nvidia_smi_utilization_memory_ratio{{uuid="{BARE}"}} 0.4
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("index", 3),
        ("gpu_util_ratio", 0.97),
        ("mem_activity_ratio", 0.4),
        ("mem_total_bytes", 85899345920.0),
        ("mem_used_bytes", 2147483648.0),
        ("power_w", 412.5),
        ("power_limit_w", 700.0),
        ("temp_c", 61.0),
        ("sm_clock_mhz", 1980.0),
        ("clock_event_reasons", 4),
        ("pcie_gen", 5),
        ("perf_state", 0),
    ],
)
def test_each_name_is_a_field_in_its_unit(key: str, value: float) -> None:
    (found,) = PageReader("gpu01").read(PAGE.encode(), 0.0, 10.0)
    assert found.blocks["gpu"].value(key, 0) == pytest.approx(value)


def test_a_gpu_is_nvmls_uuid_with_what_the_board_says_of_itself() -> None:
    (found,) = PageReader("gpu01").read(PAGE.encode(), 0.0, 10.0)
    gpu = found.blocks["gpu"]
    assert gpu.keys == (f"GPU-{BARE}",)
    labels_text = {key: gpu.label(key, 0) for key in ("name", "pci_bus_id", "vbios", "serial")}
    assert labels_text == {
        "name": "NVIDIA H100",
        "pci_bus_id": "00000000:1B:00.0",
        "vbios": "96.0",
        "serial": None,
    }
    assert gpu.reason("sm_active_ratio", 0) is Reason.NOT_SHARED
    assert found.blocks["node"].label("driver_version", 0) == "550.54.15"


def test_no_name_is_dcgms() -> None:
    assert not any(name.startswith("DCGM") for name in SMI)


def test_a_page_of_nvidia_gpu_prometheus_exporter_names_gpus_and_their_jobs() -> None:
    labels_text = 'ordinal="1",minor_number="1",uuid="GPU-7",name="NVIDIA H100",jobid="4711"'
    values = {
        "duty_cycle": 97,
        "memory_used_bytes": 2**30,
        "memory_total_bytes": 80 * 2**30,
        "power_usage_milliwatts": 412_500,
        "temperature_celsius": 61,
        "sm_util_percent": 0.5,
        "any_tensor_util": 0.25,
        "num_devices": 1,
    }
    page = "".join(
        f"nvidia_gpu_{name}{{{labels_text}}} {value}\n" for name, value in values.items()
    )
    (reading,) = PageReader("n1").read(page.encode(), 0.0, 0.0)
    gpus = reading.blocks["gpu"]
    keys = ("gpu_util_ratio", "mem_used_bytes", "power_w", "temp_c", "sm_active_ratio", "index")
    assert [gpus.value(key, 0) for key in keys] == [0.97, 2**30, 412.5, 61, 0.5, 1]
    assert gpus.value("tensor_active_ratio", 0) == 0.25
    assert gpus.label("label_jobs", 0) == "4711"
    assert reading.errors == ()


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (
            'slurm_job_memory_usage{user="a",account="b",slurmjobid="7",gpu="0"} 1',
            "slurm-job-exporter",
        ),
        ('cgroup_cpu_total_seconds{cgroup="/slurm/job_7",jobid="7"} 1', "cgroup_exporter"),
        ("slurm_jobs_running 4", "an exporter of Slurm"),
        ('nvidia_gpu_clock{uuid="GPU-7",type="sm"} 1980', "nvidia_gpu_prometheus_exporter"),
        ('nvidia_smi_utilization_gpu{uuid="GPU-7",name="A10"} 45', "Telegraf"),
        ('dcgm_gpu_utilization{gpu="0",uuid="GPU-7"} 45', "dcgm-exporter before 2.0"),
    ],
)
def test_who_tells_nothing_of_gpus_is_refused_by_name(line: str, who: str) -> None:
    with pytest.raises(PlanError, match=who):
        PageReader("n1").read(f"{line}\n".encode(), 0.0, 0.0)


def test_counters_are_read_by_the_name_that_collectors_give_them() -> None:
    labels_text = 'gpu="0",UUID="GPU-7",Hostname="n1"'
    values = {
        "DEV_TOTAL_ENERGY_CONSUMPTION_total": 8_000_000,
        "DEV_PCIE_REPLAY_COUNTER_total": 3,
        "DEV_ECC_DBE_VOL_TOTAL_total": 2,
        "DEV_PCIE_REPLAY_TOTAL_total": 9,
        "DEV_FB_FREE_total": 1000,
        "DEV_FB_USED": 24,
    }
    page = "".join(f"DCGM_FI_{name}{{{labels_text}}} {value}\n" for name, value in values.items())
    (reading,) = PageReader("n1").read(page.encode(), 0.0, 0.0)
    gpus = reading.blocks["gpu"]
    keys = ("energy_j", "pcie_replay_count", "ecc_uncorrected_volatile_count", "mem_total_bytes")
    assert [gpus.value(key, 0) for key in keys] == [8000.0, 3, 2, 2**30]
    assert reading.errors == ()


def test_a_name_as_the_exporter_writes_it_counts_before_a_collectors() -> None:
    labels_text = 'gpu="0",UUID="GPU-7",Hostname="n1"'
    lines = [f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{end}{{{labels_text}}}" for end in ("_total", "")]
    page = f"{lines[0]} 5\n{lines[1]} 6\n"
    (reading,) = PageReader("n1").read(page.encode(), 0.0, 0.0)
    assert reading.blocks["gpu"].value("pcie_replay_count", 0) == 6


def test_an_xid_comes_by_a_collectors_name_as_well() -> None:
    line = 'DCGM_FI_DEV_XID_ERRORS_total{gpu="0",UUID="GPU-7",Hostname="n1"} '
    reader = PageReader("n1")
    reader.read(f"{line}0\n".encode(), 1000.0, 10.0)
    (reading,) = reader.read(f"{line}79\n".encode(), 1030.0, 40.0)
    assert reading.blocks["event"].value("xid", 0) == 79


def test_a_gpu_is_known_by_the_label_that_ceems_renames() -> None:
    line = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",gpuuuid="GPU-7",Hostname="n1"} 50\n'
    (reading,) = PageReader("n1").read(line.encode(), 0.0, 0.0)
    assert reading.blocks["gpu"].keys == ("GPU-7",)


def test_an_instance_with_a_uuid_of_its_own_is_no_gpu() -> None:
    lines = []
    for ordinal in range(2):
        board = f'ordinal="{ordinal}",minor_number="{ordinal}",uuid="GPU-{ordinal}",GPU_I_ID=""'
        lines.append(f"nvidia_gpu_power_usage_milliwatts{{{board}}} 300000")
        lines.append(f"nvidia_gpu_memory_used_bytes{{{board}}} {9 * 2**30}")
        for number in (7, 9):
            own = f'ordinal="{ordinal}",minor_number="{ordinal}",uuid="MIG-{ordinal}-{number}"'
            own += f',GPU_I_ID="{number}",jobid="{number}1"'
            lines.append(f"nvidia_gpu_power_usage_milliwatts{{{own}}} 300000")
            lines.append(f"nvidia_gpu_memory_used_bytes{{{own}}} {number * 2**30}")
            lines.append(f"nvidia_gpu_sm_util_percent{{{own}}} 0.{number}")
    (reading,) = PageReader("n1").read(("\n".join(lines) + "\n").encode(), 0.0, 0.0)
    gpus, migs = reading.blocks["gpu"], reading.blocks["mig"]
    assert gpus.keys == ("GPU-0", "GPU-1")
    assert [gpus.value("power_w", row) for row in (0, 1)] == [300.0, 300.0]
    assert gpus.value("mem_used_bytes", 0) == 9 * 2**30
    assert gpus.label("label_jobs", 1) == "71 91"
    assert [migs.label("parent", row) for row in range(4)] == ["GPU-0"] * 2 + ["GPU-1"] * 2
    assert [migs.value("mig_mem_used_bytes", row) for row in (0, 1)] == [7 * 2**30, 9 * 2**30]
    assert migs.value("mig_sm_active_ratio", 3) == 0.9
    assert reading.errors == ()


def test_an_instance_whose_gpu_nothing_names_is_all_that_is_known_of_it() -> None:
    lines = [
        'nvidia_gpu_power_usage_milliwatts{ordinal="0",uuid="GPU-0"} 300000',
        'nvidia_gpu_power_usage_milliwatts{ordinal="1",uuid="MIG-1",GPU_I_ID="7"} 300000',
    ]
    (reading,) = PageReader("n1").read(("\n".join(lines) + "\n").encode(), 0.0, 0.0)
    assert reading.blocks["gpu"].keys == ("GPU-0", "MIG-1")
    assert reading.blocks["mig"].label("parent", 0) == "MIG-1"
