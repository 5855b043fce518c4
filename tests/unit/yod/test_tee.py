"""What is shown is in the files already, whatever the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from native.wire.group import RankFiles
from tests.unit.yod.launch_of import grant, plan
from yod.host.tee import Copies, RankPaths, teed
from yod.launch.closing import Append


class Files:
    """A front whose files answer when they are told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Append, Callable[[str], None]]] = []

    def append(self, append: Append, done: Callable[[str], None]) -> None:
        self.asked.append((append, done))

    def answer(self, fault: str = "") -> Append:
        append, done = self.asked.pop(0)
        done(fault)
        return append


class Shown:
    """A screen that takes everything at once."""

    is_empty = True

    def __init__(self) -> None:
        self.seen: list[object] = []

    def show(self, rank: int, stream: int, data: bytes) -> None:
        self.seen.append((rank, stream, data))

    def say(self, text: str) -> None:
        self.seen.append(text)

    def finish(self) -> None:
        self.seen.append("finish")

    def drop(self) -> int:
        return 1

    def close(self) -> None:
        self.seen.append("close")


class World:
    def __init__(self, size: int = 2) -> None:
        self.files, self.shown = Files(), Shown()
        self.faults: list[str] = []
        self.nudges: list[tuple[int, int]] = []
        copies = Copies(
            self.files,
            plan(size=size),
            RankFiles(b"%t", b"%t.e"),
            self.faults.append,
            self.faults.append,
        )
        both = {1: self.shown, 2: self.shown}
        screens = teed(both, copies, lambda *what: self.nudges.append(what))
        assert screens[1] is screens[2]
        self.screen = screens[1]
        copies.begin(grant(size))
        self.begun: list[Append] = []


@pytest.fixture
def world() -> World:
    made = World()
    made.begun = [made.files.answer() for _ in range(4)]
    return made


def test_all_files_are_made_empty_before_there_is_output(world):
    assert [append.path for append in world.begun] == ["0", "0.e", "1", "1.e"]
    assert all(append.empties and not append.data for append in world.begun)


def test_nothing_is_shown_before_it_is_written_and_the_order_is_kept(world):
    world.screen.show(1, 1, b"a")
    world.screen.say("yod: b")
    world.screen.show(0, 2, b"c")
    world.screen.finish()
    assert world.shown.seen == [] and not world.screen.is_empty
    first = world.files.answer()
    assert (first.path, first.data, first.empties) == ("1", b"a", False)
    assert world.shown.seen == [(1, 1, b"a"), "yod: b"]
    assert world.files.answer().path == "0.e"
    assert world.shown.seen[2:] == [(0, 2, b"c"), "finish"]
    assert world.screen.is_empty and world.nudges == [(2, 0)]


def test_a_file_that_fails_is_told_once_and_the_output_is_still_shown(world):
    world.screen.show(0, 1, b"a")
    world.screen.show(0, 1, b"b")
    world.files.answer("no space left on device")
    world.files.answer("no space left on device")
    world.screen.show(0, 1, b"c")
    assert world.faults == ["--tee 0: no space left on device"]
    assert [seen[2] for seen in world.shown.seen] == [b"a", b"b", b"c"]
    assert world.files.asked == []


def test_ranks_that_were_spawned_have_no_file(world):
    world.screen.show(2, 1, b"a")
    assert world.shown.seen == [(2, 1, b"a")]


def test_what_waits_for_files_is_dropped_with_the_rest(world):
    world.screen.show(0, 1, b"abc")
    assert world.screen.drop() == 4
    world.files.answer()
    assert world.shown.seen == [] and world.screen.is_empty


def test_files_lie_in_the_directory_of_the_ranks():
    there = plan(size=1, directory="/there")
    assert RankPaths(there, RankFiles(b"", b"%j.%s.%n.%x"), grant(1)).of(0, 1) == ""
    assert list(RankPaths(there, RankFiles(b"%j-%t", b""), grant(1)).all()) == ["/there/7-0"]
