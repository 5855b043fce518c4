"""Where each object of a job is, and whether members fit the load that carries them."""

import pytest

from native.wire.load import Arguments, MemberLoad
from pct.events import NoPlace
from pct.load import ObjectTable, misfit


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
