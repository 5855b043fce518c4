"""Programs and load files: where they are looked for, how they are told apart."""

import hashlib
import os

import pytest

from native.errors import ProgramNotExecutableError, ProgramNotFoundError, UsageError
from native.wire.load import ShippedObject
from tests.support.invocations import invocation
from yod.program import image


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory, and two directories of the search path beside it."""
    for name in ("here", "first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second")
    return tmp_path


def find(word, directory=""):
    return image.find(word, invocation(dict(os.environb)), directory)


@pytest.fixture
def as_user(monkeypatch):
    """Permissions count, though root runs the tests: what the mode says is what is allowed."""
    monkeypatch.setattr(
        os, "access", lambda path, wanted: bool(os.stat(path).st_mode & wanted << 6)
    )


def put(path, content=b"#!/bin/sh\n", mode=0o755):
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


# -- where -----------------------------------------------------------------


def test_an_executable_of_the_current_directory_comes_before_the_search_path(here):
    mine = put(here / "here" / "prog")
    put(here / "first" / "prog")
    assert find("prog") == mine


def test_the_search_path_is_searched_in_order(here):
    put(here / "second" / "prog")
    assert find("prog") == str(here / "second" / "prog")
    put(here / "first" / "prog")
    assert find("prog") == str(here / "first" / "prog")


def test_what_cannot_be_executed_is_passed_over_in_the_search_path(here):
    put(here / "first" / "prog", mode=0o644)
    (here / "second" / "prog").mkdir()
    with pytest.raises(ProgramNotFoundError):
        find("prog")
    last = put(here / "here" / "prog.x")
    assert find("prog.x") == last


def test_a_load_file_of_the_current_directory_comes_last(here):
    load_file = put(here / "here" / "farm", b"a.out\n", 0o644)
    assert find("farm") == load_file
    program = put(here / "second" / "farm")
    assert find("farm") == program


def test_a_word_with_a_slash_is_a_path(here):
    put(here / "first" / "prog")
    with pytest.raises(ProgramNotFoundError, match=r"^\./prog: no such program or load file$"):
        find("./prog")
    mine = put(here / "here" / "prog")
    assert find("./prog") == find("../here/prog") == find(mine) == mine


def test_an_empty_entry_of_the_search_path_is_the_current_directory(here, monkeypatch):
    monkeypatch.setenv("PATH", f"{here}/first::")
    assert find(os.path.basename(put(here / "here" / "prog"))) == f"{here}/here/prog"


def test_what_is_nowhere_is_told_with_where_was_looked(here):
    with pytest.raises(ProgramNotFoundError) as caught:
        find("prog")
    assert caught.value.exit_status == 127
    assert str(caught.value) == (
        "prog: no such program in PATH, no program or load file in the current directory"
    )


# -- program or load file --------------------------------------------------


def test_execute_permission_tells_a_program_from_a_load_file(here, as_user):
    assert not image.is_load_file(put(here / "prog", b"a.out\n", 0o755))
    assert image.is_load_file(put(here / "farm", b"a.out\n", 0o644))
    assert image.is_load_file(put(here / "empty", b"", 0o644))


@pytest.mark.parametrize(
    ("content", "kind"), [(b"#!/bin/sh\nls\n", "script"), (b"\x7fELF\x02\x01", "program")]
)
def test_a_program_without_permission_is_no_load_file(here, as_user, content, kind):
    path = put(here / "prog", content, 0o644)
    with pytest.raises(ProgramNotExecutableError) as caught:
        image.is_load_file(path)
    assert str(caught.value) == f"{path}: this {kind} has no execute permission; chmod +x {path}"
    assert caught.value.exit_status == 126


def test_a_directory_or_a_pipe_is_neither(here):
    with pytest.raises(ProgramNotExecutableError, match=r"/first: a directory$"):
        image.is_load_file(str(here / "first"))
    os.mkfifo(here / "pipe")
    with pytest.raises(ProgramNotExecutableError, match=r"/pipe: not a regular file$"):
        image.is_load_file(str(here / "pipe"))


def test_a_load_file_is_text_of_bounded_size(here, monkeypatch):
    assert image.read_load_file(put(here / "farm", "a.out é\n".encode(), 0o644)) == "a.out é\n"
    with pytest.raises(UsageError, match="neither an executable program nor a load file"):
        image.read_load_file(put(here / "binary", b"\xff\xfe\x00", 0o644))
    monkeypatch.setattr(image, "LOAD_FILE_MAX_BYTES", 10)
    assert len(image.read_load_file(put(here / "full", b"x" * 10, 0o644))) == 10
    with pytest.raises(UsageError, match="larger than 10 bytes: not a load file"):
        image.read_load_file(put(here / "large", b"x" * 11, 0o644))


# -- measure ---------------------------------------------------------------


def test_a_program_is_measured_with_size_digest_and_mode(here):
    path = put(here / "prog", b"x" * 5000, 0o750)
    digest = hashlib.blake2b(b"x" * 5000, digest_size=32).digest()
    assert image.measure(path, True) == ShippedObject(path.encode(), 5000, digest, 0o750)


def test_a_program_that_is_not_shipped_is_not_read(here):
    path = put(here / "prog", b"x" * 5000, 0o111)
    assert image.measure(path, False) == ShippedObject(path.encode(), 5000, b"", 0o111)


def test_a_program_that_cannot_be_executed_is_refused(here, as_user):
    path = put(here / "prog", mode=0o644)
    with pytest.raises(ProgramNotExecutableError) as caught:
        image.measure(path, True)
    assert str(caught.value) == f"{path}: no execute permission; chmod +x {path}"
    with pytest.raises(ProgramNotExecutableError, match="not a regular file"):
        image.measure(str(here / "first"), True)


def test_a_program_that_cannot_be_read_cannot_be_shipped(here, monkeypatch):
    path = put(here / "prog")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(image, "digest_of", refuse)
    with pytest.raises(ProgramNotExecutableError) as caught:
        image.measure(path, True)
    assert str(caught.value) == f"{path}: cannot be read to be shipped: permission denied"


def test_a_name_that_is_no_text_is_kept_as_bytes(here):
    path = os.fsdecode(os.fsencode(str(here)) + b"/caf\xe9")
    with open(path, "wb") as file:
        file.write(b"x")
    os.chmod(path, 0o755)
    assert image.measure(path, False).path.endswith(b"/caf\xe9")
