"""Jobs that wait for data, storage, checkpoints or compilers: each found, by one rule alone."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import WORKING, Scene
from gpumon.model.finding import Confidence
from gpumon_detectors.waits.checkpoint_stall import CheckpointStall
from gpumon_detectors.waits.cpu_oversubscribed import CpuOversubscribed
from gpumon_detectors.waits.input_bound import InputBound
from gpumon_detectors.waits.recompiling import Recompiling
from gpumon_detectors.waits.storage_bound import StorageBound
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST
from tests.unit.gpumon_detectors.noise import troubles_at
from tests.unit.gpumon_detectors.wait_scenes import GIB, Job, Part, irregular, played, work

RULES = (InputBound(), StorageBound(), CheckpointStall(), CpuOversubscribed(), Recompiling())

# Steps of a second and a half: the wait comes first. Primes, so that samples do not beat with them.
STARVED = [Part(0.83, cores=7.7), work(0.71, cores=7.6)]
READING = [Part(0.79, cores=0.5, io=0.8, read=9e8), work(0.67, cores=1.0, read=9e8)]
SAVING = [work(241.0), Part(67.0, cores=1.1, io=0.7, written=6e8)]
QUICK_SAVING = [work(421.0), Part(23.0, cores=1.1, io=0.7, written=6e8)]
COMPILING = irregular([work(97.0), Part(1.0, cores=1.1)], [31.0, 83.0, 47.0, 68.0, 36.0])
RARELY = irregular([Part(41.0, cores=7.8), work(1.0, cores=7.7)], [3.0, 7.0, 5.0, 4.0, 8.0, 3.5])
CHUNKS = irregular([Part(280.0, cores=7.8), work(1.0, cores=7.7)], [131.0, 250.0, 190.0, 220.0])
CROWDED = Job(processes=40, cpu_pressure=0.8)


def findings(scene):
    view = scene.view()
    return [finding for rule in RULES for finding in rule.evaluate(view)]


def classes(scene):
    return [f.finding_class for f in findings(scene)]


def everywhere(*quick, periods_s=(1.0, 10.0, 30.0, 60.0)):
    """Usual periods with what telemetry suffers; those in `quick` cost little enough each day."""
    return pytest.mark.parametrize(
        ("period_s", "trouble"),
        [
            pytest.param(
                period_s,
                trouble,
                marks=() if (period_s, trouble) in quick else (pytest.mark.slow,),
                id=f"{period_s:.0f} s, {trouble}",
            )
            for period_s in periods_s
            for trouble in troubles_at(period_s)
        ],
    )


def lost_share(finding, job):
    """Of the window's GPU time."""
    return finding.gpu_seconds / (finding.window.end - finding.window.start) / job.gpus


def seconds(period_s, trouble, length_s=2700.0):
    """Long enough for 30 samples, and for what a restart takes."""
    return max(length_s, 40 * period_s) * (2 if trouble == "restart" else 1)


@everywhere((10.0, "none"), (10.0, "missing"), (30.0, "holes"), (60.0, "shared"), (60.0, "restart"))
def test_a_job_that_waits_for_data_is_found(period_s, trouble):
    job = Job()
    scene, _ = played(period_s, trouble, [(seconds(period_s, trouble), STARVED)], job)
    (finding,) = findings(scene)
    assert finding.finding_class == "input_bound"
    assert finding.confidence is not Confidence.HYPOTHESIS
    assert 0.45 <= lost_share(finding, job) <= 0.63


@everywhere((10.0, "none"), (10.0, "missing"), (30.0, "holes"), (60.0, "shared"), (60.0, "restart"))
def test_a_job_that_waits_for_its_file_system_is_found(period_s, trouble):
    job = Job()
    scene, _ = played(period_s, trouble, [(seconds(period_s, trouble), READING)], job)
    (finding,) = findings(scene)
    assert finding.finding_class == "storage_bound"
    assert finding.confidence is not Confidence.HYPOTHESIS
    assert 0.45 <= lost_share(finding, job) <= 0.64


@everywhere((10.0, "none"), (10.0, "missing"), (30.0, "holes"), (30.0, "restart"))
def test_a_job_that_saves_for_too_long_is_found(period_s, trouble):
    job = Job()
    scene, _ = played(period_s, trouble, [(seconds(period_s, trouble), SAVING)], job)
    (finding,) = findings(scene)
    assert finding.finding_class == "checkpoint_stall"
    assert finding.confidence is not Confidence.HYPOTHESIS
    assert 0.18 <= lost_share(finding, job) <= 0.27


@everywhere((10.0, "none"), (10.0, "missing"), (30.0, "holes"), (60.0, "shared"))
def test_a_job_with_too_many_threads_is_found(period_s, trouble):
    scene, _ = played(period_s, trouble, [(seconds(period_s, trouble), STARVED)], CROWDED)
    (finding,) = findings(scene)
    assert finding.finding_class == "cpu_oversubscribed"
    assert finding.confidence is not Confidence.HYPOTHESIS


@everywhere((10.0, "none"), (10.0, "missing"), (10.0, "holes"), periods_s=(1.0, 10.0))
def test_a_program_that_compiles_again_and_again_is_found(period_s, trouble):
    phases = [(seconds(period_s, trouble, 5400.0), COMPILING)]
    scene, _ = played(period_s, trouble, phases)
    (finding,) = findings(scene)
    assert finding.finding_class == "recompiling"


@pytest.mark.parametrize("load", [None, 60.0])
def test_as_many_loaders_as_usual_on_too_few_cpus_wait_for_data(load):
    starved = [Part(0.83, cores=3.9), work(0.71, cores=3.9)]
    few = Job(cpus=4, processes=15, cpu_pressure=0.8, load=load)
    assert classes(played(10.0, "none", [(1500.0, starved)], few)[0]) == ["input_bound"]
    many = few._replace(processes=31)
    assert classes(played(10.0, "none", [(1500.0, starved)], many)[0]) == ["cpu_oversubscribed"]
    queued = few._replace(load=110.0)
    assert classes(played(10.0, "none", [(1500.0, starved)], queued)[0]) == ["cpu_oversubscribed"]


def test_a_wait_for_data_is_suspected_after_five_minutes_and_grows_surer():
    steps = {
        240.0: [],
        420.0: [Confidence.HYPOTHESIS],
        700.0: [Confidence.SUPPORTED],
        1900.0: [Confidence.ESTABLISHED],
    }
    for length_s, confidence in steps.items():
        scene, _ = played(10.0, "none", [(1200.0, [work(60.0)]), (length_s, STARVED)])
        assert [f.confidence for f in findings(scene)] == confidence


def test_its_onset_is_that_of_its_waits():
    scene, _ = played(10.0, "none", [(1500.0, [work(60.0)]), (1500.0, STARVED)])
    (finding,) = findings(scene)
    assert 1350.0 <= finding.window.end - finding.window.start <= 1650.0
    assert "since" in finding.summary


def test_it_reaches_back_to_where_hosts_have_coarser_rows_than_gpus():
    scene, _ = played(10.0, "none", [(9000.0, STARVED)])
    (finding,) = findings(scene)
    assert finding.window.end - finding.window.start >= 5100.0


def test_a_job_that_waits_no_more_is_not_claimed():
    scene, _ = played(10.0, "none", [(1500.0, STARVED), (900.0, [work(60.0)])])
    assert findings(scene) == []


def test_checkpoints_that_have_stopped_are_not_claimed():
    scene, _ = played(10.0, "none", [(1900.0, SAVING), (1500.0, [work(60.0)])])
    assert findings(scene) == []


def test_three_checkpoints_are_needed():
    scene, _ = played(10.0, "none", [(600.0, SAVING)])
    assert findings(scene) == []


def test_a_full_server_of_files_is_the_common_cause():
    scene, _ = played(10.0, "none", [(1500.0, READING)])
    there = scene.node("m", 2)
    scene.job("77", there, cpu_count=16)
    scene.cgroup("77", job_io_pressure_some_ratio=0.6, job_cpu_cores_used=1.0)
    mount = {"fs_read_bytes_per_s": 2e8, "fs_read_exec_s": 0.4}
    scene.mount("m", "/scratch", device="filer:/data", **mount)
    scene.run(30.0, {})
    (finding,) = StorageBound().evaluate(scene.view())
    assert "as 1 more job on filer:/data do" in finding.summary
    assert any("77" in line.text for line in finding.evidence)
    assert any("filer:/data" in line for line in finding.machine_advice)


def test_a_neighbour_on_another_server_is_not_named():
    scene, _ = played(10.0, "none", [(1500.0, READING)])
    there = scene.node("m", 2)
    scene.job("77", there, cpu_count=16)
    scene.cgroup("77", job_io_pressure_some_ratio=0.6)
    scene.mount("m", "/data", device="other:/data", fs_read_bytes_per_s=2e8, fs_read_exec_s=0.4)
    scene.run(30.0, {})
    (finding,) = StorageBound().evaluate(scene.view())
    assert "more job" not in finding.summary
    assert finding.machine_advice == ()


def over_two_nodes(cores, *, silent_groups=()):
    """A job with half of its GPUs on each of two nodes, and CPUs busy on each."""
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    mine = [*scene.node("a", 2), *scene.node("b", 2)]
    scene.job("42", mine, cpu_count=32)
    for node, busy in zip("ab", cores, strict=True):
        scene.host(node, **QUIET_HOST, io_pressure_some_ratio=0.0)
        group = {"job_cpu_cores_used": busy, "job_cpu_count": 16.0}
        if node not in silent_groups:
            scene.cgroup("42", node, **group, job_io_pressure_some_ratio=0.0)
    values = {**WORKING, "gpu_util_ratio": 0.4, "sm_active_ratio": 0.25}
    scene.run(1500.0, dict.fromkeys(mine, values))
    return scene


def test_cpus_of_all_nodes_count_together():
    assert classes(over_two_nodes((15.1, 15.6))) == ["input_bound"]
    assert classes(over_two_nodes((15.6, 3.0))) == []
    assert classes(over_two_nodes((15.1, 15.6), silent_groups="b")) == []


@everywhere((30.0, "none"), (30.0, "missing"), (60.0, "holes"), (10.0, "shared"))
@pytest.mark.parametrize("has_counters", [True, False])
def test_gpus_that_work_a_tenth_of_the_time_wait_for_data(period_s, trouble, has_counters):
    job = Job(has_counters=has_counters)
    scene, _ = played(period_s, trouble, [(seconds(period_s, trouble, 5400.0), RARELY)], job)
    (finding,) = findings(scene)
    assert finding.finding_class == "input_bound"
    assert finding.confidence is not Confidence.HYPOTHESIS
    assert 0.75 <= lost_share(finding, job) <= 0.99


def test_they_do_at_every_look_however_samples_meet_the_work():
    beat = [Part(40.0, cores=7.8), work(5.0, cores=7.7)]
    for minutes in range(21, 120, 7):
        scene, _ = played(30.0, "none", [(60.0 * minutes, beat)])
        assert classes(scene) == ["input_bound"], minutes


def test_bursts_that_samples_make_of_quick_waits_are_no_requests():
    uneven = [23.0, 7.0, 15.0, 31.0, 9.0, 12.0]
    waiting = irregular([Part(37.0, cores=7.8), work(1.0, cores=7.7)], uneven)
    confidence, said = doubts(played(60.0, "none", [(5400.0, waiting)])[0])
    assert confidence is Confidence.ESTABLISHED
    assert "server" not in said
    named = Job(fields={"name": "serve"})
    confidence, said = doubts(played(60.0, "none", [(5400.0, waiting)], named)[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "may be a server" in said


@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("has_counters", [True, False])
def test_chunks_of_minutes_are_by_design_even_where_cpus_never_rest(period_s, has_counters):
    job = Job(has_counters=has_counters)
    for hours in (0.5, 1.0, 1.5):
        assert findings(played(period_s, "none", [(3600.0 * hours, CHUNKS)], job)[0]) == []


def test_where_pressure_is_not_told_only_the_plainest_wait_for_data_is_more_than_a_guess():
    job = Job(has_pressure=False)
    (finding,) = findings(played(10.0, "none", [(2700.0, RARELY)], job)[0])
    assert finding.confidence is Confidence.ESTABLISHED
    confidence, said = doubts(played(10.0, "none", [(2700.0, STARVED)], job)[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "not seen: whether its tasks wait for I/O" in said


# What is missing


def doubts(scene):
    (finding,) = findings(scene)
    return finding.confidence, " / ".join(line.text for line in finding.evidence)


def test_without_a_control_group_it_is_a_guess_that_says_so():
    whole = Job(cpus=32, has_group=False)
    starved = [Part(0.83, cores=31.0), work(0.71, cores=30.0)]
    confidence, said = doubts(played(10.0, "none", [(1500.0, starved)], whole)[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "not seen: CPU time of the job alone" in said


def test_without_a_control_group_nothing_is_said_beside_a_neighbour():
    whole = Job(cpus=32, has_group=False)
    starved = [Part(0.83, cores=31.0), work(0.71, cores=30.0)]
    assert findings(played(10.0, "shared", [(1500.0, starved)], whole)[0]) == []


def test_without_pressure_of_its_own_storage_is_a_guess_of_a_job_alone():
    def told(trouble):
        scene, _ = played(10.0, trouble, [(1500.0, READING)], Job(has_group=False))
        return findings(scene)

    (finding,) = told("none")
    assert finding.confidence is Confidence.HYPOTHESIS
    assert any("not seen: I/O pressure of the job" in line.text for line in finding.evidence)
    assert told("shared") == []


def pausing(lengths, period_s=30.0, **job):
    """A job of 100 minutes that pauses for so long, one after the other."""
    compiling = irregular([work(131.0), Part(1.0, cores=1.1)], lengths)
    return played(period_s, "none", [(6000.0, compiling)], Job(has_counters=False, **job))[0]


def test_pauses_of_several_samples_are_those_of_a_compiler():
    (finding,) = findings(pausing([113.0, 62.0, 91.0, 41.0, 97.0, 47.0]))
    assert finding.finding_class == "recompiling"
    assert not any("one or two samples" in line.text for line in finding.evidence)


def test_what_compiles_is_a_guess_as_breaks_between_batches_look_the_same():
    confidence, said = doubts(played(10.0, "none", [(5400.0, COMPILING)])[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "breaks between files or batches look the same" in said


def test_pauses_of_a_sample_or_two_are_a_guess_that_says_so():
    confidence, said = doubts(pausing([23.0, 53.0, 29.0, 71.0, 19.0], has_copies=False))
    assert confidence is Confidence.HYPOTHESIS
    assert "one or two samples long" in said
    assert "not seen: copies over PCIe" in said
    confidence, said = doubts(pausing([23.0, 53.0, 29.0, 71.0, 19.0]))
    assert confidence is Confidence.HYPOTHESIS
    assert "not seen: copies" not in said


@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("has_copies", [True, False])
@pytest.mark.parametrize("rest_s", [2.9, 9.7, 17.0])
def test_samples_that_meet_quick_waits_are_no_pauses(period_s, has_copies, rest_s):
    waiting = [work(1.7 * rest_s, rx=9e9, cores=1.6), Part(rest_s, cores=1.6, rx=9e9)]
    uneven = irregular(waiting, [rest_s * part for part in (1.0, 1.3, 0.8, 1.1, 0.7, 1.4, 0.9)])
    job = Job(has_counters=False, has_copies=has_copies)
    told = findings(played(period_s, "none", [(6600.0, uneven)], job)[0])
    assert [f for f in told if f.confidence is not Confidence.HYPOTHESIS] == []


@pytest.mark.parametrize("after_s", [9.0, 21.0, 33.0])
def test_a_wait_right_behind_a_save_is_part_of_it(after_s):
    """Two saves of a healthy length, and a glance that met a wait a moment after the second."""
    saves = Part(53.0, cores=1.1, io=0.7, written=6e8)
    stutter = Part(11.0, cores=1.1, io=0.7, written=6e8)
    parts = [work(853.0), saves, work(853.0), saves, work(after_s), stutter, work(900.0)]
    scene, _ = played(10.0, "none", [(1835.0 + after_s, parts)], Job())
    assert classes(scene) == []


def test_where_nobody_counts_bytes_checkpoints_are_a_guess():
    scene, _ = played(10.0, "none", [(2700.0, SAVING)], Job(has_mounts=False))
    confidence, said = doubts(scene)
    assert confidence is Confidence.HYPOTHESIS
    assert "not seen: whether they write or read" in said


def test_few_samples_are_a_guess():
    scene, _ = played(60.0, "none", [(900.0, STARVED)])
    confidence, said = doubts(scene)
    assert confidence is Confidence.HYPOTHESIS
    assert "samples of a moment's utilisation" in said


@pytest.mark.parametrize("parts", [STARVED, READING])
def test_utilisation_does_without_profiling_counters(parts):
    scene, _ = played(10.0, "none", [(1800.0, parts)], Job(has_counters=False))
    (finding,) = findings(scene)
    assert finding.confidence is not Confidence.HYPOTHESIS


def test_saving_is_found_without_profiling_counters():
    scene, _ = played(10.0, "missing", [(2700.0, SAVING)], Job(has_counters=False))
    assert classes(scene) == ["checkpoint_stall"]


def test_a_session_is_never_more_than_a_guess():
    for parts in (STARVED, READING, SAVING):
        job = Job(fields={"is_interactive": True})
        confidence, said = doubts(played(10.0, "none", [(2700.0, parts)], job)[0])
        assert confidence is Confidence.HYPOTHESIS
        assert "a session" in said


def test_one_cpu_a_gpu_makes_it_a_guess():
    starved = [Part(0.83, cores=0.98), work(0.71, cores=0.97)]
    job = Job(cpus=1, cpu_pressure=0.05)
    confidence, said = doubts(played(10.0, "none", [(1500.0, starved)], job)[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "1.0 CPUs per GPU" in said
    crowded = job._replace(cpu_pressure=0.3)
    assert doubts(played(10.0, "none", [(1500.0, starved)], crowded)[0])[0] == "supported"


def test_while_the_page_cache_fills_storage_is_a_guess_after_an_hour():
    job = Job(memory_per_s=7e8)
    assert findings(played(10.0, "none", [(1500.0, READING)], job)[0]) == []
    confidence, said = doubts(played(10.0, "none", [(4200.0, READING)], job)[0])
    assert confidence is Confidence.HYPOTHESIS
    assert "first pass over data" in said


# Look-alikes

IDLE = Part(1.0, cores=0.05)
LOOK_ALIKES = {
    "training": [work(60.0)],
    "small kernels": [work(0.3, kernel=0.88, sm=0.2, cores=1.4)],
    "healthy checkpoints": QUICK_SAVING,
    "evaluation": [work(700.0), work(170.0, kernel=0.6, sm=0.3, cores=3.0)],
    "chunks prepared on CPUs": [work(233.0), Part(97.0, cores=7.6)],
    "rollouts judged on CPUs": [work(151.0), Part(41.0, cores=5.5)],
    "requests in bursts": irregular([work(83.0), IDLE], [61.0, 190.0, 311.0, 87.0, 140.0]),
    "offloaded optimizer": [work(1.1, cores=0.6), Part(0.7, cores=7.7)],
    "trials with gaps": [work(640.0), Part(130.0, cores=0.3, written=4e7, held=0.0)],
    "video": [work(1.0, kernel=0.07, sm=0.01, cores=2.0)],
    "rendering": [work(0.3, cores=4.0), Part(0.07, cores=4.0)],
    "idle with its CPUs at rest": [IDLE],
    "shards that are read in pauses": [work(271.0), Part(37.0, cores=0.7, io=0.8, read=9e8)],
}


@pytest.mark.parametrize("trouble", ["none", "shared"])
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_looks_alike_is_not_claimed(name, trouble):
    scene, _ = played(10.0, trouble, [(3900.0, LOOK_ALIKES[name])])
    assert findings(scene) == []


@everywhere()
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_looks_alike_is_not_claimed_whatever_telemetry_suffers(name, period_s, trouble):
    scene, _ = played(period_s, trouble, [(5000.0, LOOK_ALIKES[name])])
    told = [f for f in findings(scene) if f.confidence is not Confidence.HYPOTHESIS]
    assert told == []


@pytest.mark.parametrize(
    "start",
    [
        Part(900.0, cores=6.0),
        Part(900.0, cores=1.0, io=0.9, read=2e9, held=0.0),
        Part(900.0, cores=7.8, held=0.0),
    ],
)
def test_a_start_that_takes_long_is_not_claimed(start):
    scene, _ = played(10.0, "none", [(900.0, [start]), (1200.0, [work(60.0)])])
    assert findings(scene) == []
    scene, _ = played(10.0, "none", [(900.0, [start])])
    assert findings(scene) == []


@pytest.mark.parametrize(
    "beside",
    [
        SAVING,
        [Part(60.0, io=0.9, read=2e9, cores=2.0)],
        [Part(60.0, io=0.9, written=2e9, cores=2.0)],
    ],
)
@pytest.mark.parametrize("name", ["requests in bursts", "chunks prepared on CPUs", "training"])
def test_what_a_neighbour_reads_or_writes_accuses_nobody(name, beside):
    scene, _ = played(10.0, "shared", [(3900.0, LOOK_ALIKES[name])], neighbour=beside)
    assert [f for f in findings(scene) if f.subject == "job:42"] == []


def test_a_hang_in_the_kernel_is_no_wait_for_storage():
    stuck = Part(60.0, kernel=0.0, cores=0.2, io=1.0)
    scene, _ = played(10.0, "none", [(1500.0, [work(60.0)]), (900.0, [stuck])])
    assert findings(scene) == []


def test_one_gpu_that_sends_back_as_much_as_it_gets_is_a_guess():
    job = Job(gpus=1)
    scene, mine = played(10.0, "none", [(1500.0, STARVED)], job)
    (finding,) = findings(scene)
    assert finding.confidence is not Confidence.HYPOTHESIS
    values = {"gpu_util_ratio": 0.4, "sm_active_ratio": 0.3, "process_count": 1.0}
    both = {"pcie_tx_bytes_per_s": 9e8, "pcie_rx_bytes_per_s": 9e8}
    held = {"mem_used_bytes": 50 * GIB, "mem_total_bytes": 80 * GIB}
    scene.run(2400.0, {mine[0]: {**values, **both, **held}})
    (finding,) = findings(scene)
    assert finding.confidence is Confidence.HYPOTHESIS
    assert any("come back from the GPU" in line.text for line in finding.evidence)


def test_one_rank_that_others_wait_for_is_not_storage():
    scene, mine = played(10.0, "none", [(300.0, READING)])
    spins = {"gpu_util_ratio": 1.0, "sm_active_ratio": 0.1, "process_count": 1.0}
    held = {"mem_used_bytes": 50 * GIB, "mem_total_bytes": 80 * GIB}
    told = {uuid: {**spins, **held} for uuid in mine}
    told[mine[0]] = {**spins, **held, "gpu_util_ratio": 0.2}
    scene.cgroup("42", job_io_pressure_some_ratio=0.9)
    scene.run(1500.0, told)
    assert findings(scene) == []
