"""What the order of samples tells of work and rest."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from gpumon_detectors.waits.by_chance import NO_ORDER, order_of


def flags(text):
    """A sample for each letter: `w` is work."""
    return np.array([letter == "w" for letter in text])


@pytest.mark.parametrize("share", [0.1, 0.35, 0.8])
def test_quick_waits_have_no_order(share):
    dice = np.random.default_rng(7)
    orders = [order_of(dice.random(220) < share) for _ in range(600)]
    assert abs(float(np.mean(orders))) < 0.2
    assert 0.8 < float(np.std(orders)) < 1.2
    assert sum(order < NO_ORDER for order in orders) < 0.12 * len(orders)


def test_stretches_have_one():
    assert order_of(flags("wwwwwwww......" * 10)) < -8.0
    assert order_of(flags("w." * 30)) > 5.0


def test_few_samples_tell_nothing():
    assert isnan(order_of(flags("w" * 40 + "....")))
    assert isnan(order_of(flags("")))
    assert not isnan(order_of(flags("wwwww.....")))
