"""One object of each sort of native.portals, and every use of them."""

from __future__ import annotations

from collections.abc import Callable

from native.portals import (
    AtomicOp,
    CountingEvent,
    EventQueue,
    ListEntry,
    MatchEntry,
    MemoryDescriptor,
    NiOption,
    PortalTableEntry,
    PrivateInterface,
    Process,
    poll_counters,
    poll_queues,
)

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
