"""The protocol between launcher and server: its bytes, and what is no message."""

from __future__ import annotations

import random

import pytest

from ensemble import messages as m
from native.errors import PeerProtocolError

# docs/ensemble.md shows these.
VECTORS = [
    (7, m.Hello("secret"), "0000000c010100000007736563726574"),
    (0, m.Refused("no"), "000000080102000000006e6f"),
    (7, m.Ping(), "00000006010300000007"),
    (7, m.GroupSize(3), "0000000a01040000000700000003"),
    (7, m.JobSubmission(5, 10), "0000000e010500000007000000050000000a"),
    (7, m.JobCancellation(5), "0000000a01060000000700000005"),
    (7, m.CompletionNotification(), "00000006010700000007"),
    (7, m.JobUpdate(5, 2), "0000000b0108000000070000000502"),
    (7, m.Variable("A", "b=c"), "0000000b010900000007413d623d63"),
]


@pytest.mark.parametrize(("epoch", "message", "data"), VECTORS)
def test_a_message_has_its_bytes_both_ways(epoch, message, data):
    assert m.encode(epoch, message).hex() == data
    framing = m.Framing()
    framing.feed(bytes.fromhex(data))
    assert framing.next() == m.Frame(epoch, message)
    assert framing.next() is None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_of_any_size_give_the_same_messages(size):
    data = b"".join(m.encode(7, message) for _, message, _ in VECTORS)
    framing, found = m.Framing(), []
    for at in range(0, len(data), size):
        framing.feed(data[at : at + size])
        while (frame := framing.next()) is not None:
            found.append(frame.message)
    assert found == [message for _, message, _ in VECTORS]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ffffffff", "4294967295 bytes"),
        ("00000001ff", "1 bytes"),
        ("00000006020300000007", "version 2"),
        ("00000006010000000007", "type 0"),
        ("00000006016300000007", "type 99"),
        ("0000000701030000000700", "too many"),
        ("0000000a01040000000700000000", "at least 1"),
        ("0000000e01050000000700000000ffffffff" + "00", None),
        ("0000000e010500000007ffffffff00000001", "too many"),
        ("0000000b0108000000070000000505", "no state 5"),
        ("00000007010100000007ff", "decode"),
        ("0000000801090000000730 3d".replace(" ", ""), "no name"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(data, text):
    framing = m.Framing()
    framing.feed(bytes.fromhex(data))
    if text is None:
        assert framing.next() is not None  # as many as there are
        return
    with pytest.raises(PeerProtocolError, match=text):
        framing.next()


def test_random_bytes_are_messages_or_refused():
    rng = random.Random(1)
    for _ in range(2000):
        framing = m.Framing()
        framing.feed(rng.randbytes(rng.randrange(64)))
        try:
            while framing.next() is not None:
                pass
        except PeerProtocolError:
            pass
