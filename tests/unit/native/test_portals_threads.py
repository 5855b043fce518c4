"""Several threads of Python in one interface."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import numpy as np

from native.portals import (
    AckReq,
    AtomicOp,
    CountingEvent,
    EventKind,
    EventQueue,
    Interface,
    LeOption,
    ListEntry,
    MdOption,
    MemoryDescriptor,
    NiOption,
    PortalTableEntry,
)
from tests.support.wait import LIMIT_S

THREADS = 6
ROUNDS = 60


def run_all(*works: Callable[[], None]) -> None:
    """Each in a thread of its own; what one raises is raised here."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)


def test_threads_add_to_one_array_and_each_waits_for_its_own() -> None:
    with Interface(NiOption.NO_MATCHING | NiOption.LOGICAL) as ni:
        ni.set_map([ni.phys_id()])
        total = np.zeros(64, "i8")
        pt = PortalTableEntry(ni)
        ListEntry(pt, total, options=LeOption.OP_PUT | LeOption.OP_GET)

        def add() -> None:
            done = CountingEvent(ni)
            options = MdOption.EVENT_CT_ACK | MdOption.EVENT_CT_REPLY
            for number in range(1, ROUNDS + 1):
                with MemoryDescriptor(ni, np.ones(64, "i8"), None, done, options=options) as md:
                    md.atomic(0, pt.index, AtomicOp.SUM, ack=AckReq.CT_ACK_REQ)
                    assert done.wait(number, LIMIT_S)

        run_all(*[add] * THREADS)
        assert (total == THREADS * ROUNDS).all()


def test_threads_that_share_a_queue_take_each_event_once_with_its_object() -> None:
    with Interface(NiOption.NO_MATCHING | NiOption.PHYSICAL) as ni:
        queue, here = EventQueue(ni, 16384), ni.phys_id()
        pt = PortalTableEntry(ni)
        ListEntry(pt, bytearray(8))
        seen: Counter[object] = Counter()
        lock, stop = threading.Lock(), object()

        def put(place: int) -> Callable[[], None]:
            def work() -> None:
                for number in range(ROUNDS):
                    with MemoryDescriptor(ni, b"abc", queue) as md:
                        name = (place, number)
                        md.put(here, pt.index, ack=AckReq.ACK_REQ, user_ptr=name)

            return work

        def take() -> None:
            while (event := queue.wait(LIMIT_S)) and event.user_ptr is not stop:
                with lock:
                    seen[event.kind, event.user_ptr] += 1

        takers = [threading.Thread(target=take) for _ in range(2)]
        for thread in takers:
            thread.start()
        run_all(*[put(place) for place in range(THREADS)])
        last = MemoryDescriptor(ni, b"", queue)
        for _ in takers:
            last.put(here, pt.index, user_ptr=stop)
        for thread in takers:
            thread.join(LIMIT_S)
        names = [(place, number) for place in range(THREADS) for number in range(ROUNDS)]
        kinds = (EventKind.SEND, EventKind.ACK)
        assert seen == Counter((kind, name) for kind in kinds for name in names)
        assert not ni._state.records.keys() - {1}
        assert not ni._state.leaving


def test_objects_that_threads_make_and_close_at_once_stay_apart() -> None:
    with Interface() as ni:

        def work() -> None:
            for _ in range(ROUNDS):
                with (
                    EventQueue(ni, 4) as queue,
                    CountingEvent(ni) as counter,
                    MemoryDescriptor(ni, bytearray(8), queue, counter) as md,
                ):
                    md.put(ni.phys_id(), 60, trigger=counter, threshold=1)
                    counter.inc()

        run_all(*[work] * THREADS)
        while ni._state.leaving:
            CountingEvent(ni).close()
        assert len(ni._state.parts) == 0
