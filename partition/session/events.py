"""Events of a client's session, and the actions that its driver carries out."""

from __future__ import annotations

from native.machine import Action, Event
from native.wire import client
from yod.plan.prepared import Prepared

# -- events ---------------------------------------------------------------


class Asked(Event, frozen=True):
    """The client has sent its request."""

    request: client.Request


class Signalled(Event, frozen=True):
    """The client has got a signal."""

    number: int


class ClientGone(Event, frozen=True):
    """The client has ended, or broken the protocol."""


class Ready(Event, frozen=True):
    """A helper has prepared the launch."""

    prepared: Prepared


class Refused(Event, frozen=True):
    """The launch cannot begin.

    Attributes:
        text: a line for the user.
    """

    text: str
    exit_status: int


class NotPrepared(Event, frozen=True):
    """No helper has prepared the launch, or there is nothing for us to do. Nothing has begun.

    Attributes:
        is_launch: False: there is nothing to launch.
    """

    reason: str
    is_launch: bool = True


class Said(Event, frozen=True):
    """A helper has done what a line of `yodjob` says, or that has failed.

    Attributes:
        errors, output: for the user.
    """

    errors: bytes
    output: bytes
    exit_status: int


class LaunchEnded(Event, frozen=True):
    """The launch is over, and the user has its output.

    Attributes:
        exit_status: or minus the number of the signal that ended the job.
        drops: the user does not wait for the rest of the output.
    """

    exit_status: int
    drops: bool


class LaunchFailed(Event, frozen=True):
    """The launch cannot go on; the text says why."""

    text: str


class ServerEnds(Event, frozen=True):
    """The launch server was told to end."""


# -- actions --------------------------------------------------------------


class Prepare(Action, frozen=True):
    """Have a helper prepare the launch."""

    request: client.Request


class Submit(Action, frozen=True):
    """Have a helper do what a line of `yodjob` says."""

    request: client.Request


class CancelPreparing(Action, frozen=True):
    """Nobody waits for the helper any more."""


class Begin(Action, frozen=True):
    """Begin the launch."""

    prepared: Prepared


class PassSignal(Action, frozen=True):
    """Give a signal of the client's to the launch."""

    number: int


class Abandon(Action, frozen=True):
    """Close the launch: its job ends, and nobody is told.

    Attributes:
        is_soon: behind what it is doing now.
    """

    is_soon: bool = False


class Tell(Action, frozen=True):
    """Send a packet to the client."""

    message: client.FromServer


class HangUp(Action, frozen=True):
    """Close the connection; the session is over."""
