"""Two private ends of Portals in one process, driven together."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from native.portals import (
    CountingEvent,
    Event,
    EventKind,
    EventQueue,
    LeOption,
    Limits,
    ListEntry,
    MatchEntry,
    NiOption,
    PortalTableEntry,
    PrivateInterface,
    Process,
)
from tests.support.wait import LIMIT_S

KEY = bytes(range(32))
KINDS = [
    matching | naming
    for matching in (NiOption.MATCHING, NiOption.NO_MATCHING)
    for naming in (NiOption.PHYSICAL, NiOption.LOGICAL)
]


def name_of(kind: NiOption) -> str:
    return "-".join(part.name or "" for part in kind).lower().replace("_", "-")


class End:
    """An interface, a queue, and a portal table entry that posts to it."""

    def __init__(self, kind: NiOption, limits: Limits | None = None, events: int = 256) -> None:
        self.ni = PrivateInterface(kind, partition_key=KEY, limits=limits, flush_ms=0)
        self.queue = EventQueue(self.ni, events)
        self.seen: list[Event] = []

    def table_entry(self, options: int = 0) -> PortalTableEntry:
        return PortalTableEntry(self.ni, self.queue, options=options)

    def entry(self, pt: PortalTableEntry, memory: Any, **more: Any) -> ListEntry | MatchEntry:
        """An entry that takes everything, of the sort that the interface has."""
        more.setdefault("options", LeOption.OP_PUT | LeOption.OP_GET | LeOption.EVENT_LINK_DISABLE)
        if self.ni.is_matching:
            return MatchEntry(pt, memory, **more)
        return ListEntry(pt, memory, **more)


class Pair:
    """End `a` starts operations, end `b` is their target."""

    def __init__(self, kind: NiOption, limits: Limits | None = None) -> None:
        self.a, self.b = End(kind, limits), End(kind, limits)
        if self.a.ni.is_logical:
            ids = [self.a.ni.phys_id(), self.b.ni.phys_id()]
            for end in (self.a, self.b):
                end.ni.set_map(ids)

    @property
    def target(self) -> Process | int:
        return self.b.ni.id()

    def drive(self, is_done: Callable[[], bool], what: str = "the events") -> None:
        """Let both ends go on until something is true."""
        fds = [end.ni.fileno() for end in (self.a, self.b)]
        until = time.monotonic() + LIMIT_S
        while True:
            for end in (self.a, self.b):
                end.seen += end.queue.take()
            if is_done():
                return
            left = until - time.monotonic()
            seen = [kinds_of(end.seen) for end in (self.a, self.b)]
            assert left > 0, f"{what} did not come, but {seen}"
            select.select(fds, [], [], left)

    def events(self, end: End, *kinds: EventKind) -> list[Event]:
        """The next events of these kinds at an end, one of each; others are left."""
        found: list[Event] = []

        def has_all() -> bool:
            for kind in kinds[len(found) :]:
                event = next((one for one in end.seen if one.kind is kind), None)
                if event is None:
                    return False
                end.seen.remove(event)
                found.append(event)
            return True

        self.drive(has_all, f"{kinds[0].name} and the like")
        return found

    def event(self, end: End, kind: EventKind) -> Event:
        return self.events(end, kind)[0]

    def count(self, counter: CountingEvent, success: int) -> None:
        self.drive(lambda: counter.get().success >= success, f"{success} successes")

    def close(self) -> None:
        for end in (self.a, self.b):
            end.ni.close()


@contextmanager
def pair(kind: NiOption = KINDS[0], limits: Limits | None = None) -> Iterator[Pair]:
    made = Pair(kind, limits)
    try:
        yield made
    finally:
        made.close()


def kinds_of(events: Sequence[Event]) -> list[EventKind]:
    return [event.kind for event in events]
