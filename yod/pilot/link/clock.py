"""How far the clock of an agent's host is ahead of its client's, for the times in its profiles."""

from __future__ import annotations

import _socket
import time
from collections.abc import Callable

from native.errors import PeerProtocolError, YodError
from native.frames import Frames
from yod.pilot.link.link import connect
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX, AskTime, Time, decode_client, frame

_ANSWER_S = 1.0  # an agent does not wait for longer
_READ_BYTES = 4096


def call(path: str) -> tuple[_socket.socket | None, float]:
    """Connect to the client whose socket is at a path.

    Returns:
        The connection, None: it has gone; and how far ahead of its clock that of this host is.
    """
    try:
        end = connect(path)
    except YodError:
        return None, 0.0
    return end, seconds_ahead(end)


def seconds_ahead(end: _socket.socket, now: Callable[[], float] = time.time) -> float:
    """Ask the client at the other end of a new connection for the time of day.

    Returns:
        By how many seconds this host's clock is ahead, to within half of what the answer took;
        0: they may well be the same, or the client has not answered.
    """
    frames = Frames(MESSAGE_BYTES_MAX)
    before = end.gettimeout()
    try:
        end.settimeout(_ANSWER_S)
        asked = now()
        end.sendall(frame(AskTime()))
        while data := end.recv(_READ_BYTES):
            told = now()
            for body in frames.add(data):
                match decode_client(body):
                    case Time(at) if not asked <= at <= told:
                        return (asked + told) / 2 - at
                    case _:
                        return 0.0
    except (OSError, PeerProtocolError):
        pass  # what is wrong is found by who uses the connection
    finally:
        end.settimeout(before)
    return 0.0
