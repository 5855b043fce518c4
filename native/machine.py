"""What the machines share: events and actions of all of them.

A machine has ``handle(event, now) -> list[Action]``, ``deadline() -> float | None``
and ``check()``, which asserts its invariants and is called by the simulation. It reads no
clock: ``now`` is in seconds, monotonic, never less than in an earlier call.
"""

import errno
from typing import Protocol

from msgspec import Struct

from native.ids import PortalId, Principal
from native.wire.base import JobMessage, Message


class Event(Struct, frozen=True):
    """What happened."""


class Action(Struct, frozen=True):
    """What to do about it."""


class JobEvent(Event, frozen=True):
    """Something that happened to one job."""

    job_id: int


class JobAction(Action, frozen=True):
    """Something to do for one job."""

    job_id: int


class MessageReceived(Event, frozen=True):
    """A peer's message; ``principal`` is what the peer has proven."""

    source: PortalId
    principal: Principal
    message: Message


class PeerGone(Event, frozen=True):
    """A peer is out of reach; what it has not received is lost. The text gives the reason."""

    peer: PortalId
    text: str


class DeadlineReached(Event, frozen=True):
    """The time that ``deadline()`` gave has come."""


class Send(Action, frozen=True):
    """Send a message."""

    target: PortalId
    message: Message


class Log(Action, frozen=True):
    """Write a line to the daemon's log."""

    text: str
    job_id: int = 0  # 0: of no job


def job_of(action: Action) -> int:
    """The job that an action is for, or 0: the daemon itself."""
    match action:
        case JobAction(job_id) | Send(_, JobMessage(job_id)) | Log(_, job_id):
            return job_id
    return 0


class Contain(Protocol):
    """Called with an exception on behalf of one job, user or peer, which then ends.

    Raises:
        Exception: the same, where the process is to end as well, as in tests.
    """

    def __call__(self, whose: str, error: Exception) -> None: ...


def propagate(whose: str, error: Exception) -> None:
    """Raise the exception again: contain nothing."""
    raise error


_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT)


def is_bug(error: BaseException) -> bool:
    """Whether an unexpected exception is one; else the host lacks something."""
    if isinstance(error, OSError):
        return error.errno not in _LACKING
    return not isinstance(error, MemoryError)


def fault_text(error: BaseException) -> str:
    """An unexpected exception in one line."""
    if is_bug(error):
        return f"internal error, please report: {type(error).__name__}: {error}"
    return (isinstance(error, OSError) and error.strerror) or "Cannot allocate memory"
