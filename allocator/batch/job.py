"""One batch job as bebopd knows it. Pure."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from native.ids import PortalId
from native.machine import Action, Event
from native.text import plural
from native.wire.alloc import Grant, NodeSpec
from native.wire.base import NO_DEPENDENCY, Dependency, State, clipped
from native.wire.batch import NO_STEP, SPANS_MAX, Row

TOKENS_COUNT = 20_000  # of the last submissions, kept against a second one
OUTCOMES_COUNT = 20_000  # of past jobs, kept for those that wait for them


class Held(IntEnum):
    """Who keeps a job from the line; the higher one counts."""

    BY_NOBODY = 0
    BY_USER = 1
    BY_OPERATOR = 2


class BatchJob(Struct, eq=False):
    """One job, from its submission to its end.

    The fields up to ``is_suspended`` are on the disk.

    Attributes:
        token: of its submission.
        time_s: how long it may run; 0: any time.
        after: the jobs that it waits for.
        is_exclusive: it takes whole nodes, that no other job has slots of.
        held: who keeps it from the line while it is pending.
        reason: what it waits for, or why it has ended.
        nodes: that it has or had, each a first number and a count, in the order of its ranks;
            the very first runs its broker.
        incarnation: of the PCT of the first node.
        submitted, began, ended: unix time; 0: not yet.
        attempt: how often it was placed before, and a node could not be made ready.
        is_cancelled: its end was asked for.
        is_suspended: it is stopped; its state is RUNNING, or SUSPENDED on the disk.
        since: when it came into the line; seconds, monotonic; None: not this bebopd's.
        grant: until the broker is known to run; None: not this bebopd's.
        reach: where terminals attach, and the key for it; empty: nowhere, or not yet.
        is_granted: the disk knows of the grant; before that nobody may hear of it.
        is_sent: its PCT has been told to start the broker.
        is_told: its broker has heard of the last orders, and its PCT was not lost since.
        has_no_slots: any more; its broker ends, or is killed.
        is_recorded: the disk knows of it.
        asker: who submitted it and has no answer yet.
    """

    job_id: int
    uid: int
    owner: str
    name: str
    token: bytes
    spec: NodeSpec
    time_s: float
    submitted: float
    after: Dependency = NO_DEPENDENCY
    is_exclusive: bool = False
    held: Held = Held.BY_NOBODY
    state: State = State.PENDING
    reason: str = ""
    nodes: tuple[tuple[int, int], ...] = ()
    incarnation: int = 0
    began: float = 0.0
    ended: float = 0.0
    exit_status: int = 0
    signal: int = 0
    attempt: int = 0
    is_cancelled: bool = False
    is_suspended: bool = False
    since: float | None = None
    grant: Grant | None = None
    is_granted: bool = False
    is_sent: bool = False
    reach: tuple[str, bytes] = ("", b"")
    is_told: bool = False
    has_no_slots: bool = False
    is_recorded: bool = False
    asker: PortalId | None = None

    @property
    def root(self) -> int:
        """The node that runs its broker; -1: it has none."""
        return self.nodes[0][0] if self.nodes else -1

    @property
    def shown_state(self) -> State:
        """As users know it."""
        return State.SUSPENDED if self.is_suspended else self.state

    @property
    def size_text(self) -> str:
        """How many slots, in words."""
        return plural(self.spec.slots, "slot")

    def row(self, *, is_held: bool = False, expected: float = 0.0) -> Row:
        """What is told of it.

        Args:
            is_held: it holds slots, also when it has ended.
            expected: unix time at which it is to have them; 0: not known.
        """
        state = State.COMPLETING if is_held and self.state.is_final else self.shown_state
        return Row(
            job_id=self.job_id,
            uid=self.uid,
            owner=self.owner,
            name=self.name,
            state=state,
            reason=clipped(self.reason),
            slots=self.spec.slots,
            nodes=self.nodes[:SPANS_MAX],
            node_count=sum(count for _, count in self.nodes),
            submitted=self.submitted,
            began=self.began,
            ended=self.ended,
            time_s=self.time_s,
            exit_status=self.exit_status,
            signal=self.signal,
            expected=expected,
        )


class Earlier(Struct, frozen=True):
    """What an earlier bebopd has left.

    Attributes:
        jobs: that have not ended.
        tokens: job ids of past submissions, by uid and token, the oldest first.
        outcomes: of past jobs, by id, the oldest first: whether they have ended well.
    """

    jobs: tuple[BatchJob, ...] = ()
    tokens: dict[tuple[int, bytes], int] = {}
    outcomes: dict[int, bool] = {}


class RecordBatchJob(Action, frozen=True):
    """Write what is to be known of a job after a crash; :class:`BatchRecorded` answers.

    Attributes:
        task: of a job that is new; None: the disk has it.
    """

    job: BatchJob
    task: bytes | None = None


class BatchRecorded(Event, frozen=True):
    """These jobs are on the disk as they were when it was asked for.

    Attributes:
        error: why they are not; empty: they are.
    """

    job_ids: tuple[int, ...]
    error: str = ""


class RecordEvent(Action, frozen=True):
    """Keep a line of a job's history."""

    job_id: int
    text: str


class RecordSteps(Action, frozen=True):
    """Keep the final rows of steps."""

    rows: tuple[Row, ...]


class StartBroker(Action, frozen=True):
    """Send a PCT the task of a job, from the disk, and the grant."""

    target: PortalId
    job: BatchJob
    gid: int
    groups: tuple[int, ...]


class Viewer(Struct, frozen=True):
    """Who asks about past jobs.

    Attributes:
        uid: whose jobs are shown; None: those of all users, to an operator.
        sees_batch: batch jobs of other users are shown as well.
    """

    uid: int | None
    sees_batch: bool = False


class SendRows(Action, frozen=True):
    """Answer a question about jobs: with these rows, and what the disk has of others."""

    target: PortalId
    rows: tuple[Row, ...]
    others: tuple[int, ...]
    viewer: Viewer = Viewer(None)


class SendHistory(Action, frozen=True):
    """Answer with the last jobs, or with some and their steps: the disk has the past ones.

    Attributes:
        rows: of jobs that are not over.
        jobs: these and their steps; empty: jobs without their steps.
        step: of these jobs only this step; -1: all.
    """

    target: PortalId
    count: int
    viewer: Viewer
    rows: tuple[Row, ...] = ()
    jobs: tuple[int, ...] = ()
    step: int = NO_STEP


class SendEvents(Action, frozen=True):
    """Answer with the lines of a job's history.

    Attributes:
        viewer: None: somebody who may see it.
    """

    target: PortalId
    job_id: int
    viewer: Viewer | None = None
