from __future__ import annotations

from gpumon.model.finding import Confidence, Finding, Severity, Window
from gpumon.model.finding_classes import CLASSES, Category, Loss, finding_class, merge


def claim(name, confidence=Confidence.SUPPORTED, **change):
    window = Window(0.0, 600.0, 61)
    given = Finding(
        "d", name, "job:1", Severity.WARNING, confidence, "s", (), window, 600.0, 600.0, (), None
    )
    return given._replace(**change)


def test_classes_are_listed_in_order_of_their_categories():
    ranks = [known.category.rank for known in CLASSES.values()]
    assert ranks == sorted(ranks)
    assert all(known.meaning.endswith(".") for known in CLASSES.values())


def test_one_subject_has_one_main_finding_that_explains_the_others():
    found = [claim(name) for name in ("oversized_gpu", "throttled", "gpu_fault", "idle_held")]
    verdict = merge(found)["job:1"]
    assert verdict.main.finding_class == "gpu_fault"
    explained = [finding.finding_class for finding in verdict.explained]
    assert explained == ["idle_held", "throttled", "oversized_gpu"]


def test_a_guess_takes_nothing_from_what_is_proven():
    found = [claim("gpu_fault", Confidence.HYPOTHESIS), claim("throttled")]
    assert merge(found)["job:1"].main.finding_class == "throttled"


def test_what_is_over_explains_nothing():
    found = [claim("gpu_fault", cleared_at=500.0), claim("throttled")]
    assert merge(found)["job:1"].main.finding_class == "throttled"


def test_subjects_are_judged_apart():
    found = [claim("idle_held"), claim("throttled", subject="gpu:x")]
    assert set(merge(found)) == {"job:1", "gpu:x"}


def test_a_plugins_class_has_the_category_it_declares():
    assert finding_class("hot_gpu", {"hot_gpu": "degraded"}).category is Category.DEGRADED
    assert finding_class("hot_gpu", {"hot_gpu": "nonsense"}).category is Category.REQUEST
    assert finding_class("hot_gpu").loss is Loss.NONE
    ours, own = claim("overasked"), claim("hot_gpu", category="degraded")
    assert merge([ours, own])["job:1"].main is own
