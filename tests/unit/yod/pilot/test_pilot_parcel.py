"""Files that travel with calls, and addresses that go before them."""

from __future__ import annotations

import importlib
import os
import socket
import sys

import pytest

from yod.pilot.agent.doors import Doors
from yod.pilot.files.parcel import TooLarge, open_parcel, parcel_of, remove, take_parcel
from yod.pilot.function import codec
from yod.pilot.function.worker import Worker
from yod.pilot.wire.calls import Call


@pytest.fixture
def here(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def test_a_directory_that_has_nothing_is_no_parcel(here):
    assert parcel_of(str(here), 100_000) == b""
    assert parcel_of(str(here / "none"), 100_000) == b""
    (here / "out").touch()
    assert parcel_of(str(here), 100_000, ("out",)) == b""


def test_what_was_brought_stays_and_what_was_left_goes_back(here, tmp_path):
    (here / "in").write_text("in")
    there, back = tmp_path / "there", tmp_path / "back"
    assert take_parcel(parcel_of(str(here), 100_000), str(there)) == ""
    (there / "out").write_text("out")
    assert open_parcel(parcel_of(str(there), 100_000), str(back)) == ""
    assert os.listdir(back) == ["out"]
    remove(str(there))
    assert sorted(os.listdir(tmp_path)) == ["back", "here"]


def test_files_of_several_ranks_grow_where_they_are_shared(here, tmp_path):
    (here / "out").write_text("one\n")
    (here / "own").write_text("own")
    parcel = parcel_of(str(here), 100_000)
    target = tmp_path / "target"
    assert [open_parcel(parcel, str(target), ("out", "err")) for _ in range(2)] == ["", ""]
    assert (target / "out").read_text() == "one\none\n"
    assert (target / "own").read_text() == "own"


def test_a_parcel_that_is_too_large_is_refused_with_the_limit(here):
    (here / "large").write_bytes(bytes(200_000))
    with pytest.raises(TooLarge, match="more than 100000 bytes"):
        parcel_of(str(here), 100_000)


def test_what_is_no_parcel_and_a_link_in_the_way_are_told(here, tmp_path):
    assert open_parcel(b"nothing", str(tmp_path / "target"))
    (here / "out").write_text("text")
    parcel = parcel_of(str(here), 100_000)
    target = tmp_path / "target"
    (target / "out").symlink_to(tmp_path / "elsewhere")
    assert "out" in open_parcel(parcel, str(target), ("out",))
    assert not (tmp_path / "elsewhere").exists()


def write(name, text):
    with open(name, "w", encoding="ascii") as file:
        file.write(text)


@pytest.fixture
def worker():
    ends = socket.socketpair()
    yield Worker(ends[0], 50_000)
    for end in ends:
        end.close()


def test_a_worker_returns_what_a_call_has_left_and_keeps_nothing(worker, tmp_path):
    directory = str(tmp_path / "call")
    call = Call(1, codec.pack_call(write, ("left", "text"), {}), directory, carries=True)
    answer = worker._do(call)
    assert (answer.exception, answer.left) == ("", "")
    assert not os.path.exists(directory)
    assert open_parcel(answer.files, directory) == ""
    assert os.listdir(directory) == ["left"]


def test_a_worker_keeps_what_is_too_large_to_be_returned_and_says_so(worker, tmp_path):
    directory = str(tmp_path / "call")
    call = Call(1, codec.pack_call(write, ("left", "x" * 60_000), {}), directory, carries=True)
    answer = worker._do(call)
    assert answer.files == b""
    assert answer.left == "what it has left is more than 50000 bytes (YOD_CALL_BYTES)"
    assert os.listdir(directory) == ["left"]


def test_a_call_that_cannot_be_given_raises_why(worker):
    answer = worker._do(Call(1, codec.pack_refusal("its input is lost")))
    assert answer.exception == "YodError('its input is lost')"


def test_a_module_that_a_node_lacks_is_named_with_what_to_do(monkeypatch, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "only_here.py").write_text("def six():\n    return 6\n")
    with monkeypatch.context() as own:
        own.syspath_prepend(str(there))
        only_here = importlib.import_module("only_here")
        payload = codec.pack_call(only_here.six, (), {})
    del sys.modules["only_here"]
    there.rename(tmp_path / "gone")
    with pytest.raises(ModuleNotFoundError) as caught:
        codec.unpack_call(payload)
    assert "cloudpickle.register_pickle_by_value(only_here)" in caught.value.__notes__[0]
    assert str(there) in caught.value.__notes__[0]


class Runs:
    """What has been run on nodes."""

    def __init__(self):
        self.all = []
        self.doors = Doors(lambda _words, data, nodes, then: self.all.append((data, nodes, then)))

    def end(self, failure=""):
        self.all.pop(0)[2](failure)


def test_an_address_goes_to_each_node_once_and_all_who_wait_for_it_go_on(tmp_path):
    (tmp_path / "sock.tcp").write_text("host 1 key")
    path, runs, told = str(tmp_path / "sock"), Runs(), []
    runs.doors.bring([path], [0, 1], told.append)
    runs.doors.bring([path], [1], told.append)
    runs.doors.bring([path], [1, 2], told.append)
    assert [(data, nodes) for data, nodes, _ in runs.all] == [
        (b"host 1 key", [0, 1]),
        (b"host 1 key", [2]),
    ]
    runs.end()
    assert told == ["", ""]
    runs.end()
    assert told == ["", "", ""]
    runs.doors.bring([path], [0, 2], told.append)
    assert (told.pop(), runs.all) == ("", [])
    (tmp_path / "sock.tcp").write_text("host 2 other")
    runs.doors.bring([path], [0], told.append)
    assert runs.all[0][0] == b"host 2 other"


def test_an_address_that_cannot_go_fails_those_who_need_it_and_is_tried_again(tmp_path):
    (tmp_path / "sock.tcp").write_text("host 1 key")
    path, runs, told = str(tmp_path / "sock"), Runs(), []
    runs.doors.bring([path], [0], told.append)
    runs.doors.bring([path, str(tmp_path / "none")], [0], told.append)
    runs.end("no space")
    assert told == ["no space", "no space"]
    runs.doors.bring([path, str(tmp_path / "none")], [0], told.append)
    runs.end()
    assert told[2].endswith("none.tcp: No such file or directory")
