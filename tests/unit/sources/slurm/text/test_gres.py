from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.slurm.text.gres import (
    GpuHolding,
    gpus_held,
    gpus_in_tres,
    gpus_listed,
    types_asked,
    types_listed,
)


@pytest.mark.parametrize(
    ("text", "holding"),
    [
        ("gpu:h100:2(IDX:0,2-3)", GpuHolding(2, (0, 2, 3))),
        ("gpu:1", GpuHolding(1, None)),
        ("gpu", GpuHolding(1, None)),
        ("gpu(IDX:5)", GpuHolding(1, (5,))),
        ("gpu:h100:0(IDX:N/A)", GpuHolding(0, ())),
        ("gpu:h100:1(IDX:0),gpu:h200:0(IDX:)", GpuHolding(1, (0,))),
        ("gpu:h100:2(IDX:0-1),gpu:h200:2(IDX:4-5)", GpuHolding(4, (0, 1, 4, 5))),
        ("gg:g0(CNT:1),gpu:1(IDX:3)", GpuHolding(1, (3,))),
        ("gpu:a100(CNT:4)", GpuHolding(4, None)),
        ("shard:4(a/4,0/4),gpu:1(IDX:1)", GpuHolding(1, (1,))),
        ("shard:8", GpuHolding(0, ())),
        ("mps:100(IDX:0)", GpuHolding(0, ())),
        (
            "gpu:nvidia_rtx_pro_6000_blackwell_server_edition:1(IDX:2),gpu:1g.10gb:1(IDX:7)",
            GpuHolding(2, (2, 7)),
        ),
        ("gpu:h100:1(IDX:0),gpu:old:1", GpuHolding(2, None)),
        ("", GpuHolding(0, ())),
        ("(null)", GpuHolding(0, ())),
    ],
)
def test_reads_what_a_job_holds(text: str, holding: GpuHolding) -> None:
    assert gpus_held(text)[:2] == holding[:2]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("gpu:a100:2(IDX:4-5),gpu:t4:1(IDX:0)", ("t4", "a100", "a100")),
        ("gpu:3(IDX:1-3)", ()),
        ("gpu:1080:2(IDX:0-1)", ("1080", "1080")),
        ("gpu:1g.10gb:1(IDX:7),gpu:1(IDX:2)", ("", "1g.10gb")),
        ("gpu:a100(CNT:2)", ("a100", "a100")),
        ("gpu:h100:1(IDX:0),gpu:old:1", ("h100", "old")),
        ("gpu:h100:0(IDX:N/A)", ()),
        ("shard:4(a/4,0/4)", ()),
    ],
)
def test_types_stand_in_the_order_of_the_indices(text, types):
    assert gpus_held(text).types == types


@pytest.mark.parametrize(
    "text",
    [
        "gpu:1(IDX:x)",
        "gpu:1(IDX:3-1)",
        "gpu:1(IDX:0-99999999999)",
        "gpu:1(IDX:1024)",
        "gpu:1(IDX:0",
        "gpu:99999999",
    ],
)
def test_refuses_garbage(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        gpus_held(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:h100:8", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:tesla:2(S:0-1),gpu:kepler:2(S:0-1)", 4),
        ("gpu:1080:2", 2),
        ("gpu:a100:4,shard:a100:64,mps:400", 4),
        ("gres:gpu:8", 8),
        ("gres/gpu:8", 8),
        ("gres/gpu=2", 2),
        ("gres/gpu:h100=4", 4),
        ("gres:gpu:h100", 1),
        ("gpumem:16G", 0),
        ("(null)", 0),
    ],
)
def test_counts_configured_and_requested_gpus(text: str, count: int) -> None:
    assert gpus_listed(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("cpu=16,mem=2000G,node=2,billing=16,gres/gpu=16,gres/gpu:h100=16", 16),
        ("gres/gpu:h100=16,gres/gpu=16", 16),
        ("gres/gpu:h100=2,gres/gpu:a100=3", 5),
        ("gres/gpumem=72532M,gres/gpuutil=200", None),
        ("gres/gpu=0", 0),
        ("gres/gpu=-2", 0),
        ("cpu=16,node=2", None),
        ("(null)", None),
        ("", None),
    ],
)
def test_counts_gpus_in_tres_once(text: str, count: int | None) -> None:
    assert gpus_in_tres(text) == count


@given(st.text(alphabet="gpu:hs/=,(IDXCNT)0123456789-KM ", max_size=40))
def test_any_text_gives_a_count_or_a_value_error(text: str) -> None:
    for read in (gpus_held, gpus_listed, gpus_in_tres):
        try:
            read(text)
        except ValueError:
            continue


@given(st.sets(st.integers(0, 63), max_size=16))
def test_indices_come_back_as_written(indices: set[int]) -> None:
    text = f"gpu:h100:{len(indices)}(IDX:{','.join(map(str, sorted(indices)))})"
    types = ("h100",) * len(indices)
    assert gpus_held(text) == GpuHolding(len(indices), tuple(sorted(indices)), types=types)


@pytest.mark.parametrize(
    ("text", "has_shares"),
    [
        ("shard:h100:4(2/4,2/4)", True),
        ("gpu:h100:0(IDX:),shard:2(2/4)", True),
        ("mps:50", True),
        ("shard:0(0/4,0/4)", False),
        ("gpu:h100:2(IDX:0-1)", False),
        ("gpumem:16G,license:2", False),
    ],
)
def test_shares_of_a_gpu_are_told_from_whole_ones(text: str, has_shares: bool) -> None:
    assert gpus_held(text).has_shares is has_shares


NAMES = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_.-", min_size=1, max_size=12)
TYPES = NAMES.filter(lambda name: not name.isdecimal())


@given(
    st.lists(
        st.tuples(TYPES, st.sets(st.integers(0, 255), max_size=12)),
        max_size=4,
        unique_by=lambda one: one[0],
    ),
    st.lists(st.sampled_from(["shard:8(2/4,6/4)", "mps:0", "gg:g0(CNT:1)", "tmpdisk:4G"])),
)
def test_types_of_one_node_add_up_to_their_positions(
    typed: list[tuple[str, set[int]]], others: list[str]
) -> None:
    """IDX numbers the gres name node-wide, so positions of several types never meet."""
    free = set(range(256))
    items, expected = list(others), set[int]()
    for kind, indices in typed:
        mine = sorted(indices & free)
        free -= set(mine)
        expected |= set(mine)
        items.append(f"gpu:{kind}:{len(mine)}(IDX:{','.join(map(str, mine))})")
    held = gpus_held(",".join(items))
    assert (held.gpu_count, held.indices) == (len(expected), tuple(sorted(expected)))


@pytest.mark.parametrize("text", ["gpu:4000G", "gpu:2G,gpu:2G", "gres/gpu:900000000000"])
def test_more_gpus_than_any_cluster_has_are_no_count(text: str) -> None:
    with pytest.raises(ValueError, match=r"GPUs|count"):
        gpus_listed(text)


def test_more_gpus_than_any_cluster_has_are_no_count_of_tres() -> None:
    with pytest.raises(ValueError, match=r"GPUs|count"):
        gpus_in_tres("cpu=4,gres/gpu:h100=3P")


def test_a_type_is_harmless() -> None:
    assert types_listed("gpu:a\x1bm:1") == ("a\ufffdm",)
    assert gpus_held("gpu:h\u202e:1(IDX:0)").types == ("h\ufffd",)
    assert types_asked(["gpu:k\x9b:2"]) == ("k\ufffd",)


def test_positions_that_come_again_and_again_are_refused() -> None:
    with pytest.raises(ValueError, match="more positions"):
        gpus_held(f"gpu:1(IDX:{'0-1023,' * 3}7)")
