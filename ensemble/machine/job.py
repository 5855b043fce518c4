"""What a job is, and the events and actions of the machine that looks after jobs."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ensemble.messages import Message


class JobState(Enum):
    """How a job is doing, by its scheduler. The values are on the wire."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    WAITING = 0
    RUNNING = 1
    TERMINATED = 2  # it has ended well
    FAILED = 3
    ERROR = 4  # it never ran, for reasons of its own

    @property
    def is_final(self) -> bool:
        """It runs no more, and never will."""
        return self in (JobState.TERMINATED, JobState.FAILED, JobState.ERROR)


class Job(Struct, frozen=True):
    """One job, as it is submitted.

    Attributes:
        uid: its number; a number is used once, also by launchers that were started again.
        name: unique, by which its scheduler finds it.
        epoch: of the server that it is, or that has asked for it.
        client: its id, chosen by the server; -1: it is the server.
        group_size: simulations in it.
        variables: more of its environment, as the server has said.
        job_id: the scheduler's; empty: not known.
    """

    uid: int
    name: str
    epoch: int
    client: int = -1
    group_size: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    job_id: str = ""

    @property
    def is_server(self) -> bool:
        """It is a server, of this epoch or an earlier one."""
        return self.client < 0

    @property
    def text(self) -> str:
        """What people call it."""
        who = "the server" if self.is_server else f"client {self.client}"
        return f"{who} (job {self.job_id})" if self.job_id else who


# -- events -------------------------------------------------------------------


class Timeout(Struct, frozen=True):
    """The time of :meth:`Ensemble.deadline` has come."""


class Interrupted(Struct, frozen=True):
    """SIGINT or SIGTERM has come."""

    number: int


class Submitted(Struct, frozen=True):
    """The scheduler has taken a job."""

    uid: int
    job_id: str


class SubmissionFailed(Struct, frozen=True):
    """The scheduler has not taken it."""

    uid: int
    text: str


class SubmissionUnknown(Struct, frozen=True):
    """The scheduler's command did not end in time, or ended without a word that can be read."""

    uid: int
    text: str


class Found(Struct, frozen=True):
    """The scheduler was asked for jobs by their names.

    Attributes:
        job_ids: by uid; one that is not there has never been taken, or is over.
    """

    uids: tuple[int, ...]
    job_ids: dict[int, str]


class FindFailed(Struct, frozen=True):
    """It did not answer."""

    uids: tuple[int, ...]
    text: str


class Updated(Struct, frozen=True):
    """How jobs are doing.

    Attributes:
        asked: the jobs that were asked about; empty: the scheduler says so by itself.
        states: by uid; one that was asked about and is not here is unknown to the scheduler.
    """

    asked: tuple[int, ...]
    states: dict[int, JobState]


class UpdateFailed(Struct, frozen=True):
    """The scheduler did not answer."""

    text: str


class Cancelled(Struct, frozen=True):
    """The scheduler has taken the order to cancel these."""

    uids: tuple[int, ...]


class CancellationFailed(Struct, frozen=True):
    """It has not."""

    uids: tuple[int, ...]
    text: str


class ServerConnected(Struct, frozen=True):
    """A server has said hello, with our token."""

    connection: int
    epoch: int


class ConnectionClosed(Struct, frozen=True):
    """A connection is no more, or what came on it was no message."""

    connection: int
    text: str = "its connection was closed"


class Received(Struct, frozen=True):
    """A message of a server."""

    connection: int
    epoch: int
    message: Message


Event = (
    Timeout
    | Interrupted
    | Submitted
    | SubmissionFailed
    | SubmissionUnknown
    | Found
    | FindFailed
    | Updated
    | UpdateFailed
    | Cancelled
    | CancellationFailed
    | ServerConnected
    | ConnectionClosed
    | Received
)

# -- actions ------------------------------------------------------------------


class Submit(Struct, frozen=True):
    """Write it into the journal, then submit it."""

    job: Job
    from_checkpoint: bool = False  # of a server: it may go on from what it has saved


class Find(Struct, frozen=True):
    """Ask for the ids of jobs by their names, in one call."""

    jobs: tuple[Job, ...]


class Update(Struct, frozen=True):
    """Ask how jobs are doing, in one call."""

    jobs: tuple[Job, ...]


class Cancel(Struct, frozen=True):
    """Cancel jobs, in one call."""

    jobs: tuple[Job, ...]


class Took(Struct, frozen=True):
    """The scheduler has taken a job: write its id into the journal."""

    job: Job


class Forget(Struct, frozen=True):
    """A job is over: write it into the journal."""

    job: Job
    state: JobState


class Tell(Struct, frozen=True):
    """Send a message to the server."""

    connection: int
    epoch: int
    message: Message


class Close(Struct, frozen=True):
    """Close a connection; a reason is told first."""

    connection: int
    text: str = ""


class Log(Struct, frozen=True):
    """A line for the user, that tells the story."""

    text: str
    is_detail: bool = False


class Abandon(Struct, frozen=True):
    """Hand the cancellation of these to a process of its own, and name them."""

    jobs: tuple[Job, ...]


class Finish(Struct, frozen=True):
    """Leave."""

    exit_status: int
    text: str = ""


Action = Submit | Find | Update | Cancel | Took | Forget | Tell | Close | Log | Abandon | Finish
