"""What bounds a job, in the document: what the page of its roofline says, and why else nothing."""

from __future__ import annotations

import json

import pytest

import gpumon.report.document.job_bounds as part
from gpumon.cli import main
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.report.document.document import document
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.speed_of_light import speed_of_light
from gpumon.report.text import units
from gpumon.sources.demo import DemoSource
from tests.unit.report.json.test_document import checked
from tests.worlds import tick as ticks
from tests.worlds.clocks import Hasty

PAST_S = 1200.0
PERIOD_S = 20.0
SPAN_S = 900.0
WIDTH = 400


@pytest.fixture(scope="module")
def lived():
    """The demo's fleet after twenty minutes, all of whose jobs were named."""
    clock = Hasty(1_760_000_000.0)
    source = DemoSource("demo:", 10, 8, 1, clock, PERIOD_S, PAST_S)
    sampler = Sampler([source], clock, PERIOD_S, lambda: History(24 * 3600.0))
    try:
        tick = sampler.sample_for(PAST_S)
    finally:
        sampler.close()
    return tick, {
        one["job_id"]: one["speed_of_light"]
        for one in checked(document(tick, has_bounds=True))["jobs"]
    }


def page_of(tick, view):
    """Lines of the page, and of those the ones that have a ceiling: name, per cent, the rest."""
    digest = Digest(tick)
    page = speed_of_light(digest, digest.gpus(view), view, SPAN_S, WIDTH)
    lines = ["".join(cell.text for cell in line) for line in page.lines]
    ceilings = [line for line in lines if " %   " in line]
    return lines, [
        (line[:28].rstrip(), line.partition(" %")[0].split()[-1], line.partition(" % ")[2].strip())
        for line in ceilings
    ]


def amount(one, key):
    value = one[key]
    if one["unit"] == "bytes":
        return units.rate(value)
    size, sign = next(
        pair for pair in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (0, "G")) if value >= pair[0]
    )
    return f"{value / (size or 1e9):.3g} {sign}FLOPS"


def test_each_job_of_a_fleet_has_in_the_document_what_its_page_says(lived):
    tick, told = lived
    assert len(told) == len(tick.jobs)
    kinds = set()
    for view in tick.jobs:
        of_job = told[view.job.job_id]
        lines, shown = page_of(tick, view)
        said = " ".join(lines)
        for text in (of_job["summary"], of_job["why_unknown"], *of_job["notes"]):
            for sentence in (text or "").split(". "):
                assert sentence in said
        known = [one for one in of_job["ceilings"] if one["why_unknown"] is None]
        names = [one["name"] for one in known]
        assert [name for name, *_ in shown] == [name for name in names if name in said]
        by_name = {one["name"]: one for one in known}
        for name, percent, rest in shown:
            one = by_name[name]
            assert percent == units.percent(one["ratio"])
            assert rest.startswith(
                f"{amount(one, 'reached_per_s')} of {amount(one, 'ceiling_per_s')}"
            )
        if known:
            best = max(one["ratio"] for one in known)
            assert of_job["nearest_ratio"] in (best, None)
            assert (of_job["nearest"] is None) == (of_job["why_unknown"] is not None)
        kinds.add((bool(known), of_job["why_unknown"] is None, bool(of_job["notes"])))
    # Jobs of which something is known, with and without profiling counters, and that wait.
    assert {(True, True, True), (True, False, False), (False, False, False)} <= kinds


def test_each_ceiling_is_told_or_a_reason_is(lived):
    _, told = lived
    for of_job in told.values():
        for one in of_job["ceilings"]:
            is_known = one["ratio"] is not None and one["ceiling_per_s"] is not None
            assert is_known == (one["why_unknown"] is None)
            assert (one["reached_per_s"] is not None) == is_known


def test_every_precision_of_the_data_sheet_has_a_ceiling_and_links_are_counted(lived):
    _, told = lived
    of_job = next(one for one in told.values() if one["product"] == "H100 SXM" and one["nearest"])
    by_what = {one["what"]: one for one in of_job["ceilings"]}
    pipes = {"fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"}
    assert set(by_what) == {*pipes, "memory", "nvlink", "pcie", "network"}
    assert {what for what, one in by_what.items() if one["unit"] == "operations"} == pipes
    estimates = {what for what, one in by_what.items() if one["is_estimate"]}
    assert estimates == {*pipes, "memory"}
    assert by_what["fp8"]["data_sheet_per_s"] == 1979e12
    assert by_what["fp8"]["why_unknown"] == (
        "no counter separates it from BF16, so it counts as that"
    )
    for what in ("int8", "fp64_tensor"):
        assert by_what[what]["why_unknown"] == (
            "its counter is not stored over time, so it is counted as BF16"
        )
    assert by_what["bf16"]["fields"] == ["tensor_active_ratio", "sm_clock_mhz"]
    assert by_what["network"]["port"].startswith("gpu")
    (note,) = of_job["notes"]
    assert note == (
        "All tensor work counts as 16 bit: no counter separates TF32 and FP8; those of INT8 and "
        "FP64 are not stored over time."
    )
    done, moved = of_job["operations_per_s"], of_job["memory_bytes_per_s"]
    assert of_job["operations_per_byte"] == pytest.approx(done / moved)


def test_of_jobs_that_nobody_named_it_is_not_asked(monkeypatch):
    def dear(*_given):
        raise AssertionError("nobody asked")

    monkeypatch.setattr(part, "what_bounds", dear)
    jobs = checked(document(ticks.fleet()))["jobs"]
    assert {one["speed_of_light"] for one in jobs} == {None}


def test_the_command_tells_it_of_the_job_that_it_names(capsys):
    assert main(["--json", "--for", "0", "demo"]) == 0
    jobs = checked(json.loads(capsys.readouterr().out))["jobs"]
    assert {one["speed_of_light"] for one in jobs} == {None}
    name = next(one["job_id"] for one in jobs if one["gpus"])
    assert main(["--json", "--for", "0", "--job", name, "demo"]) == 0
    (job,) = checked(json.loads(capsys.readouterr().out))["jobs"]
    assert job["speed_of_light"]["why_unknown"] == "There is no past of it here, so no mean."
    assert job["speed_of_light"]["bound_by"] is None
    by_what = {one["what"]: one for one in job["speed_of_light"]["ceilings"]}
    assert by_what["memory"]["ceiling_per_s"] > 1e12
    assert {one["ratio"] for one in by_what.values()} == {None}
