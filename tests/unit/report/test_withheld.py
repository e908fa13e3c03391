"""What of others' jobs reaches who may not see them: nothing, in the whole document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.records.queue import Partition, Reservation
from gpumon.report.document.document import document
from gpumon.report.openmetrics.families import page
from gpumon.report.withheld import withheld
from gpumon.sources.demo import DemoSource
from tests.worlds.clocks import Hasty
from tests.worlds.tick import AT, finding, fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.tick import Tick

KEY = b"k" * 16


@cache
def demo() -> Tick:
    """A busy fleet: jobs of many users, their processes and control groups, ledger, findings."""
    clock = Hasty(AT)
    source = DemoSource("demo:6x8", 6, 8, 1, clock, 1.0, 0.0)
    sampler = Sampler([source], clock, 1.0, open_ledger=Ledger)
    try:
        tick = sampler.sample_for(3.0)
    finally:
        sampler.close()
    names = others(tick, mine(tick))
    other = min(names["user"])
    jobs = sorted(names["job_id"])
    texts = {
        "summary": f"{other} and job {jobs[0]} wait, {jobs[1]}. Too.",
        "advice": (f"scancel {jobs[0]}", "nvidia-smi"),
        "machine_advice": (f"scontrol show job {jobs[1]}",),
    }
    own_job = next(view.job.job_id for view in tick.jobs if view.job.user == mine(tick))
    return tick._replace(
        findings=(
            finding(f"job:{own_job}", **texts),
            finding(f"job:{jobs[0]}", summary="theirs"),
            finding(f"job:{jobs[1]}/rank:3", summary="theirs"),
            finding(f"node:{next(iter(tick.nodes))}", **texts),
        ),
        cleared=(finding(f"job:{jobs[0]}", summary="theirs"),),
    )


def mine(tick: Tick) -> str:
    """A user with a running job."""
    return min({view.job.user for view in tick.jobs if view.ranks})


def others(tick: Tick, user: str) -> dict[str, set[str]]:
    """What jobs of others are called, but what an own job is called as well."""
    jobs = [view.job for view in tick.jobs] + list(tick.queue.jobs if tick.queue else ())
    found = {}
    for field in ("user", "account", "job_id", "label", "name", "work_dir", "stdout_path", "sluid"):
        own = {getattr(job, field) for job in jobs if job.user == user}
        found[field] = {getattr(job, field) for job in jobs if job.user != user} - own - {"", None}
    return found


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value


def leaks(text: str, names: set[str]) -> set[str]:
    words = set(re.findall(r"[A-Za-z0-9_@+-]+", text)) | {text}
    return words & names


def test_the_demo_has_something_to_hide() -> None:
    names = others(demo(), mine(demo()))
    assert all(names[field] for field in ("user", "account", "job_id", "name", "work_dir"))
    whole = list(texts_in(document(demo())))
    for field in ("user", "account", "job_id", "name", "work_dir"):
        assert any(leaks(text, names[field]) for text in whole), field


def test_no_name_of_anybody_else_is_in_the_document() -> None:
    tick = demo()
    names = others(tick, mine(tick))
    shown = json.loads(json.dumps(document(withheld(tick, frozenset({mine(tick)}), KEY))))
    for text in texts_in(shown):
        for field, hidden in names.items():
            assert not leaks(text, hidden), (field, text)


def test_no_name_of_anybody_else_is_among_the_metrics() -> None:
    tick = demo()
    names = others(tick, mine(tick))
    text = page(withheld(tick, frozenset({mine(tick)}), KEY), is_open=True).decode()
    for label in re.findall(r'"([^"]*)"', text):
        for field in ("user", "account", "job_id", "label"):
            assert not leaks(label, names[field]), (field, label)


def test_one_s_own_is_all_there() -> None:
    tick, user = demo(), mine(demo())
    whole, shown = document(tick), document(withheld(tick, frozenset({user}), KEY))
    own = [job for job in whole["jobs"] if job["user"] == user]
    assert own
    assert [job for job in shown["jobs"] if job["user"] == user] == own
    assert shown["ledger"]["total"]["allocated_gpu_seconds"] == pytest.approx(
        next(x for x in whole["ledger"]["by_user"] if x["name"] == user)["allocated_gpu_seconds"]
    )
    assert [line["name"] for line in shown["ledger"]["by_user"]] == [user]
    uuids = {uuid for job in own for uuid in job["gpus_used"]}
    seen = {
        gpu["uuid"]: gpu["processes"]
        for node in shown["nodes"]
        for gpu in node["gpus"]
        if gpu["processes"]
    }
    assert seen.keys() == uuids


def test_gpus_nodes_and_the_queue_keep_their_numbers() -> None:
    tick, user = demo(), mine(demo())
    whole, shown = document(tick), document(withheld(tick, frozenset({user}), KEY))
    for here, there in zip(whole["nodes"], shown["nodes"], strict=True):
        for one, other in zip(here["gpus"], there["gpus"], strict=True):
            same = {k: v for k, v in one.items() if k not in ("processes", "owner")}
            assert {k: other[k] for k in same} == same
    assert len(shown["jobs"]) == len(whole["jobs"])
    for one, other in zip(whole["jobs"], shown["jobs"], strict=True):
        assert (one["state"], one["gpus"]) == (other["state"], other["gpus"])
    assert [p["gpus_free"] for p in shown["partitions"]] == [
        p["gpus_free"] for p in whole["partitions"]
    ]


def test_a_job_of_somebody_else_has_one_name_in_every_picture_and_for_one_key() -> None:
    def ids(key: bytes) -> list[str]:
        return [view.job.job_id for view in withheld(fleet(), frozenset({"grace"}), key).jobs]

    assert ids(KEY) == ids(KEY)
    assert set(ids(KEY)) & set(ids(b"other key 123456")) == {"4711"}
    assert len(set(ids(KEY))) == len(ids(KEY))


def test_findings_about_others_are_not_there_and_sentences_name_nobody() -> None:
    shown = withheld(demo(), frozenset({mine(demo())}), KEY)
    assert len(shown.findings) == 2
    assert shown.cleared == ()
    for one in shown.findings:
        assert one.summary == "hidden and job hidden wait, hidden. Too."
        # A command with a hidden name would do something else.
        assert one.advice == ("nvidia-smi",)
        assert one.machine_advice == ()


def test_a_gpu_that_a_stranger_holds_tells_no_finding_of_that() -> None:
    held = finding("gpu:GPU-1", owners=(1002,))
    assert withheld(fleet(findings=(held,)), frozenset({"grace"}), KEY).findings == ()


def test_accounts_and_users_of_partitions_and_reservations_are_hidden() -> None:
    tick = demo()
    assert tick.queue
    user = mine(tick)
    queue = tick.queue._replace(
        partitions=(Partition("p", "UP", (), 8, accounts=("secret", "other")),),
        reservations=(
            Reservation("for-bob", "ACTIVE", 1.0, 2.0, (), users=("bob",)),
            Reservation("mine", "ACTIVE", 1.0, 2.0, (), users=("bob", user)),
            Reservation("repair", "ACTIVE", 1.0, 2.0, (), ("MAINT",)),
        ),
        nodes=tuple(
            node._replace(reservation="for-bob", reason_user="bob") for node in tick.queue.nodes
        ),
    )
    shown = withheld(tick._replace(queue=queue), frozenset({user}), KEY).queue
    assert shown
    assert shown.partitions[0].accounts == ("hidden",)
    names = [one.name for one in shown.reservations]
    assert names[0].startswith("hidden-")
    assert names[1:] == ["mine", "repair"]
    assert [one.users for one in shown.reservations] == [("hidden",), ("hidden", user), ()]
    assert {node.reservation for node in shown.nodes} == {names[0]}
    assert {node.reason_user for node in shown.nodes} == {"hidden"}


def test_the_login_that_a_target_is_read_by_is_not_told() -> None:
    state = fleet().targets[0]._replace(url="ssh://bob@gpu01")
    shown = withheld(fleet(targets=(state,)), frozenset({"grace"}), KEY)
    assert shown.targets[0].url == "ssh://gpu01"


def test_labels_of_exporters_name_no_job_of_others_and_no_pod() -> None:
    whole = demo()
    user = mine(whole)
    own = next(view.job.job_id for view in whole.jobs if view.job.user == user)
    gpus = {}
    for place, (uuid, gpu) in enumerate(whole.gpus.items()):
        count = len(gpu.block.keys)
        labels = {"label_jobs": (f"{own} 99017{place}",) * count, "label_pods": ("ml/x-7",) * count}
        block = gpu.block._replace(labels={**gpu.block.labels, **labels})
        gpus[uuid] = gpu._replace(block=block, borrowed={"temp_c": "ssh://bob@gpu01"})
    nodes = {
        name: node._replace(blocks={**node.blocks, "gpu": gpus[node.gpu_uuids[0]].block})
        for name, node in whole.nodes.items()
        if node.gpu_uuids
    }
    shown = withheld(whole._replace(gpus=gpus, nodes=nodes), frozenset({user}), KEY)
    text = json.dumps(document(shown))
    assert "9901" not in text
    assert "ml/x-7" not in text
    assert "bob" not in text
    assert {gpu.label("label_jobs") for gpu in shown.gpus.values()} == {own}
    blocks = [node.blocks["gpu"] for node in shown.nodes.values()]
    assert {label for block in blocks for label in block.labels["label_jobs"]} == {own}
