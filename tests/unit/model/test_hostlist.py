from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpumon.model.hostlist import (
    MAX_NAMES,
    MAX_RANGE,
    expand,
    is_host_name,
    is_job_id,
    split_list,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu01", ("gpu01",)),
        ("gpu[01-02,04]", ("gpu01", "gpu02", "gpu04")),
        ("gpu[04,01-02]", ("gpu04", "gpu01", "gpu02")),
        ("a-[1,03-005,9]", ("a-1", "a-03", "a-04", "a-05", "a-9")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[098-101]", ("n098", "n099", "n100", "n101")),
        ("n[01]-p", ("n01-p",)),
        ("n[1-2].cluster,login", ("n1.cluster", "n2.cluster", "login")),
        ("tux-gpu-07", ("tux-gpu-07",)),
        (
            "row[0,1]_rack[2-3]_blade[4,5]",
            tuple(f"row{a}_rack{b}_blade{c}" for a in "01" for b in "23" for c in "45"),
        ),
        ("/dev/nvidia[0-1],/dev/nvidia7", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia7")),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("a,,b,", ("a", "b")),
        (" a , b ", ("a", "b")),
    ],
)
def test_expands_in_order(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["n[1", "n1]", "n[[1]]", "n[]", "n[a]", "n[1-]", "n[-1]", "n[3-1]", "n[1-2-3]", "n[1,]", "(x"],
)
def test_refuses_what_is_no_hostlist(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        expand(text)


def test_limits_the_length_of_a_range() -> None:
    assert len(expand(f"n[1-{MAX_RANGE}]")) == MAX_RANGE
    with pytest.raises(ValueError, match="longer than"):
        expand(f"n[0-{MAX_RANGE}]")


def test_limits_the_product_and_the_sum_before_building_them() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_NAMES}"):
        expand("a[1-65536]b[1-65536]c[1-65536]")
    with pytest.raises(ValueError, match=f"more than {MAX_NAMES}"):
        expand(",".join(["a[1-65536]"] * 5))


def test_a_message_stays_short() -> None:
    with pytest.raises(ValueError, match=r".{1,120}") as caught:
        expand("[" * 100_000)
    assert len(str(caught.value)) < 120


@given(st.text(alphabet="gpu0123456789-_,.[]( )", max_size=40))
@example("(,)")
def test_any_text_gives_names_or_a_value_error(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert all(names)
    assert len(names) <= MAX_NAMES
    assert not any(set("[],") & set(name) for name in names)


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 20)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_ranges_expand_to_what_they_say(ranges: list[tuple[int, int]], width: int) -> None:
    text = ",".join(f"{low:0{width}d}-{low + more}" for low, more in ranges)
    expected = [
        f"n{n:0{len(f'{low:0{width}d}')}d}"
        for low, more in ranges
        for n in range(low, low + more + 1)
    ]
    assert expand(f"n[{text}]") == tuple(expected)


PARTS = st.text(alphabet="abcxyz-_.", min_size=1, max_size=5)


@given(
    st.lists(
        st.tuples(PARTS, st.lists(st.integers(0, 120), min_size=1, max_size=5, unique=True)),
        min_size=1,
        max_size=3,
    ),
    PARTS,
    st.integers(1, 4),
)
def test_a_cross_product_names_every_combination_in_order(
    racks: list[tuple[str, list[int]]], suffix: str, width: int
) -> None:
    """`row[0,1]_rack[2-3]-p`: the last bracket runs fastest."""
    numbers = [[f"{n:0{width}d}" for n in found] for _, found in racks]
    text = "".join(
        f"{literal}[{','.join(listed)}]"
        for (literal, _), listed in zip(racks, numbers, strict=True)
    )
    expected = [""]
    for (literal, _), listed in zip(racks, numbers, strict=True):
        expected = [f"{head}{literal}{number}" for head in expected for number in listed]
    assert expand(text + suffix) == tuple(name + suffix for name in expected)


@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=50, unique=True), st.integers(1, 5))
def test_names_come_back_from_the_ranges_that_slurm_makes_of_them(
    numbers: list[int], width: int
) -> None:
    names = [f"gpu{n:0{width}d}" for n in sorted(numbers)]
    runs: list[list[int]] = []
    for n in sorted(numbers):
        # Slurm starts a new range where the padded width of the number changes.
        is_next = runs and n == runs[-1][-1] + 1
        if is_next and len(f"{n:0{width}d}") == len(f"{runs[-1][0]:0{width}d}"):
            runs[-1].append(n)
        else:
            runs.append([n])
    ranges = [
        f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs
    ]
    assert expand(f"gpu[{','.join(ranges)}]") == tuple(names)


def test_splits_only_at_the_outermost_commas() -> None:
    assert split_list("gg:g0(CNT:1),gpu:2(IDX:0,2-3), n[1,2]") == [
        "gg:g0(CNT:1)",
        "gpu:2(IDX:0,2-3)",
        "n[1,2]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "gpu01",
        "a",
        "n1.cluster.example",
        "tux-gpu_07",
        "10.77.0.11",
        "fe80::1",
        "::1",
        "fe80::1%eth0",
    ],
)
def test_accepts_host_names_and_addresses(text: str) -> None:
    assert is_host_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=x",
        "a b",
        "a;b",
        "a\n",
        "$(x)",
        "a`b`",
        "user@host",
        "a/b",
        "a,b",
        "n[1-2]",
        "host:22",
        ":::",
        "fe80::1%eth 0",
        "gpu01-",
        "gpü",
        "a" * 254,
    ],
)
def test_refuses_what_is_no_single_host(text: str) -> None:
    assert not is_host_name(text)


@pytest.mark.parametrize("text", ["1", "123", "6_1", "7+1", "4294967295"])
def test_accepts_job_ids(text: str) -> None:
    assert is_job_id(text)


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1;x", "1\n", "6_", "6_[1-2]", "1.0", "1 2", "١", "99999999999", "x"]
)
def test_refuses_what_is_no_job_id(text: str) -> None:
    assert not is_job_id(text)


@given(st.text(max_size=30))
def test_an_accepted_operand_is_harmless(text: str) -> None:
    if is_host_name(text) or is_job_id(text):
        assert text.isascii()
        assert not text.startswith("-")
        assert not set(text) & set(" \t\n;&|<>$`'\"\\(){}[]*?!#~=/@,")


def test_names_that_are_long_and_many_are_refused() -> None:
    with pytest.raises(ValueError, match="characters"):
        expand("n" * 3000 + "[0-29999]")
    with pytest.raises(ValueError, match="characters"):
        expand(",".join(["n" * 3000 + "[0-999]"] * 30))
    assert len(expand("node-of-the-large-cluster-[00000-65535].example.org")) == 65536


@pytest.mark.parametrize("text", ["n[9-4\x0b]", "n[\x1c9-4]", "n[0-99999\x1d]"])
def test_what_is_said_of_a_range_is_harmless(text: str) -> None:
    with pytest.raises(ValueError, match="the range") as raised:
        expand(text)
    assert str(raised.value).isprintable()
