"""From a probe's line to a frame: ranges, reasons, rates, and lines of a hostile node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.model.text import MAX_TEXT
from gpumon.sources.probes.decode import (
    MAX_LABEL,
    MAX_ROWS,
    MOST_ERRORS,
    MOST_ROWS,
    Decoder,
    GarbageError,
)
from gpumon.sources.probes.rates import DERIVED, RATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

NOW = 1_760_000_000.0
GPU = "GPU-1"


def line(
    columns: dict[str, list[Any]] | None = None,
    *,
    at: float = 100.0,
    missing: dict[str, Any] | None = None,
    labels: dict[str, list[Any]] | None = None,
    keys: tuple[str, ...] = (GPU,),
    block: str = "gpu",
    **changes: Any,
) -> bytes:
    body = {
        "keys": list(keys),
        "at": [at] * len(keys),
        "columns": columns or {},
        "labels": labels or {},
        "missing": missing or {},
    }
    return json.dumps(
        {"at": at, "late_s": 0.25, "errors": [], "blocks": {block: body}, **changes}
    ).encode()


def decoded(text: bytes, decoder: Decoder | None = None, node: str = "n1") -> Frame:
    return (decoder or Decoder("ssh://n1")).frame(text, node, NOW, NOW)


def test_what_a_cut_cable_held_back_has_the_time_at_which_it_was_made() -> None:
    decoder = Decoder("ssh://n1")
    decoder.frame(line(at=1.0), "n1", NOW, 101.0)
    held = [decoder.frame(line(at=2.0 + n), "n1", NOW + 30.0, 131.0) for n in range(30)]
    assert held[0].taken_at == NOW + 1.0
    assert held[0].lateness_s == 29.0 + 0.25
    assert held[29].taken_at == NOW + 30.0
    assert held[29].lateness_s == 0.25


def rates(*readings: tuple[float, int | None], counter: str = "nvlink_tx_bytes") -> list[Any]:
    """What each reading (node's time, counter) gives as a rate, or why it gives none."""
    decoder = Decoder("local")
    found: list[Any] = []
    block = CATALOGUE[counter].block
    for at, count in readings:
        text = line({counter: [count]}, at=at, block=block)
        entities = decoded(text, decoder).block(block)
        rate = entities.value(RATES[counter], 0)
        found.append(entities.reason(RATES[counter], 0) if rate is None else rate)
    return found


def test_a_frame_says_where_when_and_how_late() -> None:
    frame = decoded(line({"temp_c": [40]}))
    assert (frame.origin, frame.node, frame.taken_at, frame.lateness_s) == (
        "ssh://n1",
        "n1",
        NOW,
        0.25,
    )
    assert frame.block("gpu").keys == (GPU,)
    assert frame.block("process").keys == ()


def test_the_node_names_itself_where_the_source_does_not() -> None:
    named = line(block="node", keys=("gpu01.cluster",))
    assert decoded(named, node="").node == "gpu01.cluster"
    assert decoded(named, node="n1").node == "n1"
    assert decoded(named, node="n1").host_names == ("gpu01.cluster",)
    assert decoded(line(), node="").node == ""


def test_a_rate_is_the_difference_over_the_node_s_own_time() -> None:
    assert rates((100.0, 10**9), (100.5, 2 * 10**9)) == [Reason.NOT_SAMPLED, 2e9]


@pytest.mark.parametrize("counter", RATES)
def test_every_counter_has_its_rate(counter: str) -> None:
    # Those that may begin anew need a second pair.
    assert rates((1.0, 0), (3.0, 600), (5.0, 1100), counter=counter)[-1] == 250.0
    assert CATALOGUE[RATES[counter]].unit == ("bytes/s" if "_bytes" in counter else "1/s")


def test_large_counters_lose_no_bit() -> None:
    assert rates((1.0, 2**62 + 1), (2.0, 2**62 + 4))[-1] == 3.0


@pytest.mark.parametrize(
    ("second", "why"),
    [
        pytest.param((101.0, 5), Reason.NOT_SAMPLED, id="reset-or-wrap"),
        pytest.param((100.0, 2000), Reason.NOT_SAMPLED, id="same-instant"),
        pytest.param((100.0, 1000), Reason.NOT_SAMPLED, id="same-reading"),
        pytest.param((99.0, 2000), Reason.NOT_SAMPLED, id="clock-went-back"),
        pytest.param((100.001, 10**18), Reason.NOT_SAMPLED, id="faster-than-any-link"),
        pytest.param((101.0, None), Reason.NOT_SAMPLED, id="missing"),
    ],
)
def test_no_rate_is_negative_or_absurd(second: tuple[float, int | None], why: Reason) -> None:
    assert rates((100.0, 1000), second) == [Reason.NOT_SAMPLED, why]


def test_after_a_reset_the_next_pair_gives_a_rate_again() -> None:
    assert rates((1.0, 900), (2.0, 100), (3.0, 350))[1:] == [Reason.NOT_SAMPLED, 250.0]


def test_a_gap_gives_the_mean_over_it() -> None:
    assert rates((1.0, 100), (2.0, None), (5.0, 500))[-1] == 100.0


def test_the_probe_s_own_rate_counts_only_without_a_counter() -> None:
    decoder = Decoder("local")
    own = {"nvlink_tx_bytes_per_s": [7.0]}
    first = decoded(line({**own, "nvlink_tx_bytes": [100]}, at=1.0), decoder)
    assert first.block("gpu").value("nvlink_tx_bytes_per_s", 0) == 7.0
    second = decoded(line({**own, "nvlink_tx_bytes": [160]}, at=2.0), decoder)
    assert second.block("gpu").value("nvlink_tx_bytes_per_s", 0) == 60.0
    third = decoded(line(own, at=3.0, missing={"nvlink_tx_bytes": "not_supported"}), decoder)
    assert third.block("gpu").value("nvlink_tx_bytes_per_s", 0) == 7.0
    assert third.block("gpu").reason("nvlink_tx_bytes_per_s", 0) is None


def test_times_of_a_counter_s_own_readings_count_for_its_rate() -> None:
    """A counter that is read every few beats, beside a row that is read at each."""
    decoder = Decoder("local")
    reported = []
    for beat in range(1, 8):
        read_at = float(beat - beat % 3)
        text = line({"hw_thermal_us": [int(read_at * 200_000)]}, at=float(beat))
        message = json.loads(text)
        message["blocks"]["gpu"]["read_at"] = {"hw_thermal_us": [read_at]}
        gpus = decoded(json.dumps(message).encode(), decoder).block("gpu")
        reported.append(gpus.value("hw_thermal_ratio", 0))
    assert reported == [None, None, *[pytest.approx(0.2)] * 5]


@pytest.mark.parametrize("times", [{"hw_thermal_us": [1.0, 2.0]}, {"no_such": [1.0]}])
def test_times_that_fit_no_column_are_passed_over(times: dict[str, list[float]]) -> None:
    message = json.loads(line({"hw_thermal_us": [5]}))
    message["blocks"]["gpu"]["read_at"] = times
    gpus = decoded(json.dumps(message).encode()).block("gpu")
    assert gpus.value("hw_thermal_us", 0) == 5


@pytest.mark.parametrize("why", ["not_supported", "lost", "no_permission", "failed"])
def test_a_rate_is_missing_for_the_reason_of_its_counter(why: str) -> None:
    gpus = decoded(line(missing={"nvlink_tx_bytes": why})).block("gpu")
    assert gpus.reason("nvlink_tx_bytes_per_s", 0) is Reason(why)


def test_gpus_do_not_share_counters() -> None:
    decoder = Decoder("local")
    keys = ("GPU-1", "GPU-2")
    decoded(line({"nvlink_tx_bytes": [0, 10**6]}, at=1.0, keys=keys), decoder)
    swapped = line({"nvlink_tx_bytes": [10**6 + 30, 10]}, at=2.0, keys=keys[::-1])
    assert list(decoded(swapped, decoder).block("gpu").columns["nvlink_tx_bytes_per_s"]) == [30, 10]


@pytest.mark.parametrize("field", CATALOGUE.values(), ids=lambda field: field.key)
def test_what_lies_outside_the_catalogue_s_range_is_garbage(field: Any) -> None:
    for value in (field.low - 1, field.high * 2 + 1, float("nan"), float("inf"), 2**63, 2**64):
        text = line({field.key: [value]}, block=field.block)
        found = decoded(text).block(field.block)
        if field.kind.is_integer or not field.low <= value <= field.high:
            assert found.value(field.key, 0) is None
            assert found.reason(field.key, 0) is Reason.GARBAGE
    for value in (field.low, min(field.high, 2**62)):
        found = decoded(line({field.key: [value]}, block=field.block)).block(field.block)
        assert found.value(field.key, 0) == value


def test_garbage_in_one_row_leaves_the_others() -> None:
    text = line({"gpu_util_ratio": [0.5, 42949672.95, None]}, keys=("a", "b", "c"))
    gpus = decoded(text).block("gpu")
    assert [gpus.value("gpu_util_ratio", row) for row in range(3)] == [0.5, None, None]
    assert gpus.reason("gpu_util_ratio", 1) is Reason.GARBAGE
    assert gpus.reason("gpu_util_ratio", 2) is Reason.NOT_SAMPLED


def test_what_is_told_again_is_kept_and_what_changes_is_seen() -> None:
    decoder = Decoder("ssh://n1")

    def reported(*temps: Any, keys: tuple[str, ...] = ("a", "b"), **more: Any) -> Any:
        columns = {"temp_c": list(temps), "power_w": [70.0] * len(keys)}
        return decoded(line(columns, keys=keys, **more), decoder).block("gpu")

    missing = {"mem_temp_c": "lost"}
    first = reported(40, 999_999, missing=missing, labels={"name": ["H100", "H100"]})
    again = reported(41, 999_999, missing=missing, labels={"name": ["H100", "H200"]})
    assert again.columns["power_w"] is first.columns["power_w"]
    assert [first.value("temp_c", 0), again.value("temp_c", 0)] == [40, 41]
    assert again.labels["name"] == ("H100", "H200")
    for block in (first, again):
        assert block.reason("temp_c", 1) is Reason.GARBAGE
        assert block.reason("mem_temp_c", 0) is Reason.LOST
    others = reported(41, 42, keys=("b", "c"), missing={"mem_temp_c": "failed"})
    assert others.keys == ("b", "c")
    assert others.reason("mem_temp_c", 0) is Reason.FAILED
    assert others.value("temp_c", 1) == 42


def test_reasons_are_for_one_row_or_for_all() -> None:
    missing = {"temp_c": "lost", "power_w": {"1": "no_permission"}}
    gpus = decoded(line({"power_w": [1.0, None]}, missing=missing, keys=("a", "b"))).block("gpu")
    assert [gpus.reason("temp_c", row) for row in (0, 1)] == [Reason.LOST] * 2
    assert [gpus.reason("power_w", row) for row in (0, 1)] == [None, Reason.NO_PERMISSION]


def test_reports_with_the_same_reasons_share_one_map_of_them() -> None:
    """Hundreds of ticks are remembered, and of links alone that is a map of thousands."""
    decoder = Decoder("local")

    def reported(missing: dict[str, str]) -> Block:
        text = line({"temp_c": [41]}, missing=missing)
        return decoder.frame(text, "n1", now=100.0, heard_s=1.0).block("gpu")

    first, second = (reported({"mem_temp_c": "lost"}) for _ in range(2))
    assert second.missing is first.missing
    other = reported({"mem_temp_c": "failed"})
    assert other.reason("mem_temp_c", 0) is Reason.FAILED
    assert first.reason("mem_temp_c", 0) is Reason.LOST


@pytest.mark.parametrize("block", LABELS)
def test_equal_reports_of_any_block_share_names_texts_and_reasons(block: str) -> None:
    """What each remembered tick repeated would be most of the memory that it takes."""
    value, lacking, *_ = (f.key for f in CATALOGUE.values() if f.block == block)
    decoder, label = Decoder("local"), next(iter(LABELS[block]), None)
    labels = {label: ["cx7"]} if label else {}
    text = line({value: [1]}, missing={lacking: "lost"}, labels=labels, block=block)
    first, second = (decoded(text, decoder).block(block) for _ in range(2))
    theirs, mine = ([*map(id, [b.keys, b.missing, *b.columns, *b.labels])] for b in (first, second))
    assert mine == theirs


def test_what_is_unknown_is_left_out() -> None:
    text = line(
        {"temp_c": [1], "root_password": [2], "uid": [3], "power_w": [1, 2]},
        labels={"name": ["H100"], "motd": ["hello"], "pci_bus_id": ["a", "b"]},
    )
    frame = decoded(text)
    gpus = frame.block("gpu")
    assert "root_password" not in gpus.columns
    assert "uid" not in gpus.columns
    assert gpus.value("power_w", 0) is None
    assert dict(gpus.labels) == {"name": ("H100",)}
    assert set(decoded(line(block="secrets")).blocks) == set()


HOSTILE = "a\x1b]0;x\x07\n\u202eb[bold]"


def test_text_of_the_node_is_harmless_everywhere() -> None:
    clean = "a\ufffd]0;x\ufffd\ufffd\ufffdb[bold]"
    error = {"where": HOSTILE, "message": HOSTILE, "hint": HOSTILE}
    text = line(block="node", keys=(HOSTILE,), labels={"boot_id": [HOSTILE]}, errors=[error])
    frame = decoded(text, node="")
    assert frame.node == clean
    assert frame.host_names == (clean,)
    assert frame.block("node").keys == (clean,)
    assert frame.block("node").label("boot_id", 0) == clean
    assert frame.errors == ((clean, clean, clean),)
    long = line(block="node", keys=("x" * 10_000,), labels={"boot_id": ["y" * 100_000]})
    assert len(decoded(long).block("node").keys[0]) == 256
    assert len(decoded(long).block("node").label("boot_id", 0) or "") == 8192


def test_an_error_names_its_node() -> None:
    text = line(errors=[{"where": "NVML", "message": "no driver", "hint": "modprobe nvidia"}])
    assert decoded(text).errors == (("n1 NVML", "no driver", "modprobe nvidia"),)
    assert decoded(line(errors=[{"where": "x", "message": 3}])).errors == (("n1 x", "3", ""),)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(b"Last login: today", id="words"),
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param(b"[" * 100_000, id="nested"),
        pytest.param(b"9" * 5000, id="long-number"),
        pytest.param(line(late_s="soon"), id="late-words"),
        pytest.param(line(late_s=None), id="late-null"),
        pytest.param(line(late_s=float("nan")), id="late-nan"),
        pytest.param(line(at=float("nan")), id="at-nan"),
        pytest.param(line(at=-(10**500)), id="at-beyond-floats"),
        pytest.param(line(late_s=10**500), id="late-beyond-floats"),
        pytest.param(line(errors=None), id="errors-null"),
        pytest.param(line(errors=[{}]), id="errors-empty"),
        pytest.param(line(blocks=[]), id="blocks-list"),
        pytest.param(line(blocks={"gpu": {"keys": [GPU]}}), id="block-without-columns"),
        pytest.param(line({"temp_c": ["hot"]}), id="value-text"),
        pytest.param(line({"temp_c": [[]]}), id="value-list"),
        pytest.param(line({"temp_c": [1]}, missing={"x": "because"}), id="unknown-reason"),
        pytest.param(line(missing={"x": {"one": "lost"}}), id="row-no-number"),
        pytest.param(line(missing=["x"]), id="missing-list"),
        pytest.param(line(at=float("inf")), id="at-infinite"),
        pytest.param(line({"temp_c": {"0": 1}}), id="column-map"),
        pytest.param(line(keys=("k",) * (MAX_ROWS + 1)), id="too-many-rows"),
    ],
)
def test_a_line_that_no_probe_writes_is_refused(text: bytes) -> None:
    with pytest.raises(GarbageError):
        decoded(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
COLUMNS = st.dictionaries(
    st.sampled_from([*CATALOGUE, "other"]), st.lists(JSON, max_size=2) | JSON, max_size=4
)
BLOCK = st.fixed_dictionaries(
    {
        "keys": st.lists(st.text(max_size=5) | JSON, max_size=2) | JSON,
        "at": st.lists(st.floats() | st.integers(), max_size=2) | JSON,
        "columns": COLUMNS | JSON,
        "labels": st.dictionaries(st.sampled_from(["name", "x"]), JSON, max_size=2) | JSON,
        "missing": st.dictionaries(st.sampled_from([*CATALOGUE]), JSON, max_size=2) | JSON,
    }
)


@given(
    blocks=st.dictionaries(st.sampled_from([*LABELS, "x"]), BLOCK | JSON, max_size=3) | JSON,
    errors=st.just([]) | JSON,
    late_s=st.just(0.0) | JSON,
    at=st.just(0.0) | JSON,
)
def test_any_json_is_a_frame_or_refused(blocks: Any, errors: Any, late_s: Any, at: Any) -> None:
    """Whatever a node sends, the thread that reads all nodes goes on."""
    reported = {"blocks": blocks, "errors": errors, "late_s": late_s, "at": at}
    text = json.dumps(reported).encode()
    try:
        frame = decoded(text)
    except GarbageError:
        return
    for name, block in frame.blocks.items():
        assert name in LABELS
        for key, column in block.columns.items():
            assert CATALOGUE[key].block == name
            assert len(column) == len(block.keys)


@pytest.mark.parametrize(("name", "most"), MOST_ROWS.items())
def test_of_a_node_that_claims_too_much_the_first_is_read_and_the_rest_refused(
    name: str, most: int, said: Callable[..., None]
) -> None:
    field = next(f for f in CATALOGUE.values() if f.block == name and f.key not in DERIVED)
    count = most + 3
    keys = tuple(f"k{number}" for number in range(count))
    column = [field.low + 1 if field.low >= 0 else 1.0] * count
    raw = {
        "keys": list(keys),
        "at": [1.0] * count,
        "columns": {field.key: column},
        "labels": {},
        "missing": {"x": {str(count - 1): "failed", "0": "failed"}},
    }
    message = {"at": 1.0, "late_s": 0.0, "errors": [], "blocks": {name: raw}}
    frame = decoded(json.dumps(message).encode())
    assert frame.block(name).keys == keys[:most]
    assert len(frame.block(name).columns[field.key]) == most
    (error,) = frame.errors
    said(error.message, error.hint)
    assert f"{count} rows of {name}; {most} are read" in error.message


@pytest.mark.parametrize(
    ("ages", "moved_s"),
    [((3.0, 4.02, 4.97, 6.11), 0.0), ((3.0, 4.02, 64.9, 65.9), 60.0), ((0.0, 0.99, 2.0, 3.0), 0.0)],
)
def test_an_event_has_one_time_whatever_way_its_reports_took(
    ages: tuple[float, ...], moved_s: float
) -> None:
    decoder = Decoder("ssh://n1")
    reported = []
    for beat, age_s in enumerate(ages):
        text = line(
            {"xid": [79], "event_age_s": [age_s]},
            at=100.0 + beat,
            keys=("GPU-1/79/1",),
            block="event",
        )
        frame = decoder.frame(text, "n1", NOW + beat, NOW + beat)
        reported.append(
            round(frame.taken_at - (frame.block("event").value("event_age_s", 0) or 0.0), 3)
        )
    assert len(set(reported)) == (2 if moved_s else 1)
    assert reported[0] - reported[-1] == pytest.approx(moved_s, abs=0.1)


def test_reasons_of_fields_that_nobody_knows_are_not_kept() -> None:
    keys = tuple(f"p{number}" for number in range(500))
    lacking: dict[str, Any] = {f"field{number}": "lost" for number in range(900)}
    known = {"process_cpu_us": "lost", "name": {"3": "no_permission"}}
    block = decoded(line(block="process", keys=keys, missing=lacking | known)).block("process")
    assert block.reason("process_cpu_us", 499) is Reason.LOST
    assert block.reason("name", 3) is Reason.NO_PERMISSION
    fields = {field for field, _ in block.missing}
    assert not fields & set(lacking)
    assert {row for field, row in block.missing if field == "name"} == {3}


@pytest.mark.parametrize(("count", "is_cut"), [(MOST_ERRORS, False), (MOST_ERRORS + 7, True)])
def test_of_errors_without_number_the_first_are_told_and_how_many_there_were(
    count: int, is_cut: bool
) -> None:
    errors = [{"where": f"GPU {n}", "message": "lost"} for n in range(count)]
    reported = decoded(line(errors=errors)).errors
    assert [error.where for error in reported[:MOST_ERRORS]] == [
        f"n1 GPU {n}" for n in range(MOST_ERRORS)
    ]
    rest = [error.message for error in reported[MOST_ERRORS:]]
    assert rest == ([f"reports {count} errors; {MOST_ERRORS} are read"] if is_cut else [])
    assert all(error.hint for error in reported[MOST_ERRORS:])


def test_a_label_is_cut_and_every_other_text_too() -> None:
    long = "x" * 70_000
    frame = decoded(
        line(
            keys=(long,),
            labels={"name": [long]},
            errors=[{"where": long, "message": long, "hint": long}],
        )
    )
    block = frame.block("gpu")
    assert len(block.label("name", 0) or "") == MAX_LABEL
    (error,) = frame.errors
    assert {len(block.keys[0]), len(error.message), len(error.hint)} == {MAX_TEXT}


def test_names_of_users_are_made_harmless() -> None:
    names = ["eve\x1b[2J", "a\u202eb", None]
    text = line(labels={"user": names}, keys=("1", "2", "3"), block="process")
    assert decoded(text).block("process").labels["user"] == ("eve\ufffd[2J", "a\ufffdb", None)


@pytest.mark.parametrize("reported", [{"late_s": 3e25}, {"at": -7e30}, {"late_s": -(10**60)}])
def test_times_that_nobody_can_reckon_with_are_garbage(reported: dict[str, Any]) -> None:
    with pytest.raises(GarbageError):
        decoded(line({"temp_c": [40]}, **reported) if "late_s" in reported else line(**reported))


@pytest.mark.parametrize("row", ["2", "-1", "70000"])
def test_a_reason_for_a_row_that_is_not_there_is_garbage(row: str) -> None:
    with pytest.raises(GarbageError):
        decoded(line({"temp_c": [40, 41]}, keys=("a", "b"), missing={"power_w": {row: "lost"}}))


def test_reasons_for_fields_that_nobody_knows_are_passed_over() -> None:
    reported = {"x\x1b" * 3000: "lost", "of_tomorrow": {"0": "failed"}, "power_w": "failed"}
    assert set(decoded(line({"temp_c": [40]}, missing=reported)).block("gpu").missing) == {
        ("power_w", 0), *decoded(line({"temp_c": [40]})).block("gpu").missing
    }  # fmt: skip


@pytest.mark.parametrize("block", ["link", "mig", "context", "process"])
def test_what_a_probe_leaves_out_is_as_it_was_told_last(block: str) -> None:
    decoder = Decoder("ssh://n1")
    reported = decoded(line(keys=("a", "b"), block=block), decoder).block(block)
    assert decoded(line({"power_w": [1.0]}), decoder).block(block) is reported
    assert decoded(line(keys=(), block=block), decoder).block(block).keys == ()
