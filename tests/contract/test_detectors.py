"""Every installed detector keeps the contract; the kit itself finds those that don't."""

from __future__ import annotations

import pytest

from gpumon.detect.checks import check_detector
from gpumon.detect.registry import entries, load_class

INSTALLED = entries()


@pytest.mark.parametrize("entry", INSTALLED, ids=[entry.key for entry in INSTALLED])
def test_an_installed_detector_keeps_the_contract(entry):
    detector_class = load_class(entry.target)
    problems = [check for check in check_detector(detector_class) if check.problem]
    assert problems == []
    assert detector_class.name == entry.key.partition("@")[0]


def test_the_built_in_is_among_them():
    assert "partial_gpus_idle" in {entry.key for entry in INSTALLED}
