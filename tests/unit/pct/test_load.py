"""Where each object of a job is, and whether members fit the load that carries them."""

import pytest

from native.wire import codec
from native.wire.base import OBJECTS_MAX, TEXT_MAX
from native.wire.load import Arguments, MemberLoad, NoRoom, Slowest, Vote
from pct.events import NoPlace
from pct.job.rules.objects import ObjectTable, misfit, no_room


def test_an_object_is_here_awaited_or_without_a_place():
    table = ObjectTable(3)
    assert not table.is_complete
    table.checked(((0, b"/a"),), (1,), (NoPlace(2, "full"),))
    assert (table.paths, table.lacking, table.no_place) == ({0: b"/a"}, {1}, {2: "full"})
    table.stored(1, b"/b")
    assert not table.is_complete
    table.stored(2, b"/shared/c")
    assert table.is_complete
    assert table.paths == {0: b"/a", 1: b"/b", 2: b"/shared/c"}
    table.check()


def test_a_load_without_objects_is_complete():
    assert ObjectTable(0).is_complete


def members(*pairs):
    return Arguments(tuple(MemberLoad(size, index, (b"a",), b"/") for size, index in pairs), ())


@pytest.mark.parametrize(
    ("arguments", "first", "text"),
    [
        (members((3, 0), (1, 1)), 0, ""),
        (members((4, 1)), 1, ""),
        (members((3, 0)), 0, "the members' sizes do not add up to the grant's ranks"),
        (members((3, 0), (2, 1)), 0, "the members' sizes do not add up to the grant's ranks"),
        (members((4, 2)), 0, "no object 2 to execute, there are 2"),
        (members((4, 0)), 1, "no object 0 to execute, there are 2"),
    ],
)
def test_members_fit_their_load_or_it_is_said_why_not(arguments, first, text):
    assert misfit(arguments, 4, first, 2) == text


def test_a_vote_about_very_many_objects_fits_a_message_and_names_each():
    rooms = [NoRoom(number, 1, "n" * 255, "\u20ac" * TEXT_MAX) for number in range(OBJECTS_MAX)]
    vote = Vote(7, 1, (), no_room(rooms + rooms), Slowest(1, "n", 0.0))
    assert codec.why_refused(vote) == ""
    assert [room.object_index for room in vote.no_room] == list(range(OBJECTS_MAX))
    assert all(room.text for room in vote.no_room)


def test_a_vote_about_few_objects_says_all_that_there_is_to_say():
    rooms = [NoRoom(number, 1, "n1", "\u20ac" * TEXT_MAX) for number in range(3)]
    assert no_room([*rooms, NoRoom(0, 2, "n2", "full")]) == tuple(rooms)
