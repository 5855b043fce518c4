"""JOB.md: the conversation of a command and a launch with an id."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import PeerProtocolError
from native.wire import job
from native.wire.base import CODES, State

PAGE = Path(job.__file__).with_name("JOB.md").read_text()
SECTIONS = dict(re.findall(r"^#### (\w+)\n(.*?)(?=^###|\Z)", PAGE, re.M | re.S))
REPLIES = get_args(job.ANY_REPLY)
REQUESTS = get_args(job.ANY_REQUEST)


def tag(packet) -> str:
    return packet.__struct_config__.tag


def decode(packet, data: bytes):
    return job.decode_reply(data) if packet in REPLIES else job.decode_request(data)


def test_every_packet_has_a_section_and_nothing_else_has():
    assert set(SECTIONS) == {tag(packet) for packet in (*REPLIES, *REQUESTS)}


@pytest.mark.parametrize("packet", (*REPLIES, *REQUESTS), ids=tag)
def test_the_example_of_a_packet_is_what_is_sent(packet):
    (example,) = re.findall(r"^    (\{.*\})$", SECTIONS[tag(packet)], re.M)
    read = decode(packet, example.encode())
    assert type(read) is packet
    assert job.encode(read).decode() == example


@pytest.mark.parametrize("packet", (*REPLIES, *REQUESTS), ids=tag)
def test_a_section_has_the_fields_of_its_packet(packet):
    fields = re.findall(r"^\| (\w+) \|", SECTIONS[tag(packet)], re.M)
    assert tuple(fields[1:]) == packet.__struct_fields__


def test_every_state_is_there_with_its_code():
    rows = re.findall(r"^\| ([A-Z_]+) \| ([A-Z]+) \|", PAGE, re.M)
    assert rows == [(state.value, CODES[state]) for state in State]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"request":"show"',
        b'{"request":"sing"}',
        b'{"request":"signal"}',
        b'{"request":"signal","number":0}',
        b'{"request":"signal","number":65}',
        b'{"request":"signal","number":"9"}',
        b"[" * 1024,
        b'{"request":"show","a":' + b"[" * 1000,
        b'{"request":"show","a":"' + b"a" * 1024 + b'"}',
    ],
)
def test_what_is_no_request_is_refused(data):
    with pytest.raises(PeerProtocolError):
        job.decode_request(data)


@given(st.binary(max_size=1100))
def test_any_bytes_are_a_request_or_refused(data):
    try:
        job.decode_request(data)
    except PeerProtocolError:
        pass


def test_fields_of_a_later_release_are_ignored():
    assert job.decode_request(b'{"request":"wait","until":5}') == job.Wait()


@pytest.mark.parametrize("character", ["a", "\0", '"', "\U0001f600", "\udcff"])
def test_the_longest_reply_fits_a_packet(character):
    text = job.sayable(character * 5000)
    names = dict.fromkeys(("name", "where", "partition"), text)
    numbers = dict.fromkeys(("uid", "ranks", "nodes", "unix_pid"), 1)
    shown = job.Shown(
        id="local.1048576",
        state=State.CONFIGURING,
        began=1795415253.123456,
        elapsed_s=1e9,
        **names,
        **numbers,
    )
    data = job.encode(shown)
    assert len(data) <= job.REPLY_MAX_BYTES
    if character != "\0":
        assert job.decode_reply(data) == shown


def test_texts_are_of_whole_characters():
    assert job.sayable("caf\udce9") == "caf?"
    assert len(job.sayable("a" * 5000)) == 4096
    assert msgspec.json.decode(job.encode(job.Refused("né"))) == {
        "reply": "refused",
        "text": "né",
    }
