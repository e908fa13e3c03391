"""What a drawn population of jobs says of the detectors and of the books."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

from gpumon.model.finding_classes import CLASSES
from tests.population.day import lived
from tests.population.fleet import GROUPS, Fleet, Plan
from tests.population.kinds_benign import BENIGN
from tests.population.kinds_wasteful import WASTEFUL
from tests.population.ranges import RANGES, WORKS, Dice
from tests.population.verdicts import TOLERANCE, details, judged, score, table

SEEDS = (20260,)
"""In every whole run, beside a day with holes of another seed; each takes minutes."""
FURTHER_SEEDS = (31415, 27182)
"""Only where every seed is asked for."""
RESTARTED = Plan(seed=4711, jobs=60, hours=5.0, period_s=60, has_holes=True, is_restarted=True)
KINDS = [kind for _, kinds in GROUPS for kind in kinds]

PLANS = [
    *(
        pytest.param(Plan(seed), id=f"seed {seed}", marks=pytest.mark.slow)
        for seed in (*SEEDS, *FURTHER_SEEDS)
    ),
    pytest.param(
        Plan(SEEDS[0] + 1, period_s=60, has_holes=True),
        id="60 s with holes",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("plan", PLANS)
def test_a_day_is_judged_as_it_was(plan, pytestconfig):
    """One test a plan: a day takes minutes to live through."""
    if plan.seed in FURTHER_SEEDS and not pytestconfig.getoption("every"):
        pytest.skip("--every runs it")
    outcome = lived(Fleet(plan))
    verdicts = judged(outcome)
    assert len(verdicts) == plan.jobs
    assert outcome.looks > plan.hours * 3600 / plan.look_s / 2
    assert outcome.errors == frozenset()
    assert outcome.unbalanced == frozenset()
    found = score(verdicts)
    held = {
        "at most one sound job is accused": found.benign_accused <= 1,
        "nine tenths of the known waste are found": found.found_h >= 0.9 * found.true_h,
        "and charged": abs(found.charged_h - found.true_h) <= TOLERANCE * found.true_h,
        "nothing is charged to a wrong class": found.wrong_jobs == 0,
        "nothing costs more than there was to lose": found.overcharged == 0,
    }
    broken = [promise for promise, holds in held.items() if not holds]
    if broken:
        said = f"{table(verdicts)}\n{details(verdicts, outcome)}"
        pytest.fail(f"not so: {'; '.join(broken)}\n{said}")


@pytest.mark.slow
def test_who_starts_gpumon_anew_in_the_middle_of_a_day_accuses_nobody():
    """Whatever it has forgotten by that; what it can still find in time is not asked here."""
    outcome = lived(Fleet(RESTARTED))
    found = score(judged(outcome))
    assert outcome.errors == frozenset()
    assert outcome.unbalanced == frozenset()
    assert (found.benign_accused, found.overcharged) == (0, 0)


def test_there_are_enough_kinds_and_each_can_be_read_at_once():
    assert len(BENIGN) >= 15
    assert len(WASTEFUL) >= 15
    assert len({kind.__name__ for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert len(inspect.getsource(kind).splitlines()) <= 40, kind.__name__


def test_the_population_is_other_code_than_the_demo():
    for file in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])]
            for name in (getattr(node, "module", None) or "", *names):
                assert not name.startswith(("gpumon.simulate", "gpumon_detectors")), file.name


def test_every_range_names_its_source_and_is_drawn_from():
    code = "".join(file.read_text() for file in Path(__file__).parent.glob("kinds_*.py"))
    for name, drawn in RANGES.items():
        assert drawn.source
        assert drawn.low <= drawn.high
        assert f'"{name}"' in code or name == "job_h", name
    for name, work in WORKS.items():
        assert work.source
        assert f'"{name}"' in code, name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", [3, 88, 615])
def test_what_is_drawn_is_possible_and_the_same_again(kind, seed):
    first, second = kind(Dice(seed, 1)), kind(Dice(seed, 1))
    assert first.seconds == second.seconds
    assert all(first.gpus <= first.nodes * board.in_node for board in first.boards)
    assert {gpu for program in first.programs for gpu in program.gpus} <= set(first.all)
    for key, values in first.level.items():
        assert np.array_equal(values, second.level[key])
        assert (values >= 0).all()
    for key in ("util", "sm", "tensor", "dram", "fp64", "codec"):
        assert first.level[key].max() <= 1.1
    assert (first.mem.max(axis=1) <= first.board.mem_gib).all()
    for loss in first.losses:
        assert {loss.finding_class, *loss.also} <= CLASSES.keys()
        assert 0 <= loss.start < loss.end <= first.seconds
    is_benign = kind in BENIGN
    assert is_benign == (not first.losses)
