"""The worker lets go of history as soon as the monitor does, whatever detectors leave behind."""

from __future__ import annotations

import gc
import socket
import threading
import weakref

import pytest

from gpumon.detect.wire.protocol import encode, receive, send
from gpumon.detect.wire.tick_messages import Sender
from gpumon.detect.wire.work_mark import WorkMark
from gpumon.detect.worker.tuning import Tuning
from gpumon.detect.worker.worker import Worker
from gpumon.fleet.history.chunk import Chunk, ChunkShape
from gpumon.fleet.history.reader import HistoryReader
from tests.worlds.tick import fleet

PATIENCE_S = 60.0


def work(sock):
    with sock:
        Worker(sock).run()


class Monitor:
    """The other end of a worker's socket."""

    def __init__(self, paths):
        self.sock, there = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.worker = threading.Thread(target=work, args=(there,), daemon=True)
        self.worker.start()
        self.sender = Sender()
        start = {"kind": "start", "paths": paths, "installed": False, "muted": []}
        self.mark = WorkMark()
        send(self.sock, encode({**start, "tuning": Tuning()}), [self.mark.fd])
        self.kinds_until("ready")

    def kinds_until(self, last):
        """Kinds of the worker's messages up to one."""
        kinds = []
        while last not in kinds:
            kinds.append(receive(self.sock)[0]["kind"])
        return kinds

    def look(self, tick, *chunks):
        """Have a picture judged over so much history."""
        history = HistoryReader([(chunk, 1) for chunk in chunks], {})
        message, descriptors = self.sender.message(tick, history, ())
        send(self.sock, encode(message), descriptors)
        return self.kinds_until("done")

    def close(self):
        self.sock.close()
        self.worker.join(PATIENCE_S)


@pytest.fixture
def attached(monkeypatch):
    """Every chunk that the worker maps, without keeping it."""
    made = []
    attach = Chunk.attach

    def noted(shape, fd):
        chunk = attach(shape, fd)
        made.append(weakref.ref(chunk))
        return chunk

    monkeypatch.setattr(Chunk, "attach", noted)
    return made


@pytest.fixture
def no_collector():
    """The collector comes when it likes: here never by itself."""
    gc.disable()
    yield
    gc.enable()


def test_history_that_is_over_is_unmapped_at_once(
    plugin, monkeypatch, tmp_path, attached, no_collector
):
    monkeypatch.syspath_prepend(str(tmp_path))
    path = plugin(
        "cyclic",
        """
        class Cyclic(Base):
            name = "cyclic"
            def evaluate(self, view):
                seen = [view]
                seen.append(seen)
                return ()
        """,
    )
    chunks = [Chunk.create(ChunkShape(n, "gpu", 0, ("power_w",), 1, 4), ["GPU-0"]) for n in (1, 2)]
    monitor, tick = Monitor((path,)), fleet()
    assert "result" in monitor.look(tick, *chunks)
    assert [chunk() is None for chunk in attached] == [False, False]
    monitor.look(tick._replace(at=tick.at + 60.0), chunks[1])
    assert [chunk() is None for chunk in attached] == [True, False]
    monitor.close()
