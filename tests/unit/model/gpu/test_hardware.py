"""Data sheets: found by exact names alone, and honest about what is not known."""

from __future__ import annotations

import pytest

from gpumon.model.gpu.hardware import Basis, Sheet, sheet_for, sheet_named, sheets

MIB = 2**20

PRECISIONS = {
    *("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"),
}

REPORTED = {
    "Tesla V100-SXM2-16GB": (16160 * MIB, 300, "V100 SXM2 16 GB"),
    "Tesla V100-SXM2-32GB": (32510 * MIB, 300, "V100 SXM2 32 GB"),
    "Tesla T4": (15360 * MIB, 70, "T4"),
    "NVIDIA A10": (23028 * MIB, 150, "A10"),
    "NVIDIA A30": (24576 * MIB, 165, "A30"),
    "NVIDIA A100-PCIE-40GB": (40960 * MIB, 250, "A100 PCIe 40 GB"),
    "NVIDIA A100 80GB PCIe": (81920 * MIB, 300, "A100 PCIe 80 GB"),
    "NVIDIA A100-SXM4-40GB": (42297524224, 400, "A100 SXM 40 GB"),
    "NVIDIA A100-SXM4-80GB": (84990623744, 400, "A100 SXM 80 GB"),
    "NVIDIA L4": (23034 * MIB, 72, "L4"),
    "NVIDIA L40S": (46068 * MIB, 350, "L40S"),
    "NVIDIA RTX 6000 Ada Generation": (49140 * MIB, 300, "RTX 6000 Ada"),
    "NVIDIA H100 PCIe": (81559 * MIB, 350, "H100 PCIe"),
    "NVIDIA H100 NVL": (95830 * MIB, 400, "H100 NVL"),
    "NVIDIA H100 80GB HBM3": (85520809984, 700, "H100 SXM"),
    "NVIDIA H200": (150754820096, 700, "H200 SXM"),
    "NVIDIA GH200 480GB": (97871 * MIB, 900, "GH200 96 GB"),
    "NVIDIA GH200 144G HBM3e": (153008209920, 900, "GH200 144 GB"),
    "NVIDIA GH200 120GB": (97871 * MIB, 900, "GH200 96 GB"),
    "Tesla V100-PCIE-16GB": (16160 * MIB, 250, "V100 PCIe 16 GB"),
    "Tesla V100-PCIE-32GB": (32510 * MIB, 250, "V100 PCIe 32 GB"),
    "Tesla V100S-PCIE-32GB": (32510 * MIB, 250, "V100S PCIe 32 GB"),
    "NVIDIA A2": (15356 * MIB, 60, "A2"),
    "NVIDIA A10G": (23028 * MIB, 300, "A10G"),
    "NVIDIA A16": (15356 * MIB, 62.5, "A16"),
    "NVIDIA A40": (46068 * MIB, 300, "A40"),
    "NVIDIA A100-SXM-64GB": (65536 * MIB, 450, "A100 SXM 64 GB"),
    "NVIDIA A800-SXM4-80GB": (81920 * MIB, 400, "A800 SXM 80 GB"),
    "NVIDIA A800 80GB PCIe": (81920 * MIB, 300, "A800 PCIe 80 GB"),
    "NVIDIA L20": (46068 * MIB, 275, "L20"),
    "NVIDIA L40": (46068 * MIB, 300, "L40"),
    "NVIDIA RTX A5000": (24564 * MIB, 230, "RTX A5000"),
    "NVIDIA RTX A6000": (49140 * MIB, 300, "RTX A6000"),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": (
        97887 * MIB,
        600,
        "RTX PRO 6000 Workstation",
    ),
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": (
        97887 * MIB,
        300,
        "RTX PRO 6000 Max-Q",
    ),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": (97887 * MIB, 600, "RTX PRO 6000 Server"),
    "NVIDIA GeForce RTX 2080 Ti": (11264 * MIB, 250, "GeForce RTX 2080 Ti"),
    "NVIDIA GeForce RTX 3080": (10240 * MIB, 320, "GeForce RTX 3080"),
    "NVIDIA GeForce RTX 3090": (24576 * MIB, 350, "GeForce RTX 3090"),
    "NVIDIA GeForce RTX 3090 Ti": (24564 * MIB, 450, "GeForce RTX 3090 Ti"),
    "NVIDIA GeForce RTX 4080": (16376 * MIB, 320, "GeForce RTX 4080"),
    "NVIDIA GeForce RTX 4090": (24564 * MIB, 450, "GeForce RTX 4090"),
    "NVIDIA GeForce RTX 5080": (16303 * MIB, 360, "GeForce RTX 5080"),
    "NVIDIA GeForce RTX 5090": (32607 * MIB, 575, "GeForce RTX 5090"),
    "NVIDIA H20": (97871 * MIB, 500, "H20"),
    "NVIDIA H800": (81559 * MIB, 700, "H800 SXM"),
    "NVIDIA H200 NVL": (143771 * MIB, 600, "H200 NVL"),
    "NVIDIA GB10": (128 * 10**9, 140, "GB10"),
    "NVIDIA B200": (183359 * MIB, 1000, "B200 SXM"),
    "NVIDIA GB200": (189471 * MIB, 1200, "GB200"),
    "NVIDIA B300 SXM6 AC": (275040 * MIB, 1100, "B300 SXM"),
    "NVIDIA GB300": (284208 * MIB, 1400, "GB300"),
}
"""Memory as drivers report it, power limit, and the product that it is."""

every_sheet = pytest.mark.parametrize("sheet", sheets(), ids=lambda sheet: sheet.product)


def found(name: str) -> Sheet:
    memory, limit, _ = REPORTED[name]
    sheet = sheet_for(name, memory, limit)
    assert sheet is not None
    return sheet


@pytest.mark.parametrize("name", REPORTED)
def test_what_a_driver_reports_finds_its_sheet(name: str) -> None:
    assert found(name).product == REPORTED[name][2]


def test_every_sheet_with_a_name_is_found_in_a_test() -> None:
    assert {s.product for s in sheets() if s.names} == {
        product for _, _, product in REPORTED.values()
    }
    assert [sheet.product for sheet in sheets() if not sheet.names] == ["B100 SXM"]


def test_no_name_belongs_to_two_products() -> None:
    names = [name for sheet in sheets() for name in sheet.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H20-3e",
        "NVIDIA H800 PCIe",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3080 Ti",
        "NVIDIA H100",
        "NVIDIA A100X",
        "NVIDIA RTX 6000",
        "Quadro RTX 6000",
        "NVIDIA B20",
        "B200",
        "nvidia b200",
        "NVIDIA B200 ",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "GRID A100-10C",
        "NVIDIA A100-4-20C",
        "NVIDIA L40S-48Q",
        "",
        None,
    ],
)
@pytest.mark.parametrize("memory", [memory for memory, _, _ in REPORTED.values()])
def test_a_name_that_only_looks_like_a_known_one_is_unknown(name: str | None, memory: int) -> None:
    assert sheet_for(name, memory, None) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NVIDIA B200", "NVIDIA GB200"),
        ("NVIDIA B300 SXM6 AC", "NVIDIA GB300"),
        ("NVIDIA L4", "NVIDIA L40S"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA A10", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"),
    ],
)
def test_names_that_contain_one_another_have_different_figures(one: str, other: str) -> None:
    assert found(one) != found(other)
    memory, limit, _ = REPORTED[other]
    swapped = sheet_for(one, memory, limit)
    assert swapped is None or swapped.product == REPORTED[one][2]


def test_memory_tells_a_slice_from_the_whole() -> None:
    whole = REPORTED["NVIDIA H100 80GB HBM3"][0]
    assert sheet_for("NVIDIA H100 80GB HBM3", whole, 700) is not None
    assert sheet_for("NVIDIA H100 80GB HBM3", whole / 2, 700) is None
    assert sheet_for("NVIDIA H100 80GB HBM3", whole * 1.2, 700) is None
    assert sheet_for("NVIDIA H100 80GB HBM3", None, 700) is None
    # The 480 GB of the name are the CPU's memory.
    assert sheet_for("NVIDIA GH200 480GB", 480e9, 900) is None


def test_a_power_limit_may_be_lowered_but_not_beyond_the_product() -> None:
    memory = REPORTED["NVIDIA H200"][0]
    assert sheet_for("NVIDIA H200", memory, 350) is sheet_for("NVIDIA H200", memory, 700)
    assert sheet_for("NVIDIA H200", memory, None) is sheet_for("NVIDIA H200", memory, 700)
    assert sheet_for("NVIDIA H200", memory, 1000) is None
    assert sheet_for("NVIDIA A100-SXM4-80GB", 84990623744, 500) is not None


@every_sheet
def test_figures_are_whole_and_say_where_they_come_from(sheet: Sheet) -> None:
    figures = [
        sheet.memory_bytes,
        sheet.memory_bytes_per_s,
        sheet.tdp_w,
        *sheet.dense_tflops.values(),
        *sheet.achievable_tflops.values(),
        *(sheet.nvlink_links, sheet.nvlink_bytes_per_s, sheet.pcie_gen, sheet.pcie_lanes),
    ]
    for figure in figures:
        if figure is not None:
            assert figure.value > 0
            assert figure.source
            assert (figure.basis is Basis.SEEN) == figure.source.startswith("stas00/ml-engineering")
    assert sheet.dense_tflops.keys() <= PRECISIONS
    # Of a small one with the host's memory nothing else is printed.
    assert "fp32" in sheet.dense_tflops or sheet.has_shared_memory


@every_sheet
def test_lower_precision_is_never_slower_and_the_achieved_below_the_peak(sheet: Sheet) -> None:
    order = ("fp32", "tf32", "fp16", "fp8", "fp4")
    peaks = [sheet.dense_tflops[key].value for key in order if key in sheet.dense_tflops]
    assert peaks == sorted(peaks)
    for precision, figure in sheet.achievable_tflops.items():
        assert 0.5 < figure.value / sheet.dense_tflops[precision].value < 1


def test_figures_of_the_sheets_that_were_read() -> None:
    h100, h200, gb200 = (
        found(name) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA GB200")
    )
    assert h100.dense_tflops["bf16"].value == 989
    assert h100.dense_tflops["fp8"].value == 1979
    assert h100.achievable_tflops["bf16"].value == 794.5
    assert h100.memory_bytes_per_s.value == pytest.approx(3.35e12)
    assert h200.memory_bytes_per_s.value == pytest.approx(4.8e12)
    assert "bf16" not in h200.achievable_tflops
    assert gb200.dense_tflops["fp4"].value == 10000
    assert "bf16" not in found("Tesla T4").dense_tflops


def test_links_are_counted_in_one_direction() -> None:
    a100, h100, b200 = (
        found(name) for name in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA B200")
    )
    assert (a100.link_bytes_per_s, h100.link_bytes_per_s, b200.link_bytes_per_s) == (
        25e9,
        25e9,
        50e9,
    )
    assert h100.nvlink_bytes_per_s
    assert h100.nvlink_bytes_per_s.value == 450e9
    assert found("NVIDIA GB200").link_bytes_per_s == 50e9
    assert found("NVIDIA GH200 144G HBM3e").link_bytes_per_s == 25e9
    assert found("NVIDIA A800-SXM4-80GB").link_bytes_per_s == 25e9
    assert found("NVIDIA A40").link_bytes_per_s is None
    assert found("NVIDIA L40S").nvlink_bytes_per_s is None
    assert found("NVIDIA H100 PCIe").has_bridge_only
    assert not h100.has_bridge_only


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        ("Tesla V100-SXM2-16GB", 0),
        ("Tesla T4", 0),
        ("NVIDIA A10", 0),
        ("NVIDIA L40S", 0),
        ("NVIDIA A30", 4),
        ("NVIDIA A100-PCIE-40GB", 7),
        ("NVIDIA H100 NVL", 7),
        ("NVIDIA H200", 7),
        ("NVIDIA B200", 7),
        ("NVIDIA GB200", 7),
    ],
)
def test_what_mig_can_cut(name: str, slices: int) -> None:
    sheet = sheet_named(name)
    assert sheet is not None
    assert sheet.mig_slices == slices


def test_no_sheet_is_guessed_from_a_name() -> None:
    assert sheet_named("NVIDIA H100") is None
    assert sheet_named(None) is None


def test_what_shares_a_chip_does_not_share_its_figures() -> None:
    def peak(name: str, precision: str) -> float:
        return found(name).dense_tflops[precision].value

    assert found("NVIDIA GH200 144G HBM3e").memory_bytes_per_s.value == pytest.approx(4.9e12)
    assert found("NVIDIA GH200 144G HBM3e").memory_bytes.value == 144e9
    assert peak("NVIDIA B200", "fp32") == peak("NVIDIA B300 SXM6 AC", "fp32") == 75
    assert peak("NVIDIA GB200", "fp32") == 80
    assert found("NVIDIA B300 SXM6 AC").tdp_w.value == 1100
    assert found("NVIDIA GB300").tdp_w.value == 1400
    assert peak("NVIDIA B300 SXM6 AC", "fp4") < peak("NVIDIA GB300", "fp4")
    assert peak("NVIDIA H20", "bf16") < peak("NVIDIA H800", "bf16") / 5
    assert peak("NVIDIA H800", "fp64") < peak("NVIDIA H100 80GB HBM3", "fp64") / 10


def test_double_precision_is_told_of_hpc_products_and_of_no_other() -> None:
    doubles = {sheet.product for sheet in sheets() if "fp64" in sheet.dense_tflops}
    assert {"A30", "A100 SXM 80 GB", "H100 SXM", "H200 NVL", "GB200", "V100S PCIe 32 GB"} <= doubles
    assert not doubles & {"T4", "L40S", "A40", "GeForce RTX 4090"}
    a100 = found("NVIDIA A100-SXM4-80GB").dense_tflops
    assert a100["fp64_tensor"].value == pytest.approx(2 * a100["fp64"].value, rel=0.02)


def test_two_products_of_one_name_are_told_apart_by_their_memory() -> None:
    assert sheet_for("NVIDIA GeForce RTX 3080", 12288 * MIB, 350) is None


def test_a_product_with_the_hosts_memory_needs_no_total() -> None:
    sheet = sheet_for("NVIDIA GB10", None, None)
    assert sheet is not None
    assert sheet.memory_bytes_per_s.value == pytest.approx(273e9)
    assert sheet_for("NVIDIA H200", None, None) is None
