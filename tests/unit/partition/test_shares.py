"""What a node keeps of a checkpoint, on its way to another node, and what becomes of it there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from native.wire.alloc import NodeSpec
from partition.checkpoint import files, finding
from partition.checkpoint.collecting import record
from partition.checkpoint.files import BrokenError, Recipe, RecipeMember
from partition.checkpoint.rescuing import rescue
from partition.savers.draining import drain
from partition.savers.sending import Credit, Taken, stream

ATTEMPT = 3
ODD = "a b\nü\udce9"  # and a byte that is no UTF-8


def recipe(ranks: int = 2) -> Recipe:
    return Recipe("a.out", "/", (RecipeMember(("a.out",), NodeSpec(ranks)),), "", "", "2")


def saved(here: Path, place: int, text: str = "") -> Path:
    """What a node has saved of the rank of its number."""
    top = here / files.rank_directory(place)
    (top / "empty").mkdir(parents=True)
    (top / "sub").mkdir()
    (top / "sub" / ODD).write_text(text or f"rank {place}")
    (top / "none").touch()
    (top / "large").write_bytes(os.urandom(300_000))
    found, _ = record(place, [place], str(here), ATTEMPT)
    files.write(str(here / files.node_file(place)), found)
    return here


def tree_of(top: Path) -> dict[str, bytes | None]:
    found = sorted(top.rglob("*"))
    return {
        str(each.relative_to(top)): each.read_bytes() if each.is_file() else None for each in found
    }


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_a_share_is_the_same_at_the_other_end_and_whole_with_its_last_byte(tmp_path, piece_bytes):
    here = saved(tmp_path / "here", 1)
    data = b"".join(stream(str(here), 1))
    there = tmp_path / "there"
    there.mkdir()
    taken = Taken(str(there), 1)
    if piece_bytes == 1:  # the ends of lines and files, byte by byte
        head, data = data[:400], data[400:]
        for number in range(len(head)):
            taken.feed(head[number : number + 1])
        piece_bytes = 100_000
    for begin in range(0, len(data), piece_bytes):
        assert not taken.is_whole
        taken.feed(data[begin : begin + piece_bytes])
    assert taken.is_whole
    assert tree_of(there) == tree_of(here)


@pytest.mark.parametrize("name", [b"../x", b"/x", b"rank.1/../../x", b""])
def test_a_share_puts_nothing_beside_its_directory(tmp_path, name):
    there = tmp_path / "there"
    there.mkdir()
    with pytest.raises(BrokenError):
        Taken(str(there), 1).feed(b"1 " + name + b"\0\nx")
    assert list(tmp_path.rglob("x")) == []


def test_what_is_no_share_is_refused(tmp_path):
    with pytest.raises(ValueError, match="invalid literal"):
        Taken(str(tmp_path), 1).feed(b"x y\0\n")
    with pytest.raises(BrokenError, match="too long"):
        Taken(str(tmp_path), 1).feed(b"1" * 100_000)


def test_no_more_is_sent_than_there_is_room_for_and_nothing_when_there_is_none_any_more():
    credit = Credit()
    credit.give(5)
    assert (credit.take(3), credit.take(3)) == (3, 2)
    credit.give(1)
    credit.close()
    assert credit.take(3) == 0


class Collected:
    """The directory of checkpoints of a job of two nodes, which drain."""

    def __init__(self, place: Path) -> None:
        self.local, self.kept = place / "local", place / "kept"
        self.kept.mkdir()

    def drains(self, place: int, text: str = "") -> None:
        saved(self.local / str(place), place, text)
        drain(place, str(self.local), str(place), str(self.kept), "c")

    def holder_drains(self, place: int, text: str = "") -> None:
        (self.kept / "c").mkdir(exist_ok=True)
        saved(self.local / "held", place, text)
        where = (str(self.kept / "c"), files.rescued_directory(place))
        drain(place, str(self.local), "held", *where)

    def rescue(self, *ended: int, attempt: int = ATTEMPT) -> str:
        return rescue(recipe(), attempt, 2, str(self.kept), "c", ended)

    @property
    def names(self) -> list[str]:
        return sorted(each.name for each in self.kept.iterdir())


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    return Collected(tmp_path)


def test_what_another_node_has_drained_is_part_of_the_checkpoint(collected):
    collected.drains(0)
    collected.holder_drains(1)
    path = collected.rescue()
    assert path == str(collected.kept / "checkpoint.1")
    assert (Path(path) / "rank.1" / "sub" / ODD).read_text() == "rank 1"
    finding.newest(path)  # all digests are right
    assert collected.names == ["checkpoint.1"]
    assert not list(Path(path).glob("rescued.*"))


def test_what_a_lost_node_has_half_drained_gives_way_to_what_its_holder_has(collected):
    collected.drains(0)
    half = collected.kept / "c" / "rank.1"
    (half / "sub").mkdir(parents=True)
    (half / "sub" / ODD).write_text("ra")
    (half / "other").touch()
    collected.holder_drains(1)
    path = collected.rescue()
    finding.newest(path)
    assert not (Path(path) / "rank.1" / "other").exists()


def test_a_lost_node_that_had_drained_all_needs_no_holder(collected):
    collected.drains(0)
    collected.drains(1)
    finding.newest(collected.rescue())


def test_without_a_rank_there_is_no_checkpoint_and_nothing_is_left(collected):
    collected.drains(0)
    with pytest.raises(BrokenError, match="rank 1 lost with a node before another one had all"):
        collected.rescue()
    assert collected.names == []


def test_a_rank_that_had_ended_well_may_lack(collected):
    collected.drains(0)
    finding.newest(collected.rescue(1))


def test_what_was_drained_in_another_attempt_is_no_part_of_it(collected):
    collected.drains(0)
    collected.holder_drains(1)
    with pytest.raises(BrokenError):
        collected.rescue(attempt=ATTEMPT + 1)


def test_a_checkpoint_that_the_root_has_made_whole_meanwhile_is_found(collected):
    with pytest.raises(BrokenError, match="nothing has been copied"):
        collected.rescue()
    collected.drains(0)
    collected.drains(1)
    path = collected.rescue()
    assert collected.rescue() == path
