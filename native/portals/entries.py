"""The target's side: portal table, list entries and match entries; see :mod:`native.portals`."""

from __future__ import annotations

from typing import Any

from native._native import ffi, lib
from native.portals.events import CountingEvent, EventQueue
from native.portals.interface import Interface, state_of
from native.portals.memory import HeldMemory, Memory
from native.portals.state import UNKNOWN, Operation, Part, State, Target, handle_of, plain
from native.portals.values import (
    ANY,
    EventKind,
    LeOption,
    ListKind,
    MeOption,
    Process,
    SearchOp,
)
from native.transport.raw import Object, Rc, check, in_range


class PortalTableEntry(Part):
    """Where operations come in (PtlPTAlloc).

    Args:
        queue: of the target's events.
        index: which one; ANY: the lowest that is free.
        options: :class:`PtOption`.

    Attributes:
        index: which one it is.

    Raises:
        InUseError: that index is taken.
        PtlError: PTL_PT_FULL; PTL_PT_EQ_NEEDED: FLOWCTRL without a queue.
    """

    _what = "portal table entry"
    _free_name = "PtlPTFree"

    @in_range
    def __init__(
        self,
        interface: Interface,
        queue: EventQueue | None = None,
        index: int = ANY,
        options: int = 0,
    ) -> None:
        super().__init__(state_of(interface))
        self.queue = queue
        found = ffi.new("uint32_t *")
        eq = handle_of(queue, EventQueue)
        check(lib.PtlPTAlloc(interface.handle, options, eq, index, found), "PtlPTAlloc")
        self.index = int(found[0])
        self._handle = self._state.handle  # an index has no handle of its own
        self._state.add(self)

    def is_same(self, other: Object) -> bool:
        """Do both name the same entry of one interface?"""
        return (
            isinstance(other, PortalTableEntry)
            and self.handle == other.handle
            and self.index == other.index
        )

    def enable(self) -> None:
        """Let operations in, again or for the first time (PtlPTEnable)."""
        check(lib.PtlPTEnable(self.handle, self.index), "PtlPTEnable")

    def disable(self) -> None:
        """Refuse operations; waits for those under way (PtlPTDisable)."""
        check(lib.PtlPTDisable(self.handle, self.index), "PtlPTDisable")

    @in_range
    def search(
        self,
        operation: SearchOp = SearchOp.SEARCH_ONLY,
        *,
        match_id: Target | None = None,
        match_bits: int = 0,
        ignore_bits: int = 0,
        length: int = 0,
        uid: int = ANY,
        counter: CountingEvent | None = None,
        options: int = LeOption.OP_PUT | LeOption.OP_GET | LeOption.USE_ONCE,
        user_ptr: Any = None,
    ) -> None:
        """Look for what has come into the overflow list (PtlLESearch, PtlMESearch).

        Each that matches gives a SEARCH event, or when deleted one of its OVERFLOW
        events; a SEARCH event with NO_MATCH says that there is none.

        Args:
            operation: look, or take away.
            match_id, match_bits, ignore_bits: of a matching interface only.
            length: of the entry that is searched with, bytes; for NO_TRUNCATE.
            options: without USE_ONCE all that match are meant, not the first.

        Raises:
            ValueError: matching on an interface without it, an unknown option.
        """
        state = self._state
        operation = SearchOp(operation)
        number = next(state.numbers)
        call = "PtlMESearch" if state.is_matching else "PtlLESearch"
        if not state.is_matching and (match_id is not None or match_bits or ignore_bits):
            raise ValueError("the interface has no matching")
        memory = HeldMemory(None, is_written=False)
        entry = _entry(state, memory, counter, uid, plain(options))
        # Nothing is read or written there: a search has no memory.
        entry.start, entry.length = (ffi.cast("void *", 1) if length else ffi.NULL), length
        if state.is_matching:
            _fill_match(state, entry, match_id, match_bits, ignore_bits, 0)
        state.records[number] = Operation(user_ptr, UNKNOWN)
        pointer = ffi.cast("void *", number)
        rc = getattr(lib, call)(self.handle, self.index, entry, operation, pointer)
        if rc or self.queue is None or self.queue.is_closed:
            state.records.pop(number, None)
            check(rc, call)
        else:
            self.queue._retire(number)

    def close(self) -> None:
        """Free it (PtlPTFree). Raises InUseError while entries are linked in it."""
        if self._handle:
            rc = lib.PtlPTFree(self._handle, self.index)
            if rc != Rc.PTL_NO_INIT:
                check(rc, "PtlPTFree")
            self._ended()

    def _leave(self) -> None:
        if lib.PtlPTFree(self._leaving, self.index) == Rc.PTL_PT_IN_USE:
            self._state.leaving.append(self)


# ---- list entries and match entries ----


def _entry(
    state: State, memory: HeldMemory, counter: CountingEvent | None, uid: int, options: int
) -> Any:
    entry = ffi.new("ptl_me_t *" if state.is_matching else "ptl_le_t *")
    entry.start, entry.length = memory.start, memory.length
    entry.ct_handle = handle_of(counter, CountingEvent)
    entry.uid = uid
    entry.options = options | memory.options
    return entry


def _fill_match(
    state: State,
    entry: Any,
    match_id: Target | None,
    match_bits: int,
    ignore_bits: int,
    min_free: int,
) -> None:
    if match_id is None:
        match_id = ANY if state.is_logical else Process(ANY, ANY)
    entry.match_id = state.process(match_id)
    entry.match_bits, entry.ignore_bits = match_bits, ignore_bits
    entry.min_free = min_free


class Entry(Part):
    """Memory that operations come to, in a list of a portal table entry."""

    ends_itself = True

    def __init__(self, pt: PortalTableEntry, list_kind: ListKind, user_ptr: Any) -> None:
        if not isinstance(pt, PortalTableEntry):
            raise TypeError(f"{pt!r:.80} is no PortalTableEntry")
        super().__init__(pt._state)
        pt.handle  # noqa: B018  raises when it is closed
        self.user_ptr = user_ptr
        self._queue = pt.queue
        self._list = ListKind(list_kind)
        self._memory = HeldMemory(None, is_written=False)
        self._number = 0

    def _append(
        self,
        call: str,
        pt: PortalTableEntry,
        memory: HeldMemory,
        entry: Any,
        trigger: CountingEvent | None,
        threshold: int,
    ) -> None:
        self._memory = memory
        self._number = next(self._state.numbers)
        self._state.records[self._number] = self
        if self._list is ListKind.OVERFLOW_LIST:
            self._state.overflow[self] = None
        handle = ffi.new("uint32_t *")
        pointer = ffi.cast("void *", self._number)
        args = (pt.handle, pt.index, entry, self._list, pointer, handle)
        try:
            if trigger is None:
                rc, name = getattr(lib, f"Ptl{call}")(*args), f"Ptl{call}"
            else:
                name = f"PtlTriggered{call}"
                counter = handle_of(trigger, CountingEvent)
                rc = getattr(lib, name)(*args, counter, threshold)
            self._made(rc, name, handle)
        except BaseException:
            memory.release()
            self._forget()
            raise

    def _unlink_when(self, call: str, trigger: CountingEvent, threshold: int) -> None:
        rc = getattr(lib, call)(self.handle, handle_of(trigger, CountingEvent), threshold)
        check(rc, call)

    def bytes_at(self, start: int, size: int) -> memoryview:
        """Bytes of its memory by their address; see :attr:`Event.data`."""
        return self._memory.bytes_at(start, size)

    def _holds(self, start: int) -> bool:
        return self._memory.contains(start)

    def _event_taken(self, kind: EventKind) -> None:
        is_last = kind is EventKind.AUTO_FREE or (
            kind is EventKind.AUTO_UNLINK and self._list is ListKind.PRIORITY_LIST
        )
        if is_last and self._handle:
            self._ended()

    def _give_back(self) -> None:
        self._memory.release()
        if self._queue is None or self._queue.is_closed:
            self._forget()
        else:
            self._queue._retire(self._number)

    def _forget(self) -> None:
        self._state.forget(self._number)


class ListEntry(Entry):
    """An entry of an interface without matching (PtlLEAppend, PtlTriggeredLEAppend,
    PtlLEUnlink).

    Args:
        pt: the portal table entry where it is linked.
        memory: where bytes land and come from; None: none. A list is an I/O vector.
        list_kind: the priority or the overflow list.
        counter: counts what the CT options say.
        uid: whose operations are let in; ANY: everybody's.
        options: :class:`LeOption`; without OP_PUT and OP_GET nothing is let in.
        user_ptr: comes back in the events; any object.
        trigger, threshold: link it when that counter has had so many.

    Raises:
        TypeError, ValueError: memory that cannot be used; see :mod:`native.portals`.
        ValueError: the interface has matching, an unknown option.
        NoSpaceError: too many entries, or too many triggered operations wait.
        PtlError: PTL_LIST_TOO_LONG.
    """

    _what = "list entry"
    _free_name = "PtlLEUnlink"

    @in_range
    def __init__(
        self,
        pt: PortalTableEntry,
        memory: Memory,
        *,
        list_kind: ListKind = ListKind.PRIORITY_LIST,
        counter: CountingEvent | None = None,
        uid: int = ANY,
        options: int = LeOption.OP_PUT,
        user_ptr: Any = None,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        super().__init__(pt, list_kind, user_ptr)
        if self._state.is_matching:
            raise ValueError("the interface has matching: use a MatchEntry")
        options = plain(options)
        held = HeldMemory(memory, is_written=bool(options & LeOption.OP_PUT))
        entry = _entry(self._state, held, counter, uid, options)
        self._append("LEAppend", pt, held, entry, trigger, threshold)

    @staticmethod
    def _free(handle: int) -> int:
        return int(lib.PtlLEUnlink(handle))

    @in_range
    def unlink_when(self, trigger: CountingEvent, threshold: int) -> None:
        """Unlink it when a counter has had so many (PtlTriggeredLEUnlink)."""
        self._unlink_when("PtlTriggeredLEUnlink", trigger, threshold)


class MatchEntry(Entry):
    """An entry of an interface with matching (PtlMEAppend, PtlTriggeredMEAppend,
    PtlMEUnlink).

    Args:
        match_bits, ignore_bits: which operations match: those whose bits are the same
            where ``ignore_bits`` has 0.
        match_id: whose operations match, a :class:`Process` (each half may be ANY) or a
            rank; None: everybody's.
        min_free: with MANAGE_LOCAL, unlink when less is left, bytes.
        options: :class:`MeOption`.

    The others and the errors are those of :class:`ListEntry`.
    """

    _what = "match entry"
    _free_name = "PtlMEUnlink"

    @in_range
    def __init__(
        self,
        pt: PortalTableEntry,
        memory: Memory,
        match_bits: int = 0,
        *,
        ignore_bits: int = 0,
        match_id: Target | None = None,
        min_free: int = 0,
        list_kind: ListKind = ListKind.PRIORITY_LIST,
        counter: CountingEvent | None = None,
        uid: int = ANY,
        options: int = MeOption.OP_PUT,
        user_ptr: Any = None,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        super().__init__(pt, list_kind, user_ptr)
        if not self._state.is_matching:
            raise ValueError("the interface has no matching: use a ListEntry")
        options = plain(options)
        held = HeldMemory(memory, is_written=bool(options & MeOption.OP_PUT))
        entry = _entry(self._state, held, counter, uid, options)
        _fill_match(self._state, entry, match_id, match_bits, ignore_bits, min_free)
        self._append("MEAppend", pt, held, entry, trigger, threshold)

    @staticmethod
    def _free(handle: int) -> int:
        return int(lib.PtlMEUnlink(handle))

    @in_range
    def unlink_when(self, trigger: CountingEvent, threshold: int) -> None:
        """Unlink it when a counter has had so many (PtlTriggeredMEUnlink)."""
        self._unlink_when("PtlTriggeredMEUnlink", trigger, threshold)
