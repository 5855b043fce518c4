"""Events of a launch, and the actions that its driver carries out."""

from __future__ import annotations

from native.ids import PortalId
from native.machine import Action, Event, JobAction
from native.wire import alloc, pmi
from native.wire.group import Window

# -- events ---------------------------------------------------------------


class Interrupted(Event, frozen=True):
    """yod was told to end the job: Ctrl-C, SIGTERM, hang-up, closed output, a command.

    Attributes:
        by: the command that asked; empty: none did.
    """

    signal_number: int
    by: str = ""


class SignalToPass(Event, frozen=True):
    """A signal for the application: SIGUSR1 or SIGUSR2, or any that a command asks for."""

    signal_number: int


class StopAsked(Event, frozen=True):
    """Ctrl-Z: stop the job."""


class Continued(Event, frozen=True):
    """yod was continued, as by ``fg`` or ``bg``."""


class DetachAsked(Event, frozen=True):
    """The user leaves, and the job is to go on: by the key, or, if ``is_hangup``, unasked."""

    is_hangup: bool = False


class Detached(Event, frozen=True):
    """The answer to :class:`Detach`: the terminal is not used any more."""


class NotDetached(Event, frozen=True):
    """The other answer to :class:`Detach`; the text says why."""

    text: str
    is_hangup: bool = False


class SuspensionAsked(Event, frozen=True):
    """A command asks for all ranks to be stopped, or, if not ``is_on``, to be continued."""

    is_on: bool


class TimeLimitAsked(Event, frozen=True):
    """A command asks for an allocation to last so long from its beginning; 0: any time."""

    time_s: float


class CheckpointAsked(Event, frozen=True):
    """A checkpoint is to be made.

    Attributes:
        ends: the job ends behind it.
        signal_number: that asks for the end, which comes also without a checkpoint; 0: none does.
        is_timeout: the time limit asks for it, likewise.
        gives_way: others need its slots, likewise.
        is_trial: it is only to be said whether it could be made.
    """

    ends: bool
    signal_number: int = 0
    is_timeout: bool = False
    gives_way: bool = False
    is_trial: bool = False

    @property
    def ends_anyway(self) -> bool:
        """Whether the job ends also without a checkpoint."""
        return bool(self.signal_number) or self.is_timeout or self.gives_way


class LookAsked(Event, frozen=True):
    """A command asks where the ranks are."""


class FollowAsked(Event, frozen=True):
    """Commands follow the output of these ranks, and of no others.

    Attributes:
        ranks: first and last of each range.
    """

    ranks: tuple[tuple[int, int], ...]


class OutputWritten(Event, frozen=True):
    """Output has been written; ``count_bytes`` is 0 for yod's own lines."""

    stream: int
    count_bytes: int


class OutputFailed(Event, frozen=True):
    """Output cannot be written; the text says why."""

    text: str


class OutputClosed(Event, frozen=True):
    """The reader of the output has closed it, as in ``yod ... | head``."""


class InputRead(Event, frozen=True):
    """Input for rank 0; empty: end of file."""

    data: bytes


class Resized(Event, frozen=True):
    """The user's terminal, which stands for that of a rank, has this size."""

    window: Window


class ObjectDelivered(Event, frozen=True):
    """The root has the whole object."""

    number: int


class ObjectUndelivered(Event, frozen=True):
    """An object did not reach the root; the text says why.

    Attributes:
        is_consequence: another event or message tells the cause.
    """

    number: int
    text: str
    is_consequence: bool = False


class Shared(Event, frozen=True):
    """An object has been copied to the shared file system."""

    number: int
    path: bytes


class NotShared(Event, frozen=True):
    """An object could not be copied there; the text says why."""

    number: int
    text: str


class ProgramsFound(Event, frozen=True):
    """The answer to :class:`FindPrograms`.

    Attributes:
        paths: of each command's program.
        text: why one of them cannot be started; empty: all can.
    """

    ask: pmi.Ask
    paths: tuple[bytes, ...]
    text: str = ""


class RemoteServed(Event, frozen=True):
    """The answer to :class:`ServeRemote`."""

    place: int
    mount: int
    frame: bytes


# -- actions --------------------------------------------------------------


class UseGrant(Action, frozen=True):
    """Open connections to PCTs with this grant's key and addresses."""

    grant: alloc.Grant


class SendObject(JobAction, frozen=True):
    """Send an object of the plan to the root."""

    number: int
    target: PortalId


class FindPrograms(Action, frozen=True):
    """Look for the programs of a spawn as a shell does, each in the directory of its command."""

    ask: pmi.Ask


class CopyToShared(JobAction, frozen=True):
    """Copy an object of the plan to the shared file system."""

    number: int


class Write(Action, frozen=True):
    """Write the application's output."""

    stream: int
    rank: int
    data: bytes


class WriteLines(Action, frozen=True):
    """Write lines that each of some ranks has written."""

    stream: int
    ranks: tuple[tuple[int, int], ...]
    data: bytes


class ReadInput(Action, frozen=True):
    """Read this many more bytes of standard input."""

    count_bytes: int


class UseTerminal(Action, frozen=True):
    """The user's terminal stands for that of a rank, or does so no more."""

    is_on: bool


class ServeRemote(Action, frozen=True):
    """Carry out what a node's kernel asks for below a directory, in the user's file system.

    Attributes:
        frame: the request; empty: the mount is gone.
    """

    place: int
    mount: int
    directory: int
    frame: bytes


class Suspend(Action, frozen=True):
    """Stop yod, after its messages have been sent."""


class Detach(Action, frozen=True):
    """Keep the output, let terminals attach, and use this one no more."""

    is_hangup: bool


class Told(Action, frozen=True):
    """Base of what commands are told that have asked."""


class Looked(Told, frozen=True):
    """Tell the commands that ask where the ranks are what one node has seen.

    Attributes:
        node: its name; empty: the text is about all.
        stacks: a tree of stacks.
        text: why there is none, or what is missing.
        left: nodes that have not answered yet.
    """

    node: str
    stacks: bytes
    text: str
    left: int


class Followed(Told, frozen=True):
    """Show a rank's output to the commands that follow it."""

    rank: int
    stream: int
    data: bytes


class Checkpointed(Told, frozen=True):
    """Answer the commands that have asked for a checkpoint.

    Attributes:
        path: of the checkpoint.
        text: why there is none; empty: there is.
    """

    path: bytes
    text: str


class Checked(Told, frozen=True):
    """Answer the commands that have asked whether a checkpoint could be made.

    Attributes:
        text: why not; empty: it could.
    """

    text: str


class Rescue(Action, frozen=True):
    """Nodes of a job were lost while they drained its checkpoint: make it whole, if it is.

    Attributes:
        attempt: of the checkpoint.
        ended: ranks that have ended well.
    """

    attempt: int
    ended: tuple[int, ...]


class MarkOutput(Action, frozen=True):
    """Output has come up to a checkpoint: mark the files that yod writes.

    Attributes:
        path: of the checkpoint, which is whole; empty: it is not yet, and the marks are kept
            until it is.
    """

    path: bytes


class Tell(Action, frozen=True):
    """One line for the user. With ``-quiet`` only errors are shown."""

    text: str
    is_error: bool = True


class Finish(Action, frozen=True):
    """The launch is over: write the output that is left, then exit."""


class Leave(Action, frozen=True):
    """Exit now, without the output whose reader does not read it."""
