"""FRAMES.md: every example is what the fields it names give, and what C takes."""

from __future__ import annotations

import re
import select
import socket
from hashlib import blake2b
from pathlib import Path
from struct import pack

import pytest

from native.auth import mac
from native.ids import PortalId
from native.port.portals import PortalsPort
from native.wire import codec
from native.wire.io import InputCredit
from tests.support.ports import FRAME, HELLO, LOOPBACK, TEST_KEY, RawPeer, pump

TEXT = (Path(__file__).parents[2] / "native" / "wire" / "FRAMES.md").read_text()
INCARNATION = 0x1122334455667788
LITTLE_ENDIAN_X86 = 0x00400100  # offers: 64 mantissa bits


def examples() -> list[bytes]:
    """The hex blocks of FRAMES.md, in order."""
    blocks = re.findall(r"(?m)(?:^ {4}[0-9a-f]{2}(?: [0-9a-f]{2})*\n)+", TEXT)
    return [bytes.fromhex(block) for block in blocks]


def hello(message: int, version: int, own: PortalId, incarnation: int, other: PortalId) -> bytes:
    nonce = bytes([0xAA if message == 1 else 0xBB]) * 32
    uid = 1000 if message == 1 else 0
    fields = (message, 1, 1, version, 1, uid, 0, 0, *own, incarnation, *other, LITTLE_ENDIAN_X86)
    return HELLO.pack(b"YODT", *fields, nonce)


def frame(type_: int, *, payload: bytes = b"", **fields: int) -> bytes:
    names = ("flags", "kind", "lane", "pt_index", "detail", "length", "incarnation")
    names += ("op_index", "op_generation", "operation", "datatype", "fragment")
    names += ("total", "match_bits", "offset", "hdr_data")
    assert fields.keys() <= set(names)
    values = {"incarnation": INCARNATION & 0xFFFFFFFF, "length": len(payload)} | fields
    return FRAME.pack(type_, 1, *(values.get(name, 0) for name in names)) + payload


def sealed(exchange: bytes, header: bytes, payload: bytes) -> bytes:
    """The dialler's first frame, with integrity."""
    session = mac(TEST_KEY, "yod.c2s", blake2b(exchange, digest_size=32).digest())
    tags = [
        mac(session, "yod.frame", pack("<Q", n) + part) for n, part in ((0, header), (1, payload))
    ]
    return header + tags[0][:16] + payload + tags[1][:16]


def expected() -> list[bytes]:
    dialler, listener = PortalId(LOOPBACK, 74565), PortalId(LOOPBACK, 7000)
    m1 = hello(1, 0, dialler, INCARNATION, listener)
    m2 = hello(2, 1, listener, 0x99AABBCCDDEEFF00, dialler)
    m2 += mac(TEST_KEY, "yod.listener", m1 + m2)
    m3 = b"YODT\3\0\0\0" + mac(TEST_KEY, "yod.dialler", m1 + m2)
    session = mac(TEST_KEY, "yod.s2c", blake2b(m1 + m2 + m3, digest_size=32).digest())
    m4 = b"YODT\4\0\1\1"
    bulk = {"lane": 2, "pt_index": 1, "detail": 1, "op_index": 4, "op_generation": 9}
    bulk |= {"total": 1_000_000, "match_bits": 5 << 16 | 1}
    small = {"op_index": 3, "op_generation": 1}
    data = {"lane": 1, "pt_index": 2, "op_index": 6, "op_generation": 1}
    near = data | {"offset": 40, "match_bits": 7}
    add = {"kind": 2, "operation": 2, "datatype": 4, "flags": 3, "match_bits": 7}
    swap = {"operation": 11, "datatype": 9, "flags": 3, "match_bits": 7}
    return [
        m1,
        m2,
        m3,
        m4 + mac(session, "yod.ready", m4),
        b"YODT\4\2\1\1" + bytes(32),
        frame(1, payload=b"\x92\xc0\x01", flags=7, detail=1, total=3, **small),
        frame(1, flags=1, length=262144, offset=3_000_000, **bulk),
        frame(1, flags=2, length=213568, fragment=3, offset=786432, **bulk),
        frame(5, total=3, **small),
        frame(5, detail=3, **small),
        frame(5, detail=8, total=3, **small),
        frame(2, kind=1, total=8, offset=40, flags=3, match_bits=7, **data),
        frame(6, payload=bytes(range(1, 9)), flags=3, total=8, offset=40, **data),
        frame(6, flags=3, detail=2, **data),
        frame(3, payload=pack("<ii", 1, 2), total=8, hdr_data=9, detail=2, **add, **data),
        frame(4, payload=pack("<QQ", 5, 6), total=8, offset=40, **swap, **data),
        frame(7),
        frame(8),
        frame(9),
        frame(10, detail=1, total=262144),
        sealed(
            m1 + m2 + m3, frame(1, flags=19, detail=1, length=3, total=3, **near), b"\x92\xc0\x01"
        ),
    ]


def test_the_examples_are_what_their_fields_give() -> None:
    assert examples() == expected()


def test_the_listener_says_what_frames_md_says() -> None:
    """m1 of the page, to a real port: the tag of its m2 proves the same key over the same bytes."""
    with_any = bytearray(examples()[0])
    with_any[48:56] = b"\xff" * 8  # the port is not 7000
    with socket.socket() as raw:
        port = PortalsPort(listen="127.0.0.1:0", partition_key=TEST_KEY, uid=0)
        try:
            raw.connect(("127.0.0.1", port.id.pid))
            raw.sendall(with_any)
            m2 = b""
            while len(m2) < 128:
                if port in select.select([raw, port], [], [], 10)[0]:
                    port.events()
                    continue
                m2 += raw.recv(128 - len(m2))
        finally:
            port.close(flush_s=0)
    page = examples()[1]
    own, incarnation = m2[32:40], m2[40:48]
    ours = page[:32] + own + incarnation + page[48:56] + m2[56:60] + page[60:64] + m2[64:96]
    assert m2[:96] == ours
    assert m2[96:] == mac(TEST_KEY, "yod.listener", bytes(with_any) + m2[:96])


@pytest.mark.parametrize("number", [5, 16])
def test_the_port_takes_the_frames_of_the_page(number: int) -> None:
    """Put (its payload is no message) and ping, from a peer with the page's incarnation."""
    port = PortalsPort(listen="127.0.0.1:0", partition_key=TEST_KEY)
    try:
        raw = RawPeer(port, own=PortalId(LOOPBACK, 74565), incarnation=INCARNATION)
        assert raw.shake(port) == 0
        raw.send(examples()[number])
        answer = FRAME.unpack(raw.take(port, 64))
        assert answer[0] == (5 if number == 5 else 8)
        if number == 5:
            (refused,) = raw.events
            assert refused.source == PortalId(LOOPBACK, 74565)
            assert (answer[9], answer[10], answer[14]) == (3, 1, 3)
        port.send(PortalId(LOOPBACK, 74565), InputCredit(1, 1))
        assert FRAME.unpack(raw.take(port, 64))[:8] == (1, 1, 7, 0, 0, 0, 1, answer_length())
        port.disconnect(PortalId(LOOPBACK, 74565))
        pump([port], lambda _: True)
        raw.close()
    finally:
        port.close(flush_s=0)


def answer_length() -> int:
    """Bytes of the message that the port sends back."""
    return len(codec.encode(InputCredit(1, 1)))
