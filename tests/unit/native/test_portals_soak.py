"""Any sequence of operations does to the memory of both ends what a model says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native.portals import (
    AckReq,
    AtomicOp,
    CountingEvent,
    EventKind,
    LeOption,
    ListEntry,
    MatchEntry,
    MdOption,
    MemoryDescriptor,
)
from tests.support.portals_ends import KINDS, Pair, name_of, pair

WORDS = 12
OPTIONS = LeOption.OP_PUT | LeOption.OP_GET | LeOption.EVENT_LINK_DISABLE
COMPUTE: dict[AtomicOp, Any] = {
    AtomicOp.SUM: np.add,
    AtomicOp.PROD: np.multiply,
    AtomicOp.MIN: np.minimum,
    AtomicOp.MAX: np.maximum,
    AtomicOp.BOR: np.bitwise_or,
    AtomicOp.BAND: np.bitwise_and,
    AtomicOp.BXOR: np.bitwise_xor,
}


class Both:
    """The two ends' memories, and the model's."""

    def __init__(self, ends: Pair, vector: bool) -> None:
        self.ends = ends
        self.there = np.zeros(WORDS, "u4")
        self.here = np.arange(1, WORDS + 1, dtype="u4")
        self.back = np.zeros(WORDS, "u4")
        self.model_there, self.model_back = self.there.copy(), self.back.copy()
        self.pt = ends.b.table_entry()
        pieces = [self.there[:5], self.there[5:6], self.there[6:]] if vector else self.there
        self.entry = ends.b.entry(self.pt, pieces, options=OPTIONS)
        a = ends.a
        self.done = CountingEvent(a.ni)
        counts = MdOption.EVENT_CT_ACK | MdOption.EVENT_CT_REPLY | MdOption.EVENT_SUCCESS_DISABLE
        self.source = MemoryDescriptor(a.ni, self.here, a.queue, self.done, options=counts)
        self.reply = MemoryDescriptor(a.ni, self.back, a.queue, self.done, options=counts)
        self.begun = 0

    def run(self, what: str, at: int, to: int, n: int, operation: AtomicOp, operand: int) -> None:
        n = min(n, WORDS - max(at, to))
        mine, theirs = slice(at, at + n), slice(to, to + n)
        place = (self.ends.target, self.pt.index)
        size = {"length": 4 * n, "remote_offset": 4 * to}
        old = self.model_there[theirs].copy()
        if what == "put":
            self.source.put(*place, offset=4 * at, ack=AckReq.CT_ACK_REQ, **size)
            self.model_there[theirs] = self.here[mine]
        elif what == "get":
            self.reply.get(*place, offset=4 * at, **size)
            self.model_back[mine] = old
        elif what == "atomic":
            ack = AckReq.CT_ACK_REQ
            self.source.atomic(*place, operation, offset=4 * at, ack=ack, **size)
            self.model_there[theirs] = COMPUTE[operation](old, self.here[mine])
        elif what == "fetch":
            self.reply.fetch_atomic(
                self.source, *place, operation, offset=4 * at, data_offset=4 * at, **size
            )
            self.model_there[theirs] = COMPUTE[operation](old, self.here[mine])
            self.model_back[mine] = old
        else:
            size["length"] = 4
            self.reply.swap(
                self.source,
                *place,
                AtomicOp.CSWAP,
                operand,
                offset=4 * at,
                data_offset=4 * at,
                **size,
            )
            self.model_back[at] = old[0]
            if old[0] == operand:
                self.model_there[to] = self.here[at]
        self.begun += 1

    def finish(self) -> None:
        self.ends.count(self.done, self.begun)
        assert self.done.get().failure == 0
        assert list(self.there) == list(self.model_there)
        assert list(self.back) == list(self.model_back)
        assert self.ends.a.seen == []

    def close(self) -> None:
        self.ends.b.seen.clear()
        for one in (self.entry, self.source, self.reply, self.done, self.pt):
            one.close()


@pytest.fixture(scope="module", params=KINDS, ids=name_of)
def ends(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with pair(request.param) as made:
        yield made


place = st.integers(0, WORDS - 1)
step = st.tuples(
    st.sampled_from(["put", "get", "atomic", "fetch", "swap"]),
    place,
    place,
    st.integers(1, WORDS),
    st.sampled_from(sorted(COMPUTE)),
    st.integers(0, WORDS),
)


@given(steps=st.lists(step, max_size=25), vector=st.booleans(), waits=st.booleans())
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_operations_do_what_a_model_does(
    ends: Pair, steps: list[tuple[str, int, int, int, AtomicOp, int]], vector: bool, waits: bool
) -> None:
    both = Both(ends, vector)
    for one in steps:
        both.run(*one)
        if waits:
            both.finish()
    both.finish()
    both.close()


@given(
    sizes=st.lists(st.integers(0, 300_000), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 100_000), max_size=4),
)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_puts_of_any_size_arrive_whole_and_in_order(
    ends: Pair, sizes: list[int], cuts: list[int]
) -> None:
    pt = ends.b.table_entry()
    pieces = [bytearray(cut) for cut in cuts] + [bytearray(300_000)]
    entry = ends.b.entry(pt, pieces, user_ptr=pieces)
    sent: list[bytes] = []
    for number, size in enumerate(sizes):
        sent.append(bytes([number + 1]) * size)
        with MemoryDescriptor(ends.a.ni, sent[-1], ends.a.queue) as descriptor:
            descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ, user_ptr=number)
        _, ack = ends.events(ends.a, EventKind.SEND, EventKind.ACK)
        assert (ack.user_ptr, ack.mlength) == (number, size)
        event = ends.event(ends.b, EventKind.PUT)
        assert bytes(event.data) == sent[-1]
    entry.close()
    pt.close()


def test_many_entries_used_once_take_many_puts(ends: Pair) -> None:
    pt = ends.b.table_entry()
    options = OPTIONS | LeOption.USE_ONCE
    sort = MatchEntry if ends.b.ni.is_matching else ListEntry
    for number in range(100):
        sort(pt, bytearray(4), options=options, user_ptr=number)
    descriptor = MemoryDescriptor(ends.a.ni, np.arange(100, dtype="u4"))
    for number in range(100):
        descriptor.put(ends.target, pt.index, offset=4 * number, length=4)
    events = ends.events(ends.b, *[EventKind.PUT] * 100)
    assert [event.user_ptr for event in events] == list(range(100))
    assert [int.from_bytes(event.data, "little") for event in events] == list(range(100))
    ends.events(ends.b, *[EventKind.AUTO_UNLINK] * 100)
    descriptor.close()
    pt.close()
