"""What is remembered of a server's series changes nothing: each poll is read as the first is."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.known import Labels, harmless, key_of, keys_of
from gpumon.sources.prometheus.label_columns import by_names
from tests.unit.sources.prometheus.engine import labels

if TYPE_CHECKING:
    from gpumon.sources.prometheus.cut import Orders
    from gpumon.sources.prometheus.known import Known

Rows = list[tuple[dict[str, str], str]]


def answer(rows: Rows, at: float, orders: Orders | None = None) -> response.Answer:
    result = [{"metric": own, "value": [at, value]} for own, value in rows]
    envelope = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return response.opened(json.dumps(envelope, separators=(",", ":")).encode(), 200, orders)


def read(memory: Labels, polled: Rows, metrics: list[Rows], at: float) -> Any:
    """What a memory makes of one poll; as text, so that NaN is NaN."""
    memory.begin()
    columns = [memory.column(answer(rows, at, memory.orders)) for rows in metrics]
    wanted = {key for column, _ in columns for key in column.rows}
    known: dict[tuple[str, str], Known] = {}
    heard = memory.hear(answer(polled, at, memory.orders), known, wanted)
    memory.forget(wanted)
    readings = [
        ({key: column.get(key) for key in column.rows}, left_out) for column, left_out in columns
    ]
    return repr((readings, known, heard))


def changed(fleet: list[dict[str, str]], chance: random.Random) -> list[dict[str, str]]:
    """The fleet after something has happened to it."""
    found = [dict(one) for one in fleet]
    some = chance.choice(found)
    match chance.randrange(9):
        case 0:
            some["hpc_job"] = str(chance.randrange(1, 99))
        case 1:
            some["Hostname"] = f"gpu{chance.randrange(30):02}"
        case 2:
            found.remove(some)
        case 3:
            number = chance.randrange(100, 999)
            found.insert(chance.randrange(len(found)), labels(f"GPU-{number}", "gpu07"))
        case 4:
            chance.shuffle(found)
        case 5:
            found.append({**some, "pod": "another"})
        case 6:
            some["UUID"] = chance.choice(('"]},{"metric":{', "", "GPU-é", 'a"b', "GPU_1"))
        case _:
            pass
    return found


@pytest.mark.parametrize("seed", range(12))
def test_many_looks_are_read_as_if_each_were_the_first(seed: int) -> None:
    chance = random.Random(seed)
    fleet = [labels(f"GPU-{number}", f"gpu{number // 4:02}") for number in range(20)]
    memory = Labels()
    for turn in range(40):
        if chance.random() < 0.6:
            fleet = changed(fleet, chance)
        values = ("0", "97", "1e3", "NaN", "+Inf", "-1.5", "5000000000", "1_0", "x", "")
        weights = (9, 9, 9, 2, 1, 2, 2, 0.02, 0.02, 0.02)
        metrics: list[Rows] = []
        for _ in range(3):
            some = [one for one in fleet if chance.random() < 0.995]
            if chance.random() < 0.1:
                chance.shuffle(some)
            bare = [{"UUID": one["UUID"]} if one["UUID"] else {} for one in some]
            metrics.append([(one, chance.choices(values, weights)[0]) for one in bare])
        at = 1_800_000_000.0 + turn * 30.0
        times: Rows = [(one, f"{at - chance.choice((1, 2)):.1f}") for one in fleet]
        assert read(memory, times, metrics, at) == read(Labels(), times, metrics, at)


def test_a_label_that_has_changed_is_read_anew() -> None:
    fleet = [labels(f"GPU-{number}", hpc_job="7") for number in range(3)]
    memory, known = Labels(), {}
    for job in ("7", "8"):
        fleet[1]["hpc_job"] = job
        memory.begin()
        known = {}
        answered = answer([(one, "1.5") for one in fleet], 2.0, memory.orders)
        memory.hear(answered, known, {(one["UUID"], "") for one in fleet})
    assert [one.labels["hpc_job"] for one in known.values()] == ["7", "8", "7"]


def test_series_that_come_again_are_one_order() -> None:
    memory, cuts = Labels(), []
    for value in ("1", "22.5"):
        memory.begin()
        answered = answer([({"UUID": f"GPU-{n}"}, value) for n in range(3)], 2.0, memory.orders)
        assert answered.cut is not None
        cuts.append(answered.cut)
    assert cuts[0].order is cuts[1].order is not None
    assert [*cuts[1].values] == [22.5, 22.5, 22.5]


def test_what_no_series_has_any_more_is_forgotten() -> None:
    memory = Labels()
    for turn in range(30):
        fleet = [{"UUID": f"GPU-{turn}-{number}"} for number in range(50)]
        rows = [(one, "1") for one in fleet]
        read(memory, rows, [rows, rows], 2.0 + turn)
    stored = json.dumps([*memory._keys, *memory._labels])
    assert "GPU-29-" in stored
    assert "GPU-27-" not in stored
    assert len(memory.orders) <= 2
    assert len(memory._rows_in) <= 2
    assert len(memory._named_in) <= 2


def test_a_gpu_that_two_nodes_claim_at_one_time_is_the_first_ones() -> None:
    first = labels("GPU-1", "gpu01", pod="one", namespace="n")
    shared = labels("GPU-1", "gpu01", pod="two", namespace="n")
    elsewhere = labels("GPU-1", "gpu02", pod="three", namespace="n")
    known: dict[tuple[str, str], Known] = {}
    Labels().hear(answer([(one, "1.5") for one in (first, shared, elsewhere)], 2.0), known, {KEY})
    assert known[KEY].labels["Hostname"] == "gpu01"
    assert [one["pod"] for one in known[KEY].others] == ["two"]


KEY = ("GPU-1", "")
TEXTS = st.sampled_from(
    (
        *(
            "",
            "N/A",
            "<<<NULL>>>",
            "GPU-1",
            "7",
            "gpu01",
            "host:9400",
            "é\u200b",
            "\x01",
            "a" * 300,
        ),
        "0c7a1b2e-8c4e-1e64-9a3b-0c7a1b2e8c4e",
    )
)
NAMES = st.sampled_from(
    (
        *("UUID", "uuid", "gpu_uuid", "GPU_I_ID", "Hostname", "hostname", "instance"),
        *("we\u200bird", "we\u200cird", "x" * 300),
    )
)


@given(st.lists(st.dictionaries(NAMES, TEXTS, max_size=6), max_size=12))
def test_many_series_name_what_each_does_by_itself(several: list[dict[str, str]]) -> None:
    keys = [key_of(one) for one in several]
    assert keys_of(by_names(several)) == keys
    labelled = Labels()._labelled(by_names(several))
    assert [one and one.key for one in labelled] == keys
    for own, one in zip(several, labelled, strict=True):
        if one is not None:
            assert [*one.labels.items()] == [*harmless(own).items()]
