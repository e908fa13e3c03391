"""Each rule on pictures made by hand: where it speaks up, and on what looks alike."""

from __future__ import annotations

from math import inf

import pytest

from gpumon.evaluation.baselines.observer import Observer
from gpumon.evaluation.baselines.rules import IDLE as IDLE_CLASSES
from tests.worlds.tick import AT, BUSY, IDLE, gpu, job_with_gpus, tick, uuid_of

NODE = "gpu01"
PERIOD_S = 60.0
WORK = {**BUSY, "gpu_util_ratio": 1.0, "power_w": 600.0}
QUIET = {"pcie_rx_bytes_per_s": 0.0, "pcie_tx_bytes_per_s": 0.0}
AT_REST = {**IDLE, **QUIET}
SPIN = {
    **BUSY, "gpu_util_ratio": 1.0, "sm_active_ratio": 0.12, "tensor_active_ratio": 0.0,
    "dram_active_ratio": 0.0, "power_w": 195.0,
}  # fmt: skip
STUCK = {**AT_REST, "power_w": 112.0, "process_count": 1.0}
NOTHING = None


def observed(*parts, has_ranks=True, unknown=0, period_s=PERIOD_S):
    """What is said of one job.

    Each part is a number of pictures and the values of all its GPUs, or of each; `NOTHING` is a GPU
    that is not heard of.
    """
    observer, at = Observer(), AT
    for pictures, values in parts:
        each = values if isinstance(values, list) else [values] * 2
        view, _ = job_with_gpus("7", {NODE: len(each)})
        view = view._replace(gpus_unknown=unknown, ranks=view.ranks if has_ranks else ())
        for _ in range(pictures):
            gpus = [
                gpu(NODE, index, told or BUSY, stale_s=None if told else 99.0)
                for index, told in enumerate(each)
            ]
            observer.take(tick((view,), gpus, at=at, period_s=period_s))
            at += period_s
    return observer.statements()


def claims_of(name, *parts, **changes):
    return observed(*parts, **changes)[name].claims


def rows(*changes):
    """Values of GPUs that differ in these fields from one at work."""
    return [{**WORK, **change} for change in changes]


def test_an_hour_of_zeros_is_a_claim_of_all_of_the_job_since_they_began():
    (claim,) = claims_of("zero_60", (30, WORK), (91, AT_REST), (9, WORK))
    assert (claim.subject, claim.classes) == ("job:7", IDLE_CLASSES)
    assert "idle_held" in IDLE_CLASSES
    assert "partial_gpus_idle" not in IDLE_CLASSES
    assert claim.onset == AT + 30 * 60
    assert claim.end == AT + 120 * 60
    assert claim.reached == (AT + 90 * 60, AT + 90 * 60, inf)
    assert claim.gpu_seconds == 2 * 90 * 60


def test_an_hour_less_a_minute_is_none():
    assert claims_of("zero_60", (30, WORK), (60, AT_REST), (30, WORK)) == ()


def test_one_sample_above_zero_begins_anew():
    blip = {**AT_REST, "gpu_util_ratio": 0.01}
    assert claims_of("zero_60", (40, AT_REST), (1, blip), (40, AT_REST)) == ()


def test_one_gpu_at_work_is_use():
    assert claims_of("zero_60", (90, [AT_REST, WORK])) == ()


def test_a_missing_sample_is_no_zero():
    gap = (1, [AT_REST, NOTHING])
    assert claims_of("zero_60", (30, AT_REST), gap, (30, AT_REST)) == ()
    (claim,) = claims_of("zero_60", (30, AT_REST), gap, (31, AT_REST))
    assert claim.gpu_seconds == 2 * 60 * 60
    assert claim.onset == AT
    # What was not heard of for longer is not added up.
    assert claims_of("zero_60", (50, AT_REST), (4, NOTHING), (50, AT_REST)) == ()


def test_zeros_of_some_gpus_say_nothing_of_those_that_nobody_sees():
    statement = observed((90, AT_REST), unknown=1)["zero_60"]
    assert (statement.claims, statement.judged) == ((), frozenset())


def test_a_rule_that_needs_longer_than_was_observed_does_not_judge():
    statements = observed((122, AT_REST))
    assert [statements[f"zero_{minutes}"].judged for minutes in (60, 120, 240)] == [
        {"7"},
        {"7"},
        set(),
    ]
    assert len(statements["zero_120"].claims) == 1
    assert statements["zero_240"].claims == ()


def test_a_server_between_two_bursts_is_taken_for_idle():
    # The known weakness: nothing of this is lost.
    burst = (2, WORK)
    told = claims_of("zero_60", burst, (70, AT_REST), burst, (70, AT_REST), burst)
    assert len(told) == 2


SM, TENSOR, MEMORY = "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"


@pytest.mark.parametrize(
    ("changes", "classes", "lost_share"),
    [
        ({"gpu_util_ratio": 0.04, SM: 0.04, TENSOR: 0.0, MEMORY: 0.0}, IDLE_CLASSES, 1.0),
        ({SM: 0.4, TENSOR: 0.1, MEMORY: 0.3}, ("small_batch",), 0.2),
        ({SM: 0.4, TENSOR: 0.1, MEMORY: 0.3, "gpu_util_ratio": 0.5}, None, 0.0),
        # Tensor cores at work, and memory-bound work, are no waste.
        ({SM: 0.41, TENSOR: 0.16, MEMORY: 0.3}, None, 0.0),
        ({SM: 0.4, TENSOR: 0.1, MEMORY: 0.51}, None, 0.0),
        ({SM: 0.61, TENSOR: 0.01}, ("no_tensor_cores",), 0.0),
        ({SM: 0.61, TENSOR: 0.03}, None, 0.0),
        ({SM: 0.15, TENSOR: 0.0, "pcie_rx_bytes_per_s": 9e8}, ("small_batch",), 0.7),
        ({SM: 0.15, TENSOR: 0.0, "pcie_rx_bytes_per_s": 2e9}, ("copy_bound",), 0.5),
        ({SM: 0.0, TENSOR: 0.0, MEMORY: 0.0, "pcie_rx_bytes_per_s": 2e9}, ("copy_bound",), 1.0),
    ],
)
def test_thresholds_of_activity(changes, classes, lost_share):
    told = claims_of("activity_thresholds", (31, {**WORK, **QUIET, **changes}))
    if classes is None:
        assert told == ()
        return
    (claim,) = told
    assert (claim.subject, claim.classes, claim.onset) == ("job:7", classes, AT)
    assert claim.reached[1] == AT + 600
    assert claim.gpu_seconds == pytest.approx(lost_share * 2 * 1800)


def test_thresholds_tell_the_idle_ones_of_a_jobs_gpus_and_classes_of_half_of_them():
    (some,) = claims_of("activity_thresholds", (31, [WORK, WORK, WORK, AT_REST]))
    assert some.classes == ("partial_gpus_idle",)
    assert some.gpu_seconds == 1800
    few = {**WORK, SM: 0.4, TENSOR: 0.1}
    assert claims_of("activity_thresholds", (31, [few, WORK, WORK])) == ()
    assert len(claims_of("activity_thresholds", (31, [few, few, WORK, WORK]))) == 1


def test_thresholds_need_ten_minutes_and_the_counters():
    judged = [
        observed((pictures, values))["activity_thresholds"].judged
        for pictures, values in ((10, WORK), (11, WORK), (31, {**WORK, SM: None}))
    ]
    assert judged == [set(), {"7"}, set()]
    # A counter that is missing most of the time has no mean, and is not 0.
    gone = {**WORK, TENSOR: None}
    assert observed((7, gone), (4, WORK))["activity_thresholds"].judged == set()


def test_all_ranks_spin_at_a_third_of_the_power_of_before():
    (claim,) = claims_of("three_symptom_stall", (20, WORK), (30, SPIN))
    assert (claim.subject, claim.classes) == ("job:7", ("hang",))
    # Ten minutes at 100 % are known to be little as soon as their mean is below half of before.
    assert claim.reached[1] <= AT + 31 * 60
    assert claim.end == AT + 49 * 60
    assert claim.gpu_seconds == pytest.approx(2 * (claim.end - claim.onset))


def test_one_rank_that_does_nothing_may_keep_the_others_waiting():
    working = (20, [WORK] * 4)
    assert len(claims_of("three_symptom_stall", working, (30, [SPIN, SPIN, SPIN, STUCK]))) == 1
    assert claims_of("three_symptom_stall", working, (30, [SPIN, SPIN, STUCK, STUCK])) == ()


@pytest.mark.parametrize(
    "after",
    [
        STUCK,
        {**SPIN, "power_w": 301.0},
        {**SPIN, "gpu_util_ratio": 0.97},
        {**SPIN, "process_count": 0.0},
        WORK,
    ],
)
def test_two_symptoms_of_three_are_no_stall(after):
    statement = observed((20, WORK), (30, after))["three_symptom_stall"]
    assert (statement.claims, statement.judged) == ((), {"7"})


def test_a_stall_whose_job_was_never_seen_at_work_is_not_told():
    assert claims_of("three_symptom_stall", (90, SPIN)) == ()
    assert observed((11, SPIN))["three_symptom_stall"].judged == set()
    unpowered = observed((20, WORK), (30, {**SPIN, "power_w": None}))["three_symptom_stall"]
    assert unpowered.claims == ()


WAITS = {SM: 0.66}


def test_the_rank_that_is_busier_than_those_that_wait_for_it_is_slow():
    values = rows(WAITS, WAITS, {SM: 0.95}, WAITS)
    (claim,) = claims_of("relative_score_0.75", (16, values))
    assert (claim.subject, claim.classes) == ("job:7/rank:2", ("straggler",))
    assert claim.reached[1] == AT + 300
    assert claim.gpu_seconds == pytest.approx(4 * 900 * (1 - 0.66 / 0.95))
    (nameless,) = claims_of("relative_score_0.75", (16, values), has_ranks=False)
    assert nameless.subject == f"gpu:{uuid_of(NODE, 2)}"


@pytest.mark.parametrize(
    "values",
    [
        rows(WAITS, WAITS, {SM: 0.87}),
        # One that is not used is not the fastest.
        rows(WAITS, WAITS, {SM: 0.02}),
        rows(WAITS),
    ],
)
def test_ranks_that_are_about_as_busy_are_not_slow(values):
    statement = observed((16, values))["relative_score_0.75"]
    assert (statement.claims, statement.judged) == ((), {"7"})


def test_of_two_slow_ranks_the_loss_is_that_of_the_slowest():
    told = claims_of("relative_score_0.75", (16, rows({SM: 0.5}, {SM: 0.8}, {SM: 1.0})))
    assert sorted((one.subject, one.gpu_seconds) for one in told) == [
        ("job:7/rank:1", 0.0),
        ("job:7/rank:2", pytest.approx(3 * 900 * 0.5)),
    ]


def test_ranks_are_not_compared_without_the_counter():
    values = rows({SM: 0.66}, {SM: None})
    assert observed((16, values))["relative_score_0.75"].judged == set()


def test_what_lies_off_the_mean_by_more_than_a_deviation_and_a_tenth():
    told = claims_of("mean_1_sigma", (16, rows({}, {}, {"power_w": 271.0}, {})))
    assert [(one.subject, one.gpu_seconds) for one in told] == [("job:7/rank:2", None)]
    # More than one deviation, but within a tenth of the mean.
    assert claims_of("mean_1_sigma", (16, rows({}, {}, {"power_w": 560.0}, {}))) == ()
    two = observed((16, rows({}, {"power_w": 271.0})))["mean_1_sigma"]
    assert (two.claims, two.judged) == ((), {"7"})
    assert observed((16, {**WORK, "power_w": None}))["mean_1_sigma"].judged == set()


def test_half_a_minute_between_pictures_makes_the_same_windows():
    (claim,) = claims_of("relative_score_0.75", (31, rows(WAITS, {SM: 0.95})), period_s=30.0)
    assert claim.reached[1] == AT + 300


def test_five_minutes_between_pictures_are_two_to_a_window():
    statements = observed((13, {**WORK, SM: 0.4, TENSOR: 0.1}), period_s=300.0)
    (claim,) = statements["activity_thresholds"].claims
    assert claim.reached[1] == AT + 600
