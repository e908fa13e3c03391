"""Messages between the monitor and its detection worker: a length, then JSON. Never pickle."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import termios
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_MESSAGE_BYTES: Final = 256 * 2**20
"""A longer message is not read: the ticks of the largest fleets stay far below."""

MAX_DESCRIPTORS: Final = 80
"""Descriptors that travel with one message; the kernel takes up to 253."""

_FIRST_BYTES: Final = 2**20
"""Room for the first bytes of a message; of a longer one it is doubled whenever it is full."""

_HEADER: Final = struct.Struct("!II")
_COUNT: Final = struct.Struct("i")
_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
"""Made once: an evaluation is told in some hundred messages."""


class ProtocolError(DamagedError):
    """What arrived is not a message."""


def encode(message: Mapping[str, object]) -> bytes:
    """The message as JSON.

    Raises:
        ValueError: A number is not finite.
        TypeError: A value is of no JSON type.
    """
    return _ENCODER.encode(message).encode()


def framed(payload: bytes, descriptors: int = 0) -> bytes:
    """An encoded message with its head, in one piece: whoever waits for it wakes up once."""
    return _HEADER.pack(len(payload), descriptors) + payload


def send(sock: socket.socket, payload: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send an encoded message, with copies of open descriptors."""
    message = framed(payload, len(descriptors))
    sent = socket.send_fds(sock, [message], descriptors) if descriptors else 0
    sock.sendall(message[sent:] if sent else message)


def unread(sock: socket.socket) -> int:
    """Memory of what was sent and not received yet, by anybody; 0 where the system does not tell.

    `SIOCOUTQ` of unix(7), which Linux counts in whole buffers.
    """
    try:
        answer = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_COUNT.size))
    except OSError:
        return 0
    count: int = _COUNT.unpack(answer)[0]
    return count


def receive(
    sock: socket.socket, before_wait: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, None at the end of the stream.

    `before_wait` is called before every read, to set the socket's timeout or to raise.

    Raises:
        ProtocolError: The bytes are no message.
        TimeoutError: Nothing came within the socket's timeout.
        OSError: The socket failed.
    """
    descriptors: list[int] = []
    message = None
    try:
        message = _received(sock, before_wait, descriptors)
    finally:
        # What came with half a message belongs to nobody.
        if message is None:
            for descriptor in descriptors:
                os.close(descriptor)
    return None if message is None else (message, descriptors)


def _received(
    sock: socket.socket, before_wait: Callable[[], None], descriptors: list[int]
) -> dict[str, Any] | None:
    """The next message, its descriptors appended as they come; None at the end of the stream."""
    header = b""
    while len(header) < _HEADER.size:
        before_wait()
        data, received, _, _ = socket.recv_fds(sock, _HEADER.size - len(header), MAX_DESCRIPTORS)
        descriptors += received
        if not data:
            return None
        header += data
    length, count = _HEADER.unpack(header)
    if length > MAX_MESSAGE_BYTES or count != len(descriptors):
        raise ProtocolError(f"a message of {length} bytes and {count} descriptors")
    # Room is made as the bytes come: a length alone may announce anything.
    payload = bytearray(min(length, _FIRST_BYTES))
    position = 0
    while position < length:
        if position == len(payload):
            payload.extend(bytes(min(length - position, position)))
        before_wait()
        with memoryview(payload) as view:
            count = sock.recv_into(view[position:])
        if not count:
            return None
        position += count
    return _decode(payload)


def _decode(payload: bytearray) -> dict[str, Any]:
    try:
        message = _DECODER.decode(payload.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("not an object")
    return message


def _reject(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_reject)
