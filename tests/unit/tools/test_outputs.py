"""Two folders of outputs: what differs is told, what may differ is not there."""

from __future__ import annotations

from typing import get_args

import pytest

from gpumon.tui.actions.action import ViewName
from tests.bench.screen import Cell
from tools.output_pages import Names, Terminal, drawn, ways
from tools.outputs import changed_lines, differences, in_lines, main, masked

NAMES = Names("7", ("8", "9"), ("n1", "n2"))


@pytest.fixture
def folders(tmp_path):
    for name in ("before", "after"):
        (tmp_path / name / "pages").mkdir(parents=True)
        (tmp_path / name / "pages" / "jobs.txt").write_text("one\ntwo words\nthree\n")
        (tmp_path / name / "document.txt").write_text('{"at": 12.5}\n')
    return tmp_path / "before", tmp_path / "after"


def cells(text, style=()):
    return tuple(Cell(char, style) for char in text)


def test_folders_that_say_the_same_have_no_difference(folders, capsys):
    assert differences(*folders) == []
    assert main(["compare", *map(str, folders)]) == 0
    assert capsys.readouterr().out.strip().endswith("0 differences")


def test_a_word_and_a_number_that_changed_are_told_with_their_lines(folders, capsys):
    (folders[1] / "pages" / "jobs.txt").write_text("one\ntwo wards\nthree\n")
    (folders[1] / "document.txt").write_text('{"at": 12.6}\n')
    assert main(["compare", *map(str, folders)]) == 1
    found = capsys.readouterr().out
    assert "pages/jobs.txt:\n  2 - 'two words'\n  2 + 'two wards'" in found
    assert """document.txt:\n  1 - '{"at": 12.5}'\n  1 + '{"at": 12.6}'""" in found
    assert found.strip().endswith("2 differences")


def test_files_of_one_side_alone_are_told(folders):
    (folders[0] / "old.txt").touch()
    (folders[1] / "new.txt").touch()
    assert differences(*folders) == ["old.txt: only before", "new.txt: only after"]


def test_an_empty_folder_proves_nothing(tmp_path):
    assert differences(tmp_path, tmp_path) == [f"{tmp_path}: no outputs there"]


def test_of_many_lines_the_first_are_told_and_the_others_counted():
    found = changed_lines("a\n" * 40, "b\n" * 40)
    assert found[0] == "  1 - 'a'"
    assert found[-1] == "  28 more lines"


def test_lines_that_one_side_lacks_and_their_ends_are_differences():
    assert changed_lines("a", "a\nb") == ["  2 - (no line)", "  2 + 'b'"]
    assert changed_lines("a\r\nb", "a\nb") == ["  1 - 'a\\r'", "  1 + 'a'"]


def test_of_a_long_line_the_part_that_differs_is_told():
    found = changed_lines("x" * 5000 + "old", "x" * 5000 + "new")
    assert all(len(line) < 200 for line in found)
    assert "old'" in found[0]
    assert "new'" in found[1]


def test_versions_folders_and_places_of_detectors_are_masked_and_nothing_else():
    assert masked("gpumon 0.1.0 took 0.1.0") == "gpumon VERSION took 0.1.0"
    assert masked('"version":"2.3.4"') == '"version":"VERSION"'
    assert masked("gpumon_detectors.idle.held:Held") == "MODULE:Held"
    assert masked("no /tmp/tmpab12/x.toml here") == "no FOLDER here"


def test_a_document_gets_a_line_for_each_value_and_keeps_its_bytes():
    text = '{"a":[1.50,"x, y"],"b":{"c":-1}}\n'
    made = in_lines(text)
    assert made.splitlines()[:3] == ["{", '"a":[', "1.50,"]
    assert made.replace("\n", "") == text.strip()
    assert in_lines("no document, [1]") == "no document, [1]"


def test_a_page_is_its_text_and_its_styles():
    rows = (cells("ab"), (*cells("c"), *cells("d", ("1", "31"))))
    assert drawn(rows) == "000 ab\n001 cd\n-- styles\n001 1-1 1+31\n"


def test_what_gpumon_itself_takes_is_blank_on_a_page_whatever_its_width():
    ends = (
        " · ! gpumon itself uses 7 % of a core, 98 MiB",
        " · ! gpumon itself uses 112 % of a core, 1003 MiB",
        " . ! gpumon itself uses 1 % of a core, 9 MiB",
        "",
    )
    starts = (*cells(" "), *cells("late", ("2",)))
    rows = [(*starts, *cells(end, ("2",)), *cells(" " * (60 - len(end)))) for end in ends]
    assert len({drawn((row,)) for row in rows}) == 1


def test_what_gpumon_itself_takes_may_reach_the_edge():
    ground = cells(" ", ("48",))
    text = cells("late · ! gpumon itself uses <1 % of a core, 98 MiB", ("2",))
    short = (*cells("late", ("2",)), *(ground * (len(text) - 4)))
    assert drawn(((*ground, *text),)) == drawn(((*ground, *short),))


def test_a_cursor_that_blinks_is_no_difference_and_a_mark_further_up_is():
    bar, cursor = ("48;5;1",), ("38;5;1", "48;5;9")
    shown = (*cells(":jo", bar), *cells(" ", cursor), *cells("  ", bar))
    hidden = cells(":jo   ", bar)
    rest = (cells("x"),) * 4
    assert drawn((*rest, shown)) == drawn((*rest, hidden))
    assert drawn((shown, *rest)) != drawn((hidden, *rest))


def test_a_cursor_on_the_words_of_an_empty_prompt_is_no_difference_either():
    bar, dim = ("48;5;1",), ("38;5;7", "48;5;1")
    shown = (*cells(" ", bar), *cells("t", ("38;5;1", "48;5;9")), *cells("ime", dim))
    hidden = (*cells(" ", bar), *cells("time", dim))
    assert drawn((shown,)) == drawn((hidden,))


def test_every_view_is_reached():
    plain = Terminal("any", (), NAMES)
    every = plain._replace(has_further=True, has_last=True)
    assert {name.partition("-")[0] for name in ways(plain)} == set(get_args(ViewName))
    assert ways(plain).items() <= ways(every).items()
    assert all(keys for keys in ways(every).values())
