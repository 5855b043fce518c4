"""What PMI clients and the PMIx server of a job do, and what is done for them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from native.machine import JobAction, JobEvent

if TYPE_CHECKING:
    from native.wire import pmix


class Devices(Struct, frozen=True):
    """Which devices for MPI libraries a node has. If it cannot be told, the node has them.

    Attributes:
        has_fabric: a network that is driven without the kernel.
        has_any: a fabric, an accelerator, or a way into another process's memory.
        has_settings: the job's owner has a file of settings for Open MPI, which may ask for
            a fabric.
    """

    has_fabric: bool
    has_any: bool
    has_settings: bool


class PmiOpened(JobEvent, frozen=True):
    """The answer to :class:`OpenPmi`.

    Attributes:
        address: of the listener, for PMI_PORT; empty: there can be none.
        agent: path of ``yod-agent``; empty: there is none that launchers can use.
        host_files: paths; empty: none were asked for, or they cannot be written.
        devices: None: nobody has asked.
    """

    address: bytes
    agent: bytes = b""
    host_files: tuple[bytes, ...] = ()
    devices: Devices | None = None


class PmiConnected(JobEvent, frozen=True):
    """A client of PMI, or a launcher's agent, has a connection.

    Attributes:
        connection: its number on this node.
        rank: of the job, whose PMI_FD it is; None: it came by PMI_PORT.
    """

    connection: int
    rank: int | None


class PmiReceived(JobEvent, frozen=True):
    """Bytes from a connection."""

    connection: int
    data: bytes


class PmiClosed(JobEvent, frozen=True):
    """The other end has closed a connection."""

    connection: int


class PmixReceived(JobEvent, frozen=True):
    """A message of the job's PMIx server."""

    message: pmix.FromServer


class PmixServerEnded(JobEvent, frozen=True):
    """The job's PMIx server has ended; the text says what became of it.

    Attributes:
        has_orphans: its keeper was lost, so processes of it may be left.
    """

    text: str
    has_orphans: bool = False


class OpenPmi(JobAction, frozen=True):
    """Listen for the job's clients of PMI; answered by :class:`PmiOpened`.

    Attributes:
        ranks: of the job on this node.
        host_files: what a launcher inside is to read, a text a file.
        home: the owner's home directory, as their environment has it; None: nobody asks
            for the node's devices.
    """

    ranks: int
    host_files: tuple[bytes, ...] = ()
    home: bytes | None = None


class PmiReply(JobAction, frozen=True):
    """Write bytes to a connection."""

    connection: int
    data: bytes


class PmiHangUp(JobAction, frozen=True):
    """Close a connection after everything has been written to it."""

    connection: int


class StartPmixServer(JobAction, frozen=True):
    """Start the job's PMIx server, as the job's owner."""

    begin: pmix.Begin


class PmixSend(JobAction, frozen=True):
    """Send a message to the PMIx server."""

    message: pmix.FromPct
