"""Series that come again in a known order are what they are where each is read by itself."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from gpumon.sources.prometheus.cut import Orders, cut_of

VALUES = ("0", "5", "94", "0.125", "0.1", "1.7976931348623157e+308", "NaN", "+Inf", "-Inf", "-3")
MORE = ("123456789012345", "1234567890123456789", "0.30000000000000004", "1e9", "5.", ".5", "00.10")


def body_of(rows: list[tuple[dict[str, str], str]], at: str = "1800000000.123") -> bytes:
    given: list[Any] = [{"metric": own, "value": [float(at), value]} for own, value in rows]
    data = {"resultType": "vector", "result": given}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


def rows_of(chance: random.Random, count: int) -> list[tuple[dict[str, str], str]]:
    """Labels of several lengths, some with brackets."""
    texts = ("a", "gpu01", "1234[5].pbs01", "]", 'x"]},{"metric":{', "é")
    return [
        ({"UUID": f"GPU-{number}", "job": chance.choice(texts)}, chance.choice(VALUES + MORE))
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("seed", range(6))
def test_values_in_a_known_order_are_those_that_python_reads(seed: int, count: int) -> None:
    chance, orders = random.Random(seed), Orders()
    rows = rows_of(chance, count)
    first = cut_of(body_of(rows), orders)
    assert first is not None
    for turn in range(3):
        rows = [(own, chance.choice(VALUES + MORE)) for own, _ in rows]
        found = cut_of(body_of(rows, f"180000000{turn}.5"), orders)
        assert found is not None
        assert found[0].order is first[0].order
        assert [*map(repr, found[0].values)] == [repr(float(value)) for _, value in rows]
        assert found[1] == first[1]


@pytest.mark.parametrize("value", ["", "x", "1_0", "1 2", " 5", "1.2.3", ".", "0x1f", "9" * 25])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_number_is_none_in_a_known_order_either(value: str, place: int) -> None:
    rows = [({"UUID": f"GPU-{number}"}, "5") for number in range(3)]
    orders = Orders()
    assert cut_of(body_of(rows), orders) is not None
    rows[place] = rows[place][0], value
    for given in (orders, None):
        found = cut_of(body_of(rows), given)
        wanted = [5.0] * place + [float(value or "nan")] if value[:1] in (" ", "9") else None
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert [*found[0].values][: place + 1] == wanted


def test_other_labels_or_another_order_is_a_new_one() -> None:
    rows = [({"UUID": f"GPU-{number}"}, "5") for number in range(4)]
    orders = Orders()
    first = cut_of(body_of(rows), orders)
    assert first is not None
    changed = [*rows]
    changed[2] = {"UUID": "GPU-7"}, "5"
    for others in (changed, [rows[0], *rows[:0:-1]], rows[:3], [*rows, ({"UUID": "GPU-9"}, "5")]):
        found = cut_of(body_of(others), orders)
        assert found is not None
        assert found[0].order is not first[0].order
        assert [json.loads(f"{{{text}}}") for text in found[0].labels] == [own for own, _ in others]
