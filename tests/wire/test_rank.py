"""What a rank that uses Portals is given: RANK.md, its writer, and its reader's test vector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from native.auth import NEVER
from native.errors import PeerProtocolError
from native.ids import PortalId
from native.wire import rank

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "native" / "wire" / "RANK.md").read_text()
READERS_TEST = (ROOT / "tests" / "c" / "test_rank_reads_its_key_and_map.c").read_text()

SECRET = bytes(range(0x20, 0x40))
IDS = (PortalId(0x0A000005, 40001), PortalId(0x0A000005, 40002), PortalId(0x0A000006, 38777))
FILE = rank.RankFile(4711, 1000, SECRET, IDS)


def encoded() -> bytes:
    ids = rank.encode_map((each.nid for each in IDS), [each.pid for each in IDS])
    return rank.encode(4711, 1000, SECRET, ids)


def vector() -> bytes:
    (block,) = re.findall(r"^```\n(.*?)\n```$", PAGE, re.M | re.S)
    return bytes.fromhex(block)


def test_the_page_s_example_is_what_is_written_and_read():
    assert encoded() == vector()
    assert rank.decode(vector()) == FILE
    assert FILE.expires == NEVER


def test_the_reader_in_c_is_tested_with_the_page_s_example():
    (literal,) = re.findall(r"VECTOR\[\] =((?:\s*\"[0-9a-f]*\")+);", READERS_TEST)
    assert bytes.fromhex("".join(re.findall(r"[0-9a-f]{2,}", literal))) == vector()


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 20])
def test_a_file_of_another_kind_is_refused(offset):
    data = bytearray(vector())
    data[offset] ^= 0x10
    with pytest.raises(PeerProtocolError):
        rank.decode(bytes(data))


def test_every_truncation_is_refused_and_what_follows_too():
    for length in range(len(vector())):
        with pytest.raises(PeerProtocolError):
            rank.decode(vector()[:length])
    with pytest.raises(PeerProtocolError):
        rank.decode(vector() + b"\0" * rank.ENTRY.size)
