"""When nodes have come to the end of their phases: what is sent up, and how it is placed."""

from __future__ import annotations

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import codec, group, load
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.group import MICROS_MAX, TIMES_MAX, NodeTimes
from pct.events import LeftoversRemoved, OutputRead
from pct.job.rules.times import Times
from tests.unit.pct.job_of import (
    ALL_DONE,
    BEGIN,
    EMPTY,
    GO,
    JOB_ID,
    LACKING,
    PRESENT,
    YOD,
    Tree,
    a_job,
    ended,
    held,
    load_message,
    node,
    pct,
    received,
    started,
)


def sent_up(actions) -> list:
    """What goes to yod, in order."""
    return [each.message for each in actions if isinstance(each, Send) and each.target == YOD]


def times_of(messages) -> list[group.Times]:
    return [each for each in messages if isinstance(each, group.Times)]


def over(rank: int) -> tuple[OutputRead, OutputRead, LeftoversRemoved]:
    """Nothing is left of a rank: its streams are closed, its keeper is gone."""
    return (*(OutputRead(JOB_ID, rank, stream, b"") for stream in (1, 2)), EMPTY)


def test_a_node_counts_from_its_load_message_and_tells_before_it_is_released():
    job = a_job(tells_times=True, size=1)
    steps = ((PRESENT, 0.1), (started(0), 0.2), (held(0), 0.3), (GO, 0.35), (ended(0), 2.0))
    for event, at in steps:
        job.handle(event, BEGIN + at)
    job.handle(ALL_DONE, BEGIN + 3.0)
    told = sent_up([each for event in over(0) for each in job.handle(event, BEGIN + 3.5)])
    assert [type(each) for each in told[-2:]] == [group.Times, load.Released]
    assert told[-2] == group.Times(
        JOB_ID,
        100_000,
        (
            NodeTimes(
                *(node(0).node, 0, 100_000, 100_000, 100_000),
                *(300_000, 300_000),  # held, and let go at once by its keeper
                *(2_000_000, 3_000_000, 3_500_000),
            ),
        ),
    )


def test_what_a_node_has_not_come_to_has_no_time():
    job = a_job(LACKING, tells_times=True)
    ending = job.handle(ALL_DONE, BEGIN + 1.0)
    (times,) = times_of(sent_up(ending))[0].nodes
    assert (times.joined, times.loaded, times.started) == (0, -1, -1)
    assert (times.held, times.went, times.ended) == (-1, -1, -1)
    assert (times.told, times.left) == (1_000_000, 1_000_000)


def test_nobody_tells_times_that_nobody_wants():
    tree = Tree(3)
    tree.run()
    for place in range(3):
        tree.at(place, ended(place))
    tree.from_yod(load.AllDone(JOB_ID))
    for place in range(3):
        tree.at(place, *over(place))
    assert type(tree.to_yod[-1]) is load.Released
    assert times_of(tree.to_yod) == []
    with pytest.raises(PeerProtocolError, match="times, which the job does not ask for"):
        a_job(size=3).handle(received(pct(1), group.Times(JOB_ID, 1, (NodeTimes(21, 0),))), BEGIN)


def test_the_root_tells_the_times_of_all_nodes():
    tree = Tree(7, tells_times=True)
    tree.run()
    for place in range(7):
        tree.at(place, ended(place))
    tree.now += 1.0
    tree.from_yod(load.AllDone(JOB_ID))
    for place in range(7):
        tree.at(place, *over(place))
    (told,) = times_of(tree.to_yod)
    assert sorted(each.node for each in told.nodes) == [node(place).node for place in range(7)]
    assert {(each.went, each.told, each.left) for each in told.nodes} == {(0, 1_000_000, 1_000_000)}
    assert type(tree.to_yod[-1]) is load.Released


def test_the_times_of_a_child_begin_when_half_of_what_its_vote_took_more_had_passed():
    times = Times(load_message(3, 0, tells_times=True), BEGIN)
    times.vote_came(1, BEGIN + 0.010)
    below = (NodeTimes(21, 0, 500), NodeTimes(23, 700, 500))
    times.come_up(1, group.Times(JOB_ID, 4_000, below))
    times.voted(YOD, BEGIN + 0.020)
    (told,) = times.go_up(YOD)
    assert told.voted_us == 20_000
    assert told.nodes[1:] == (NodeTimes(21, 3_000, 500), NodeTimes(23, 3_700, 500))
    (elsewhere,) = times.go_up(pct(5))
    assert elsewhere.voted_us == -1


@pytest.mark.parametrize(
    ("sent_us", "came_us", "way"), [(4_000, 10_000, 3_000), (10, 5, 0), (-1, 9, 0), (9, -1, 0)]
)
def test_the_way_of_a_load_message_is_half_of_what_is_left_over(sent_us, came_us, way):
    assert group.Times(JOB_ID, sent_us, (NodeTimes(20, 0),)).way_us(came_us) == way


def test_the_first_times_of_a_node_count_and_those_of_too_many_are_refused():
    known: dict[int, NodeTimes] = {}
    group.Times(JOB_ID, -1, (NodeTimes(20, 5, 1),)).add_to(known, 99, 2)
    both = NodeTimes(20, 9, 9), NodeTimes(21, MICROS_MAX)
    group.Times(JOB_ID, 0, both).add_to(known, 9, 2)
    assert known == {20: NodeTimes(20, 5, 1), 21: NodeTimes(21, MICROS_MAX)}
    with pytest.raises(PeerProtocolError, match="times of more than 2 nodes"):
        group.Times(JOB_ID, -1, (NodeTimes(22, 0),)).add_to(known, -1, 2)
    assert len(known) == 2


def test_the_times_of_many_nodes_travel_in_pieces_that_a_message_has_room_for():
    size = 2 * TIMES_MAX + 7
    times = Times(load_message(size, 0, arity=64, tells_times=True), BEGIN)
    long = dict.fromkeys(("joined", "loaded", "started", "held", "went", "ended"), MICROS_MAX)
    long |= {"told": MICROS_MAX, "left": MICROS_MAX}
    for start in range(1, size, TIMES_MAX):
        numbers = range(start, min(start + TIMES_MAX, size))
        nodes = tuple(NodeTimes(1_000_000 + number, MICROS_MAX, **long) for number in numbers)
        times.come_up(1, group.Times(JOB_ID, MICROS_MAX, nodes))
    told = list(times.go_up(YOD))
    assert [len(each.nodes) for each in told] == [TIMES_MAX, TIMES_MAX, 7]
    assert all(len(codec.encode(each)) <= MESSAGE_MAX_BYTES for each in told)
