"""Identities: transport addresses, proven principals, shipped objects.

A node is a number in the partition's table. A :class:`PortalId` is the transport address of
a process. Users see nodes, the transport uses ids.
"""

from enum import IntEnum
from typing import NamedTuple

PID_ANY = 0xFFFFFFFF
NID_ANY = 0xFFFFFFFF


class PortalId(NamedTuple):
    """Transport address of a process.

    Attributes:
        nid: IPv4 address as a 32-bit number; 1 to 2**24 - 1 are places in an
            address table (Unix sockets, IPv6).
        pid: TCP port; 2**16 and above belong to an end that does not listen
            and is reachable only over a connection that it opened.
    """

    nid: int
    pid: int

    def __str__(self) -> str:
        if self.nid < 1 << 24:
            return f"table entry {self.nid}, pid {self.pid}"
        octets = ".".join(str(self.nid >> shift & 255) for shift in (24, 16, 8, 0))
        return f"{octets}:{self.pid}"


class PrincipalKind(IntEnum):
    """What a peer has proven in the handshake."""

    PARTITION = 1  # holds the partition's key: a daemon or an operator
    USER = 2  # is this user of the partition's hosts
    JOB = 3  # holds the key of one job


class Principal(NamedTuple):
    """The identity that a peer has proven. An id inside a message proves nothing.

    Attributes:
        kind: what was proven.
        uid: user id; of the partition's owner for PARTITION.
        job_id: the job for JOB; else 0.
    """

    kind: PrincipalKind
    uid: int
    job_id: int = 0


def name_of_job(job_id: int, allocation: str = "") -> str:
    """What people call a job: ``17``, or ``17.3`` where it is a step of allocation 17."""
    return f"{allocation}.{job_id}" if allocation else str(job_id)


class ObjectKey(NamedTuple):
    """One shipped file of one job: its place in the load's list of objects."""

    job_id: int
    number: int
