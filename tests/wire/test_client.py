"""The packets of a launch server and its client: CLIENT.md, the codec, and the header of C."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import PeerProtocolError
from native.wire import client as wire
from native.wire.client import AppendFlag, ClientKind, ServerKind, Stdio
from native.wire.client_codec import (
    Strings,
    decode_from_client,
    decode_from_server,
    decode_strings,
    descriptors,
    encode,
    encode_strings,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "native" / "wire" / "CLIENT.md").read_text()
HEADER = (ROOT / "native" / "client" / "wire.h").read_text()

REQUEST = wire.Request(
    umask=0o22,
    stdio=Stdio.SAME_OUTPUT | Stdio.STDIN_CLOSED,
    ignored_signals=(1, 64),
    arguments=3,
    variables=2,
    limits=((7, 1024), (4, wire.UNLIMITED)),
)
FROM_SERVER: dict[str, wire.FromServer] = {
    "HELLO": wire.Hello(
        unix_pid=4711,
        press_ms=1000,
        liveness_ms=20_000,
        namespaces=tuple(range(0xF0000000, 0xF0000006)),
        root=(0x801, 2),
        release=b"0123456789abcdef0123456789abcdef",
    ),
    "COLD": wire.Cold("--help"),
    "OUTPUT": wire.Output(1, b"hello\n"),
    "READ": wire.Read(65536),
    "START": wire.Start(1, True),
    "CONTINUE": wire.Continue(1),
    "KILL_ORPHANS": wire.KillOrphans(7),
    "SUSPEND": wire.Suspend(),
    "APPEND": wire.Append(8, b"log", b"a line\n", AppendFlag.LOG),
    "PONG": wire.Pong(),
    "EXIT": wire.Exit(-15, True),
    "TIMES": wire.Times(0, 5000),
    "LEAVE": wire.Leave("you:\n"),
    "GIVE": wire.Give(1),
}
FROM_CLIENT: dict[str, wire.FromClient] = {
    "REQUEST": REQUEST,
    "INPUT": wire.Input(b"data"),
    "WRITTEN": wire.Written(2, 300),
    "SIGNAL": wire.Signal(15),
    "OUTPUT_FAILED": wire.OutputFailed(1, 32),
    "STARTED": wire.Started(1, 4712),
    "ENDED": wire.Ended(1, 9),
    "ORPHANS_KILLED": wire.OrphansKilled(7),
    "APPENDED": wire.Appended(8, 13),
    "PING": wire.Ping(),
    "LEFT": wire.Left((1, 2)),
    "GIVEN": wire.Given(1, wire.Gift.PIPE),
}
# Of variable length: a beginning of it is another packet.
OPEN_ENDED = {"COLD", "OUTPUT", "APPEND", "INPUT", "LEAVE"}


def examples(title: str) -> dict[str, bytes]:
    """The packets of one direction in the page, by name."""
    _, _, rest = PAGE.partition(f"\n{title}:\n\n")
    block, _, _ = rest.partition("\n\n")
    found: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        words = line.split()
        name = words[0] if len(words) == 2 else name
        found[name] = found.get(name, "") + words[-1]
    return {name: bytes.fromhex(text) for name, text in found.items()}


def test_the_examples_of_the_page_are_what_is_written_and_read():
    from_server, from_client = (
        examples("Launch server to client"),
        examples("Client to launch server"),
    )
    assert list(from_server) == list(FROM_SERVER) == [kind.name for kind in ServerKind]
    assert list(from_client) == list(FROM_CLIENT) == [kind.name for kind in ClientKind]
    for name, packet in from_server.items():
        assert encode(FROM_SERVER[name]) == packet
        assert decode_from_server(packet) == FROM_SERVER[name]
    for name, packet in from_client.items():
        assert encode(FROM_CLIENT[name]) == packet
        assert decode_from_client(packet) == FROM_CLIENT[name]


@pytest.mark.parametrize(
    "message",
    [
        wire.Output(2, b"x" * wire.DATA_MAX),
        wire.Cold("", is_launch=False),
        wire.Start(2),
        wire.Append(0, b"p" * 4095, b"", AppendFlag.LOG | AppendFlag.MORE),
        wire.Exit(255),
        wire.Exit(-64),
    ],
)
def test_the_extremes_go_through_of_a_server(message):
    assert decode_from_server(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        wire.Input(b""),
        wire.Written(1, wire.OUTPUT_WINDOW_BYTES + wire.OWN_LINE_MAX_BYTES),
        wire.Started(5, 0, 11),
        wire.Ended(5, 0xFF00),
        wire.Appended(0, 0),
        wire.Given(2, wire.Gift.NOTHING),
        wire.Given(2, wire.Gift.NULL),
        wire.Request(0o777, Stdio(127), (), 1, 0, ()),
    ],
)
def test_the_extremes_go_through_of_a_client(message):
    assert decode_from_client(encode(message)) == message


def test_every_truncation_is_refused_and_what_follows_too():
    for packets, decode in (
        (FROM_SERVER, decode_from_server),
        (FROM_CLIENT, decode_from_client),
    ):
        for name, message in packets.items():
            packet = encode(message)
            shorter = range(8 if name in OPEN_ENDED else len(packet))
            for length in shorter:
                with pytest.raises(PeerProtocolError):
                    decode(packet[:length])
            if name not in OPEN_ENDED:
                with pytest.raises(PeerProtocolError):
                    decode(packet + b"\0")


def packet_of(kind: int, value: int, payload: bytes = b"") -> bytes:
    return struct.pack("<II", kind, value) + payload


@pytest.mark.parametrize(
    "packet",
    [
        packet_of(0, 0),
        packet_of(15, 0),
        packet_of(ServerKind.HELLO, 2, encode(FROM_SERVER["HELLO"])[8:]),
        packet_of(ServerKind.COLD, 2),
        packet_of(ServerKind.COLD, 0, b"x" * 4097),
        packet_of(ServerKind.OUTPUT, 1),
        packet_of(ServerKind.OUTPUT, 0, b"x"),
        packet_of(ServerKind.OUTPUT, 3, b"x"),
        packet_of(ServerKind.OUTPUT, 1, b"x" * 65537),
        packet_of(ServerKind.READ, 0),
        packet_of(ServerKind.START, 0, b"\0" * 4),
        packet_of(ServerKind.START, 1, b"\2\0\0\0"),
        packet_of(ServerKind.CONTINUE, 0),
        packet_of(ServerKind.SUSPEND, 1),
        packet_of(ServerKind.APPEND, 1, b"\10\0\0\0path\0"),
        packet_of(ServerKind.APPEND, 1, b"\0\0\0\0path"),
        packet_of(ServerKind.APPEND, 1, b"\0\0\0\0\0data"),
        packet_of(ServerKind.APPEND, 1, b"\0\0\0\0" + b"p" * 4096 + b"\0"),
        packet_of(ServerKind.EXIT, 0, struct.pack("<iI", 256, 0)),
        packet_of(ServerKind.EXIT, 0, struct.pack("<iI", -65, 0)),
        packet_of(ServerKind.EXIT, 0, struct.pack("<iI", 0, 2)),
        packet_of(ServerKind.TIMES, 0, b"\0" * 4),
        packet_of(ServerKind.LEAVE, 1),
        packet_of(ServerKind.LEAVE, 0, b"x" * 4096),
        packet_of(ServerKind.GIVE, 0),
        packet_of(ServerKind.GIVE, 3),
        packet_of(ServerKind.GIVE, 1, b"x"),
    ],
)
def test_a_packet_that_breaks_a_rule_is_refused_by_a_client(packet):
    with pytest.raises(PeerProtocolError):
        decode_from_server(packet)


HEAD = struct.Struct("<IIQIII")


@pytest.mark.parametrize(
    "packet",
    [
        packet_of(0, 0),
        packet_of(13, 0),
        packet_of(ClientKind.REQUEST, 2, encode(REQUEST)[8:]),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0o1000, 0, 0, 1, 0, 0)),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 512, 0, 1, 0, 0)),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 0, 0, 0, 0, 0)),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 0, 0, (1 << 20) + 1, 0, 0)),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 0, 0, 1, (1 << 20) + 1, 0)),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 0, 0, 1, 0, 65) + b"\0" * 65 * 12),
        packet_of(ClientKind.REQUEST, 1, HEAD.pack(0, 0, 0, 1, 0, 1)),
        packet_of(ClientKind.INPUT, 1, b"x"),
        packet_of(ClientKind.INPUT, 2),
        packet_of(ClientKind.INPUT, 0, b"x" * 65537),
        packet_of(ClientKind.WRITTEN, 0, b"\1\0\0\0"),
        packet_of(ClientKind.WRITTEN, 1, b"\0\0\0\0"),
        packet_of(ClientKind.WRITTEN, 1, b"\1\2\4\0"),
        packet_of(ClientKind.SIGNAL, 9),
        packet_of(ClientKind.OUTPUT_FAILED, 1, b"\0\0\0\0"),
        packet_of(ClientKind.STARTED, 0, b"\1\0\0\0"),
        packet_of(ClientKind.STARTED, 1, b"\0\0\0\0"),
        packet_of(ClientKind.STARTED, 1, b"\0\0\0\x80"),
        packet_of(ClientKind.ENDED, 0, b"\0\0\0\0"),
        packet_of(ClientKind.APPENDED, 0, b"\xff\xff\xff\xff"),
        packet_of(ClientKind.PING, 1),
        packet_of(ClientKind.LEFT, 4),
        packet_of(ClientKind.LEFT, 0, b"x"),
        packet_of(ClientKind.GIVEN, 0, b"\0\0\0\0"),
        packet_of(ClientKind.GIVEN, 3, b"\0\0\0\0"),
        packet_of(ClientKind.GIVEN, 1, b"\3\0\0\0"),
    ],
)
def test_a_packet_that_breaks_a_rule_is_refused_by_a_server(packet):
    with pytest.raises(PeerProtocolError):
        decode_from_client(packet)


@given(st.integers(0, 18), st.integers(0, 1 << 31), st.binary(max_size=200))
def test_random_packets_are_read_or_refused(kind, value, payload):
    for decode in (decode_from_server, decode_from_client):
        for packet in (packet_of(kind, value % 5, payload), packet_of(kind, value, payload)):
            try:
                message = decode(packet)
            except PeerProtocolError:
                continue
            assert isinstance(message, wire.Cold) or encode(message) == packet


@pytest.mark.parametrize(
    "message",
    [
        wire.Output(1, b"x" * 65537),
        wire.Append(1, b"a\0b", b""),
        wire.Read(1 << 32),
        wire.Exit(1 << 40),
    ],
)
def test_what_no_packet_can_say_is_not_encoded(message):
    with pytest.raises(ValueError):
        encode(message)


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 20.0, float(1 << 40)])
def test_any_limit_in_seconds_fits_the_packets_that_tell_it(seconds):
    times = wire.Times.of_seconds(seconds, seconds)
    assert decode_from_server(encode(times)) == times
    assert times.liveness_ms == times.press_ms == min(max(1, int(seconds * 1000)), 0x7FFFFFFF)


def test_the_strings_of_a_request_are_as_they_were_given():
    arguments, variables = (b"yod", b"", b"\xff"), (b"A=1\n", b"")
    data = encode_strings(arguments, variables, b"/here")
    assert decode_strings(data, REQUEST.arguments, REQUEST.variables) == Strings(
        arguments, variables, b"/here"
    )
    with pytest.raises(ValueError):
        encode_strings((b"a\0",), (), b"")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"a\0b\0c\0d\0e\0",
        b"a\0b\0c\0d\0e\0f",
        b"a\0b\0c\0d\0e\0f\0g\0",
        b"x" * 5 + b"\0",
    ],
)
def test_strings_that_are_not_those_counted_are_refused(data):
    with pytest.raises(PeerProtocolError):
        decode_strings(data, REQUEST.arguments, REQUEST.variables)


def test_too_many_strings_are_refused():
    long = b"a\0b\0" + b"c" * wire.INVOCATION_MAX_BYTES + b"\0d\0e\0f\0"
    with pytest.raises(PeerProtocolError):
        decode_strings(long, REQUEST.arguments, REQUEST.variables)
    with pytest.raises(PeerProtocolError):
        decode_strings(b"a\0b\0c\0d\0e\0/" + b"x" * 4096 + b"\0", 2, 3)


def test_descriptors_come_with_three_kinds():
    with_some = {
        name: count
        for name, message in (FROM_SERVER | FROM_CLIENT).items()
        if (count := descriptors(message))
    }
    assert with_some == {"START": 3, "REQUEST": 2, "GIVEN": 1}
    assert descriptors(wire.Given(1, wire.Gift.NULL)) == 0
    assert descriptors(wire.Start(1)) == 2


def numbers(pattern: str) -> dict[str, int]:
    """Names and values in the header of C."""
    return {name: eval(value) for name, value in re.findall(pattern, HEADER)}


def test_the_header_of_c_has_the_same_numbers():
    assert numbers(r"\bSERVER_(\w+) = (\d+)") == {kind.name: kind.value for kind in ServerKind}
    assert numbers(r"\bCLIENT_(\w+) = (\d+)") == {kind.name: kind.value for kind in ClientKind}
    assert numbers(r"\bGIFT_(\w+) = (\d+)") == {gift.name: gift.value for gift in wire.Gift}
    assert numbers(r"define WIRE_(\w+) (0x\w+(?=u)|\d+|\([\d *<]+\))") == {
        "MAGIC": wire.MAGIC,
        "VERSION": wire.VERSION,
        "RELEASE_BYTES": wire.RELEASE_BYTES,
        "DATA_MAX": wire.DATA_MAX,
        "HEAD_BYTES": 8,
        "OUTPUT_WINDOW": wire.OUTPUT_WINDOW_BYTES,
        "STRINGS_MAX": wire.STRINGS_MAX,
        "INVOCATION_MAX": wire.INVOCATION_MAX_BYTES,
        "TEXT_MAX": 4096,
        "PATH_MAX": 4096,
        "NAMESPACES": len(wire.NAMESPACES),
    }
    assert numbers(r"define (\w+_(?:PORTALS|LOG|MORE|EMPTIES|DROP)) (\d)u") == {
        "START_PORTALS": wire.StartFlag.PORTALS,
        "APPEND_LOG": AppendFlag.LOG,
        "APPEND_MORE": AppendFlag.MORE,
        "APPEND_EMPTIES": AppendFlag.EMPTIES,
        "EXIT_DROP": wire.ExitFlag.DROP,
    }
    assert numbers(r"\bSTDIO_(\w+) = (\d+)") == {
        "SAME_OUTPUT": Stdio.SAME_OUTPUT,
        "STDIN_TERMINAL": Stdio.STDIN_TERMINAL,
        "STDIN_CLOSED": Stdio.STDIN_CLOSED,
        "STAND_IN": Stdio.STAND_IN,
        "YODJOB": Stdio.YODJOB,
    }
