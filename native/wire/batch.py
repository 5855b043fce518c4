"""Conversation `batch`: jobs that are handed in, run without their user, and are asked about later.

yodjob hands a job in to bebopd, which answers when it is on its disk. When the job has its
slots, bebopd tells the PCT of its first node to start the job's *broker*, a process of the
owner, and sends it the grant. The PCT tells bebopd when the broker has ended.
"""

from typing import Annotated

from msgspec import Meta

from native.wire.alloc import NodeSpec
from native.wire.base import (
    NO_DEPENDENCY,
    NO_TERMS,
    NODE_MAX,
    PRIORITY_MAX,
    Array,
    Attempt,
    Dependency,
    Element,
    Factor,
    JobId,
    JobMessage,
    Licences,
    Message,
    Name,
    Nice,
    NodeCount,
    NodeNumber,
    OfAttempt,
    Part,
    Seconds,
    SignalNumber,
    State,
    Terms,
    Text,
    Uid,
)

TASK_MAX_BYTES = 192 * 1024  # script, arguments and environment of one job
OUTCOME_MAX_BYTES = 8192
ASKED_MAX = 256  # jobs of one question
ROWS_MAX = 64  # of one answer
ALSO_MAX = 2048  # jobs of one row
HISTORY_MAX = 10_000  # rows of all answers to one question
NO_STEP = -1  # in place of a step's number: the job itself
SPANS_MAX = 64  # of the nodes of one row
TOKEN_BYTES = 16
FACTORS_MAX = 8  # of one job's priority
BY_FACTORS = -1  # in place of an operator's priority
SCRIPT_STEP = 0  # the number of a job's script among the steps of its allocation

Token = Annotated[bytes, Meta(min_length=TOKEN_BYTES, max_length=TOKEN_BYTES)]
TaskData = Annotated[bytes, Meta(max_length=TASK_MAX_BYTES)]
Some = Annotated[tuple[JobId, ...], Meta(max_length=ASKED_MAX)]
StepNumber = Annotated[int, Meta(ge=NO_STEP, lt=1 << 47)]


class Submit(Message, frozen=True, tag="batch.submit"):
    """yodjob hands a job in.

    Attributes:
        token: random; the same job handed in again, after a lost connection, has the same one.
        time_s: how long it may run; 0: any time.
        task: an encoded :class:`Task`, which bebopd does not read.
        after: the jobs that it waits for before it waits for slots.
        is_exclusive: it takes whole nodes, that no other job has slots of.
        is_held: it waits until it is released.
        begins: unix time before which it does not begin; 0: any time.
        deadline: unix time by which it is to be over; 0: any time. It needs a time limit.
        is_test: it is not taken: the answer says when and where it would begin.
        terms: its queue and the like, as its user wants them.
        array: its elements, each of which runs as a job; None: it is none.
    """

    token: Token
    spec: NodeSpec
    name: Name
    time_s: Seconds
    task: TaskData
    after: Dependency = NO_DEPENDENCY
    is_exclusive: bool = False
    is_held: bool = False
    begins: Seconds = 0.0
    deadline: Seconds = 0.0
    is_test: bool = False
    terms: Terms = NO_TERMS
    array: Array | None = None


class Submitted(JobMessage, frozen=True, tag="batch.submitted"):
    """bebopd: it is on my disk. The text says what it waits for; empty: for nothing."""

    token: Token
    text: Text = ""


class Forecast(Message, frozen=True, tag="batch.forecast"):
    """bebopd: this job would be taken, and would begin then and there.

    Attributes:
        at: unix time, at the latest, if all others keep to their time limits; 0: not known.
        nodes: each a first number and a count, as many as fit.
        node_count: how many they are.
        text: what it would wait for; empty: for nothing.
    """

    at: Seconds
    nodes: Annotated[tuple[tuple[NodeNumber, NodeCount], ...], Meta(max_length=SPANS_MAX)] = ()
    node_count: Annotated[int, Meta(ge=0, le=NODE_MAX + 1)] = 0
    text: Text = ""


class Ask(Message, frozen=True, tag="batch.ask"):
    """yodjob asks about jobs.

    Attributes:
        jobs: these; empty: the first of all that have not ended and have ids above ``after``.
        waits: the answer comes when all of them have ended.
        is_grouped: a row may be that of several jobs.
    """

    jobs: Some = ()
    waits: bool = False
    after: JobId | None = None
    is_grouped: bool = False


class History(Message, frozen=True, tag="batch.history"):
    """yodjob asks about past jobs of the user, an operator about those of all users.

    Attributes:
        count: so many rows, the last.
        jobs: these jobs and their steps; empty: jobs without their steps, ended or not.
        step: of these jobs only the step with this number; -1: all, and the jobs themselves.
    """

    count: Annotated[int, Meta(ge=1, le=HISTORY_MAX)]
    jobs: Some = ()
    step: StepNumber = NO_STEP


class Row(Part, frozen=True):
    """One job, or one step of a job.

    Attributes:
        reason: what it waits for, or why it has ended; empty: nothing to say.
        slots: that it has, or asks for; 0: it shares those of other steps.
        nodes: that it has or had, first numbers and counts, as many as fit; its broker's first.
        node_count: how many they are.
        submitted, began, ended: unix time; 0: not yet.
        exit_status: of the script, or of yod; 0 before its end.
        signal: that has ended the script; 0: none.
        step: its number; -1: the job itself.
        slot_s: its slots, each times the seconds that it was held; 0: not known yet.
        expected: unix time at which one that waits has its slots at the latest; 0: not known.
        begins, deadline: as in :class:`Submit`.
        queue, account: empty: it has none.
        licences: that it has or asks for; of one that is over they are not told.
        factors: of the priority of one that waits and was asked about, which they add up to.
        element: that it is of an array; None: of none.
        left: the elements of an array that have not begun; None: it is no array.
        also: other jobs, and when each was submitted, of which the same is to be said.
    """

    job_id: JobId
    uid: Uid
    owner: Name
    name: Name
    state: State
    reason: Text
    slots: Annotated[int, Meta(ge=0, lt=1 << 32)]
    nodes: Annotated[tuple[tuple[NodeNumber, NodeCount], ...], Meta(max_length=SPANS_MAX)]
    node_count: Annotated[int, Meta(ge=0, le=NODE_MAX + 1)]
    submitted: Seconds
    began: Seconds
    ended: Seconds
    time_s: Seconds
    exit_status: Annotated[int, Meta(ge=0, lt=256)]
    signal: Annotated[int, Meta(ge=0, le=64)]
    step: StepNumber = NO_STEP
    slot_s: Seconds = 0.0
    expected: Seconds = 0.0
    begins: Seconds = 0.0
    deadline: Seconds = 0.0
    queue: Name = ""
    account: Name = ""
    licences: Licences = ()
    factors: Annotated[tuple[Factor, ...], Meta(max_length=FACTORS_MAX)] = ()
    element: Element | None = None
    left: Array | None = None
    also: Annotated[tuple[tuple[JobId, Seconds], ...], Meta(max_length=ALSO_MAX)] = ()


class Rows(Message, frozen=True, tag="batch.rows"):
    """A piece of the answer, ids ascending; a job that was asked about and is not here has none.

    Attributes:
        is_last: nothing follows; with ``is_cut`` one has to ask for those after the last.
    """

    rows: Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]
    is_last: bool
    is_cut: bool = False


class AskEvents(JobMessage, frozen=True, tag="batch.ask_events"):
    """yodjob asks what has happened to a job."""


class Happened(Part, frozen=True):
    """Something that has happened to a job, at this unix time."""

    at: Seconds
    text: Text


class Events(JobMessage, frozen=True, tag="batch.events"):
    """A piece of the answer, the oldest first."""

    events: Annotated[tuple[Happened, ...], Meta(max_length=ROWS_MAX)]
    is_last: bool


class Steps(JobMessage, frozen=True, tag="batch.steps"):
    """The broker of an allocation tells the partition's bebopd of steps that have ended.

    Attributes:
        first: rises from piece to piece.
        rows: as the broker knows them; their owner is that of the allocation.
        lost: how many steps could not be told, since the beginning of the allocation.
        attempt: as in the grant of the allocation.
    """

    first: Annotated[int, Meta(ge=0, lt=1 << 47)]
    rows: Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]
    lost: Annotated[int, Meta(ge=0, lt=1 << 47)] = 0
    attempt: Attempt = 0


class StepsHeard(JobMessage, frozen=True, tag="batch.steps_heard"):
    """bebopd has taken these steps; ``first`` is theirs."""

    first: Annotated[int, Meta(ge=0, lt=1 << 47)]


class AskReach(JobMessage, frozen=True, tag="batch.ask_reach"):
    """yodjob asks how to attach to a job; the answer comes when it runs, or has ended."""


class Reach(JobMessage, frozen=True, tag="batch.reach"):
    """bebopd tells the proven owner.

    Attributes:
        uid: of the owner.
        address, key: as in :class:`Started`; empty: there is nothing to attach to.
    """

    uid: Uid
    address: Name
    key: Annotated[bytes, Meta(max_length=32)]


class Cancel(JobMessage, frozen=True, tag="batch.cancel"):
    """End a job, whether it waits or runs; or only these elements of an array that waits."""

    elements: Array | None = None


class SignalScript(JobMessage, frozen=True, tag="batch.signal"):
    """From a user to bebopd, and from there to the PCT: send the job's script a signal."""

    number: SignalNumber


class LimitTime(JobMessage, frozen=True, tag="batch.limit_time"):
    """From a user to bebopd, from there to the PCT and its broker: how long a job may run.

    Attributes:
        time_s: from its beginning; 0: any time.
    """

    time_s: Seconds


class Suspend(JobMessage, frozen=True, tag="batch.suspend"):
    """From a user to bebopd, and from there to the PCT: stop the job's steps and its script.

    Attributes:
        is_on: false: continue them.
    """

    is_on: bool


class Hold(JobMessage, frozen=True, tag="batch.hold"):
    """Keep a job that waits from the line.

    Attributes:
        is_on: false: let it in again.
    """

    is_on: bool


class Requeue(JobMessage, frozen=True, tag="batch.requeue"):
    """End a job that runs, and let it wait again, at the place that it had."""


class Prioritise(JobMessage, frozen=True, tag="batch.prioritise"):
    """Change the place of a job that waits.

    Attributes:
        priority: an operator's, instead of its factors; -1: by its factors; None: as it is.
        nice: points that it gives up; None: as many as before.
    """

    priority: Annotated[int, Meta(ge=BY_FACTORS, le=PRIORITY_MAX)] | None = None
    nice: Nice | None = None


class Done(JobMessage, frozen=True, tag="batch.done"):
    """bebopd: what was asked of a job is on its way; a time limit or a priority is on its disk."""


# -- bebopd and the PCT of a job's first node ---------------------------------


class Start(JobMessage, frozen=True, tag="batch.start"):
    """Start the broker of a job as its owner. The job's grant follows.

    Attributes:
        attempt: how often it was placed before.
        element: of an array; None: it is of none.
    """

    uid: Uid
    gid: Uid
    groups: tuple[Uid, ...]
    name: Name
    time_s: Seconds
    task: TaskData
    attempt: Attempt = 0
    element: Element | None = None


class Started(JobMessage, frozen=True, tag="batch.started"):
    """The PCT: the broker runs. Repeated when it can be attached to, and to a later bebopd.

    Attributes:
        address: ``host:port`` at which terminals attach; empty: they do not.
        key: of the owner, for it.
    """

    address: Name = ""
    key: Annotated[bytes, Meta(max_length=32)] = b""


class EndBroker(JobMessage, frozen=True, tag="batch.end_broker"):
    """End the broker of an attempt: it ends the job. ``is_forced``: kill it."""

    is_forced: bool = False
    attempt: Attempt = 0


class BrokerEnded(JobMessage, frozen=True, tag="batch.ended"):
    """The PCT: the broker has ended. Repeated until bebopd has it on its disk.

    Attributes:
        wait_status: of the broker, as waitpid gives it; -1: it could not be started.
        outcome: what it has said at its end: an encoded :class:`JobEnd`, or text. It is as
            the job's owner has made it.
        attempt: of its start.
    """

    wait_status: Annotated[int, Meta(ge=-1, lt=1 << 16)]
    outcome: Annotated[bytes, Meta(max_length=OUTCOME_MAX_BYTES)]
    attempt: Attempt = 0


class Heard(OfAttempt, frozen=True, tag="batch.heard"):
    """bebopd: the end of the broker of this attempt is on my disk."""


# -- what travels in these, and what a broker is given -------------------------


class EarlySignal(Part, frozen=True):
    """A signal before the time limit of an allocation.

    Attributes:
        number: of the signal.
        before_s: so long before the time is over.
        is_for_command: the command or script alone gets it; else the ranks of all steps.
    """

    number: SignalNumber
    before_s: Seconds
    is_for_command: bool


class Task(Part, frozen=True):
    """What a job runs, as its user's yodjob has found it.

    Attributes:
        script: its bytes; empty: ``words`` are a command line of yod, whose output is spooled.
        words: the script's name and its arguments, or yod's.
        output: pattern (:mod:`native.pattern`) of its file for standard output and error.
        warning: before its time is over; None: there is none.
        checkpoints: directory in which CRIU writes the script down; empty: it does not.
    """

    script: bytes
    words: Annotated[tuple[bytes, ...], Meta(min_length=1)]
    environment: dict[bytes, bytes]
    directory: bytes
    umask: Annotated[int, Meta(ge=0, le=0o777)]
    output: bytes
    warning: EarlySignal | None = None
    checkpoints: bytes = b""


class Given(Part, frozen=True):
    """What a PCT gives a broker on its standard input.

    Attributes:
        grant: an encoded ``alloc.grant``.
        task: an encoded :class:`Task`.
        bebopd: address of the partition's, ``host:port``.
        key: of the allocation's own daemons; empty: there is no script, the broker makes one.
    """

    job_id: JobId
    name: Name
    time_s: Seconds
    grant: bytes
    task: bytes
    bebopd: Name
    key: bytes = b""


class Serving(Part, frozen=True):
    """What a broker says on its standard output when terminals can attach; as in Started."""

    address: Name
    key: Annotated[bytes, Meta(max_length=32)]


SERVING, OUTCOME = b"S", b"O"  # the first byte of a frame of a broker's, before one of these
