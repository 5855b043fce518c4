"""What bench/transport.py measures: kinds of traffic, over each way, with each wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

WAYS = ("tcp", "unix", "shm")
WAITS = ("spin", "block")
KB, MB = 1 << 10, 1 << 20
PEERS = 200
OURS, BARE, LIBFABRIC, UCX = "yod", "bare", "libfabric tcp", "UCX"
WAY_NAMES = {"tcp": "TCP", "unix": "Unix socket", "shm": "shared memory"}
WAIT_NAMES = {"spin": "spinning", "block": "blocking"}


class Test(NamedTuple):
    """One kind of traffic.

    Attributes:
        name: as in the tables.
        ours: what transport.c calls it.
        bare: what socket.c calls it; empty: nothing to compare with.
        size: of a message, in bytes.
        count: messages there and back, or windows.
        window: messages of a window; 0: there and back.
    """

    name: str
    ours: str
    bare: str
    size: int
    count: int
    window: int = 0


PUT = Test("put", "ping", "ping", 8, 10000)
EVENT = Test("put, event queue", "event", "ping", 8, 10000)
TRIGGER = Test("triggered put", "trigger", "ping", 8, 10240)
RATE = Test("one call each", "stream", "stream", 8, 2000, 64)
BUNDLE = Test("in bundles of 64", "bundle", "stream", 8, 2000, 64)
STREAM_64K = Test("64 kB", "stream", "stream", 64 * KB, 300, 16)
STREAM_1M = Test("1 MB", "stream", "stream", MB, 200, 4)
STREAM_64M = Test("64 MB", "stream", "stream", 64 * MB, 6, 1)
PING_64K = Test("64 kB there and back", "ping", "ping", 64 * KB, 1000)
PING_1M = Test("1 MB there and back", "ping", "ping", MB, 200)

LATENCIES = (PUT, EVENT, TRIGGER)
RATES = (RATE, BUNDLE)
BANDWIDTHS = (STREAM_64K, STREAM_1M, STREAM_64M)
AS_LIBFABRIC = (PING_64K, PING_1M)  # over TCP, spinning


class Case(NamedTuple):
    """A test over one way, with one way of waiting: what is compared."""

    way: str
    wait: str
    test: Test


class Runner(NamedTuple):
    """Something that runs some of the cases.

    Attributes:
        name: as in the tables.
        can: whether it has such a case.
        run: gives the nanoseconds per message.
    """

    name: str
    can: Callable[[Case], bool]
    run: Callable[[Case], float]


Figures = dict[tuple[str, Case], list[float]]  # ns per message, one per round


def name_of(case: Case) -> str:
    """Way and wait of a case, as in the tables."""
    return f"{WAY_NAMES[case.way]}, {WAIT_NAMES[case.wait]}"
