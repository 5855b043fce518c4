"""Directories that travel: what is packed, what goes back, and that nothing leaves."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile

import pytest

from native.errors import YodError
from yod.pilot.files.archive import MODULE, pack, pack_file, unpack, unpack_file


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "source"
    (directory / "sub").mkdir(parents=True)
    (directory / "a").write_text("a")
    (directory / "sub/b").write_text("b")
    (directory / "link").symlink_to(directory / "a")
    os.mkfifo(directory / "pipe")
    return directory


def run(*words, data=b""):
    return subprocess.run(
        [sys.executable, "-P", "-m", MODULE, *map(str, words)],
        input=data,
        capture_output=True,
        check=False,
    )


def test_files_and_directories_travel_and_links_as_what_they_lead_to(source, tmp_path):
    path, target = str(tmp_path / "file"), tmp_path / "target"
    digest, failure = pack_file(str(source), path, ("a",))
    assert failure == ""
    assert unpack_file(path, str(target), digest) == ""
    assert sorted(os.listdir(target)) == ["link", "sub"]
    assert (target / "sub/b").read_text() == "b"
    assert not (target / "link").is_symlink() and (target / "link").read_text() == "a"
    assert not os.path.exists(path)


def test_a_directory_that_is_not_there_is_an_empty_one(tmp_path):
    path, target = str(tmp_path / "file"), tmp_path / "target"
    digest, failure = pack_file(str(tmp_path / "none"), path)
    assert (failure, unpack_file(path, str(target), digest)) == ("", "")
    assert os.listdir(target) == []


def test_what_is_not_what_was_sent_is_found_at_both_ends(source, tmp_path):
    path = tmp_path / "file"
    pack_file(str(source), str(path))
    data = path.read_bytes()
    assert "digests differ" in unpack_file(str(path), str(tmp_path / "here"), "0" * 64)
    there = tmp_path / "there"
    done = run("put", there, "0" * 64, data=data)
    assert done.returncode == 1 and b"digests differ" in done.stderr
    assert not there.exists()
    done = run("put", there, "0" * 64, data=data[: len(data) // 3])
    assert done.returncode == 1 and not there.exists()


def test_what_was_brought_goes_back_only_where_it_was_changed(source, tmp_path):
    stream = io.BytesIO()
    digest = pack(str(source), stream)
    there, back = tmp_path / "there", tmp_path / "back"
    assert run("put", there, digest, data=stream.getvalue()).returncode == 0
    (there / "sub/b").write_text("changed")
    (there / "new").write_text("new")
    done = run("get", there, "remove")
    (tmp_path / "file").write_bytes(done.stdout)
    assert unpack_file(str(tmp_path / "file"), str(back), done.stderr.decode().strip()) == ""
    assert sorted(os.listdir(back)) == ["new", "sub"]
    assert (back / "sub/b").read_text() == "changed"
    assert sorted(os.listdir(tmp_path)) == ["back", "source"]


@pytest.mark.parametrize("has_filter", [True, False])
@pytest.mark.parametrize("kind", ["../evil", "link", "pipe"])
def test_an_archive_does_not_leave_its_directory(tmp_path, monkeypatch, kind, has_filter):
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo(kind)
        if kind == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "../../etc"
        elif kind == "pipe":
            member.type = tarfile.FIFOTYPE
        archive.addfile(member)
    (tmp_path / "in").mkdir()
    with tarfile.open(path) as archive, pytest.raises((YodError, tarfile.TarError)):
        unpack(archive, str(tmp_path / "in"))
    assert os.listdir(tmp_path / "in") == []
    assert not (tmp_path / "evil").exists()


def test_a_link_in_the_way_is_not_followed_out(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "in/a").symlink_to(tmp_path / "outside")
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_text("other")
    path = str(tmp_path / "file")
    digest, _ = pack_file(str(tmp_path / "source"), path)
    assert unpack_file(path, str(tmp_path / "in"), digest)
    assert (tmp_path / "outside").read_text() == "outside"
