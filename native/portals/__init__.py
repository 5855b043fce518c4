"""The Portals 4 interface for Python programs.

An :class:`Interface` is one of the four of the process; a rank that yod started (with
``--with-portals``, or with a script that imports this module) has the job's key and map
in it. A :class:`PrivateInterface` has an address and a key of its own, and any number of
them live in one process. From an interface come event queues, counting events, portal
table entries, memory descriptors and entries; each is closed by ``close()`` or ``with``.

Progress happens in calls only: there is no thread behind this module, so a process that
computes serves nobody until it calls something here. A call that waits lets other Python
threads run, and lets Ctrl-C in.

Memory is anything with the buffer protocol: ``bytes``, ``bytearray``, ``memoryview``,
``mmap``, numpy arrays. It is used where it lies, and kept where it is until its descriptor
or entry is closed and no operation uses it any more. A list of buffers is an I/O vector.

What is wrong raises: ``ValueError`` for PTL_ARG_INVALID, for numbers out of range and for
what is closed, ``TypeError`` for things of another kind, :class:`PtlError` with the result
code for every other one. Objects belong to the process that made them: in a forked child
every call raises ``PtlError`` with PTL_NO_INIT.

Names are those of portals4.h. Offsets and lengths are bytes. Times are seconds, as precise
as a millisecond; None is forever.

I/O. Imports native.transport.
"""

from __future__ import annotations

from native.portals.entries import ListEntry, MatchEntry, PortalTableEntry
from native.portals.events import CountingEvent, EventQueue, poll_counters, poll_queues
from native.portals.interface import Interface, PrivateInterface, abort, atomic_sync, fini, init
from native.portals.moves import MemoryDescriptor
from native.portals.values import (
    ANY,
    SIZE_MAX,
    AckReq,
    AtomicOp,
    Count,
    Datatype,
    Event,
    EventKind,
    Feature,
    LeOption,
    Limits,
    ListKind,
    MdOption,
    MeOption,
    NiFail,
    NiOption,
    Process,
    PtOption,
    SearchOp,
    StatusRegister,
)
from native.transport.raw import InUseError, NoSpaceError, PtlError, Rc

__all__ = [
    "ANY",
    "SIZE_MAX",
    "AckReq",
    "AtomicOp",
    "Count",
    "CountingEvent",
    "Datatype",
    "Event",
    "EventKind",
    "EventQueue",
    "Feature",
    "InUseError",
    "Interface",
    "LeOption",
    "Limits",
    "ListEntry",
    "ListKind",
    "MatchEntry",
    "MdOption",
    "MeOption",
    "MemoryDescriptor",
    "NiFail",
    "NiOption",
    "NoSpaceError",
    "PortalTableEntry",
    "PrivateInterface",
    "Process",
    "PtOption",
    "PtlError",
    "Rc",
    "SearchOp",
    "StatusRegister",
    "abort",
    "atomic_sync",
    "fini",
    "init",
    "poll_counters",
    "poll_queues",
]
