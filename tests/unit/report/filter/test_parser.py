"""The language of row filters: what it means, what it refuses, and that nothing breaks it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.report.facts.tick_index import Digest
from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.names import completed, typable
from gpumon.report.filter.parser import MOST_CHARS, MOST_NESTED, parse
from gpumon.report.filter.tree import (
    And,
    Compare,
    FilterError,
    Missing,
    Not,
    Or,
    Word,
    joined,
    written,
)
from gpumon.report.filter.units import number
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon.report.tables.gpu import FLEET_COLUMNS, RANK_COLUMNS, fleet_search_text
from gpumon.report.tables.job import JOB_COLUMNS, search_text
from tests.worlds.tick import GIB, fleet, uuid_of
from tools.pages import view_columns

TABLES = (*view_columns().values(), RANK_COLUMNS, FINDING_COLUMNS)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("alice", Word("alice")),
        ("alice idle", And((Word("alice"), Word("idle")))),
        ('"never started"', Word("never started")),
        ("user==alice", Compare("user", "==", "alice")),
        ("user = alice", Compare("user", "==", "alice")),
        ("sm<20&gpus>=8", And((Compare("sm", "<", "20"), Compare("gpus", ">=", "8")))),
        ("a|b c", Or((Word("a"), And((Word("b"), Word("c")))))),
        ("(a|b) c", And((Or((Word("a"), Word("b"))), Word("c")))),
        ("a && b || c", Or((And((Word("a"), Word("b"))), Word("c")))),
        ("!alice", Not(Word("alice"))),
        ("!(a | b)", Not(Or((Word("a"), Word("b"))))),
        ("user!=alice", Compare("user", "!=", "alice")),
        ("user!~^a", Compare("user", "!~", "^a")),
        ("user~=^a", Compare("user", "~", "^a")),
        ("name~^(a|b)$ & c", And((Compare("name", "~", "^(a|b)$"), Word("c")))),
        ("(name~a)", Compare("name", "~", "a")),
        ("sm==-", Missing("sm")),
        ("sm!=-", Not(Missing("sm"))),
        ("sm?", Missing("sm")),
        ("?", Word("?")),
        ('name=="-"', Compare("name", "==", "-")),
        ('name=="a \\"b\\" & c"', Compare("name", "==", 'a "b" & c')),
        ("gpu-a-01/x", Word("gpu-a-01/x")),
        ("age>1-02:03:04", Compare("age", ">", "1-02:03:04")),
    ],
)
def test_what_a_text_means(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "words", "at"),
    [
        ("user==", "nothing to compare user with", 6),
        ("user== & sm<20", "nothing to compare user with", 7),
        ("a & ", "missing at the end", 4),
        ("a | | b", "missing before |", 4),
        ("(a", "a ( without its )", 0),
        ("a)", "a ) without its (", 1),
        ("<20", "a column is missing", 0),
        ("a !", "missing at the end", 3),
        ('"a', "quotation mark", 0),
        ("()", "missing before )", 1),
        ("(" * 40 + "a", "signs deep", MOST_NESTED),
        ("a" * 600, "longer than", MOST_CHARS),
    ],
)
def test_errors_say_where(text, words, at):
    with pytest.raises(FilterError, match=re.escape(words)) as caught:
        parse(text)
    assert caught.value.at == at


DIGEST = Digest(fleet())
names = st.text("abz%/-_.", min_size=1, max_size=8)
texts = st.text(max_size=12)
values = texts.filter(bool)
leaves = (
    st.builds(Word, texts)
    | st.builds(
        Compare, names, st.sampled_from(["==", "!=", "~", "!~", "<", "<=", ">", ">="]), values
    )
    | st.builds(Missing, names)
)


@given(
    st.recursive(
        leaves,
        lambda inner: (
            st.builds(Not, inner)
            | st.lists(inner, min_size=2, max_size=3).map(lambda nodes: joined(And, nodes))
            | st.lists(inner, min_size=2, max_size=3).map(lambda nodes: joined(Or, nodes))
        ),
        max_leaves=6,
    )
)
def test_a_written_tree_is_read_as_the_same_tree(tree):
    text = written(tree)
    if len(text) <= MOST_CHARS:
        assert parse(text) == tree


@given(st.text(max_size=60) | st.text("ab&|()!<>=~\"'?- \\[]{}*+^$20", max_size=60))
def test_no_text_raises_anything_but_a_filter_error(text):
    digest = DIGEST
    refused = None
    try:
        passes = row_filter(text, JOB_COLUMNS, search_text)
    except FilterError as error:
        refused = error
    if refused is None:
        assert all(passes(digest, row) in (True, False) for row in digest.tick.jobs)
    else:
        assert 0 <= refused.at <= MOST_CHARS
        assert "\n" not in str(refused)


# What it keeps


def passing_labels(text):
    """Labels of the jobs that pass."""
    passes = row_filter(text, JOB_COLUMNS, search_text)
    return {view.job.label for view in DIGEST.tick.jobs if passes(DIGEST, view)}


EVERY = {"4730", "4690", "4702", "4711", "4720_3"}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", EVERY),
        ("grace", {"4711"}),
        ("GRACE", {"4711"}),
        ("!grace", EVERY - {"4711"}),
        ("ada pretrain", {"4690"}),
        ('"some gpus unused"', {"4711"}),
        ("partial_gpus", {"4711"}),
        ("user==ada", {"4730", "4690"}),
        ("user==ad", set()),
        ("user==a*", {"4730", "4690"}),
        ("USER==Ad?", {"4730", "4690"}),
        ("user!=ada", EVERY - {"4730", "4690"}),
        ("user==ada & gpus>=32", {"4730"}),
        ("user==ada gpus<32", {"4690"}),
        ("user==grace | user==barbara", {"4711", "4720_3"}),
        ("(user==grace | user==ada) gpus==8", {"4711"}),
        ("sm<60", {"4711"}),
        ("sm<60%", {"4711"}),
        ("sm%<60", {"4711"}),
        ("sm_active_ratio<60", {"4711"}),
        ("sm<0.6", set()),
        ("sm==84", {"4690"}),
        ("sm!=84", {"4711"}),
        ("sm?", {"4730", "4702", "4720_3"}),
        ("sm==-", {"4730", "4702", "4720_3"}),
        ("!sm?", {"4690", "4711"}),
        ("sm!=-", {"4690", "4711"}),
        ("!(sm<60)", EVERY - {"4711"}),
        ("gpus==64", {"4730"}),
        ("state==PD", {"4730"}),
        ("state==pending", {"4730"}),
        ("st==r & sm>80", {"4690"}),
        ("age>2h20m", {"4730"}),
        ("age<=2h14m", EVERY - {"4730"}),
        ("age<02:14:01", EVERY - {"4730"}),
        ("mem>40G", {"4690"}),
        ("mem>40", {"4690"}),
        ("mem>40GiB", {"4690"}),
        ("mem<66GB", {"4690", "4711"}),
        ("power>=400W", {"4690", "4711"}),
        ("pwr>0.6kW", {"4690"}),
        ("verdict==partial_gpus_idle", {"4711"}),
        ("verdict==*idle", {"4711"}),
        ("verdict~gpus", {"4711", "4720_3"} - {"4720_3"}),
        ("job~^47[0-2]", {"4702", "4711", "4720_3"}),
        ("name~^(big|pre)", {"4730", "4690"}),
        ("name!~^(big|pre)", {"4702", "4711", "4720_3"}),
        ("conf==supported", {"4711"}),
        ("conf?", EVERY - {"4711"}),
        ("account==ml", EVERY),
        ("qos?", EVERY),
        ("starts<1h", set()),
    ],
)
def test_which_jobs_it_keeps(text, labels):
    assert passing_labels(text) == labels


@pytest.mark.parametrize(
    ("text", "words", "at"),
    [
        ("sm<20 & usr==ada", "no column 'usr' here; did you mean user?", 8),
        ("wxyz?", "no column 'wxyz' here: lost", 0),
        ("na<3", "na is text", 0),
        ("user<3", "user is text: it takes == != ~ !~", 0),
        ("sm<fast", "sm takes percent as on the screen, such as 20", 3),
        ("age > 3x", "age takes a duration", 6),
        ("power<3G", "power takes watts", 6),
        ("s==3", "no column 's' here", 0),
        ("name~(a", "a ( without its )", 5),
        ("name~a{999}", "counts rise", 6),
        ("name~(?=a)", "(? is not supported", 5),
        (r"name~\ba", r"\b is not supported", 5),
        ("name~" + "(a{60}){60}", "too large", 5),
    ],
)
def test_what_a_table_refuses(text, words, at):
    with pytest.raises(FilterError, match=re.escape(words)) as caught:
        passing_labels(text)
    assert caught.value.at == at


def test_gpus_are_found_by_what_their_table_shows():
    digest = DIGEST
    rows = digest.gpu_rows

    def gpus(text):
        passes = row_filter(text, FLEET_COLUMNS, fleet_search_text)
        return {(row.node.name, row.gpu.nvml_index) for row in rows if passes(digest, row)}

    assert gpus("node==gpu01 & sm<10") == {("gpu01", 5), ("gpu01", 6), ("gpu01", 7)}
    assert gpus("gpu>=7") == {("gpu01", 7), ("gpu02", 7), ("gpu03", 7)}
    assert gpus(f"uuid=={uuid_of('gpu02', 3)}") == {("gpu02", 3)}
    assert gpus("nvl>125G gpu==0") == {("gpu01", 0), ("gpu02", 0), ("gpu03", 0)}
    assert gpus("c>60 & gpu<1") == {("gpu01", 0), ("gpu02", 0), ("gpu03", 0)}
    assert len(gpus("proc?")) == 3 + 4 - 4


def test_every_column_of_every_table_can_be_named():
    for columns in TABLES:
        found = typable(columns)
        assert len(found) == len(columns), [c.key for c in columns]
        for name in found:
            row_filter(f"{name}==1 | {name}? | {name}~1", columns, lambda _d, _r: "")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("20", "ratio", 0.2),
        ("20%", "ratio", 0.2),
        ("40", "bytes", 40 * GIB),
        ("40G", "bytes", 40 * GIB),
        ("40GB", "bytes", 40e9),
        ("1.5TiB", "bytes", 1.5 * 2**40),
        ("300M", "bytes/s", 3e8),
        ("1.5GB/s", "bytes/s", 1.5e9),
        ("300W", "W", 300.0),
        ("0.7kW", "W", 700.0),
        ("80°C", "C", 80.0),
        ("1.98GHz", "MHz", 1980.0),
        ("90", "s", 90.0),
        ("2h30m", "s", 9000.0),
        ("1d", "s", 86400.0),
        ("1-02:03:04", "s", 93784.0),
        ("2:03:04", "s", 7384.0),
        ("5:30", "s", 330.0),
        ("3.5", "GPU-s", 12600.0),
        ("30m", "GPU-s", 1800.0),
        ("-5", "s", -5.0),
        ("2k", "", 2000.0),
        ("8", "A unit nobody knows", 8.0),
        ("eight", "", None),
        ("20W", "ratio", None),
        ("2h3x", "s", None),
        ("", "s", None),
        ("nan", "", None),
        ("1e9", "", None),
        ("9" * 400, "", None),
    ],
)
def test_numbers_with_units(text, unit, value):
    assert number(text, unit) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("us", "user"),
        ("sm<20 & us", "sm<20 & user"),
        ("!par", "!part"),
        ("user==us", "user==us"),
        ("user== us", "user== us"),
        ("zz", "zz"),
        ("", ""),
        ("n", "n"),
        ("nam", "name"),
    ],
)
def test_tab_writes_out_the_name_of_a_column(text, result):
    assert completed(text, JOB_COLUMNS) == result
