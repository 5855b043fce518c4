"""What a node reads out of a load message."""

import msgspec

from native.wire import load
from native.wire.runs import Run
from pct.events import CheckObjects
from pct.job import spec
from tests.unit.pct.job_of import PROGRAM, Tree, load_message

OTHER = msgspec.structs.replace(PROGRAM, path=b"/bin/b.out")


def two_programs(**fields) -> dict[str, object]:
    """Rank 0 on place 0 runs the first program, ranks 1 and 2 the second."""
    members = (
        load.MemberLoad(1, 0, (b"a.out",), b"/home"),
        load.MemberLoad(2, 1, (b"b.out",), b"/home"),
    )
    return {"objects": (PROGRAM, OTHER), "arguments": load.Arguments(members, ()), **fields}


def test_ranks_of_a_node_need_not_be_neighbours():
    message = load_message(2, 0, runs=(Run(0, 1), Run(1, 2), Run(0, 1)))
    assert spec.ranks_at(message, 0) == (0, 3)
    assert spec.ranks_at(message, 1) == (1, 2)


def test_an_image_goes_to_its_members_nodes_and_to_those_on_the_way():
    message = load_message(3, 0, **two_programs())
    assert spec.unused_objects(message, frozenset({0, 1, 2})) == set()
    assert spec.unused_objects(message, frozenset({1})) == {0}
    assert spec.unused_objects(message, frozenset({0})) == {1}


def test_which_images_are_used_is_not_known_before_the_arguments_have_come():
    message = load_message(3, 0, **two_programs(arguments=None))
    assert spec.unused_objects(message, frozenset({1})) == set()


def test_a_node_asks_its_store_for_what_its_subtree_runs_only():
    tree = Tree(3, **two_programs())
    asked = [tree.took(place, CheckObjects)[0].unused for place in range(3)]
    assert asked == [(), (0,), (0,)]
