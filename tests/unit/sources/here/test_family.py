"""The tree of a process: parents up to the first, and all that it started."""

from __future__ import annotations

import os
import threading

import pytest

from gpumon.sources.here import family
from gpumon.sources.here.family import MOST_RELATIVES, RENEWED_S, Family, tree_of
from tests.worlds.probe import PATIENCE_S

HZ = os.sysconf("SC_CLK_TCK")


def put(path, pid, parent, program="python", start_s=1.0):
    folder = path / str(pid)
    folder.mkdir(exist_ok=True)
    rest = ["S", str(parent), *["0"] * 17, str(round(start_s * HZ)), "0", "100"]
    (folder / "stat").write_text(f"{pid} ({program}) {' '.join(rest)}")


def shape(tree):
    return [(one.depth, one.process.pid, one.is_asked_for) for one in tree.relatives]


def test_parents_stand_above_and_children_below(tmp_path):
    for pid, parent in ((1, 0), (10, 1), (20, 10), (30, 20), (31, 20), (40, 31), (50, 10), (60, 1)):
        put(tmp_path, pid, parent)
    (tmp_path / "self").mkdir()
    (tmp_path / "99").mkdir()
    assert shape(tree_of(20, 1.0, str(tmp_path))) == [
        (0, 1, False), (1, 10, False), (2, 20, True), (3, 30, False), (3, 31, False),
        (4, 40, False),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "pages"), [("900 120 7 1 0 9 0\n", 120), ("", 100), ("1 x", 100)])
def test_memory_is_statm_s_which_counts_exactly_and_else_stat_s(tmp_path, text, pages):
    put(tmp_path, 20, 1)
    (tmp_path / "20" / "statm").write_text(text)
    (one,) = tree_of(20, 1.0, str(tmp_path)).relatives
    assert one.process.rss_bytes == pages * os.sysconf("SC_PAGE_SIZE")


def test_another_process_with_its_number_has_no_tree(tmp_path):
    put(tmp_path, 20, 1)
    assert tree_of(20, 2.0, str(tmp_path)).relatives == ()
    assert tree_of(21, 1.0, str(tmp_path)).relatives == ()


def test_processes_that_seem_each_other_s_parents_are_told_once(tmp_path):
    put(tmp_path, 20, 30)
    put(tmp_path, 30, 20)
    put(tmp_path, 40, 40)
    assert shape(tree_of(20, 1.0, str(tmp_path))) == [(0, 30, False), (1, 20, True)]
    assert shape(tree_of(40, 1.0, str(tmp_path))) == [(0, 40, True)]


def test_children_beyond_the_most_are_counted(tmp_path):
    put(tmp_path, 1, 0)
    for pid in range(2, MOST_RELATIVES + 6):
        put(tmp_path, pid, 1)
    tree = tree_of(1, 1.0, str(tmp_path))
    assert (len(tree.relatives), tree.untold_count) == (MOST_RELATIVES, 5)


def test_of_very_many_processes_only_so_many_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(family, "MOST_PROCESSES", 3)
    for pid in range(1, 9):
        put(tmp_path, pid, 1 if pid > 1 else 0)
    assert len(tree_of(1, 1.0, str(tmp_path)).relatives) <= 4


def test_it_is_read_on_a_thread_and_again_while_somebody_looks(tmp_path):
    put(tmp_path, 20, 1)
    now, notified = [0.0], threading.Semaphore(0)
    read = Family(20, 1.0, notified.release, str(tmp_path), lambda: now[0])
    read.tree()
    assert notified.acquire(timeout=PATIENCE_S)
    assert shape(read.tree()) == [(0, 20, True)]
    put(tmp_path, 21, 20)
    assert shape(read.tree()) == [(0, 20, True)]
    read._thread.join()
    now[0] = RENEWED_S
    read.tree()
    assert notified.acquire(timeout=PATIENCE_S)
    assert len(read.tree().relatives) == 2


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc")  # noqa: PTH110
def test_this_process_has_parents_here():
    me = os.getpid()
    mine = family.described(me)
    tree = tree_of(me, mine.start_time_s)
    assert any(one.is_asked_for and one.process.pid == me for one in tree.relatives)
