from __future__ import annotations

import pytest

from gpumon.fleet.join.join import NodeNames, join
from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.model.records.block import column_for
from gpumon.model.records.cluster import Allocation
from tests.unit.fleet.factories import (
    DEVICES,
    frame,
    gpu_block,
    job,
    node,
    process_blocks,
    queue,
    uuid,
)

SHUFFLED = [3, 2, 1, 0, 7, 6, 5, 4]


def picture(frames, records=None, errors=None, now=100.0):
    return join(frames, records, errors or {}, now, 5.0)


def test_idx_leads_over_the_device_file_to_the_uuid_not_over_nvml_order():
    records = queue([job("7", {"gpu03": (0, 1)})], [node("gpu03", DEVICES)])
    seen = picture([frame("gpu03", {"gpu": gpu_block("gpu03", SHUFFLED)})], records)
    assert seen.jobs[0].gpu_uuids == (uuid("gpu03", 0), uuid("gpu03", 1))
    assert seen.gpus[uuid("gpu03", 0)].nvml_index == 3
    assert seen.nodes["gpu03"].gpu_uuids[0] == uuid("gpu03", 3)


def test_gres_conf_in_another_order_than_the_minors_is_followed():
    files = tuple(f"/dev/nvidia{number}" for number in (4, 5, 6, 7, 0, 1, 2, 3))
    records = queue([job("7", {"gpu01": (0, 4)})], [node("gpu01", files)])
    seen = picture([frame("gpu01", {"gpu": gpu_block("gpu01", list(range(8)))})], records)
    assert seen.jobs[0].gpu_uuids == (uuid("gpu01", 4), uuid("gpu01", 0))


def test_without_device_files_an_index_is_never_guessed():
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01")])
    seen = picture([frame("gpu01", {"gpu": gpu_block("gpu01", list(range(8)))})], records)
    assert seen.jobs[0].gpu_uuids == ()
    assert seen.jobs[0].gpus_unknown == 2


def test_a_job_that_holds_the_whole_node_needs_no_device_files():
    records = queue([job("7", {"gpu01": None})], [node("gpu01")])
    seen = picture([frame("gpu01", {"gpu": gpu_block("gpu01", SHUFFLED)})], records)
    assert seen.jobs[0].gpu_uuids == tuple(uuid("gpu01", minor) for minor in SHUFFLED)
    assert seen.jobs[0].gpus_unknown == 0


def test_a_filtered_view_of_as_many_gpus_is_not_taken_for_the_whole_node():
    """A probe in job 7 on two GPUs says nothing of job 8, which holds two others."""
    records = queue([job("7", {"gpu01": (4, 5)}), job("8", {"gpu01": (0, 1)})], [node("gpu01")])
    seen = picture([frame("gpu01", {"gpu": gpu_block("gpu01", [4, 5])})], records)
    assert [view.gpu_uuids for view in seen.jobs] == [(), ()]
    assert [view.gpus_unknown for view in seen.jobs] == [2, 2]


def test_a_filtered_view_keeps_the_right_uuids_by_the_minor_numbers():
    """NVML counts the visible GPUs from 0; their device files keep their names."""
    records = queue(
        [job("7", {"gpu01": (4, 5)}), job("8", {"gpu01": (0, 1)})], [node("gpu01", DEVICES)]
    )
    seen = picture([frame("gpu01", {"gpu": gpu_block("gpu01", [5, 4])})], records)
    assert [view.gpu_uuids for view in seen.jobs] == [(uuid("gpu01", 4), uuid("gpu01", 5)), ()]
    assert [view.gpus_unknown for view in seen.jobs] == [0, 2]


def test_a_process_names_the_gpu_that_slurm_does_not():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", {"SLURM_PROCID": "0"})])
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01")])
    view = picture([frame("gpu01", blocks)], records).jobs[0]
    assert view.gpu_uuids == (uuid("gpu01", 6),)
    assert view.gpus_unknown == 1
    assert view.contradictions == ()


def shown(records, *processes):
    """The jobs, with processes on `gpu01`."""
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))} | process_blocks(list(processes))
    return picture([frame("gpu01", blocks)], records).jobs


def on_gpus(pid, minors, job_id, **variables):
    return pid, [uuid("gpu01", minor) for minor in minors], job_id, "0", variables


def test_what_a_job_holds_is_what_slurm_gave_it_and_what_it_uses_is_where_it_runs():
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01", DEVICES)])
    (view,) = shown(records, on_gpus(50, [6], "7", SLURM_PROCID="0"))
    assert view.gpu_uuids == (uuid("gpu01", 0), uuid("gpu01", 1))
    assert view.gpu_uuids_used == (uuid("gpu01", 6),)
    assert view.gpus_unknown == 0
    (text,) = view.contradictions
    assert text.startswith(f"a process of job 7 is on {uuid('gpu01', 6)} of gpu01")


def test_a_job_on_the_gpus_of_another_takes_none_from_it():
    """Both say so; the GPUs that the first was given and leaves idle stay its own."""
    records = queue(
        [job("7", {"gpu01": (0, 1, 2)}), job("8", {"gpu01": (4, 5, 6)})],
        [node("gpu01", DEVICES)],
    )
    first, second = shown(records, on_gpus(50, [4, 5, 2], "7"), on_gpus(60, [4, 5, 6], "8"))
    assert [view.gpu_uuids for view in (first, second)] == [
        tuple(uuid("gpu01", minor) for minor in minors) for minors in ((0, 1, 2), (4, 5, 6))
    ]
    assert first.gpu_uuids_used == tuple(uuid("gpu01", minor) for minor in (4, 5, 2))
    assert len(first.contradictions) == 2
    assert second.contradictions == tuple(
        f"a process of job 7 is on {uuid('gpu01', minor)}, which Slurm gave to job 8"
        for minor in (4, 5)
    )


def test_a_process_names_no_gpu_that_slurm_gave_to_somebody_else():
    """Of job 7 it is not known which four it holds, of job 8 it is."""
    records = queue(
        [
            job("7", {"gpu01": None})._replace(allocations=(Allocation("gpu01", 4, None),)),
            job("8", {"gpu01": (2, 3)}),
        ],
        [node("gpu01", DEVICES)],
    )
    first, _ = shown(records, on_gpus(50, [2, 5, 7], "7"))
    assert (first.gpu_uuids, first.gpus_unknown) == ((uuid("gpu01", 5), uuid("gpu01", 7)), 2)
    assert len(first.contradictions) == 1


def test_processes_on_more_gpus_than_the_job_holds_name_none():
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01")])
    (view,) = shown(records, on_gpus(50, [3, 4, 6], "7"))
    assert (view.gpu_uuids, view.gpus_unknown) == ((), 2)
    assert len(view.contradictions) == 3


@pytest.mark.parametrize(
    ("job_id", "uid", "is_its"),
    [
        ("7", 7001, True),
        ("7", 7002, False),
        ("7", 0, False),
        ("3", 7001, False),
        ("9", 7002, False),
    ],
)
def test_a_word_of_the_environment_counts_from_the_user_of_the_job_alone(job_id, uid, is_its):
    """Job 3 is no more; 9 is a number that a job may have got since the queue answered."""
    records = queue(
        [job("7", {"gpu01": (0, 1)}, user_id=7001), job("8", {}, state="PENDING")],
        [node("gpu01", DEVICES, gpus_used=2)],
    )
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], None, None, {"SLURM_JOB_ID": job_id})])
    owners = blocks["process"]
    uids = {**owners.columns, "uid": column_for(True, [uid])}
    blocks["process"] = owners._replace(columns=uids)
    seen = picture([frame("gpu01", blocks)], records)
    assert [rank.pid for rank in seen.jobs[0].ranks] == ([50] if is_its else [])
    assert [process.pid for process in seen.strays] == ([] if is_its or job_id == "9" else [50])


def test_processes_on_a_node_the_job_does_not_hold_are_named():
    blocks = {"gpu": gpu_block("gpu02", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu02", 0)], "7", "0", {})])
    records = queue([job("7", {"gpu01": (0,)})], [node("gpu01", DEVICES), node("gpu02", DEVICES)])
    view = picture([frame("gpu02", blocks)], records).jobs[0]
    assert any("gpu02" in sentence for sentence in view.contradictions)


def test_sixteen_ranks_on_two_nodes_keep_their_node_pid_and_uuid():
    frames = []
    for number, name in enumerate(("gpu01", "gpu02")):
        blocks = {"gpu": gpu_block(name, SHUFFLED)}
        blocks |= process_blocks(
            [
                (
                    1000 + local,
                    [uuid(name, local)],
                    "9",
                    "0",
                    {
                        "SLURM_PROCID": str(number * 8 + local),
                        "SLURM_LOCALID": str(local),
                        "SLURM_NTASKS": "16",
                    },
                )
                for local in range(8)
            ]
        )
        frames.append(frame(name, blocks))
    records = queue(
        [job("9", {"gpu01": None, "gpu02": None})],
        [node("gpu01", DEVICES), node("gpu02", DEVICES)],
    )
    ranks = picture(frames, records).jobs[0].ranks
    assert [(r.rank, r.local_rank, r.node, r.pid, r.gpu_uuids) for r in ranks] == [
        (n * 8 + i, i, name, 1000 + i, (uuid(name, i),))
        for n, name in enumerate(("gpu01", "gpu02"))
        for i in range(8)
    ]
    assert {r.world_size for r in ranks} == {16}
    assert {r.world_id for r in ranks} == {"9.0"}


def test_a_process_of_another_user_is_a_rank_that_says_why_its_number_is_unknown():
    blocks = {"gpu": gpu_block("gpu01", [0])}
    blocks |= process_blocks([(50, [uuid("gpu01", 0)], "7", "0", None)])
    records = queue([job("7", {"gpu01": (0,)})], [node("gpu01", DEVICES)])
    (rank,) = picture([frame("gpu01", blocks)], records).jobs[0].ranks
    assert rank.rank is None
    assert rank.why == "no permission to read its environment"
    assert rank.gpu_uuids == (uuid("gpu01", 0),)


def test_one_process_with_several_gpus_is_one_rank():
    held = [uuid("gpu01", number) for number in range(4)]
    blocks = {"gpu": gpu_block("gpu01", list(range(4)))}
    blocks |= process_blocks([(50, held, "7", "0", {"SLURM_PROCID": "0"})])
    records = queue([job("7", {"gpu01": (0, 1, 2, 3)})], [node("gpu01", DEVICES)])
    (rank,) = picture([frame("gpu01", blocks)], records).jobs[0].ranks
    assert rank.gpu_uuids == tuple(held)


def test_stale_values_are_missing_with_their_reason_and_the_name_stays():
    block = gpu_block("gpu01", [0], power_w=[300.0])
    seen = picture([frame("gpu01", {"gpu": block}, at=90.0)], now=100.0)
    gpu = seen.gpus[uuid("gpu01", 0)]
    assert gpu.value("power_w") is None
    assert gpu.reason("power_w") is Reason.STALE
    assert gpu.nvml_index == 0
    assert seen.nodes["gpu01"].is_stale


def test_of_two_targets_that_see_one_gpu_the_fresher_counts():
    old = frame("gpu01", {"gpu": gpu_block("gpu01", [0], power_w=[1.0])}, 97.0, "local")
    new = frame("gpu01", {"gpu": gpu_block("gpu01", [0], power_w=[2.0])}, 99.0, "ssh://gpu01")
    for frames in ([old, new], [new, old]):
        gpu = picture(frames).gpus[uuid("gpu01", 0)]
        assert (gpu.value("power_w"), gpu.origin) == (2.0, "ssh://gpu01")


def test_a_node_matches_by_host_name_address_and_short_name():
    names = NodeNames(
        [node("n1", host_name="host1.site", address="10.0.0.1"), node("n2.site", address="")]
    )
    assert names.canonical("host1.site", ()) == "n1"
    assert names.canonical("10.0.0.1", ()) == "n1"
    assert names.canonical("n2", ()) == "n2.site"
    assert names.canonical("unknown", ("n1",)) == "n1"
    assert names.canonical("stranger", ()) == "stranger"


def test_an_alias_of_two_nodes_matches_neither():
    names = NodeNames([node("n1", host_name="login"), node("n2", host_name="login")])
    assert names.canonical("login", ()) == "login"
    assert names.canonical("n1", ()) == "n1"


def test_a_node_that_only_fails_is_shown_with_its_error():
    error = SourceError("gpu02", "ssh: the key is refused", "check")
    seen = picture([], queue([], [node("gpu01")]), {"gpu02": (error,)})
    assert seen.nodes["gpu02"].errors == (error,)
    assert seen.nodes["gpu02"].taken_at is None
    assert seen.nodes["gpu01"].state == "mixed"


def test_of_every_block_a_node_shows_the_newest():
    old = frame("gpu01", {"gpu": gpu_block("gpu01", [0]), "nic": gpu_block("gpu01", [1])}, at=98.0)
    new = frame("gpu01", {"gpu": gpu_block("gpu01", [2])}, at=99.0, origin="local")
    seen = picture([new, old]).nodes["gpu01"]
    assert {name: block.keys for name, block in seen.blocks.items()} == {
        "gpu": (uuid("gpu01", 2),),
        "nic": (uuid("gpu01", 1),),
    }
    assert seen.taken_at == 99.0


SLUID = "s8FXKTA79XAR00"


def test_a_job_whose_control_group_is_its_sluid_is_found_by_the_queue():
    """Slurm 26.05 names the group by the SLUID; other users' environments stay closed."""
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], None, "0", None)])
    owners = blocks["process"]
    blocks["process"] = owners._replace(labels={**owners.labels, "sluid": (SLUID,)})
    unlisted = queue([job("7", {"gpu01": (6,)})], [node("gpu01", DEVICES)])
    assert picture([frame("gpu01", blocks)], unlisted).jobs[0].ranks == ()
    records = queue([job("7", {"gpu01": (6,)}, sluid=SLUID)], [node("gpu01", DEVICES)])
    view = picture([frame("gpu01", blocks)], records).jobs[0]
    assert [(rank.pid, rank.step) for rank in view.ranks] == [(50, "0")]
    assert view.contradictions == ()


def test_a_het_component_is_told_by_its_sluid_not_by_its_environment():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    variables = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", variables)])
    owners = blocks["process"]
    blocks["process"] = owners._replace(labels={**owners.labels, "sluid": (SLUID,)})
    records = queue(
        [job("7", {"gpu01": (0,)}), job("8", {"gpu01": (6,)}, sluid=SLUID)],
        [node("gpu01", DEVICES)],
    )
    seen = picture([frame("gpu01", blocks)], records)
    assert [[rank.pid for rank in view.ranks] for view in seen.jobs] == [[], [50]]
    assert all(view.contradictions == () for view in seen.jobs)


def test_a_job_that_holds_shares_of_a_gpu_contradicts_nothing():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", {})])
    shares = (Allocation("gpu01", 0, (), 1, has_shares=True),)
    for allocations, held_minors in ((shares, [6]), ((Allocation("gpu01", 0, ()),), [])):
        held = job("7", {})._replace(allocations=allocations)
        records = queue([held], [node("gpu01", DEVICES)])
        view = picture([frame("gpu01", blocks)], records).jobs[0]
        assert view.gpu_uuids == tuple(uuid("gpu01", minor) for minor in held_minors)
        assert (view.gpus_unknown, bool(view.contradictions)) == (0, not held_minors)


def test_instances_of_one_gpu_are_not_missing_gpus():
    """A job with two MIG instances has both on one GPU; Slurm's count is of instances."""
    blocks = {"gpu": gpu_block("gpu01", [0], mig_mode=[1.0])}
    blocks |= process_blocks([(50, [uuid("gpu01", 0)], "7", "0", {})])
    caps = ("/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap30")
    mig_node = node("gpu01", caps, gpu_count=7, gpus_used=2)
    records = queue([job("7", {"gpu01": (0, 1)})], [mig_node])
    seen = picture([frame("gpu01", blocks)], records)
    assert seen.jobs[0].gpu_uuids == (uuid("gpu01", 0),)
    assert (seen.jobs[0].gpus_unknown, seen.jobs[0].contradictions) == (0, ())
    assert seen.strays == ()


def test_processes_that_outlive_their_job_are_named():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", {})])
    ended = job("7", {}, state="FAILED", nodes=("gpu01",))
    view = picture([frame("gpu01", blocks)], queue([ended], [node("gpu01", DEVICES)])).jobs[0]
    assert view.contradictions == (
        f"a process of job 7 is still on {uuid('gpu01', 6)} of gpu01, though Slurm says FAILED",
    )


def strays(gpus_used, job_id=None, held=(0, 1), files=DEVICES):
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], job_id, None, None)])
    records = queue([job("7", {"gpu01": held})], [node("gpu01", files, gpus_used=gpus_used)])
    return [process.pid for process in picture([frame("gpu01", blocks)], records).strays]


def test_a_process_of_no_job_on_a_gpu_of_no_job_is_named():
    assert strays(2) == [50]


def test_a_process_is_no_stray_where_somebody_unseen_may_hold_the_gpu():
    assert strays(3) == []
    assert strays(None) == []
    assert strays(2, files=()) == []
    assert strays(2, job_id="99") == []
    assert strays(3, held=(0, 1, 6)) == []


def test_a_process_that_cannot_be_read_at_all_is_no_stray():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], None, None, None)])
    blocks["process"] = blocks["process"]._replace(keys=(), columns={}, labels={}, missing={})
    records = queue([], [node("gpu01", DEVICES, gpus_used=0)])
    assert picture([frame("gpu01", blocks)], records).strays == ()


def on_a_dead_node(state="RUNNING", at=40.0, **changes):
    """Job 7 ran on gpu02, which told so last at `at`; it is on gpu01 now."""
    records = queue(
        [job("7", {} if state != "RUNNING" else {"gpu01": (0, 1)}, state=state, **changes)],
        [node("gpu01", DEVICES), node("gpu02", DEVICES)],
    )
    then = process_blocks(
        [
            (pid, [uuid("gpu02", pid - 60)], "7", "0", {"SLURM_PROCID": f"{pid - 60}"})
            for pid in (60, 61)
        ]
    )
    now = process_blocks(
        [
            (pid, [uuid("gpu01", pid - 50)], "7", "0", {"SLURM_PROCID": f"{pid - 50}"})
            for pid in (50, 51)
        ]
    )
    frames = [frame("gpu02", {"gpu": gpu_block("gpu02", list(range(8))), **then}, at)]
    if state == "RUNNING":
        frames.append(frame("gpu01", {"gpu": gpu_block("gpu01", list(range(8))), **now}))
    return picture(frames, records).jobs[0]


def test_ranks_of_a_run_that_died_with_its_node_are_history():
    view = on_a_dead_node()
    assert [(rank.node, rank.pid) for rank in view.ranks] == [("gpu01", 50), ("gpu01", 51)]
    assert view.contradictions == ()
    # As long as the node talks, they are there, and contradict Slurm.
    view = on_a_dead_node(at=99.0)
    assert len(view.ranks) == 4
    assert view.contradictions == ("processes of job 7 run on gpu02, where it holds no GPU",)


def test_a_job_that_waits_anew_has_no_ranks_on_a_node_that_is_off():
    assert on_a_dead_node("PENDING").ranks == ()


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_waits_has_no_ranks_wherever_its_processes_are_seen(state):
    """They are of the run that ended, or of one that began after Slurm was asked."""
    view = on_a_dead_node(state, at=99.0)
    assert (view.ranks, view.gpu_uuids_used, view.contradictions) == ((), (), ())


def test_what_was_seen_before_a_job_ended_does_not_contradict_its_end():
    ended = {"at": 97.5, "nodes": ("gpu02",)}
    view = on_a_dead_node("COMPLETED", **ended, end_at=98.2)
    assert (view.ranks, view.contradictions) == ((), ())
    assert len(on_a_dead_node("COMPLETED", **ended, end_at=96.8).contradictions) == 2


def test_a_job_that_ended_on_a_node_that_is_off_has_nothing_on_its_gpus():
    assert on_a_dead_node("NODE_FAIL", nodes=("gpu02",)).contradictions == ()
    assert len(on_a_dead_node("NODE_FAIL", at=97.0, nodes=("gpu02",)).contradictions) == 2


def test_what_a_silent_node_said_of_the_gpus_of_a_job_that_still_holds_some_there_counts():
    """Slurm says that it is there, and nothing says that its GPUs have changed."""
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", {"SLURM_PROCID": "0"})])
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01")])
    view = picture([frame("gpu01", blocks, 40.0)], records).jobs[0]
    assert (view.gpu_uuids, view.gpus_unknown) == ((uuid("gpu01", 6),), 1)
    assert (view.ranks, view.contradictions) == ((), ())


def test_a_silent_node_contradicts_no_allocation():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 6)], "7", "0", {"SLURM_PROCID": "0"})])
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01", DEVICES)])
    view = picture([frame("gpu01", blocks, 40.0)], records).jobs[0]
    assert (view.gpu_uuids, view.contradictions) == ((uuid("gpu01", 0), uuid("gpu01", 1)), ())


def drawn(name, processes, types):
    """The blocks of a node of which some processes only draw."""
    blocks = {"gpu": gpu_block(name, list(range(8))), **process_blocks(processes)}
    blocks["context"] = blocks["context"]._replace(labels={"type": tuple(types)})
    return blocks


def test_what_only_draws_is_no_rank_no_contradiction_and_no_stray():
    mine = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    blocks = drawn(
        "gpu01",
        [
            (50, [uuid("gpu01", 0), uuid("gpu01", 5)], "7", "0", mine),
            (60, [uuid("gpu01", 6)], "7", "0", {}),
            (70, [uuid("gpu01", 1), uuid("gpu01", 7)], None, None, None),
        ],
        ["C+G", "G", "G", "G", "G"],
    )
    records = queue([job("7", {"gpu01": (0, 1)})], [node("gpu01", DEVICES, gpus_used=2)])
    seen = picture([frame("gpu01", blocks)], records)
    (view,) = seen.jobs
    assert [(rank.pid, rank.gpu_uuids) for rank in view.ranks] == [(50, (uuid("gpu01", 0),))]
    assert (view.contradictions, seen.strays) == ((), ())
    shown = {gpu.minor_number: [p.pid for p in gpu.processes] for gpu in seen.gpus.values()}
    assert (shown[5], shown[6], shown[7]) == ([50], [60], [70])
    assert seen.gpus[uuid("gpu01", 0)].compute_processes[0].types[uuid("gpu01", 0)] == "C+G"
    assert seen.gpus[uuid("gpu01", 6)].compute_processes == ()


def test_of_an_older_recording_every_process_computes():
    blocks = {"gpu": gpu_block("gpu01", list(range(8)))}
    blocks |= process_blocks([(50, [uuid("gpu01", 0)], "7", "0", {})])
    gpu = picture([frame("gpu01", blocks)]).gpus[uuid("gpu01", 0)]
    assert gpu.compute_processes == gpu.processes
    assert (gpu.processes[0].types, gpu.processes[0].user) == ({}, None)


def test_a_process_is_its_users_by_name_and_by_number():
    blocks = drawn("gpu01", [(50, [uuid("gpu01", 0)], None, None, {})], ["C"])
    labels = {**blocks["process"].labels, "user": ("wanda",)}
    blocks["process"] = blocks["process"]._replace(labels=labels)
    (process,) = picture([frame("gpu01", blocks)]).gpus[uuid("gpu01", 0)].processes
    assert [process.is_of(name) for name in ("wanda", "7001", "wand", "70")] == [
        *(True, True),
        *(False, False),
    ]
