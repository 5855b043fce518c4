"""Ranks that speak PMI find one another: on one node, and over the tree of a job."""

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import load, pmi
from native.wire.pmi import FenceKind, KeyValue
from pct.job.machine import Job
from pct.pmi_events import PmiClosed, PmiConnected, PmiHangUp, PmiReceived, PmiReply
from tests.unit.pct.job_of import (
    CARRIER,
    JOB_ID,
    SPACE,
    Tree,
    credential,
    ended,
    failure,
    fence,
    joins,
    load_message,
    pct,
    received,
    says,
)

WELCOME = 5  # lines that a client of PMI_PORT gets before anything else
NAME = SPACE.encode()
IN = b"cmd=barrier_in"
OUT = b"cmd=barrier_out rc=0\n"


def put(key: bytes, value: bytes) -> bytes:
    return b"cmd=put kvsname=%s key=%s value=%s" % (NAME, key, value)


def get(key: bytes) -> bytes:
    return b"cmd=get kvsname=%s key=%s" % (NAME, key)


def running(size=1, ranks_each=1, **fields) -> Tree:
    """A running job all of whose ranks have joined by PMI_PORT."""
    tree = Tree(size, ranks_each, **fields)
    tree.run()
    for place, job in tree.jobs.items():
        for rank in job.ranks:
            tree.at(place, *joins(rank))
    tree.take_to_yod()
    return tree


def answers(tree: Tree, place: int, rank: int) -> list[bytes]:
    """The lines that a client has been sent since it has joined."""
    return tree.said(place, rank).splitlines(keepends=True)[WELCOME:]


# -- one node --------------------------------------------------------------


def test_a_client_of_the_listener_says_who_it_is_and_is_told_its_world():
    tree = running(ranks_each=2)
    lines = tree.said(0, 1).splitlines()
    assert lines == [
        b"cmd=initack",
        b"cmd=set size=2",
        b"cmd=set rank=1",
        b"cmd=set debug=0",
        b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    ]


def test_a_client_of_its_own_socket_is_known_without_a_word():
    tree = Tree(1)
    tree.run()
    init = b"cmd=init pmi_version=1 pmi_subversion=1"
    tree.at(0, PmiConnected(JOB_ID, 9, 0), says(9, init, b"cmd=get_my_kvsname"))
    assert tree.said(0, 9).endswith(b"cmd=my_kvsname kvsname=%s\n" % NAME)


def test_a_client_that_is_nobody_here_is_hung_up_on_and_harms_nobody():
    tree = running(3)
    tree.at(1, PmiConnected(JOB_ID, 50, None), says(50, b"cmd=initack pmiid=2"))
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 50)]
    assert tree.take_to_yod() == []


def test_the_first_client_that_joins_may_end_and_another_program_join_as_the_same_rank():
    tree = running()
    tree.at(0, says(0, b"cmd=finalize"), PmiClosed(JOB_ID, 0))
    tree.at(0, *joins(0), says(0, get(b"k")))
    assert tree.said(0, 0).endswith(b"key_k_not_found value=unknown\n")


def test_ranks_of_one_node_meet_in_a_barrier_and_read_what_was_put():
    tree = running(ranks_each=2)
    tree.at(0, says(0, put(b"k", b"a b=c")), says(0, IN))
    assert answers(tree, 0, 0) == [b"cmd=put_result rc=0 msg=success\n"]
    tree.at(0, says(1, IN, get(b"k")))
    assert answers(tree, 0, 0)[1:] == [OUT]
    assert answers(tree, 0, 1) == [OUT, b"cmd=get_result rc=0 msg=success value=a b=c\n"]


def test_bytes_come_in_pieces_of_any_size():
    tree = running()
    for byte in put(b"k", b"v") + b"\n":
        tree.at(0, PmiReceived(JOB_ID, 0, bytes([byte])))
    assert answers(tree, 0, 0) == [b"cmd=put_result rc=0 msg=success\n"]


def test_a_barrier_does_not_wait_for_a_rank_that_has_ended():
    tree = running(ranks_each=2)
    tree.at(0, says(0, IN))
    assert answers(tree, 0, 0) == []
    tree.at(0, ended(1))
    assert answers(tree, 0, 0) == [OUT]


def test_a_rank_whose_connection_has_closed_keeps_the_others_in_the_barrier_while_it_lives():
    tree = running(ranks_each=2)
    tree.at(0, says(0, IN), PmiClosed(JOB_ID, 1))
    assert answers(tree, 0, 0) == []
    tree.at(0, ended(1))
    assert answers(tree, 0, 0) == [OUT]


def test_every_rank_finds_the_process_mapping():
    tree = running(2, ranks_each=2)
    for rank in range(4):
        tree.at(rank // 2, says(rank, get(b"PMI_process_mapping")))
        (line,) = answers(tree, rank // 2, rank)
        assert line == b"cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [(b"exitcode=7", 7), (b"exitcode=-3", -3), (b"exitcode=x", 1), (b"exitcode=" + b"9" * 30, 1)],
)
def test_an_abort_carries_the_applications_code(text, code):
    tree = running()
    tree.at(0, says(0, b"cmd=abort " + text))
    said = f"the application called abort with code {code}"
    aborted = failure(load.FailureKind.ABORTED, "running", said, rank=0, exit_code=code)
    assert tree.take_to_yod() == [aborted]


def test_nonsense_of_a_rank_ends_its_job_and_its_connection():
    tree = running()
    tree.at(0, says(0, b"hello"))
    (told,) = tree.take_to_yod()
    assert (told.kind, told.rank) == (load.FailureKind.ABORTED, 0)
    assert told.text.startswith("PMI: ") and "hello" in told.text
    assert tree.took(0, PmiHangUp) == [PmiHangUp(JOB_ID, 0)]
    tree.at(0, says(0, IN), PmiClosed(JOB_ID, 0))  # what was on its way
    assert answers(tree, 0, 0) == []


# -- over the tree ---------------------------------------------------------


@pytest.mark.parametrize("size", [3, 7])
@pytest.mark.parametrize("ranks_each", [1, 2])
def test_a_barrier_spans_the_tree_and_brings_everything_to_everybody(size, ranks_each):
    tree = running(size, ranks_each)
    ranks = [(place, rank) for place, job in tree.jobs.items() for rank in job.ranks]
    for place, rank in reversed(ranks):
        tree.at(place, says(rank, put(b"bc-%d" % rank, b"addr-%d" % rank), IN))
    far = {rank: [get(b"bc-%d" % other) for _, other in ranks] for _, rank in ranks}
    for place, rank in ranks:
        tree.at(place, says(rank, *far[rank]))
        assert answers(tree, place, rank)[1:] == [
            OUT,
            *(
                b"cmd=get_result rc=0 msg=success value=addr-%d\n" % other
                for other in range(size * ranks_each)
            ),
        ]


def test_nobody_leaves_a_barrier_before_the_last_rank_of_the_tree_is_in():
    tree = running(7)
    for rank in (0, 1, 2, 3, 4, 5):
        tree.at(rank, says(rank, IN))
    assert all(answers(tree, rank, rank) == [] for rank in range(7))
    tree.at(6, says(6, IN))
    assert all(answers(tree, rank, rank) == [OUT] for rank in range(7))


def test_barriers_follow_one_another_and_bring_what_was_put_in_between():
    tree = running(3)
    for turn in range(3):
        key = b"k%d" % turn
        tree.at(2, says(2, put(key, b"%d" % turn)))
        for rank in range(3):
            tree.at(rank, says(rank, IN))
        tree.at(1, says(1, get(key)))
        assert answers(tree, 1, 1)[-1] == b"cmd=get_result rc=0 msg=success value=%d\n" % turn


def test_only_what_was_put_since_the_last_barrier_goes_up():
    job = running(3).jobs[1]
    job.handle(says(1, put(b"old", b"1")), 0)
    (up,) = job.handle(says(1, IN), 0)
    assert up.message.pairs == (KeyValue(b"old", b"1"),)
    job.handle(received(pct(0), pmi.FenceOut(JOB_ID, fence(), up.message.pairs, True)), 0)
    job.handle(says(1, put(b"new", b"2")), 0)
    (up,) = job.handle(says(1, IN), 0)
    assert up.message == pmi.FenceIn(JOB_ID, fence(number=1), (KeyValue(b"new", b"2"),), True)


def test_what_exceeds_a_message_goes_up_and_down_in_pieces():
    tree = running(3)
    keys = [b"k%d" % number for number in range(80)]
    for key in keys:
        tree.at(2, says(2, put(key, b"x" * 4000)))
    for rank in (0, 1, 2):
        tree.at(rank, says(rank, IN))
    tree.at(1, says(1, *map(get, keys)))
    values = answers(tree, 1, 1)[1:]
    assert len(values) == 80 and all(len(line) > 4000 for line in values)


def test_a_barrier_does_not_wait_for_a_subtree_whose_ranks_have_ended():
    tree = running(3)
    tree.at(0, says(0, IN))
    tree.at(1, says(1, IN))
    assert answers(tree, 0, 0) == []
    tree.at(2, ended(2))
    tree.wait(1.0)
    for rank in (0, 1):
        assert answers(tree, rank, rank) == [OUT]


def test_a_barrier_spans_nodes_whose_own_ranks_have_all_ended():
    tree = running(7)
    tree.at(1, ended(1))
    for rank in (0, 2, 3, 4, 5, 6):
        tree.at(rank, says(rank, put(b"k%d" % rank, b"v"), IN))
    tree.at(0, says(0, get(b"k3")))
    assert answers(tree, 0, 0)[1:] == [OUT, b"cmd=get_result rc=0 msg=success value=v\n"]


def test_a_barrier_that_is_not_the_present_one_lets_nobody_go():
    job = running(3).jobs[1]
    job.handle(says(1, IN), 0)

    def over(number: int) -> list:
        out = pmi.FenceOut(JOB_ID, fence(number=number), (), True)
        return job.handle(received(pct(0), out), 0)

    assert over(1) == []
    assert over(0) == [PmiReply(JOB_ID, 1, OUT)]
    assert over(0) == []


def test_a_barrier_of_another_world_lets_nobody_go():
    job = running(3).jobs[1]
    job.handle(says(1, IN), 0)
    other = pmi.Fence(FenceKind.PMI, (pmi.Participants(5, ()),), 0)
    assert job.handle(received(pct(0), pmi.FenceOut(JOB_ID, other, (), True)), 0) == []


# -- names -----------------------------------------------------------------


def test_a_name_published_on_one_node_is_found_on_every_other_until_it_is_taken_away():
    tree = running(7)
    tree.at(5, says(5, b"cmd=publish_name service=ocean port=tag#0$host"))
    assert answers(tree, 5, 5) == [b"cmd=publish_result info=ok rc=0 msg=success\n"]
    for rank in range(7):
        tree.at(rank, says(rank, b"cmd=lookup_name service=ocean"))
        assert answers(tree, rank, rank)[-1] == (
            b"cmd=lookup_result port=tag#0$host info=ok rc=0 msg=success\n"
        )
    tree.at(3, says(3, b"cmd=publish_name service=ocean port=other"))
    assert answers(tree, 3, 3)[-1].startswith(b"cmd=publish_result rc=-1 msg=it_is_published")
    tree.at(4, says(4, b"cmd=unpublish_name service=ocean"))
    assert answers(tree, 4, 4)[-1] == b"cmd=unpublish_result info=ok rc=0 msg=success\n"
    tree.at(3, says(3, b"cmd=lookup_name service=ocean"))
    assert answers(tree, 3, 3)[-1] == b"cmd=lookup_result rc=-1 msg=service_not_found\n"


def test_an_answer_for_a_client_that_has_gone_is_dropped():
    job = running(3).jobs[1]
    (asked,) = job.handle(says(1, b"cmd=lookup_name service=ocean"), 0)
    assert asked == Send(pct(0), pmi.Ask(JOB_ID, 1, 0, 1, pmi.Lookup((b"pmi:ocean",), False)))
    job.handle(PmiClosed(JOB_ID, 1), 0)
    reply = pmi.Reply(JOB_ID, 1, 1, 0, (KeyValue(b"pmi:ocean", b"port"),))
    assert job.handle(received(pct(0), reply), 0) == []
    job.handle(joins(1)[0], 0)  # another client with the same number is not the one
    assert job.handle(received(pct(0), reply), 0) == []


def test_a_message_of_the_wire_up_before_the_arguments_are_here_is_refused():
    job = Job(load_message(3, 1, objects=(CARRIER,), arguments=None), credential(3), pct(0), 0)
    job.begin(0)
    with pytest.raises(PeerProtocolError, match="FenceOut is not a parent's"):
        job.handle(received(pct(0), pmi.FenceOut(JOB_ID, fence(), (), True)), 0)
