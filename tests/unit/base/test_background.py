"""Recording beside a file system that hangs, fails or is healthy."""

from __future__ import annotations

import threading

import pytest

from gpumon.base import background
from gpumon.base.background import BackgroundWriter

WAIT_S = 60.0


class Book:
    """Notes what is written; waits where it is told to."""

    def __init__(self):
        self.said = []
        self.may = threading.Event()
        self.may.set()
        self.is_in = threading.Event()
        self.size_bytes = 0

    def frames(self, frames):
        self.said.extend(frames)

    def end_tick(self, at, period_s):
        self.is_in.set()
        assert self.may.wait(WAIT_S)
        self.said.append(at)
        self.size_bytes += 10

    def lost(self, at, pictures):
        self.said.append(f"lost {pictures}")

    def close(self):
        self.said.append("end")


def test_pictures_are_written_in_order_and_the_end_is_waited_for():
    book = Book()
    steady = BackgroundWriter(book, repr)
    for beat in range(3):
        steady.frames([f"frame {beat}"])
        steady.end_tick(float(beat), 1.0)
    assert steady.close(WAIT_S)
    assert book.said == ["frame 0", 0.0, "frame 1", 1.0, "frame 2", 2.0, "end"]
    assert (steady.size_bytes, steady.lost_ticks) == (30, 0)


@pytest.mark.parametrize(("bound", "most"), [("MAX_TICKS", 2), ("MAX_FRAMES", 2)])
def test_a_disk_that_hangs_holds_up_nobody_and_lost_pictures_are_counted(monkeypatch, bound, most):
    monkeypatch.setattr(background, bound, most)
    book = Book()
    book.may.clear()
    steady = BackgroundWriter(book, repr)
    for beat in range(5):
        steady.frames([f"frame {beat}"])
        steady.end_tick(float(beat), 1.0)
        assert book.is_in.wait(WAIT_S)
    assert steady.lost_ticks == 3
    assert not steady.close(0.0)
    book.may.set()
    steady._thread.join(WAIT_S)
    assert book.said == ["frame 0", 0.0, "frame 1", 1.0, "lost 3", "end"]


def test_the_place_of_lost_pictures_is_before_the_next_one(monkeypatch):
    monkeypatch.setattr(background, "MAX_TICKS", 1)
    book = Book()
    book.may.clear()
    steady = BackgroundWriter(book, repr)
    steady.end_tick(0.0, 1.0)
    assert book.is_in.wait(WAIT_S)
    steady.end_tick(1.0, 1.0)
    written = threading.Event()
    monkeypatch.setattr(book, "frames", lambda _frames: written.set())
    monkeypatch.setattr(background, "MAX_TICKS", 2)
    steady.end_tick(2.0, 1.0)
    book.may.set()
    assert written.wait(WAIT_S)
    assert steady.close(WAIT_S)
    assert book.said == [0.0, "lost 1", 2.0, "end"]


def test_a_disk_that_fails_is_told_with_the_next_picture():
    class Full(Book):
        def end_tick(self, at, period_s):
            raise OSError(28, "No space left on device")

    steady = BackgroundWriter(Full(), repr)
    steady.end_tick(0.0, 1.0)
    steady._thread.join(WAIT_S)
    with pytest.raises(OSError, match="No space left"):
        steady.end_tick(1.0, 1.0)


def test_an_error_of_any_kind_is_told_to_whoever_records():
    class Broken(Book):
        def frames(self, frames):
            raise ValueError("Out of range float values")

    steady = BackgroundWriter(Broken(), repr)
    steady.frames(["frame"])
    steady.end_tick(0.0, 1.0)
    with pytest.raises(OSError, match="ValueError\\('Out of range"):
        steady.close(WAIT_S)
