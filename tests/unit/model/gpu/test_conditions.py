"""What is wrong with a GPU is found alike from one GPU's values and from those of many at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.gpu.conditions import CONDITIONS, held_down_by, may_be_wrong, wrong_with

KEYS = sorted(
    {one.key for one in CONDITIONS}
    | {one.limit for one in CONDITIONS if isinstance(one.limit, str)}
    | {"clock_event_reasons", "gpu_util_ratio"}
)

GPU = st.fixed_dictionaries(
    {},
    optional={
        key: st.sampled_from([0, 1, 2, 0x44]) if key in ("clock_event_reasons", "fabric_health")
        else st.floats(-5.0, 120.0) | st.sampled_from([0.0, 1.0, 345.0, 1980.0])
        for key in KEYS
    },
)  # fmt: skip


@given(st.lists(GPU, max_size=4))
def test_what_is_wrong_with_one_of_many_is_never_passed_over(gpus):
    def values(key):
        return {gpu[key] for gpu in gpus if key in gpu}

    if any(wrong_with(gpu.get) for gpu in gpus):
        assert may_be_wrong(values)


@given(GPU)
def test_the_grave_come_first_and_each_field_speaks_once(gpu):
    found = wrong_with(gpu.get)
    assert [one.condition.is_grave for one in found] == sorted(
        (one.condition.is_grave for one in found), reverse=True
    )
    assert len({one.condition.key for one in found}) == len(found)
    for one in found:
        assert "{" not in one.word + one.sentence
        assert one.condition.advice


def test_every_field_of_the_table_is_one_of_the_catalogue():
    assert all(key in CATALOGUE for key in KEYS)


def test_nothing_known_is_nothing_wrong():
    assert wrong_with({}.get) == []
    assert not may_be_wrong(lambda _key: ())


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (None, ()),
        (float("nan"), ()),
        (0x1 | 0x2 | 0x4 | 0x10 | 0x100, ()),
        (0x68, ("hardware thermal slowdown", "hardware slowdown", "software thermal slowdown")),
        (0x1000 | 0x20, ("software thermal slowdown", "0x1000")),
    ],
)
def test_reasons_that_are_news_come_in_the_order_of_their_gravity(mask, names):
    assert held_down_by(mask) == names
