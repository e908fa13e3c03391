"""Findings: the ladder of confidence, the order of severity, what is the same claim over time."""

from __future__ import annotations

from gpumon.model.finding import COVERAGE_STATES, Confidence, Finding, Severity, Window


def finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "detector": "d",
        "finding_class": "partial_gpus_idle",
        "subject": "job:6",
        "severity": Severity.WARNING,
        "confidence": Confidence.HYPOTHESIS,
        "summary": "3 of 8 GPUs are idle",
        "evidence": (),
        "window": Window(0.0, 60.0, 61),
        "first_seen": 0.0,
        "last_seen": 60.0,
        "advice": (),
        "gpu_seconds": 180.0,
    }
    return Finding(**{**fields, **changes})


def test_the_ladder_goes_up() -> None:
    ladder = (Confidence.HYPOTHESIS, Confidence.SUPPORTED, Confidence.ESTABLISHED)
    assert [step.rank for step in ladder] == [0, 1, 2]
    assert sorted(Confidence, key=lambda step: step.rank) == list(ladder)


def test_severities_go_up() -> None:
    order = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)
    assert [severity.rank for severity in order] == [0, 1, 2]


def test_words_in_data_are_lower_case() -> None:
    words = [*Confidence, *Severity, *COVERAGE_STATES]
    assert all(word.islower() for word in words)


def test_a_claim_stays_the_same_while_its_evidence_grows() -> None:
    first = finding()
    later = finding(
        confidence=Confidence.SUPPORTED, severity=Severity.CRITICAL, last_seen=900.0, summary="x"
    )
    assert first.identity == later.identity


def test_another_subject_class_or_detector_is_another_claim() -> None:
    others = [finding(subject="job:7"), finding(finding_class="x"), finding(detector="e")]
    assert len({finding().identity, *(other.identity for other in others)}) == 4
