"""Labels read as columns are those that each series has by itself, read as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpumon.sources.prometheus import label_columns
from gpumon.sources.prometheus.label_columns import by_names, of_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TEXTS = st.sampled_from(
    ("", "GPU-1", "7", 'a"b', "a\\", '","b":"', "},{", "é\u2028", "\x85\n\t", "^$.*", "a" * 300)
)
NAMES = st.sampled_from(("UUID", "gpu", "b", "we\u200bird", 'x"', "a.c", "abc", "(", "\n"))
DUMPED = st.builds(
    lambda own, is_ascii, blank: json.dumps(
        own, ensure_ascii=is_ascii, separators=("," + blank, ":" + blank)
    )[1:-1],
    st.dictionaries(NAMES, TEXTS, max_size=4),
    st.booleans(),
    st.sampled_from(("", "", "", " ")),
)
BROKEN = st.sampled_from(
    (
        *('"a":7', '"a":null', '"a":{"b":"c"}', "{", '"a":"1",', ',"a":"1"', '"a":"1""b":"2"'),
        *('"a":"1"\n"b":"2"', '"a":"\x01"', '"a":"1\n"', "[" * 99_999, '"a":"1","a":"2"', '"a"'),
        *('"a":"1"},{"a":"2"', "a", '"UUID":"GPU-1"\n', '\n"UUID":"GPU-1"', '"a":"\\ud800"'),
    )
)


def by_itself(text: str) -> Mapping[str, str] | None:
    try:
        own = json.loads(f"{{{text}}}")
    except (ValueError, RecursionError):
        return None
    return own if all(isinstance(one, str) for one in own.values()) else None


def pairs_of(rows: Sequence[Mapping[str, str] | None]) -> list[Any]:
    """Rows with the order of their names."""
    return [own if own is None else [*own.items()] for own in rows]


@given(st.lists(DUMPED | BROKEN, max_size=30))
@example(['"a":"1"\n"a":"2"', '"a":"3"'])
@example(['"a":"1"', '"a":"2"\n'])
@example(["", '"a":"1"', ""])
def test_texts_hold_what_each_does_by_itself(texts: list[str]) -> None:
    found = of_texts(texts)
    assert found.size == len(texts)
    assert pairs_of(found.rows()) == pairs_of([by_itself(text) for text in texts])


@given(st.lists(st.dictionaries(NAMES, TEXTS, max_size=4), max_size=12))
def test_series_with_the_same_names_are_columns(rows: list[dict[str, str]]) -> None:
    found = by_names(rows)
    assert pairs_of(found.rows()) == pairs_of(rows)
    assert len(found.groups) == len({(*own,) for own in rows})


def read_by_itself(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which texts were parsed one by one."""
    read: list[str] = []
    usual = label_columns._parsed

    def noted(text: str) -> dict[str, str] | None:
        read.append(text)
        return usual(text)

    monkeypatch.setattr(label_columns, "_parsed", noted)
    assert of_texts(texts).rows() == [by_itself(text) for text in texts]
    return read


def text_of(number: int, *, wide: bool = False) -> str:
    own = {"UUID": f"GPU-{number:08x}", "gpu": f"{number % 8}", "host": f"node{number // 8}"}
    return json.dumps(own | ({"pod": f"run-{number}"} if wide else {}), separators=(",", ":"))[1:-1]


def test_of_a_fleet_one_series_of_each_layout_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text_of(number, wide=number % 3 == 0) for number in range(600)]
    assert read_by_itself(texts, monkeypatch) == [texts[0], texts[1]]


def test_one_with_a_backslash_costs_no_other_series(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ['"UUID":"GPU-\\u0031"', '"UUID": "GPU-2"']
    texts = [odd[0], *map(text_of, range(200)), odd[1], *map(text_of, range(200, 400))]
    assert {*read_by_itself(texts, monkeypatch)} == {*odd, text_of(0)}


def test_more_layouts_than_are_looked_for_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_columns, "MOST_LAYOUTS", 3)
    texts = [f'"name{number % 7}":"{number}"' for number in range(70)]
    assert len(read_by_itself(texts, monkeypatch)) == 3 + 40


@pytest.mark.parametrize("count", [64, 65])
def test_labels_without_end_are_parsed(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [",".join(f'"n{label}":"{number}"' for label in range(count)) for number in range(9)]
    assert len(read_by_itself(texts, monkeypatch)) == (1 if count == 64 else 18)
