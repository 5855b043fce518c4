"""What happens to a launch, and what it asks of its driver."""

from __future__ import annotations

from native.ids import PortalId
from native.machine import Action, Event, JobAction
from native.wire import alloc, pmi

# -- events ---------------------------------------------------------------


class Interrupted(Event, frozen=True):
    """yod was told to end the job: Ctrl-C, SIGTERM, hang-up, closed output."""

    signal_number: int


class SignalToPass(Event, frozen=True):
    """SIGUSR1 or SIGUSR2 for the application."""

    signal_number: int


class StopAsked(Event, frozen=True):
    """Ctrl-Z: the job is to stand still."""


class Continued(Event, frozen=True):
    """yod goes on, as by ``fg`` or ``bg``."""


class OutputWritten(Event, frozen=True):
    """Output of the ranks has left yod."""

    stream: int
    count_bytes: int


class OutputFailed(Event, frozen=True):
    """Output cannot be written; the text says why."""

    text: str


class OutputClosed(Event, frozen=True):
    """Nobody reads the output any more, as in ``yod ... | head``."""


class InputRead(Event, frozen=True):
    """Input for rank 0; empty: end of file."""

    data: bytes


class ObjectDelivered(Event, frozen=True):
    """The root has an object whole."""

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
    """It could not be; the text says why."""

    number: int
    text: str


class ProgramsFound(Event, frozen=True):
    """The answer to :class:`FindPrograms`.

    Attributes:
        paths: of each command's program.
        text: why one cannot be started; empty: all can.
    """

    ask: pmi.Ask
    paths: tuple[bytes, ...]
    text: str = ""


# -- actions --------------------------------------------------------------


class UseGrant(Action, frozen=True):
    """Open connections to PCTs with this grant's key and addresses."""

    grant: alloc.Grant


class SendObject(JobAction, frozen=True):
    """Send an object of the plan to the root."""

    number: int
    target: PortalId


class FindPrograms(Action, frozen=True):
    """Look for the programs of a spawn, as a shell in its directory would."""

    ask: pmi.Ask


class CopyToShared(JobAction, frozen=True):
    """Copy an object of the plan to the shared file system."""

    number: int


class Write(Action, frozen=True):
    """Write the application's output."""

    stream: int
    rank: int
    data: bytes


class ReadInput(Action, frozen=True):
    """Read so many more bytes of standard input."""

    count_bytes: int


class Suspend(Action, frozen=True):
    """Stop yod, once what has been sent is on its way."""


class Tell(Action, frozen=True):
    """One line for the user; quiet yods keep what is not an error to themselves."""

    text: str
    is_error: bool = True


class Finish(Action, frozen=True):
    """The launch is over: write what is left, then exit."""


class Leave(Action, frozen=True):
    """Exit now: the user does not wait for a reader that does not take what is left."""
