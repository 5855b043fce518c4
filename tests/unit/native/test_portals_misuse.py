"""What is wrong raises, and memory stays where it is while C may use it; nothing crashes."""

from __future__ import annotations

import array
import ctypes
import gc
import math
import mmap
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from native.portals import (
    AckReq,
    AtomicOp,
    CountingEvent,
    Datatype,
    EventKind,
    EventQueue,
    Interface,
    InUseError,
    LeOption,
    Limits,
    ListEntry,
    MatchEntry,
    MdOption,
    MemoryDescriptor,
    MeOption,
    NiOption,
    PortalTableEntry,
    PrivateInterface,
    Process,
    PtlError,
    PtOption,
    Rc,
    poll_counters,
    poll_queues,
)
from tests.support.portals_ends import Pair, pair
from tests.support.wait import LIMIT_S

SELF = Process(0x7F000001, 1)
Use = Callable[[], object]


class Parts:
    """One object of each sort, of one interface."""

    def __init__(self, kind: NiOption = NiOption.MATCHING | NiOption.PHYSICAL) -> None:
        self.ni = PrivateInterface(kind, listen="127.0.0.1:0", flush_ms=0)
        self.queue = EventQueue(self.ni, 8)
        self.counter = CountingEvent(self.ni)
        self.pt = PortalTableEntry(self.ni, self.queue)
        self.memory = bytearray(16)
        self.md = MemoryDescriptor(self.ni, self.memory, self.queue, self.counter)
        sort = MatchEntry if kind & NiOption.MATCHING else ListEntry
        self.entry: MatchEntry | ListEntry = sort(self.pt, bytearray(16))

    def uses(self) -> list[Use]:
        return [
            self.ni.id,
            self.ni.uid,
            self.ni.phys_id,
            self.ni.get_map,
            self.ni.fileno,
            self.ni.ni_handle,
            lambda: self.ni.status(0),  # type: ignore[arg-type]
            lambda: self.ni.set_map([SELF]),
            lambda: self.ni.bundle().__enter__(),
            lambda: EventQueue(self.ni, 8),
            lambda: CountingEvent(self.ni),
            lambda: PortalTableEntry(self.ni),
            lambda: MemoryDescriptor(self.ni, b""),
            lambda: MatchEntry(self.pt, None),
            self.queue.get,
            self.queue.take,
            self.queue.wait,
            self.queue.ni_handle,
            lambda: poll_queues([self.queue]),
            self.counter.get,
            self.counter.inc,
            self.counter.cancel_triggered,
            lambda: self.counter.wait(1),
            lambda: self.counter.set(1),
            lambda: poll_counters([self.counter], [1]),
            self.pt.enable,
            self.pt.disable,
            self.pt.search,
            lambda: self.entry.unlink_when(self.counter, 1),
            lambda: self.md.put(SELF, 0),
            lambda: self.md.get(SELF, 0),
            lambda: self.md.atomic(SELF, 0, AtomicOp.SUM),
            lambda: self.md.fetch_atomic(self.md, SELF, 0, AtomicOp.SUM),
            lambda: self.md.swap(self.md, SELF, 0),
        ]


@pytest.fixture
def parts() -> Iterator[Parts]:
    made = Parts()
    yield made
    made.ni.close()


@pytest.fixture
def ends() -> Iterator[Pair]:
    with pair() as made:
        yield made


# ---- what is closed ----


def test_what_is_closed_raises_value_error(parts: Parts) -> None:
    for one in (parts.md, parts.entry, parts.pt, parts.queue, parts.counter, parts.ni):
        one.close()
        one.close()
        assert one.is_closed
    for use in parts.uses():
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_closing_an_interface_closes_what_was_made_from_it(parts: Parts) -> None:
    parts.ni.close()
    for use in parts.uses():
        with pytest.raises(ValueError, match="is closed"):
            use()
    parts.memory.clear()


def test_what_is_in_use_cannot_be_closed(parts: Parts) -> None:
    with pytest.raises(InUseError):
        parts.pt.close()
    assert not parts.pt.is_closed
    parts.md.put(SELF, 0, trigger=parts.counter, threshold=9)
    with pytest.raises(InUseError):
        parts.md.close()
    with pytest.raises(BufferError):
        parts.memory.clear()
    parts.counter.cancel_triggered()
    parts.md.close()
    parts.memory.clear()


def test_what_a_closed_queue_and_counter_would_be_told_is_dropped(parts: Parts) -> None:
    parts.queue.close()
    parts.counter.close()
    done = CountingEvent(parts.ni)
    with MemoryDescriptor(parts.ni, bytes(8), counter=done, options=MdOption.EVENT_CT_ACK) as md:
        md.put(parts.ni.id(), parts.pt.index, ack=AckReq.CT_ACK_REQ)
        assert done.wait(1).success == 1
    parts.pt.search()
    with pytest.raises(ValueError, match="PtlPut"):
        parts.md.put(SELF, 0, ack=AckReq.ACK_REQ)


def test_what_with_leaves_in_use_is_freed_later(parts: Parts) -> None:
    trigger, memory = CountingEvent(parts.ni), bytearray(8)
    with MemoryDescriptor(parts.ni, memory) as md:
        md.put(SELF, 0, trigger=trigger, threshold=1)
    with pytest.raises(ValueError, match="is closed"):
        md.put(SELF, 0)
    with pytest.raises(BufferError):
        memory.clear()
    trigger.close()  # forgets the operation
    memory.clear()


def test_an_error_within_with_is_not_hidden_by_one_of_closing(parts: Parts) -> None:
    trigger = CountingEvent(parts.ni)
    with pytest.raises(ZeroDivisionError), MemoryDescriptor(parts.ni, bytearray(8)) as md:
        md.put(SELF, 0, trigger=trigger, threshold=1)
        _ = 1 / 0


def test_a_forked_child_is_told_that_nothing_is_its_own(parts: Parts) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            wrong = 0
            for use in parts.uses()[:4] + parts.uses()[14:22] + parts.uses()[29:31]:
                try:
                    use()
                except PtlError as error:
                    wrong += error.rc is not Rc.PTL_NO_INIT
                else:
                    wrong += 1
            try:
                PrivateInterface()
            except PtlError as error:
                wrong += error.rc is not Rc.PTL_FAIL
            for one in (parts.md, parts.entry, parts.pt, parts.queue, parts.ni):
                one.close()
            status = 10 + wrong
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
    parts.counter.inc()
    assert parts.counter.get().success == 1


# ---- things of another kind ----


def test_things_of_another_kind_raise_type_error(parts: Parts) -> None:
    wrong: Any = object()
    uses: list[Use] = [
        lambda: EventQueue(wrong, 8),
        lambda: CountingEvent(wrong),
        lambda: PortalTableEntry(parts.ni, wrong),
        lambda: PortalTableEntry(parts.ni, parts.counter),  # type: ignore[arg-type]
        lambda: MemoryDescriptor(parts.ni, b"", parts.counter),  # type: ignore[arg-type]
        lambda: MemoryDescriptor(parts.ni, b"", None, parts.queue),  # type: ignore[arg-type]
        lambda: MatchEntry(wrong, None),
        lambda: MatchEntry(parts.pt, None, counter=wrong),
        lambda: MatchEntry(parts.pt, None, options=wrong),
        lambda: parts.md.put(wrong, 0),
        lambda: parts.md.put(5, 0),  # a rank
        lambda: parts.md.put(SELF, wrong),
        lambda: parts.md.put(SELF, 0, 1.5),  # type: ignore[arg-type]
        lambda: parts.md.put(SELF, 0, trigger=wrong),
        lambda: parts.md.put(SELF, 0, trigger=parts.queue),  # type: ignore[arg-type]
        lambda: parts.md.swap(wrong, SELF, 0),
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.CSWAP),  # no operand
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.CSWAP, 1j, Datatype.DOUBLE),
        lambda: parts.md.atomic(SELF, 0, AtomicOp.SUM, wrong),
        lambda: poll_queues([parts.counter]),  # type: ignore[list-item]
        lambda: poll_counters([parts.queue], [1]),  # type: ignore[list-item]
    ]
    for place, use in enumerate(uses):
        with pytest.raises(TypeError):
            use()
            pytest.fail(f"use {place} raises nothing")


@pytest.mark.parametrize("number", [-1, 1 << 64, 1 << 200])
def test_numbers_that_do_not_fit_raise_value_error(parts: Parts, number: int) -> None:
    uses: list[Use] = [
        lambda: EventQueue(parts.ni, number),
        lambda: PortalTableEntry(parts.ni, index=number),
        lambda: PortalTableEntry(parts.ni, options=number),
        lambda: PrivateInterface(number),  # type: ignore[arg-type]
        lambda: PrivateInterface(limits=Limits(max_msg_size=number)),
        lambda: Interface(pid=number),
        lambda: parts.ni.set_map([(number, 1)]),
        lambda: parts.ni.status(number),  # type: ignore[arg-type]
        lambda: MemoryDescriptor(parts.ni, b"", options=number),
        lambda: MatchEntry(parts.pt, None, number),
        lambda: MatchEntry(parts.pt, None, ignore_bits=number),
        lambda: MatchEntry(parts.pt, None, match_id=(1, number)),
        lambda: MatchEntry(parts.pt, None, min_free=number),
        lambda: MatchEntry(parts.pt, None, uid=number),
        lambda: MatchEntry(parts.pt, None, options=number),
        lambda: MatchEntry(parts.pt, None, list_kind=number),  # type: ignore[arg-type]
        lambda: parts.pt.search(number),  # type: ignore[arg-type]
        lambda: parts.pt.search(match_bits=number),
        lambda: parts.counter.set(number),
        lambda: parts.counter.inc(0, number),
        lambda: parts.counter.wait(number),
        lambda: parts.counter.inc(1, trigger=parts.counter, threshold=number),
        lambda: parts.md.put((number, 1), 0),
        lambda: parts.md.put(SELF, number),
        lambda: parts.md.put(SELF, 0, number),
        lambda: parts.md.put(SELF, 0, offset=number),
        lambda: parts.md.put(SELF, 0, length=number),
        lambda: parts.md.put(SELF, 0, remote_offset=number),
        lambda: parts.md.put(SELF, 0, hdr_data=number),
        lambda: parts.md.put(SELF, 0, ack=number),  # type: ignore[arg-type]
        lambda: parts.md.get(SELF, 0, length=number),
        lambda: parts.md.atomic(SELF, 0, number),  # type: ignore[arg-type]
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.CSWAP, number, Datatype.INT32_T),
    ]
    for place, use in enumerate(uses):
        with pytest.raises(ValueError):
            use()
            pytest.fail(f"use {place} raises nothing")


def test_arguments_that_portals_forbids_raise_value_error(parts: Parts) -> None:
    other = Parts()
    bare = MemoryDescriptor(parts.ni, bytearray(8))
    uses: list[Use] = [
        lambda: parts.md.put(SELF, 0, offset=17),
        lambda: parts.md.put(SELF, 0, offset=10, length=7),
        lambda: parts.md.put((0, 1), 0),
        lambda: bare.put(SELF, 0, ack=AckReq.ACK_REQ),
        lambda: bare.put(SELF, 0, ack=AckReq.CT_ACK_REQ),
        lambda: parts.md.put(SELF, 0, trigger=other.counter, threshold=1),
        lambda: parts.md.fetch_atomic(other.md, SELF, 0, AtomicOp.SUM),
        lambda: parts.md.atomic(SELF, 0, AtomicOp.SWAP),
        lambda: parts.md.atomic(SELF, 0, AtomicOp.BAND, Datatype.DOUBLE),
        lambda: parts.md.atomic(SELF, 0, AtomicOp.SUM, Datatype.DOUBLE, length=7),
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.SWAP, 5),
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.CSWAP, b"123", Datatype.INT32_T),
        lambda: parts.md.swap(parts.md, SELF, 0, AtomicOp.CSWAP, 1 << 31, Datatype.INT32_T),
        lambda: MemoryDescriptor(parts.ni, b"", other.queue),
        lambda: MemoryDescriptor(parts.ni, b"", None, other.counter),
        lambda: MemoryDescriptor(parts.ni, b"", options=1 << 31),
        lambda: MemoryDescriptor(parts.ni, bytearray(16), options=1),  # PTL_IOVEC
        lambda: MatchEntry(parts.pt, bytearray(16), options=LeOption.OP_PUT | 1),
        lambda: MatchEntry(parts.pt, None, counter=other.counter),
        lambda: MatchEntry(parts.pt, None, options=1 << 30),
        lambda: ListEntry(parts.pt, None),
        lambda: PortalTableEntry(parts.ni, other.queue),
        lambda: PrivateInterface(NiOption.MATCHING),
        lambda: PrivateInterface(partition_key=bytes(31)),
        lambda: PrivateInterface(listen="127.0.0.1"),
        lambda: PrivateInterface(listen="nowhere:5"),
        lambda: parts.ni.set_map([SELF]),  # it is physical
        parts.ni.get_map,
        lambda: poll_queues([]),
        lambda: poll_queues([parts.queue, other.queue]),
        lambda: poll_counters([], []),
        lambda: poll_counters([parts.counter], [1, 2]),
        lambda: parts.queue.wait(-1),
        lambda: parts.queue.wait(math.nan),
        lambda: parts.counter.wait(5, -0.001),
        lambda: PortalTableEntry(parts.ni, options=1 << 20),
    ]
    for place, use in enumerate(uses):
        with pytest.raises(ValueError):
            use()
            pytest.fail(f"use {place} raises nothing")
    other.ni.close()


def test_entries_belong_to_interfaces_of_their_sort() -> None:
    parts = Parts(NiOption.NO_MATCHING | NiOption.PHYSICAL)
    with pytest.raises(ValueError, match="ListEntry"):
        MatchEntry(parts.pt, None)
    with pytest.raises(ValueError, match="no matching"):
        parts.pt.search(match_bits=1)
    with pytest.raises(ValueError):
        ListEntry(parts.pt, None, options=MeOption.OP_PUT | MeOption.MANAGE_LOCAL)
    parts.ni.close()


def test_a_logical_interface_takes_ranks_of_its_map() -> None:
    with PrivateInterface(NiOption.MATCHING | NiOption.LOGICAL) as ni:
        md = MemoryDescriptor(ni, b"abc")
        with pytest.raises(ValueError):
            md.put(0, 0)
        for wrong in ([], [(0, 1)], [(1, 0)]):
            with pytest.raises(ValueError):
                ni.set_map(wrong)
        ni.set_map([ni.phys_id()])
        with pytest.raises(ValueError):
            md.put(1, 0)
        with pytest.raises(TypeError, match="rank"):
            md.put(SELF, 0)


def test_flow_control_needs_a_queue(parts: Parts) -> None:
    with pytest.raises(PtlError) as caught:
        PortalTableEntry(parts.ni, options=PtOption.FLOWCTRL)
    assert caught.value.rc is Rc.PTL_PT_EQ_NEEDED
    with pytest.raises(InUseError):
        PortalTableEntry(parts.ni, index=parts.pt.index)


# ---- memory ----


def test_read_only_memory_is_refused_where_bytes_may_land(parts: Parts) -> None:
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for memory in (b"abcd", memoryview(b"abcd"), frozen, [bytearray(4), b"abcd"]):
        with pytest.raises(ValueError, match="read-only"):
            MatchEntry(parts.pt, memory)
        MatchEntry(parts.pt, memory, options=MeOption.OP_GET).close()
        md = MemoryDescriptor(parts.ni, memory)
        for use in (
            lambda md=md: md.get(SELF, 0),
            lambda md=md: md.fetch_atomic(parts.md, SELF, 0, AtomicOp.SUM),
            lambda md=md: md.swap(parts.md, SELF, 0),
        ):
            with pytest.raises(ValueError, match="read-only"):
                use()


@pytest.mark.parametrize(
    "memory",
    [np.zeros(8)[::2], np.zeros((4, 4)).T, np.zeros((4, 4))[:, 1], memoryview(bytearray(8))[::2]],
    ids=["strided", "fortran", "column", "view"],
)
def test_memory_that_is_not_contiguous_is_refused(parts: Parts, memory: Any) -> None:
    for piece in (memory, [memory]):
        with pytest.raises(ValueError, match="not contiguous"):
            MemoryDescriptor(parts.ni, piece)
        with pytest.raises(ValueError, match="not contiguous"):
            MatchEntry(parts.pt, piece)


@pytest.mark.parametrize(
    "memory",
    ["text", 5, object(), [5], ["text"], {1: 2}, np.zeros(2, "O"), (ctypes.py_object * 2)()],
    ids=lambda memory: type(memory).__name__,
)
def test_what_is_no_plain_memory_is_refused(parts: Parts, memory: Any) -> None:
    for use in (
        lambda: MemoryDescriptor(parts.ni, memory),
        lambda: MatchEntry(parts.pt, memory),
    ):
        with pytest.raises(TypeError):
            use()


@pytest.mark.parametrize(
    ("memory", "shrink"),
    [
        (bytearray(8), lambda memory: memory.clear()),
        (array.array("d", [1, 2]), lambda memory: memory.pop()),
        (mmap.mmap(-1, 4096), lambda memory: memory.close()),
    ],
    ids=["bytearray", "array", "mmap"],
)
def test_memory_stays_until_its_object_is_closed(
    parts: Parts, memory: Any, shrink: Callable[[Any], object]
) -> None:
    for make in (
        lambda: MemoryDescriptor(parts.ni, memory),
        lambda: MemoryDescriptor(parts.ni, [b"x", memory]),
        lambda: MatchEntry(parts.pt, memory),
    ):
        one = make()
        with pytest.raises(BufferError):
            shrink(memory)
        one.close()
    shrink(memory)


def test_a_refused_object_locks_no_memory(parts: Parts) -> None:
    memory = bytearray(8)
    with pytest.raises(ValueError):
        MemoryDescriptor(parts.ni, memory, options=1 << 31)
    with pytest.raises(ValueError):
        MatchEntry(parts.pt, memory, options=1 << 30)
    with pytest.raises(ValueError):
        MatchEntry(parts.pt, memory, uid=-1)
    with pytest.raises(ValueError):
        MemoryDescriptor(parts.ni, [memory, np.zeros(4)[::2]])
    gc.collect()
    memory.clear()


def test_memory_that_nobody_else_refers_to_stays_for_c(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(1 << 20))
    MemoryDescriptor(ends.a.ni, bytes(range(256)) * 4096, ends.a.queue).put(
        ends.target, pt.index, ack=AckReq.ACK_REQ
    )
    gc.collect()
    ends.event(ends.a, EventKind.ACK)
    assert bytes(ends.event(ends.b, EventKind.PUT).data) == bytes(range(256)) * 4096


# ---- objects that events name ----


class Thing:
    pass


def test_a_user_ptr_is_let_go_after_its_last_event(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(8))
    md = MemoryDescriptor(ends.a.ni, bytearray(8), ends.a.queue)
    thing = Thing()
    gone = weakref.ref(thing)
    md.put(ends.target, pt.index, ack=AckReq.ACK_REQ, user_ptr=thing)
    md.get(ends.target, pt.index, user_ptr=thing)
    del thing
    events = ends.events(ends.a, EventKind.SEND, EventKind.ACK, EventKind.REPLY)
    assert all(event.user_ptr is gone() for event in events)
    events.clear()
    assert gone() is None
    assert not md._state.records.keys() & md._numbers


def test_a_user_ptr_of_a_closed_entry_is_told_by_its_queued_events(ends: Pair) -> None:
    pt = ends.b.table_entry()
    entry = ends.b.entry(pt, bytearray(8), user_ptr=Thing())
    gone = weakref.ref(entry.user_ptr)
    md = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    md.put(ends.target, pt.index, ack=AckReq.ACK_REQ)
    came = CountingEvent(ends.b.ni)  # its calls let the other end go on
    acks: list[EventKind] = []
    while EventKind.ACK not in acks:
        acks += [event.kind for event in ends.a.queue.take()]
        came.get()
    entry.close()
    del entry
    gc.collect()
    event = ends.b.queue.wait(0)
    assert event and event.user_ptr is gone() is not None
    assert event.data == b"abc"
    del event
    assert ends.b.queue.take() == []
    gc.collect()
    assert gone() is None


def test_entries_that_end_silently_do_not_pile_up(ends: Pair) -> None:
    pt = ends.b.table_entry()
    came = CountingEvent(ends.b.ni)
    options = (
        MeOption.OP_PUT
        | MeOption.USE_ONCE
        | MeOption.EVENT_LINK_DISABLE
        | MeOption.EVENT_UNLINK_DISABLE
        | MeOption.EVENT_COMM_DISABLE
        | MeOption.EVENT_CT_COMM
    )
    md = MemoryDescriptor(ends.a.ni, b"abc", options=MdOption.EVENT_SEND_DISABLE)
    for done in range(1, 1001):
        MatchEntry(pt, bytearray(4), options=options, counter=came)
        md.put(ends.target, pt.index)
        ends.count(came, done)
    assert len(pt._state.parts) < 600
    assert len(pt._state.records) < 600


def test_numbers_of_finished_operations_do_not_pile_up(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(8), options=MeOption.OP_PUT | MeOption.EVENT_COMM_DISABLE)
    md = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    for number in range(2000):
        md.put(ends.target, pt.index, user_ptr=number)
        assert ends.event(ends.a, EventKind.SEND).user_ptr == number
    assert len(md._numbers) < 1000
    assert len(md._state.records) < 10


# ---- abort, in a process of its own: it is for the whole of one ----

ABORT = """
import threading
from native.portals import *

with Interface() as ni:
    queue, counter = EventQueue(ni, 8), CountingEvent(ni)
    codes = []

    def run(wait, *args):
        try:
            wait(*args)
        except PtlError as error:
            codes.append(error.rc.name)

    threads = [threading.Thread(target=run, args=one)
               for one in ((queue.wait,), (counter.wait, 1))]
    for thread in threads:
        thread.start()
    abort()
    for thread in threads:
        thread.join()
    run(queue.wait)
    run(counter.wait, 1, 0)
    print(*codes)
    ni.status(StatusRegister.DROP_COUNT)
with Interface() as ni:
    print(EventQueue(ni, 8).wait(0))
"""


def test_an_abort_ends_all_waits_until_the_last_interface_is_closed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABORT], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["PTL_ABORTED"] * 4 + ["None"]


INTERRUPTED = """
import os, signal, threading, time
from native.portals import *

def interrupt():
    while not queue._waiters:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

with Interface() as ni:
    queue = EventQueue(ni, 8)
    try:
        threading.Thread(target=interrupt).start()
        queue.wait()
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_ends_a_wait_of_the_main_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
