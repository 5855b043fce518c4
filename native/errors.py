"""Errors: one class for each condition that a caller handles in its own way.

===========================  ==============================================
:class:`IllegalTransition`   one of our rules is broken, a bug: the job or peer ends
:class:`PeerProtocolError`   a peer broke the protocol: refuse that peer or job
:class:`PtlError`            a transport call failed (``native.transport.raw``)
:class:`UsageError`          the user's mistake: one line, exit status
===========================  ==============================================
"""

from enum import IntEnum


class IllegalTransition(Exception):
    """A machine has no transition for the event; nothing has changed.

    Attributes:
        state: the machine's state.
        event: what was refused.
    """

    def __init__(self, state: object, event: object) -> None:
        self.state = state
        self.event = event
        super().__init__(f"no transition from {state} for {event!r}: please report this bug")


class PeerProtocolError(Exception):
    """A peer sent bytes or a message that its conversation does not allow."""


class YodError(Exception):
    """An error that the user sees as one line.

    Attributes:
        exit_status: the command's exit status.
    """

    exit_status = 125


class UsageError(YodError):
    """The user gave a wrong option, argument or variable."""

    exit_status = 125


class LoadFileError(UsageError):
    """A load file is wrong; the text names file and line."""

    def __init__(self, path: str, line: int, text: str) -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {text}")


class ProgramNotFoundError(YodError):
    """No such program."""

    exit_status = 127


class ProgramNotExecutableError(YodError):
    """The program exists but cannot be executed."""

    exit_status = 126


class InternalError(YodError):
    """A bug of ours; the text has the exception."""


class PartitionError(YodError):
    """There is no partition, or the configured one cannot be used."""


# Why what is valid for a time may have expired.
TOO_OLD = "it is too old, or the clocks of the hosts differ"


class Refusal(IntEnum):
    """Why bebopd or a PCT refuses a request. The values are on the wire."""

    NOT_ENOUGH_NODES = 1  # more than the partition has
    BUSY = 2  # enough nodes exist, too few are free now
    UNKNOWN_NODE = 3
    BATCH_LIMIT = 4
    STALE_RESERVATION = 5  # the grant has expired or belongs to an earlier bebopd
    BAD_CREDENTIAL = 6
    NOT_PERMITTED = 7
    NO_ROOM = 8  # no place for an object on the node
    BAD_REQUEST = 9
    NOT_RECORDED = 10  # bebopd cannot write its records
    UNKNOWN_JOB = 11
    NO_QUEUES = 12  # the partition has no queues, accounts and licences
