"""Two processes that reach each other through native.portals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from native.portals import (
    AckReq,
    AtomicOp,
    EventKind,
    EventQueue,
    Interface,
    MemoryDescriptor,
    NiFail,
    PrivateInterface,
    Process,
)
from tests.support.portals_ends import KEY, KINDS, name_of
from tests.support.wait import LIMIT_S

TARGET = """
import sys
import numpy as np
from native.portals import *

kind, shared = NiOption(int(sys.argv[1])), sys.argv[2] == "shared"
options = LeOption.OP_PUT | LeOption.OP_GET | LeOption.EVENT_LINK_DISABLE
opened = Interface(kind) if shared else PrivateInterface(kind, partition_key=bytes(range(32)))
with opened as ni:
    queue, there = EventQueue(ni, 64), np.arange(100.0)
    pt = PortalTableEntry(ni, queue, 5)
    entry = (MatchEntry if ni.is_matching else ListEntry)(pt, there, options=options)
    print(*ni.phys_id(), flush=True)
    if ni.is_logical:
        ni.set_map([ni.phys_id(), tuple(map(int, input().split()))])
    for _ in range(4):
        event = queue.wait()
        print(event.kind.name, event.initiator, event.mlength, flush=True)
    print(there.sum(), flush=True)
"""


@contextmanager
def target(kind: int, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process that shares 100 numbers."""
    words = [sys.executable, "-c", TARGET, str(int(kind)), how]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


@pytest.mark.parametrize("how", ["private", "shared"])
@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_numbers_go_to_another_process_and_come_back(
    kind: int, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_bytes(KEY)
    monkeypatch.setenv("PTL_KEY_FILE", str(key))
    make = Interface if how == "shared" else PrivateInterface
    more = {} if how == "shared" else {"partition_key": KEY}
    with target(kind, how) as child, make(kind, **more) as ni:  # type: ignore[arg-type]
        nid, pid = map(int, line_of(child).split())
        where: Process | int = Process(nid, pid)
        if ni.is_logical:
            ni.set_map([(nid, pid), ni.phys_id()])
            print(*ni.phys_id(), file=child.stdin, flush=True)
            where = 0
        queue, mine = EventQueue(ni, 64), np.full(100, 2.0)
        md = MemoryDescriptor(ni, mine, queue)

        def until(kind: EventKind) -> None:
            while (event := queue.wait(LIMIT_S)) and event.kind is not kind:
                assert event.ni_fail is NiFail.OK
            assert event and event.ni_fail is NiFail.OK

        md.get(where, 5)
        until(EventKind.REPLY)
        assert (mine == np.arange(100)).all()
        md.put(where, 5, ack=AckReq.ACK_REQ)
        until(EventKind.ACK)
        md.atomic(where, 5, AtomicOp.SUM, ack=AckReq.ACK_REQ)
        until(EventKind.ACK)
        with MemoryDescriptor(ni, np.ones(100), queue) as ones:
            md.fetch_atomic(ones, where, 5, AtomicOp.SUM)
            until(EventKind.REPLY)
        assert (mine == 2 * np.arange(100)).all()
        me = ni.id()
        for name in ("GET", "PUT", "ATOMIC", "FETCH_ATOMIC"):
            assert line_of(child) == f"{name} {me} 800"
        assert float(line_of(child)) == 2 * 4950 + 100


def test_a_process_that_has_died_fails_what_is_put_to_it() -> None:
    with target(KINDS[0], "private") as child, PrivateInterface(partition_key=KEY) as ni:
        where = tuple(map(int, line_of(child).split()))
        queue = EventQueue(ni, 16)
        md = MemoryDescriptor(ni, bytes(800), queue)
        md.put(where, 5, ack=AckReq.ACK_REQ)  # type: ignore[arg-type]
        events = [queue.wait(LIMIT_S), queue.wait(LIMIT_S)]
        assert [event.kind for event in events if event] == [EventKind.SEND, EventKind.ACK]
        child.kill()
        child.wait()
        md.put(where, 5, ack=AckReq.ACK_REQ, user_ptr="late")  # type: ignore[arg-type]
        while (event := queue.wait(LIMIT_S)) and event.kind is not EventKind.ACK:
            pass
        assert event and event.ni_fail is NiFail.UNDELIVERABLE and event.user_ptr == "late"
        md.close()
