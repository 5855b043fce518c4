"""What is closed, or of another kind, raises; nothing crashes."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

from native.portals import (
    AckReq,
    AtomicOp,
    CountingEvent,
    Datatype,
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
    PtlError,
    PtOption,
    Rc,
    poll_counters,
    poll_queues,
)
from tests.unit.native.parts_of import SELF, Parts, Use

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
