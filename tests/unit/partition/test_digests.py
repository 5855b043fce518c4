"""Digests of a checkpoint's files, and what a restart refuses by them."""

from __future__ import annotations

import hashlib
import os

import pytest
from msgspec import json
from msgspec.structs import replace
from xxhash import xxh3_128

from native.wire.alloc import NodeSpec
from partition.checkpoint import digests, files, finding
from partition.checkpoint.collecting import record
from partition.checkpoint.committing import commit

PIECE = 1000  # bytes; the last piece of a file is shorter
CONTENTS = {"images": bytes(range(256)) * 10, "empty": b"", "saved": b"x"}


@pytest.fixture
def pieces(monkeypatch):
    """Small pieces, and a thread for each."""
    monkeypatch.setattr(digests, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(digests, "_OF_A_THREAD_BYTES", PIECE)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4))


@pytest.fixture
def checkpoint(pieces, tmp_path):
    """The path of a whole checkpoint of two ranks."""
    here = tmp_path / "collecting"
    for rank in (0, 1):
        for name, content in CONTENTS.items():
            path = here / f"rank.{rank}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    found, _ = record(0, [0, 1], str(here), 1)
    files.write(str(here / files.node_file(0)), found)
    spec = NodeSpec(size=2)
    recipe = files.Recipe("a.out", "/", (files.RecipeMember(("a.out",), spec),), "", "none", "2")
    return commit(recipe, 1, 0, str(tmp_path), "collecting")[1]


def blake2(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def in_pieces(content: bytes, hashed=hashlib.sha256) -> str:
    cut = [content[begin : begin + PIECE] for begin in range(0, len(content), PIECE)]
    return hashed(b"".join(hashed(each).digest() for each in cut)).hexdigest()


EARLIER = {1: blake2, 2: in_pieces}  # digests by the version of the manifest
VERSIONS = pytest.mark.parametrize("version", files.VERSIONS)


def as_version(version: int, path: str) -> None:
    """Make a checkpoint what an earlier yod has written."""
    if version == files.VERSION:
        return
    name = os.path.join(path, files.node_file(0))
    found, _ = files.read(name, files.NodeRecord)
    ranks = []
    for rank in found.ranks:
        below = os.path.join(path, files.rank_directory(rank.rank))
        own = []
        for file in rank.files:
            with open(os.path.join(below, file.name), "rb") as opened:
                digest = EARLIER[version](opened.read())
            own.append(replace(file, digest=digest))
        ranks.append(replace(rank, files=tuple(own)))
    digest = files.write(name, replace(found, ranks=tuple(ranks)))
    name = os.path.join(path, files.MANIFEST)
    manifest, _ = files.read(name, files.Manifest)
    files.write(name, replace(manifest, version=version, nodes={files.node_file(0): digest}))


def test_the_digest_of_a_file_is_that_of_the_digests_of_its_pieces(pieces, tmp_path):
    path = tmp_path / "images"
    content = CONTENTS["images"]
    path.write_bytes(content)
    found = digests.of_files([str(path)], is_synced=True)
    assert found == [(len(content), in_pieces(content, xxh3_128))]
    assert digests.copied(str(path), str(tmp_path / "copy")) == found[0]


def test_many_files_are_measured_in_their_order(pieces, tmp_path):
    paths = [tmp_path / str(number) for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d" % number * 100 * number)
    together = digests.of_files([str(path) for path in paths])
    assert together == [digests.of_files([str(path)])[0] for path in paths]
    assert len(set(together)) == len(paths)


def test_a_file_that_cannot_be_read_is_named(pieces, tmp_path):
    (tmp_path / "whole").write_bytes(b"x" * 10 * PIECE)
    (tmp_path / "directory").mkdir()
    paths = [str(tmp_path / name) for name in ("whole", "directory")]
    with pytest.raises(IsADirectoryError) as raised:
        digests.of_files(paths)
    assert raised.value.filename == paths[1]


@VERSIONS
def test_a_checkpoint_is_read_as_it_was_written(checkpoint, version):
    as_version(version, checkpoint)
    assert finding.newest(checkpoint)[0] == checkpoint


@VERSIONS
@pytest.mark.parametrize("place", [0, PIECE - 1, PIECE, len(CONTENTS["images"]) - 1])
def test_a_byte_that_was_changed_anywhere_is_found(checkpoint, version, place):
    as_version(version, checkpoint)
    path = os.path.join(checkpoint, "rank.1", "images")
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(files.BrokenError, match=r"rank\.1/images: changed since it was written"):
        finding.newest(checkpoint)


def test_pieces_that_have_changed_places_are_found(checkpoint):
    path = os.path.join(checkpoint, "rank.0", "images")
    content = CONTENTS["images"]
    with open(path, "wb") as file:
        file.write(content[PIECE : 2 * PIECE] + content[:PIECE] + content[2 * PIECE :])
    with pytest.raises(files.BrokenError, match=r"rank\.0/images: changed"):
        finding.newest(checkpoint)


@pytest.mark.parametrize("bytes_left", [0, PIECE, 2 * PIECE + 1])
def test_a_file_that_was_cut_off_is_named(checkpoint, bytes_left):
    os.truncate(os.path.join(checkpoint, "rank.1", "images"), bytes_left)
    with pytest.raises(files.BrokenError, match=r"rank\.1/images: changed"):
        finding.newest(checkpoint)


def test_a_file_that_is_gone_is_named(checkpoint):
    os.unlink(os.path.join(checkpoint, "rank.1", "saved"))
    with pytest.raises(files.BrokenError, match=r"rank\.1/saved: No such file"):
        finding.newest(checkpoint)


def test_a_checkpoint_of_a_later_yod_is_refused(checkpoint):
    name = os.path.join(checkpoint, files.MANIFEST)
    with open(name, "rb") as file:
        manifest = json.decode(file.read())
    manifest["version"] = files.VERSION + 1
    with open(name, "wb") as file:
        file.write(json.encode(manifest))
    assert finding.look(checkpoint).trouble.endswith(f"of version {files.VERSION + 1}")


def test_a_record_whose_name_in_hex_is_none_is_broken(tmp_path):
    record = files.NodeRecord(0, (files.RankRecord(0, (files.File.at("\udce9", 1, ""),)),))
    path = tmp_path / "record"
    files.write(str(path), record)
    assert files.read(str(path), files.NodeRecord)[0] == record
    path.write_bytes(path.read_bytes().replace(b'"e9"', b'"soon"'))
    with pytest.raises(files.BrokenError):
        files.read(str(path), files.NodeRecord)
