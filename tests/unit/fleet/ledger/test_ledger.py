from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.ledger import Prices
from tests.unit.fleet.ledger_world import START, claim, gpu, run, tick, view


def test_what_was_before_the_first_sample_is_unobserved_from_slurms_start_on():
    totals = run(Ledger(), START + 100, START + 160, [view("1", ["a"])])
    total = totals.total()
    assert total.unobserved_s == pytest.approx(100)
    assert total.useful_s == pytest.approx(60)
    assert total.allocated_s == pytest.approx(160)
    assert total.observed_since == START + 100
    assert total.began_at == START
    assert totals.since == START + 100


def test_a_finding_that_comes_late_takes_the_time_back_to_its_onset():
    ledger = Ledger()
    job = view("1", ["a", "b"])
    run(ledger, START, START + 600, [job], "ab")
    found = claim("partial_gpus_idle", "job:1", START + 200, START + 600, gpus=["b"], share=1)
    total = run(ledger, START + 601, START + 700, [job], "ab", findings=(found,)).total()
    assert total.wasted_s == {"partial_gpus_idle": pytest.approx(400)}
    assert total.useful_s == pytest.approx(1400 - 400)
    later = claim("partial_gpus_idle", "job:1", START + 200, START + 700, gpus=["b"], share=1)
    total = run(ledger, START + 701, START + 710, [job], "ab", findings=(later,)).total()
    assert total.wasted_s == {"partial_gpus_idle": pytest.approx(500)}
    assert total.allocated_s == pytest.approx(2 * 710)


def test_a_claim_ends_with_its_window_however_long_it_is_told():
    """A start that was slow: the GPUs work since, and the finding stands on."""
    ledger, job = Ledger(), view("1", ["a", "b"])
    run(ledger, START, START + 900, [job], "ab")
    found = claim("slow_startup", "job:1", START, START + 700, gpus=["a", "b"], share=0.9)
    for at in range(901, 4000, 10):
        told = found._replace(last_seen=START + at)
        ledger.take(tick(START + at, [job], [gpu(u, START + at) for u in "ab"], [told]))
    totals = ledger.summary()
    assert totals.total().wasted_s == {"slow_startup": pytest.approx(0.9 * 1400)}
    assert totals.charged[found.identity].wasted_s == pytest.approx(found.gpu_seconds)


@pytest.mark.parametrize("subject", ["job:1", "node:gpu01", "gpu:a"])
def test_what_was_charged_stays_when_the_subject_is_gone_and_the_finding_is_still_told(subject):
    """Of a job that ended Slurm lists no GPUs any more, while its finding clears."""
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 300, [job])
    found = claim("gpu_fault", subject, START + 50, START + 300, share=1)
    run(ledger, START + 301, START + 302, [job], findings=(found,))
    over = view("1", [], state="COMPLETED", end_at=START + 303)
    for second in range(303, 330):
        gone = found._replace(cleared_at=START + 300, last_seen=START + second)
        picture = tick(START + second, [over] if second < 320 else [], [], cleared=(gone,))
        ledger.take(picture._replace(nodes={}))
    assert ledger.summary().total().wasted_s == {"gpu_fault": pytest.approx(250)}


def test_the_newest_look_is_believed_about_its_window():
    """While a window slides, what lies before it stays as it was said when it was in it."""
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 300, [job])
    first = claim("throttled", "gpu:a", START, START + 300, share=0.2)
    run(ledger, START + 301, START + 600, [job], findings=(first,))
    later = claim("throttled", "gpu:a", START + 100, START + 600, share=0.4, onset=START)
    total = run(ledger, START + 601, START + 602, [job], findings=(later,)).total()
    assert total.wasted_s == {"throttled": pytest.approx(100 * 0.2 + 500 * 0.4)}


def test_what_is_judged_otherwise_gives_its_seconds_to_what_it_is_called_now():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 600, [job], util=0.0, sm=0.0)
    first = claim("never_started", "job:1", START, START + 600, share=1)
    run(ledger, START + 601, START + 660, [job], util=0.0, sm=0.0, findings=(first,))
    now = claim("interactive_idle", "job:1", START + 5, START + 660, share=1)
    gone = first._replace(cleared_at=START + 640)
    here = [gpu("a", START + 661, util=0.0, sm=0.0)]
    ledger.take(tick(START + 661, [job], here, [now], cleared=(gone,)))
    assert ledger.summary().total().wasted_s == {"interactive_idle": pytest.approx(655)}


@pytest.mark.parametrize("late_s", [0, 290])
def test_a_job_on_cpus_alone_had_a_slow_start_when_its_first_gpu_works(late_s):
    """It may be told since a little later: of an old start the rows are five minutes long."""
    ledger, job = Ledger(), view("1", ["a", "b"])
    run(ledger, START, START + 4000, [job], "ab", util=0.0, sm=0.0)
    first = claim("cpu_only", "job:1", START, START + 4000, share=1, gpus=["a", "b"])
    run(ledger, START + 4001, START + 4001, [job], "ab", util=0.0, sm=0.0, findings=(first,))
    assert ledger.summary().total().wasted_s == {"cpu_only": pytest.approx(8000)}
    begin = START + late_s
    now = claim("slow_startup", "job:1", begin, START + 4010, share=1, gpus=["a", "b"])
    run(ledger, START + 4002, START + 4050, [job], "ab", findings=(first, now))
    gone = first._replace(cleared_at=START + 4050)
    here = [gpu(uuid, START + 4051) for uuid in "ab"]
    ledger.take(tick(START + 4051, [job], here, [now], cleared=(gone,)))
    wasted = ledger.summary().total().wasted_s
    assert wasted == {"slow_startup": pytest.approx(8020 - 2 * late_s)}


def test_losses_of_a_part_stand_beside_each_other():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 900, [job])
    gone = claim("pcie_degraded", "gpu:a", START, START + 400, share=0.5)._replace(cleared_at=1.0)
    now = claim("throttled", "gpu:a", START, START + 900, share=0.1)
    ledger.take(tick(START + 901, [job], [gpu("a", START + 901)], [now], cleared=(gone,)))
    wasted = ledger.summary().total().wasted_s
    assert wasted == pytest.approx({"pcie_degraded": 200, "throttled": 0.1 * (200 + 500)})


def test_what_was_called_otherwise_is_not_charged_again_when_the_other_name_is_gone():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 600, [job], util=0.0, sm=0.0)
    first = claim("never_started", "job:1", START, START + 600, share=1)
    gone = first._replace(cleared_at=START + 600)
    now = claim("idle_tail", "job:1", START, START + 600, share=1)
    here = [gpu("a", START + 601, util=0.0, sm=0.0)]
    ledger.take(tick(START + 601, [job], here, [now], cleared=(gone,)))
    known = gone._replace(is_acknowledged=True)
    over = now._replace(cleared_at=START + 601)
    here = [gpu("a", START + 602, util=0.0, sm=0.0)]
    ledger.take(tick(START + 602, [job], here, cleared=(known, over)))
    assert ledger.summary().total().wasted_s == {"idle_tail": pytest.approx(600)}


def test_what_ended_before_another_waste_began_keeps_its_seconds():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 900, [job])
    gone = claim("idle_held", "job:1", START, START + 300, share=1)._replace(cleared_at=START + 330)
    now = claim("idle_tail", "job:1", START + 500, START + 900, share=1)
    ledger.take(tick(START + 901, [job], [gpu("a", START + 901)], [now], cleared=(gone,)))
    wasted = ledger.summary().total().wasted_s
    assert wasted == pytest.approx({"idle_held": 300, "idle_tail": 400})


def test_a_fault_of_one_gpu_on_others_is_charged_to_the_job_that_has_them_all():
    """What two jobs before had of the same machine is not theirs to pay."""
    ledger = Ledger()
    old = view("1", ["b"])
    run(ledger, START, START + 100, [old], "ab")
    job = view("2", ["a", "b"], START + 100)
    run(ledger, START + 101, START + 400, [job], "ab")
    slow = claim("throttled", "gpu:a", START + 50, START + 400, gpus=["a", "b"], share=0.5)
    totals = run(ledger, START + 401, START + 402, [job], "ab", findings=(slow,))
    assert totals.job("1").wasted_s == {}
    assert totals.job("2").wasted_s == {"throttled": pytest.approx(0.5 * 2 * 300)}


def test_what_lies_below_the_floor_and_nobody_claims_is_unexplained():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 50, [job])
    total = run(ledger, START + 51, START + 100, [job], sm=0.1, util=1.0).total()
    assert (total.useful_s, total.unexplained_s) == pytest.approx((51, 49))


def test_a_job_that_is_told_late_has_its_gpus_past_as_it_was_seen():
    ledger = Ledger()
    run(ledger, START, START + 20, [], sm=0.0)
    run(ledger, START + 21, START + 40, [])
    run(ledger, START + 41, START + 60, [], sm=0.0)
    total = run(ledger, START + 61, START + 61, [view("1", ["a"], START + 10)], sm=0.0).total()
    assert (total.useful_s, total.unexplained_s) == pytest.approx((20, 31))


def test_a_part_is_charged_by_the_share_that_the_finding_says_and_nothing_without_one():
    found = (
        claim("throttled", "gpu:a", START, START + 50, share=0.3),
        claim("small_batch", "job:1", START, START + 50),
    )
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 59, [job])
    total = run(ledger, START + 60, START + 60, [job], findings=found).total()
    assert total.wasted_s == {"throttled": pytest.approx(15)}


def test_the_graver_of_two_findings_keeps_the_second_whichever_comes_first():
    grave = claim("hang", "job:1", START + 20, START + 60)
    light = claim("input_bound", "job:1", START, START + 60, share=0.5)
    for order in ((grave,), (light,)), ((light,), (grave,)):
        ledger = Ledger()
        job = view("1", ["a"])
        run(ledger, START, START + 60, [job])
        for number, findings in enumerate(order, 1):
            run(ledger, START + 60 + number, START + 60 + number, [job], findings=findings)
        total = ledger.summary().total()
        assert total.wasted_s == {"hang": pytest.approx(40), "input_bound": pytest.approx(10)}


def test_a_finding_about_a_gpu_or_node_charges_the_job_that_held_it_then():
    ledger = Ledger()
    run(ledger, START, START + 30, [view("1", ["a"])])
    run(ledger, START + 31, START + 60, [view("2", ["a"], START + 30)])
    found = claim("gpu_fault", "gpu:a", START + 20, START + 50, share=1)
    totals = run(ledger, START + 61, START + 62, [view("2", ["a"], START + 30)], findings=(found,))
    assert totals.job("1").wasted_s == {"gpu_fault": pytest.approx(10)}
    assert totals.job("2").wasted_s == {"gpu_fault": pytest.approx(20)}


@pytest.mark.parametrize("subject", ["gpu:a", "node:gpu01"])
def test_a_fault_under_which_the_gpu_may_still_work_charges_nothing(subject):
    """An Xid, or a GPU that is gone from the driver's list, names no GPU-seconds."""
    ledger = Ledger()
    job = view("1", ["a"])
    run(ledger, START, START + 30, [job])
    found = claim("gpu_fault", subject, START + 10, START + 30)
    total = run(ledger, START + 31, START + 40, [job], findings=(found,)).total()
    assert (total.useful_s, total.wasted_s) == (pytest.approx(40), {})


def test_a_job_is_charged_only_for_its_own_time():
    ledger = Ledger()
    run(ledger, START, START + 30, [view("1", ["a"])])
    found = claim("idle_tail", "job:2", START, START + 40, gpus=["a"], share=1)
    job = view("2", ["a"], START + 30)
    run(ledger, START + 31, START + 39, [job])
    totals = run(ledger, START + 40, START + 40, [job], findings=(found,))
    assert totals.job("1").wasted_s == {}
    assert totals.job("2").wasted_s == {"idle_tail": pytest.approx(10)}


def test_a_silent_gpu_is_unobserved_since_it_was_last_heard_of():
    ledger = Ledger()
    job = view("1", ["a"])
    run(ledger, START, START + 10, [job])
    for at in range(11, 40):
        here = gpu("a", START + at, stale_since=START + 10 if at >= 16 else None)
        heard = here._replace(taken_at=START + 10)
        ledger.take(tick(START + at, [job], [heard]))
    total = ledger.summary().total()
    assert (total.useful_s, total.unobserved_s) == pytest.approx((10, 29))
    total = run(ledger, START + 40, START + 50, [job]).total()
    assert (total.useful_s, total.unobserved_s) == pytest.approx((20, 30))


def test_a_gpu_whose_activity_cannot_be_read_is_unobserved():
    total = run(Ledger(), START, START + 10, [view("1", ["a"])], util=None).total()
    assert (total.useful_s, total.unobserved_s) == pytest.approx((0, 10))


def test_a_pause_of_the_sampler_is_unobserved():
    ledger = Ledger()
    job = view("1", ["a"])
    run(ledger, START, START + 10, [job])
    total = run(ledger, START + 310, START + 320, [job]).total()
    assert (total.useful_s, total.unobserved_s) == pytest.approx((20, 300))


def test_a_fault_may_claim_the_silence_it_caused():
    ledger = Ledger()
    job = view("1", ["a"])
    run(ledger, START, START + 10, [job])
    found = claim("gpu_fault", "gpu:a", START + 5, START + 30, share=1)
    for at in range(11, 31):
        ledger.take(tick(START + at, [job], [gpu("a", 0, stale_since=START + 10)], [found]))
    total = ledger.summary().total()
    assert total.wasted_s == {"gpu_fault": pytest.approx(25)}
    assert (total.useful_s, total.unobserved_s) == pytest.approx((5, 0))


def test_gpus_that_telemetry_names_later_were_the_jobs_all_along():
    ledger = Ledger()
    ledger.take(tick(START + 50, [view("1", [], unknown=2)]))
    totals = run(ledger, START + 60, START + 70, [view("1", ["a", "b"])], "ab")
    assert totals.total().allocated_s == pytest.approx(140)
    assert totals.total().unobserved_s == pytest.approx(120)
    assert set(totals.by("gpu")) >= {"NVIDIA H100 80GB HBM3"}


def test_a_gpu_that_telemetry_no_longer_names_stays_the_jobs():
    ledger = Ledger()
    run(ledger, START, START + 10, [view("1", ["a", "b"])], "ab")
    run(ledger, START + 11, START + 20, [view("1", ["a"], unknown=1)])
    totals = run(ledger, START + 21, START + 30, [view("1", ["a", "b"])], "ab")
    total = totals.total()
    assert total.allocated_s == pytest.approx(60)
    assert total.unobserved_s == pytest.approx(11)


def test_a_resized_and_a_requeued_job_is_booked_for_what_it_held():
    ledger = Ledger()
    run(ledger, START, START + 10, [view("1", ["a", "b"])], "ab")
    run(ledger, START + 11, START + 20, [view("1", ["a"])], "ab")
    run(ledger, START + 21, START + 30, [view("1", ["a"], state="PENDING")], "ab")
    totals = run(ledger, START + 31, START + 40, [view("1", ["b"], START + 31)], "ab")
    assert totals.job("1").allocated_s == pytest.approx(10 + 20 + 9)


def test_an_ended_job_ends_when_slurm_says():
    ledger = Ledger()
    run(ledger, START, START + 30, [view("1", ["a"])])
    over = view("1", ["a"], state="COMPLETED", end_at=START + 12.5)
    totals = run(ledger, START + 31, START + 40, [over])
    assert totals.total().allocated_s == pytest.approx(12.5)


def test_the_next_job_on_a_gpu_ends_the_one_before():
    ledger = Ledger()
    run(ledger, START, START + 30, [view("1", ["a"])])
    totals = run(ledger, START + 31, START + 40, [view("2", ["a"], START + 15)])
    assert totals.job("1").allocated_s == pytest.approx(15)
    assert totals.job("2").allocated_s == pytest.approx(25)


def test_jobs_that_share_a_gpu_have_equal_parts_of_it_while_they_do():
    ledger = Ledger()
    one, two = view("1", ["a"]), view("2", ["a"], START + 20)
    run(ledger, START, START + 30, [one])
    run(ledger, START + 31, START + 60, [one, two])
    totals = run(ledger, START + 61, START + 70, [one])
    assert totals.job("1").allocated_s == pytest.approx(20 + 20 + 10)
    assert totals.job("2").allocated_s == pytest.approx(20)
    assert totals.total().allocated_s == pytest.approx(70)


def test_a_clock_that_is_set_back_books_the_time_that_passes():
    ledger = Ledger()
    job = view("1", ["a"])
    run(ledger, START, START + 100, [job])
    total = run(ledger, START + 40, START + 60, [job]).total()
    assert total.allocated_s == pytest.approx(120)
    assert total.useful_s == pytest.approx(120)


@pytest.mark.parametrize("ahead_s", [3600.0, 86_400.0, -1700.0])
def test_a_clock_that_is_set_and_set_right_again_makes_no_time(ahead_s):
    """Slurm's own times are right all along; the second job begins while this clock is wrong."""
    ledger = Ledger()
    held, seen_s = 0, {}
    for second in range(0, 1000, 2):
        is_wrong = 300 <= second < 640
        at = START + second + (ahead_s if is_wrong else 0.0)
        jobs = [view("1", ["a"])] + ([view("2", ["b"], START + 400)] if second >= 420 else [])
        held += 2 * len(jobs) if second < 998 else 0
        here = [gpu(uuid, at) for uuid in "ab"]
        ledger.take(tick(at, jobs, here, steady_s=77.0 + second))
        seen_s = {line: total.allocated_s for line, total in ledger.summary().by("job").items()}
    total = ledger.summary().total()
    assert total.allocated_s == pytest.approx(held, abs=21)
    assert seen_s["1"] == pytest.approx(998)
    assert total.unobserved_s == pytest.approx(0, abs=21)


def test_a_machine_that_slept_books_the_time_as_unobserved():
    ledger, job = Ledger(), view("1", ["a"])
    for at in (0, 1, 2, 7000, 7001):
        ledger.take(tick(START + at, [job], [gpu("a", START + at)], steady_s=5.0 + at))
    total = ledger.summary().total()
    assert (total.allocated_s, total.unobserved_s) == pytest.approx((7001, 6998))


def test_totals_are_made_by_user_account_partition_and_gpu():
    ledger = Ledger()
    jobs = [view("1", ["a"], user="ada"), view("2", ["b"], user="bob", account="bio")]
    totals = run(ledger, START, START + 10, jobs, "ab")
    assert {k: t.allocated_s for k, t in totals.by("user").items()} == {"ada": 10, "bob": 10}
    assert set(totals.by("account")) == {"ml", "bio"}
    assert set(totals.by("partition")) == {"h100"}


def test_a_muted_finding_charges_as_any_other():
    ledger, job = Ledger(), view("1", ["a"])
    run(ledger, START, START + 100, [job])
    found = claim("hang", "job:1", START, START + 100)
    ledger.take(tick(START + 101, [job], [gpu("a", START + 101)], muted=(found,)))
    assert ledger.summary().total().wasted_s == pytest.approx({"hang": 100})


def test_ended_jobs_are_folded_into_totals_and_stay_counted():
    ledger = Ledger()
    run(ledger, START, START + 10, [view("1", ["a"])])
    totals = run(ledger, START + 11, START + 4000, [], step=100)
    assert totals.accounts == ()
    assert totals.job("1") is None
    assert totals.by("user")["ada"].allocated_s == pytest.approx(10)
    assert totals.total().useful_s == pytest.approx(10)


def test_energy_is_the_counters_difference_and_says_over_how_much_time():
    ledger = Ledger()
    job = view("1", ["a"])
    for at in range(181):
        here = gpu("a", START + at, energy_j=1000 + 300 * at)
        ledger.take(tick(START + at, [job], [here]))
    total = ledger.summary().total()
    assert total.energy_s == pytest.approx(180)
    assert total.energy_j == pytest.approx(300 * 180)


def test_energy_of_a_gpu_without_a_counter_is_its_power_over_time():
    ledger = Ledger()
    total = run(ledger, START, START + 180, [view("1", ["a"])], power_w=400.0).total()
    assert total.energy_j == pytest.approx(400 * 180)
    assert run(Ledger(), START, START + 180, [view("1", ["a"])]).total().energy_j is None


def test_money_is_counted_by_the_longest_name_that_fits():
    prices = Prices({"H100": 3.6, "H100 80GB": 7.2, "default": 1.0}, 0.0, "EUR")
    found = claim("idle_tail", "job:1", START, START + 500, share=1)
    ledger, job = Ledger(prices), view("1", ["a"])
    run(ledger, START, START + 500, [job])
    totals = run(ledger, START + 501, START + 1000, [job], findings=(found,))
    assert totals.total().cost == pytest.approx(2.0)
    assert totals.total().wasted_cost == {"idle_tail": pytest.approx(1.0)}


def test_gpus_without_a_price_are_said_and_not_free():
    totals = run(Ledger(Prices({"B200": 9.0})), START, START + 100, [view("1", ["a"])])
    assert totals.total().cost == 0
    assert totals.total().unpriced_s == pytest.approx(100)
    assert run(Ledger(), START, START + 10, [view("1", ["a"])]).total().cost is None


def test_an_earlier_summary_does_not_change():
    ledger = Ledger()
    job = view("1", ["a"])
    before = run(ledger, START, START + 10, [job])
    found = claim("idle_tail", "job:1", START, START + 10, share=1)
    run(ledger, START + 11, START + 50, [job], findings=(found,))
    assert before.total().useful_s == pytest.approx(10)
    assert before.total().wasted_s == {}
