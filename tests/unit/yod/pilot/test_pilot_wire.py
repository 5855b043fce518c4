"""Orders and reports of starters have the bytes of the page; frames come whole."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import PeerProtocolError
from native.frames import Frames
from yod.pilot.wire import messages, starter

PAGE = Path(__file__).parents[4] / "native/wire/STARTER.md"


def example(name: str) -> bytes:
    text = PAGE.read_text().partition(f"Example, {name}:")[2]
    block = re.search(r"\n\n((?:    [0-9a-f ]+\n)+)", text)
    assert block
    return bytes.fromhex(block[1])


def test_an_order_has_the_bytes_of_the_page():
    order = starter.encode_start(7, ["true"], ["A=b", "C"], "/s", "out", "err", ranks=2)
    assert order == example("an order to start")
    assert starter.encode_signal(7, 15) == example("an order to signal")


def test_a_report_has_the_bytes_of_the_page():
    report = starter.decode_report(example("a report"))
    assert (report.kind, report.number, report.value) == (starter.ReportKind.ENDED, 7, 3 << 8)
    assert (report.stdout, report.stderr) == (b"hi\n", b"")
    assert report.ended - report.started == pytest.approx(1.0)


def test_an_order_that_is_too_long_or_has_a_zero_byte_is_refused():
    with pytest.raises(ValueError, match="190000 are possible"):
        starter.encode_start(1, ["a", "b" * 200_000], [], "/", "", "")
    with pytest.raises(ValueError, match="zero byte"):
        starter.encode_start(1, ["a\0b"], [], "/", "", "")


@given(st.binary(max_size=200))
def test_nonsense_is_no_report(data):
    with pytest.raises(PeerProtocolError):
        starter.decode_report(data[:90])


@given(st.lists(st.binary(max_size=30), max_size=5), st.lists(st.integers(0, 60), max_size=10))
def test_frames_come_whole_however_the_bytes_are_cut(bodies, cuts):
    whole = b"".join(struct.pack("<I", len(body)) + body for body in bodies)
    frames, found, at = Frames(messages.MESSAGE_BYTES_MAX), [], 0
    for cut in [*sorted(cuts), len(whole)]:
        found += frames.add(whole[at:cut])
        at = max(at, cut)
    assert found == bodies


def test_messages_come_back_as_they_were():
    order = messages.Order("t", {"executable": "a", "ranks": 2}, b"x")
    for message in (messages.Tasks([order]), messages.Cancel(["t"]), messages.End()):
        (body,) = Frames(messages.MESSAGE_BYTES_MAX).add(messages.frame(message))
        assert messages.decode_client(body) == message
    over = messages.Over("t", "DONE", 0, slots=[("n", (0, 1), ())])
    for answer in (messages.Ended([over]), messages.PilotOver("DONE", "", "p")):
        (body,) = Frames(messages.MESSAGE_BYTES_MAX).add(messages.frame(answer))
        assert messages.decode_agent(body) == answer


@pytest.mark.parametrize("size", [0, messages.SEALED_BYTES_MAX + 1])
def test_what_cannot_have_been_sealed_is_no_message(size):
    (body,) = Frames(1 << 20).add(messages.frame(messages.Open("p", "h:1", b"s", b"x" * size)))
    with pytest.raises(PeerProtocolError):
        messages.decode_agent(body)


@pytest.mark.parametrize("body", [b"", b"\x91\xa4nope", b"\x92\xa5tasks\x01", b"\xff"])
def test_nonsense_is_no_message(body):
    with pytest.raises(PeerProtocolError):
        messages.decode_client(body)
    with pytest.raises(PeerProtocolError):
        messages.decode_agent(body)
