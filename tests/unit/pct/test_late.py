"""Who keeps a job waiting is told up the tree, once a while and in few words."""

from __future__ import annotations

from native.wire import load
from native.wire.load import LATE_MAX, Late, LateNode
from pct.tree.late import LateNodes
from tests.unit.pct.job_of import JOB_ID, PRESENT, Tree, held, started

STEP_S = 0.02


def pass_time(tree: Tree, seconds: float) -> list[Late]:
    """Let time pass; what yod is told of who is late."""
    for _ in range(round(seconds / STEP_S)):
        tree.wait(STEP_S)
    return [message for message in tree.take_to_yod() if isinstance(message, Late)]


def node(place: int, text: str = "") -> LateNode:
    return LateNode(20 + place, f"n{20 + place}", text)


def test_a_node_that_gives_no_vote_is_named_by_its_parent_within_notice_s():
    tree = Tree(7, notice_s=2.0)
    tree.gone.add(5)  # it takes every message and does nothing
    for place in (0, 1, 2, 3, 4, 6):
        tree.at(place, PRESENT)
    assert pass_time(tree, 1.9) == [Late(JOB_ID, (node(5),))]


def test_ranks_that_do_not_come_to_their_entry_are_named_by_their_own_node():
    tree = Tree(7, ranks_each=2, notice_s=2.0)
    tree.everywhere(PRESENT)
    for place in range(7):
        for rank in (2 * place, 2 * place + 1):
            tree.at(place, started(rank))
            if rank not in (6, 7, 9):
                tree.at(place, held(rank))
    (late,) = pass_time(tree, 1.9)
    assert late.nodes == (
        node(3, "ranks not at their entry: 6, 7"),
        node(4, "ranks not at their entry: 9"),
    )


def test_what_is_known_already_is_not_told_again_and_news_are_at_double_times():
    tree = Tree(3, notice_s=2.0)
    tree.everywhere(PRESENT)
    tree.at(0, started(0), held(0))
    assert len(pass_time(tree, 1.9)) == 1
    assert pass_time(tree, 30.0) == []
    tree = Tree(3, notice_s=2.0)
    tree.everywhere(PRESENT)
    tree.at(0, started(0), held(0))
    pass_time(tree, 1.9)
    tree.at(1, started(1), held(1))
    (late,) = pass_time(tree, 2.0)
    assert [each.name for each in late.nodes] == ["n22"]


def test_who_has_come_is_late_no_more():
    tree = Tree(3, notice_s=2.0)
    tree.start()
    assert pass_time(tree, 30.0) == []
    tree.from_yod(load.Go(JOB_ID))
    assert pass_time(tree, 1000.0) == []
    assert all(job.deadline() is None for job in tree.jobs.values())


def test_an_end_that_does_not_come_names_the_node():
    tree = Tree(3, notice_s=2.0)
    tree.run()
    tree.from_yod(load.AllDone(JOB_ID))
    (late,) = pass_time(tree, 1.9)
    assert late.nodes[0] == node(0, "processes of the job have not ended")
    assert len(late.nodes) == 3


def test_a_thousand_late_nodes_are_one_message_of_few_names():
    late = LateNodes(JOB_ID, 2.0, 3)
    late.begin(0.0)
    late.hear(1, Late(JOB_ID, tuple(map(node, range(LATE_MAX))), 500))
    told = late.tell([node(99)], {place: node(place) for place in range(1, 500)})
    assert told is not None
    assert len(told.nodes) == LATE_MAX
    assert told.more == 500 + 1 + 8 + 498 - LATE_MAX
