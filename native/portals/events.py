"""Event queues and counting events; see :mod:`native.portals`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from native._native import ffi, lib
from native.portals.interface import Interface, state_of
from native.portals.state import Operation, Part, handle_of
from native.portals.values import AtomicOp, Count, Datatype, Event, EventKind, ListKind, NiFail
from native.transport.raw import Rc, check, in_range

_SLICE_MS = 200  # how often the main thread looks for signals while it waits
_FOREVER_MS = 1 << 31

_KINDS = tuple(EventKind)
_FAILS = tuple(NiFail)
_LISTS = tuple(ListKind)
_OPERATIONS = tuple(AtomicOp)
_DATATYPES = tuple(Datatype)
_OF_INITIATOR = (EventKind.SEND, EventKind.ACK, EventKind.REPLY)
_OVERFLOWS = (
    EventKind.GET_OVERFLOW,
    EventKind.PUT_OVERFLOW,
    EventKind.ATOMIC_OVERFLOW,
    EventKind.FETCH_ATOMIC_OVERFLOW,
    EventKind.SEARCH,
)


# ---- waiting ----


def _milliseconds(timeout_s: float | None) -> float:
    if timeout_s is None:
        return math.inf
    if not timeout_s >= 0:
        raise ValueError(f"a time-out of {timeout_s} seconds")
    return timeout_s * 1000


def _slices(timeout_s: float | None) -> Iterator[int]:
    """Times for C to wait, in milliseconds; short ones where signals come in."""
    left_ms = _milliseconds(timeout_s)
    is_main = threading.current_thread() is threading.main_thread()
    return _cut(left_ms, _SLICE_MS if is_main else _FOREVER_MS)


def _cut(left_ms: float, longest_ms: int) -> Iterator[int]:
    until = time.monotonic() + left_ms / 1000
    while True:
        yield math.ceil(min(left_ms, longest_ms))
        left_ms = (until - time.monotonic()) * 1000
        if left_ms <= 0:
            return


# ---- event queues ----


class EventQueue(Part):
    """A ring of events (PtlEQAlloc, PtlEQFree).

    Args:
        count: events that it holds. A full one loses the oldest, unless a portal table
            entry with FLOWCTRL keeps room.

    Raises:
        NoSpaceError: too many queues, or events.
    """

    _what = "event queue"
    _free_name = "PtlEQFree"
    _none = lib.PTL_EQ_NONE

    @in_range
    def __init__(self, interface: Interface, count: int) -> None:
        super().__init__(state_of(interface))
        self._taking = threading.Lock()  # from C's queue to the event's objects
        self._waiters = 0
        self._retired: list[int] = []  # records that only queued events may still name
        handle = ffi.new("uint32_t *")
        self._made(lib.PtlEQAlloc(interface.handle, count, handle), "PtlEQAlloc", handle)

    @staticmethod
    def _free(handle: int) -> int:
        return int(lib.PtlEQFree(handle))

    def get(self) -> Event | None:
        """The oldest event, None: there is none (PtlEQGet).

        Raises:
            PtlError: PTL_NO_INIT, in a forked child.
        """
        events = self.take(1)
        return events[0] if events else None

    def take(self, most: int = 128) -> list[Event]:
        """All events that are there, at most so many, the oldest first (PtlEQGet)."""
        handle = self.handle
        if self._state.is_foreign():
            check(Rc.PTL_NO_INIT, "PtlEQGet")
        raw = ffi.new("ptl_event_t *")
        events: list[Event] = []
        with self._taking:
            while len(events) < most:
                ended = len(self._retired)
                rc = lib.PtlEQGet(handle, raw)
                if rc == Rc.PTL_EQ_EMPTY:
                    self._drained(ended)
                    break
                if rc not in (Rc.PTL_OK, Rc.PTL_EQ_DROPPED):
                    check(rc, "PtlEQGet")
                events.append(_event(self, raw, rc))
        return events

    def wait(self, timeout_s: float | None = None) -> Event | None:
        """The oldest event, after waiting for it (PtlEQWait, PtlEQPoll).

        Returns:
            None: the time is over.

        Raises:
            PtlError: PTL_ABORTED; PTL_INTERRUPTED: another thread has closed the queue.
        """
        found = poll_queues([self], timeout_s)
        return found[1] if found else None

    def _retire(self, number: int) -> None:
        self._retired.append(number)

    def _drained(self, ended: int) -> None:
        """Forget the first ``ended`` retired records: the queue is empty, so no event names them.

        Not while a thread waits, which may hold such an event.
        """
        if ended and self._waiters == 0:
            for number in self._retired[:ended]:
                self._state.forget(number)
            del self._retired[:ended]

    def _give_back(self) -> None:
        self._waiters = 0
        self._drained(len(self._retired))


def poll_queues(
    queues: Sequence[EventQueue], timeout_s: float | None = None
) -> tuple[int, Event] | None:
    """The first event of several queues (PtlEQPoll, forever PtlEQWait for one).

    Args:
        queues: of interfaces that share an id; the first has precedence.

    Returns:
        Its queue's index, and the event; None: the time is over.

    Raises:
        ValueError: no queue, a closed one, or queues of different processes' ids.
        PtlError: PTL_ABORTED; PTL_INTERRUPTED: another thread has closed one.
    """
    handles = ffi.new("uint32_t[]", [handle_of(queue, EventQueue) for queue in queues])
    times_ms = _slices(timeout_s)
    if len(queues) == 1 and (events := queues[0].take(1)):
        return 0, events[0]
    raw = ffi.new("ptl_event_t *")
    which = ffi.new("unsigned int *")
    for queue in queues:
        if queue._state.is_foreign():  # its lock may be held by no thread of this process
            check(Rc.PTL_NO_INIT, "PtlEQPoll")
        with queue._taking:
            queue._waiters += 1
    try:
        for slice_ms in times_ms:
            if len(queues) == 1 and slice_ms == _FOREVER_MS:
                rc, call = lib.PtlEQWait(handles[0], raw), "PtlEQWait"
            else:
                rc = lib.PtlEQPoll(handles, len(queues), slice_ms, raw, which)
                call = "PtlEQPoll"
            if rc in (Rc.PTL_OK, Rc.PTL_EQ_DROPPED):
                return which[0], _event(queues[which[0]], raw, rc)
            if rc != Rc.PTL_EQ_EMPTY:
                check(rc, call)
    finally:
        for queue in queues:
            with queue._taking:
                queue._waiters -= 1
    return None


def _event(queue: EventQueue, raw: Any, rc: int) -> Event:
    state = queue._state
    kind = _KINDS[raw.type]
    number = int(ffi.cast("uintptr_t", raw.user_ptr))
    start = int(ffi.cast("uintptr_t", raw.start))
    record = state.records.get(number) if number else None
    entry = None
    if kind in _OF_INITIATOR:
        if record is not None:
            record.left -= 1
            if record.left <= 0:
                state.records.pop(number, None)
            elif raw.ni_fail_type and kind is not EventKind.SEND:  # it may have no SEND
                queue._retire(number)
    else:
        if not isinstance(record, Operation | None):
            entry = record
            entry._event_taken(kind)
        if kind in _OVERFLOWS:
            entry = next((one for one in state.overflow if one._holds(start)), None)
    return Event(
        kind,
        _FAILS[raw.ni_fail_type],
        None if record is None else record.user_ptr,
        state.process_of(raw.initiator),
        raw.rlength,
        raw.mlength,
        raw.remote_offset,
        raw.match_bits,
        raw.hdr_data,
        raw.uid,
        raw.pt_index,
        _LISTS[raw.ptl_list],
        _OPERATIONS[raw.atomic_operation],
        _DATATYPES[raw.atomic_type],
        start,
        rc == Rc.PTL_EQ_DROPPED,
        entry,
    )


# ---- counting events ----


class CountingEvent(Part):
    """Counts successes and failures, and releases triggered operations (PtlCTAlloc, PtlCTFree).

    Raises:
        NoSpaceError: too many of them.
    """

    _what = "counting event"
    _free_name = "PtlCTFree"
    _none = lib.PTL_CT_NONE

    def __init__(self, interface: Interface) -> None:
        super().__init__(state_of(interface))
        handle = ffi.new("uint32_t *")
        self._made(lib.PtlCTAlloc(interface.handle, handle), "PtlCTAlloc", handle)

    @staticmethod
    def _free(handle: int) -> int:
        return int(lib.PtlCTFree(handle))

    def get(self) -> Count:
        """Its value (PtlCTGet)."""
        value = ffi.new("ptl_ct_event_t *")
        check(lib.PtlCTGet(self.handle, value), "PtlCTGet")
        return Count(value.success, value.failure)

    def wait(self, test: int, timeout_s: float | None = None) -> Count | None:
        """Its value once ``success`` is at least ``test``, or something has failed
        (PtlCTWait, PtlCTPoll).

        Returns:
            None: the time is over. Look at ``failure`` of any other answer.

        Raises:
            PtlError: PTL_ABORTED; PTL_INTERRUPTED: another thread has closed it.
        """
        found = poll_counters([self], [test], timeout_s)
        return found[1] if found else None

    @in_range
    def set(
        self,
        success: int,
        failure: int = 0,
        *,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Set the value (PtlCTSet), or when ``trigger`` gets there (PtlTriggeredCTSet)."""
        value = ffi.new("ptl_ct_event_t *", {"success": success, "failure": failure})
        if trigger is None:
            check(lib.PtlCTSet(self.handle, value[0]), "PtlCTSet")
        else:
            counter = handle_of(trigger, CountingEvent)
            rc = lib.PtlTriggeredCTSet(self.handle, value[0], counter, threshold)
            check(rc, "PtlTriggeredCTSet")

    @in_range
    def inc(
        self,
        success: int = 1,
        failure: int = 0,
        *,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Add to it (PtlCTInc), or when ``trigger`` gets there (PtlTriggeredCTInc).

        Raises:
            NoSpaceError: too many triggered operations wait.
        """
        value = ffi.new("ptl_ct_event_t *", {"success": success, "failure": failure})
        if trigger is None:
            check(lib.PtlCTInc(self.handle, value[0]), "PtlCTInc")
        else:
            counter = handle_of(trigger, CountingEvent)
            rc = lib.PtlTriggeredCTInc(self.handle, value[0], counter, threshold)
            check(rc, "PtlTriggeredCTInc")

    def cancel_triggered(self) -> None:
        """Forget the operations that wait for it (PtlCTCancelTriggered)."""
        check(lib.PtlCTCancelTriggered(self.handle), "PtlCTCancelTriggered")


@in_range
def poll_counters(
    counters: Sequence[CountingEvent], tests: Sequence[int], timeout_s: float | None = None
) -> tuple[int, Count] | None:
    """The first of several counters to reach its test, or to have failures (PtlCTPoll).

    Returns:
        Its index, and its value; None: the time is over.

    Raises:
        ValueError: none is given, a closed one, not one test for each, or counters of
            different processes' ids.
        PtlError: PTL_ABORTED; PTL_INTERRUPTED: another thread has closed one.
    """
    if len(counters) != len(tests):
        raise ValueError(f"{len(counters)} counters and {len(tests)} tests")
    handles = ffi.new("uint32_t[]", [handle_of(one, CountingEvent) for one in counters])
    values = ffi.new("uint64_t[]", list(tests))
    value = ffi.new("ptl_ct_event_t *")
    which = ffi.new("unsigned int *")
    for slice_ms in _slices(timeout_s):
        if len(counters) == 1 and slice_ms == _FOREVER_MS:
            rc, call = lib.PtlCTWait(handles[0], values[0], value), "PtlCTWait"
        else:
            rc = lib.PtlCTPoll(handles, values, len(counters), slice_ms, value, which)
            call = "PtlCTPoll"
        if rc == Rc.PTL_OK:
            return which[0], Count(value.success, value.failure)
        if rc != Rc.PTL_CT_NONE_REACHED:
            check(rc, call)
    return None
