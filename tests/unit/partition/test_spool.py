"""The output of a detached job on the disk: in order, the middle dropped with a mark."""

from __future__ import annotations

import os
import random

import pytest

from native.wire import codec
from native.wire.attach import SpooledOutput
from native.wire.base import DATA_MAX
from native.wire.io import OUTPUT_MAX_BYTES
from partition.attach import spool
from partition.attach.spool import FILES_MAX, SPOOLS_MAX, Spool

SMALL = 1  # bytes: each file has one piece at least


@pytest.fixture
def written(tmp_path) -> Spool:
    made = spool.make(str(tmp_path), "17@here", 1 << 20)
    yield made
    made.close()


def all_of(read: Spool) -> list[tuple[int, int, bytes]]:
    cursor, pieces = read.cursor(), []
    while (piece := cursor.read()) is not None:
        pieces.append(tuple(piece))
    return pieces


def test_what_was_written_is_read_in_order_with_its_stream(written):
    for stream, data in ((1, b"out"), (2, b"err"), (1, b"more")):
        written.write(stream, data)
    assert all_of(written) == [(0, 1, b"out"), (3, 2, b"err"), (6, 1, b"more")]
    assert written.size == 10


def test_a_reader_goes_on_where_it_was_when_more_is_written(written):
    cursor = written.cursor()
    assert cursor.read() is None
    written.write(1, b"a")
    assert cursor.read().data == b"a"
    assert cursor.read() is None
    written.write(2, b"b")
    assert tuple(cursor.read()) == (1, 2, b"b")


def test_another_process_reads_it_after_the_end(written, tmp_path):
    written.write(1, b"all")
    written.close()
    later = Spool(spool.directory(str(tmp_path), "17@here"), 1 << 20)
    assert all_of(later) == [(0, 1, b"all")]
    later.close()


def test_long_pieces_do_not_exceed_the_limit_and_no_line_is_torn(tmp_path):
    made = spool.make(str(tmp_path), "17@here", FILES_MAX * DATA_MAX)
    line = b"0123456789abcdef" * 5 + b"\n"
    for _ in range(20):
        made.write(1, line * (OUTPUT_MAX_BYTES // len(line)))
    pieces = all_of(made)
    assert sum(len(data) for _, _, data in pieces) <= FILES_MAX * DATA_MAX
    assert all(len(data) % len(line) == 0 == offset % len(line) for offset, _, data in pieces)
    assert pieces[-1][0] + len(pieces[-1][2]) == made.size
    made.close()


def test_a_line_that_is_longer_than_a_file_is_kept_in_parts(tmp_path):
    made = spool.make(str(tmp_path), "17@here", SMALL)
    data = os.urandom(OUTPUT_MAX_BYTES).replace(b"\n", b" ")
    made.write(1, data)
    assert b"".join(data for _, _, data in all_of(made)) == data
    made.close()


@pytest.mark.parametrize("limit_bytes", [SMALL, 64 << 20])
def test_each_piece_that_is_read_can_be_sent_to_a_terminal(tmp_path, limit_bytes):
    made = spool.make(str(tmp_path), "17@here", limit_bytes)
    data = b"0123456\n" * (OUTPUT_MAX_BYTES // 8)
    made.write(1, data)
    made.write(2, bytes(OUTPUT_MAX_BYTES))  # no line in it
    pieces = all_of(made)
    made.close()
    for offset, stream, piece in pieces:
        message = SpooledOutput(17, offset, stream, piece)
        assert codec.decode(codec.encode(message)) == message
    assert b"".join(piece for _, _, piece in pieces) == data + bytes(OUTPUT_MAX_BYTES)


def test_a_full_spool_keeps_the_beginning_and_the_end(tmp_path):
    made = spool.make(str(tmp_path), "17@here", SMALL)
    piece = bytes(DATA_MAX)
    for number in range(4 * FILES_MAX):
        made.write(1, bytes([number]) + piece[1:])
    first, second, *_, last = all_of(made)
    assert (first[0], first[2][0]) == (0, 0)
    assert second[0] > DATA_MAX  # a gap
    assert (last[0], last[2][0]) == (made.size - DATA_MAX, 4 * FILES_MAX - 1)
    assert len(os.listdir(tmp_path / "spool" / "17@here")) <= FILES_MAX
    made.close()


@pytest.mark.parametrize("seed", range(20))
def test_readers_at_any_pace_get_each_byte_once_and_in_order(tmp_path, seed):
    luck = random.Random(seed)
    made = spool.make(str(tmp_path), "17@here", luck.choice((SMALL, 1 << 20)))
    whole = bytearray()
    cursors = [(made.cursor(), []) for _ in range(3)]
    for _ in range(200):
        if luck.random() < 0.5:
            data = luck.randbytes(luck.choice((1, 100, DATA_MAX)))
            made.write(luck.choice((1, 2)), data)
            whole += data
        cursor, pieces = luck.choice(cursors)
        if (piece := cursor.read()) is not None:
            pieces.append(piece)
    for cursor, pieces in cursors:
        while (piece := cursor.read()) is not None:
            pieces.append(piece)
        ends = [0, *(piece.end for piece in pieces)]
        for piece, end in zip(pieces, ends, strict=False):
            assert piece.offset >= end
            assert piece.data == whole[piece.offset : piece.end]
        assert ends[-1] == len(whole)
    made.close()


def test_what_cannot_be_written_is_a_gap(written, monkeypatch):
    written.write(1, b"before")
    with monkeypatch.context() as full:
        full.setattr(spool, "write_whole", lambda fd, data: (_ for _ in ()).throw(OSError(28, "")))
        written.write(1, b"lost")
    written.write(1, b"after")
    assert all_of(written) == [(0, 1, b"before"), (10, 1, b"after")]


def test_of_many_spools_the_oldest_go(tmp_path):
    for number in range(SPOOLS_MAX + 3):
        made = spool.make(str(tmp_path), f"{number}@here", SMALL)
        made.close()
        os.utime(tmp_path / "spool" / f"{number}@here", (number, number))
    left = {int(name.partition("@")[0]) for name in os.listdir(tmp_path / "spool")}
    assert left == set(range(3, SPOOLS_MAX + 3))
