"""Channels between programs of tasks: who gets which message, and which names there may be."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from yod.pilot.channel.queue import Delivery, Queue
from yod.pilot.model.channels import addresses
from yod.pilot.model.description import PilotDescription


def test_who_has_asked_first_gets_the_next_message_and_asks_again():
    queue = Queue(100)
    assert queue.get(b"a", "x") == queue.get(b"b", "x") == []
    assert queue.put("x", [b"1", b"2", b"3"]) == [
        Delivery(b"a", "x", b"1"),
        Delivery(b"b", "x", b"2"),
    ]
    assert queue.get(b"b", "x") == [Delivery(b"b", "x", b"3")]
    assert queue.put("x", [b"4"]) == []
    assert queue.get(b"a", "x") == [Delivery(b"a", "x", b"4")]


def test_the_lines_of_a_queue_have_nothing_of_one_another():
    queue = Queue(100)
    assert queue.put("x", [b"1"]) == queue.get(b"a", "y") == []
    assert queue.put("y", [b"2"]) == [Delivery(b"a", "y", b"2")]
    assert queue.get(b"a", "x") == [Delivery(b"a", "x", b"1")]


def test_a_message_whose_getter_has_gone_is_the_next_ones():
    queue = Queue(100)
    queue.get(b"a", "x")
    queue.get(b"b", "x")
    (lost,) = queue.put("x", [b"1"])
    assert queue.undelivered(lost) == [Delivery(b"b", "x", b"1")]
    assert queue.undelivered(Delivery(b"b", "x", b"1")) == []
    queue.put("x", [b"2"])
    assert queue.get(b"c", "x") == [Delivery(b"c", "x", b"1")]


def test_a_queue_is_full_until_messages_have_been_taken():
    queue = Queue(4)
    queue.put("x", [b"123"])
    assert not queue.is_full
    queue.put("y", [b"45"])
    assert queue.is_full
    queue.get(b"a", "x")
    assert not queue.is_full


def test_a_channel_has_two_addresses():
    assert addresses("/d", ["work_queue"]) == {
        "RP_WORK_QUEUE_IN": "ipc:///d/work_queue.in",
        "RP_WORK_QUEUE_OUT": "ipc:///d/work_queue.out",
    }


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["work"], "has 'work', which is no name of a channel, such as work_queue or news_pubsub"),
        (["../a_queue"], "has '../a_queue', which is no name of a channel"),
        (["a_queue\n"], "which is no name of a channel"),
        (["a" * 40 + "_queue"], "which is no name of a channel"),
        ([1], "has 1, which is no name of a channel"),
        (["a_queue", "A_queue"], "has 'A_queue' twice"),
    ],
)
def test_a_wrong_name_of_a_channel_is_refused_with_its_key(names, why):
    with pytest.raises(UsageError, match="pilot: 'app_comm' is ") as refused:
        PilotDescription({"app_comm": names}).verify()
    assert why in str(refused.value)
    PilotDescription({"app_comm": ["a_queue", "b_pubsub"]}).verify()
