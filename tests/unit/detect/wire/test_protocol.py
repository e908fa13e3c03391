from __future__ import annotations

import os
import socket
import struct
import threading
import tracemalloc
from pathlib import Path

import pytest

from gpumon.detect.wire.protocol import (
    MAX_MESSAGE_BYTES,
    ProtocolError,
    encode,
    receive,
    send,
    unread,
)


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_a_message_and_its_descriptors_arrive(pair, tmp_path):
    here, there = pair
    (tmp_path / "f").write_text("hello")
    with (tmp_path / "f").open() as file:
        send(here, encode({"kind": "look", "at": 1.5}), [file.fileno()])
    message, (descriptor,) = receive(there)
    assert message == {"kind": "look", "at": 1.5}
    with os.fdopen(descriptor) as file:
        assert file.read() == "hello"


def test_messages_keep_their_borders(pair):
    here, there = pair
    send(here, encode({"n": 1}))
    send(here, encode({"n": "x" * 50_000}))
    assert receive(there) == ({"n": 1}, [])
    assert receive(there) == ({"n": "x" * 50_000}, [])


def test_what_nobody_has_received_yet_is_unread_whoever_wrote_it(pair):
    here, there = pair
    assert unread(here) == 0
    os.write(here.fileno(), b"x")
    assert unread(here) > 0
    assert unread(there) == 0
    there.recv(9)
    assert unread(here) == 0


def test_the_end_of_the_stream_is_none(pair):
    here, there = pair
    here.sendall(b"\0\0")
    here.close()
    assert receive(there) is None


@pytest.mark.parametrize("payload", [b"nonsense", b"[1]", b'{"a":NaN}', b'{"a":Infinity}', b"\xff"])
def test_what_is_no_message_is_refused(pair, payload):
    here, there = pair
    send(here, payload)
    with pytest.raises(ProtocolError):
        receive(there)


def test_a_length_beyond_all_measure_is_refused_before_it_is_read(pair):
    here, there = pair
    here.sendall(struct.pack("!II", MAX_MESSAGE_BYTES + 1, 0))
    with pytest.raises(ProtocolError):
        receive(there)


def test_announced_descriptors_that_are_missing_are_refused(pair):
    here, there = pair
    here.sendall(struct.pack("!II", 2, 1) + b"{}")
    with pytest.raises(ProtocolError):
        receive(there)


def test_numbers_that_json_does_not_know_are_not_sent():
    with pytest.raises(ValueError, match="JSON"):
        encode({"value": float("nan")})


def test_what_came_with_half_a_message_is_given_back(pair, tmp_path):
    here, there = pair
    (tmp_path / "file").write_text("x")
    with (tmp_path / "file").open() as file:
        socket.send_fds(here, [struct.pack("!II", 100, 1) + b'{"half"'], [file.fileno()])
    here.close()
    assert receive(there) is None
    opened = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert tmp_path / "file" not in opened


def test_memory_is_taken_as_a_message_comes_and_not_as_it_is_announced(pair):
    here, there = pair
    here.sendall(struct.pack("!II", MAX_MESSAGE_BYTES, 0) + b'{"half"')
    here.close()
    tracemalloc.start()
    try:
        assert receive(there) is None
        assert tracemalloc.get_traced_memory()[1] < MAX_MESSAGE_BYTES / 50
    finally:
        tracemalloc.stop()


def test_a_long_message_comes_whole(pair):
    here, there = pair
    message = {"text": "0123456789" * 700_000}
    sender = threading.Thread(target=send, args=(here, encode(message)))
    sender.start()
    assert receive(there) == (message, [])
    sender.join()
