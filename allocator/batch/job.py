"""One batch job as bebopd knows it. Pure."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from allocator.jobs.charges import Charge
from native.ids import PortalId
from native.machine import Action, Event
from native.text import plural
from native.wire.alloc import Grant, NodeSpec
from native.wire.base import (
    NO_DEPENDENCY,
    NO_TERMS,
    Array,
    Dependency,
    Element,
    State,
    Terms,
    clipped,
)
from native.wire.batch import BY_FACTORS, NO_STEP, SPANS_MAX, Row

TOKENS_COUNT = 20_000  # of the last submissions, kept against a second one
OUTCOMES_COUNT = 20_000  # of past jobs, kept for those that wait for them


class Fate(Struct, frozen=True):
    """How a job is to end."""

    state: State
    text: str


class Held(IntEnum):
    """Who keeps a job from the line; the higher one counts."""

    BY_NOBODY = 0
    BY_USER = 1
    BY_OPERATOR = 2


class Elements(Struct):
    """Those of an array.

    Attributes:
        left: that have not begun.
        well, failed: how many have ended well, and otherwise.
        worst: the highest exit status of these.
        has_begun: the script of one runs, or has run.
        fate: how the array is to end; None: as its elements do.
        lost: that never begin, because those of other arrays have not ended well.
    """

    left: Array
    well: int = 0
    failed: int = 0
    worst: int = 0
    has_begun: bool = False
    fate: Fate | None = None
    lost: int = 0

    def lose(self, text: str) -> None:
        """One more never begins."""
        self.lost += 1
        self.fate = self.fate or Fate(State.CANCELLED, text)


class BatchJob(Struct, eq=False):
    """One job, from its submission to its end.

    The fields up to ``element`` are on the disk.

    Attributes:
        token: of its submission.
        time_s: how long it may run; 0: any time.
        after: the jobs that it waits for.
        is_exclusive: it takes whole nodes, that no other job has slots of.
        begins: unix time before which it has no slots; 0: any time.
        deadline: unix time by which it is to be over; 0: any time.
        held: who keeps it from the line while it is pending.
        terms: its queue and the like.
        priority: an operator's; ``BY_FACTORS``: none.
        reason: what it waits for, or why it has ended.
        nodes: that it has or had, each a first number and a count, in the order of its ranks;
            the very first runs its broker.
        incarnation: of the PCT of the first node.
        submitted, began, ended: unix time; 0: not yet.
        given: slots that it has or had; 0: not yet, or as many as it asks for.
        attempt: how often it was placed before.
        failures: how often of these its nodes were the reason.
        is_cancelled: its end was asked for.
        is_requeued: it is ended to wait again.
        is_preempted: it is ended for another job, to wait again or for good.
        lent_since: unix time from which it stands still for others; 0: it does not.
        lent_to: for whom.
        paused_s: for how long it has, before that: its time limit does not count that.
        is_suspended: it is stopped; its state is RUNNING, or SUSPENDED on the disk.
        elements: of an array, whose state is PENDING until it ends; None: it is none.
        element: which one of an array it is; None: of none.
        of: its array; both are written together.
        unwritten: of an array, by id: elements whose begin or end is not on the disk yet.
        since: when it came into the line; seconds, monotonic; None: not this bebopd's.
        grant: until the broker is known to run; None: not this bebopd's.
        reach: where terminals attach, and the key for it; empty: nowhere, or not yet.
        is_granted: the disk knows of the grant; before that nobody may hear of it.
        is_sent: its PCT has been told to start the broker.
        is_told: its broker has heard of the last orders, and its PCT was not lost since.
        is_warned: its script has SIGTERM, and some time before it is ended.
        has_no_slots: any more; its broker ends, or is killed.
        is_overdue: its time is long over, and its broker has not ended it.
        is_recorded: the disk knows of it.
        asker: who submitted it and has no answer yet.
        charge: what its user has used with it, when it has ended; None: nobody counts that.
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
    begins: float = 0.0
    deadline: float = 0.0
    held: Held = Held.BY_NOBODY
    terms: Terms = NO_TERMS
    priority: int = BY_FACTORS
    state: State = State.PENDING
    reason: str = ""
    nodes: tuple[tuple[int, int], ...] = ()
    incarnation: int = 0
    began: float = 0.0
    ended: float = 0.0
    exit_status: int = 0
    signal: int = 0
    given: int = 0
    attempt: int = 0
    failures: int = 0
    is_cancelled: bool = False
    is_requeued: bool = False
    is_preempted: bool = False
    is_suspended: bool = False
    lent_since: float = 0.0
    lent_to: str = ""
    paused_s: float = 0.0
    elements: Elements | None = None
    element: Element | None = None
    of: BatchJob | None = None
    unwritten: dict[int, BatchJob] = {}
    since: float | None = None
    grant: Grant | None = None
    is_granted: bool = False
    is_sent: bool = False
    reach: tuple[str, bytes] = ("", b"")
    is_told: bool = False
    is_warned: bool = False
    has_no_slots: bool = False
    is_overdue: bool = False
    is_recorded: bool = False
    asker: PortalId | None = None
    charge: Charge | None = None

    @property
    def root(self) -> int:
        """The node that runs its broker; -1: it has none."""
        return self.nodes[0][0] if self.nodes else -1

    @property
    def latest(self) -> float:
        """Unix time by which it must begin to be over by its deadline."""
        return self.deadline - self.time_s

    @property
    def left(self) -> int:
        """How many times it is still to begin."""
        return 1 if self.elements is None else self.elements.left.count

    @property
    def has_begun(self) -> bool:
        """Its script runs, or that of an element; or it has ended and is not free of its slots."""
        if self.elements is not None:
            return self.elements.has_begun
        return self.state in (State.RUNNING, State.COMPLETING)

    @property
    def is_to_be_killed(self) -> bool:
        """Its broker must end, and is killed if it does not."""
        return self.has_no_slots or self.is_preempted or self.is_overdue

    @property
    def shown_state(self) -> State:
        """As users know it."""
        if self.elements is not None and self.state is State.PENDING:
            return State.PENDING if self.left else State.RUNNING
        return State.SUSPENDED if self.is_suspended or self.stands_still else self.state

    @property
    def limit_s(self) -> float:
        """How long after its beginning it is to end; 0: at any time, or not while lent."""
        return self.time_s + self.paused_s if self.time_s and not self.lent_since else 0.0

    @property
    def stands_still(self) -> bool:
        """It does for others, and is not to end."""
        return self.lent_since > 0 and not self.is_ending

    @property
    def is_ending(self) -> bool:
        """It was told to end, to wait again or for good."""
        return self.is_cancelled or self.is_requeued or self.is_preempted or self.is_overdue

    @property
    def size_text(self) -> str:
        """How many slots, in words."""
        return plural(self.spec.slots, "slot")

    def place(self, grant: Grant, incarnation: int, unix_time: float) -> None:
        """It has slots."""
        self.state, self.grant, self.began = State.CONFIGURING, grant, unix_time
        self.waits_for("")
        self.nodes = tuple((span.node, span.count) for span in grant.nodes.spans)
        self.given = sum(span.slots * span.count for span in grant.nodes.spans)
        self.incarnation = incarnation

    def run(self) -> None:
        """Its script's broker runs."""
        self.state, self.grant = State.RUNNING, None
        self.waits_for("")
        if self.of is not None and self.of.elements is not None:
            self.of.elements.has_begun = True

    def unplace(self) -> None:
        """It has none any more, and did not use them."""
        self.nodes, self.grant, self.began, self.given = (), None, 0.0, 0
        self.is_granted = self.is_sent = self.is_told = self.has_no_slots = False

    def lend(self, to: str, unix_time: float) -> None:
        """It stands still for others, which have its slots."""
        self.lent_since, self.lent_to = unix_time, to

    def take_back(self, unix_time: float) -> None:
        """They have them no more, or it ends."""
        if self.lent_since:
            self.paused_s += max(0.0, unix_time - self.lent_since)
        self.lent_since, self.lent_to = 0.0, ""

    def is_out(self, attempt: int) -> bool:
        """It has the slots of this attempt, and is not over."""
        return self.attempt == attempt and self.state in (State.CONFIGURING, State.RUNNING)

    def lose(self, text: str) -> bool:
        """Its first node is out of reach; whether that is of interest any more."""
        if self.state.is_final:
            return False
        self.is_told = False  # it may not have heard
        self.waits_for(text)
        return True

    def waits_for(self, text: str) -> None:
        """What stands in its way now; that it was cancelled counts for more."""
        if not self.is_cancelled:
            self.reason = text

    def finish(self, state: State, reason: str, unix_time: float) -> None:
        """It has ended."""
        self.state, self.reason, self.ended = state, reason, unix_time
        self.take_back(unix_time)
        self.grant, self.reach, self.is_suspended = None, ("", b""), False
        if self.elements is not None:
            self.exit_status = self.elements.worst

    def likeness(self) -> tuple[object, ...]:
        """What a row says of one that waits, but for id and submission; of others nothing."""
        is_plain = self.elements is None and self.element is None and not self.attempt
        if self.state is not State.PENDING or self.began or not is_plain:
            return ()
        terms, slots = self.terms, self.given or self.spec.slots
        times = self.time_s, self.begins, self.deadline
        whose = self.uid, self.name, terms.queue, terms.account, terms.licences
        return (*whose, self.reason, slots, times)

    def used(self) -> Row:
        """Its row as it counts for fair share: without the time for which it stood still."""
        row = self.row()
        return replace(row, began=row.began + self.paused_s)

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
            reason=clipped(
                f"its slots are lent to {self.lent_to}" if self.stands_still else self.reason
            ),
            slots=self.given or self.spec.slots,
            nodes=self.nodes[:SPANS_MAX],
            node_count=sum(count for _, count in self.nodes),
            submitted=self.submitted,
            began=self.began,
            ended=self.ended,
            time_s=self.limit_s,
            exit_status=self.exit_status,
            signal=self.signal,
            expected=expected,
            begins=self.begins,
            deadline=self.deadline,
            element=self.element,
            left=None if self.elements is None else self.elements.left,
            queue=self.terms.queue,
            account=self.terms.account,
            licences=self.terms.licences,
        )


class Earlier(Struct, frozen=True):
    """What an earlier bebopd has left.

    Attributes:
        jobs: that have not ended.
        tokens: job ids of past submissions, by uid and token, the oldest first.
        outcomes: of past jobs, by id, the oldest first: whether they have ended well.
        elements: of arrays, by the array's id and their index, likewise.
    """

    jobs: tuple[BatchJob, ...] = ()
    tokens: dict[tuple[int, bytes], int] = {}
    outcomes: dict[int, bool] = {}
    elements: dict[int, dict[int, bool]] = {}


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


class ForgetSteps(Action, frozen=True):
    """Remove the rows of a job's steps: it runs from its beginning, and counts them anew."""

    job_id: int


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
    """Answer a question about jobs: with these rows, and what the disk has of others.

    Attributes:
        is_cut: there are more, with higher ids.
    """

    target: PortalId
    rows: tuple[Row, ...]
    others: tuple[int, ...] = ()
    viewer: Viewer = Viewer(None)
    is_cut: bool = False


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
