"""Events and counters: taken, waited for, and what ends a wait."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

from native.portals import (
    Count,
    CountingEvent,
    EventKind,
    EventQueue,
    MatchEntry,
    MemoryDescriptor,
    MeOption,
    PortalTableEntry,
    PrivateInterface,
    PtlError,
    Rc,
    poll_counters,
    poll_queues,
)
from tests.support.portals_ends import Pair, kinds_of
from tests.support.wait import LIMIT_S

# ---- events and counters ----


def test_events_come_in_batches_and_one_by_one(matching: Pair) -> None:
    pt = matching.b.table_entry()
    for number in range(5):
        MatchEntry(pt, None, number, user_ptr=number)
    queue = matching.b.queue
    first = queue.get()
    assert first and first.user_ptr == 0
    assert [event.user_ptr for event in queue.take(2)] == [1, 2]
    assert [event.user_ptr for event in queue.take()] == [3, 4]
    assert queue.get() is None and queue.take() == [] and queue.take(0) == []


def test_a_full_queue_tells_that_events_were_lost() -> None:
    with PrivateInterface(listen=None) as ni:
        queue = EventQueue(ni, 2)
        pt = PortalTableEntry(ni, queue)
        for number in range(5):
            MatchEntry(pt, None, number, user_ptr=number)
        events = queue.take()
        assert [event.is_after_loss for event in events] == [True] + [False] * (len(events) - 1)
        assert events[-1].user_ptr == 4


def test_waits_and_polls_end_after_their_time() -> None:
    with PrivateInterface(listen=None) as ni:
        queues, counter = [EventQueue(ni, 2), EventQueue(ni, 2)], CountingEvent(ni)
        assert queues[0].wait(0) is None and queues[0].wait(0.001) is None
        assert poll_queues(queues, 0.001) is None
        assert counter.wait(1, 0.001) is None
        assert poll_counters([counter, counter], [1, 2], 0) is None


def test_polls_tell_which_queue_and_which_counter() -> None:
    with PrivateInterface(listen=None) as ni:
        queues = [EventQueue(ni, 2) for _ in range(3)]
        MatchEntry(PortalTableEntry(ni, queues[1]), None, user_ptr="second")
        found = poll_queues(queues)
        assert found and (found[0], found[1].user_ptr) == (1, "second")
        counters = [CountingEvent(ni) for _ in range(3)]
        counters[2].inc(5)
        assert poll_counters(counters, [1, 1, 5]) == (2, Count(5))
        counters[0].inc(0, 1)
        assert counters[0].wait(100) == Count(0, 1)


def test_threads_wait_while_another_works() -> None:
    with PrivateInterface(listen=None) as ni:
        queue, counter, found = EventQueue(ni, 8), CountingEvent(ni), []
        threads = [
            threading.Thread(target=lambda: found.append(queue.wait())),
            threading.Thread(target=lambda: found.append(counter.wait(1))),
        ]
        for thread in threads:
            thread.start()
        MatchEntry(PortalTableEntry(ni, queue), None, user_ptr="linked")
        counter.inc()
        for thread in threads:
            thread.join(LIMIT_S)
        assert Count(1) in found
        assert "linked" in [getattr(one, "user_ptr", None) for one in found]


def test_closing_wakes_who_waits() -> None:
    with PrivateInterface(listen=None) as ni:
        queue, counter, caught = EventQueue(ni, 8), CountingEvent(ni), []
        begun = threading.Barrier(3)

        def run(wait: Any, *args: Any) -> None:
            begun.wait(LIMIT_S)
            try:
                wait(*args)
            except (PtlError, ValueError) as error:  # ValueError: it was closed before
                caught.append(getattr(error, "rc", Rc.PTL_INTERRUPTED))

        threads = [
            threading.Thread(target=run, args=(queue.wait,)),
            threading.Thread(target=run, args=(counter.wait, 1)),
        ]
        for thread in threads:
            thread.start()
        begun.wait(LIMIT_S)
        queue.close()
        counter.close()
        for thread in threads:
            thread.join(LIMIT_S)
        assert caught == [Rc.PTL_INTERRUPTED] * 2


def test_kinds_are_told_in_the_order_of_the_events(matching: Pair) -> None:
    pt = matching.b.table_entry()
    MatchEntry(pt, bytearray(4), options=MeOption.OP_PUT | MeOption.USE_ONCE)
    MemoryDescriptor(matching.a.ni, b"a").put(matching.target, pt.index)
    matching.drive(lambda: len(matching.b.seen) == 3)
    assert kinds_of(matching.b.seen) == [EventKind.LINK, EventKind.PUT, EventKind.AUTO_UNLINK]


# ---- ends of waits, in a process of its own: an abort is for the whole of one ----


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
