"""Conversation `client`: a launch server and the yod command of a user on its host.

Both ends are on one host and of one release, and one of them is C, so this is no MessagePack
but packets of a SOCK_SEQPACKET socket: little-endian, unaligned, checked field by field.
CLIENT.md in this folder is the specification. A packet is::

    u32 kind   u32 value   payload

These are the messages; :mod:`native.wire.client_codec` makes packets of them and reads them. A
field named ``token`` or ``keeper`` is chosen by the server, and comes back in the answer.
"""

from __future__ import annotations

import signal
from enum import IntEnum, IntFlag

from msgspec import Struct

MAGIC = 0x31434F59  # "YOC1"
VERSION = 1
RELEASE_BYTES = 32
DATA_MAX = 65536  # bytes of output or input in one packet
PACKET_MAX_BYTES = 8 + DATA_MAX
OUTPUT_WINDOW_BYTES = 256 * 1024  # of one stream that the client has not written yet
# What one stream was sent before it is asked for; less takes no packet more.
GIVE_AFTER_BYTES = 1024 * 1024
GIVE_AFTER_PACKETS = 32
OWN_LINE_MAX_BYTES = 512  # of a line of the server's own, which may come beyond the window
LEAVE_TEXT_MAX_BYTES = 4095  # with a status, what a pipe takes at once
STRINGS_MAX = 1 << 20  # arguments, and likewise variables, of one invocation
LIMITS_MAX = 64
INVOCATION_MAX_BYTES = 16 * 1024 * 1024
NAMESPACES = ("mnt", "pid", "user", "net", "ipc", "uts")  # of /proc/self/ns, in this order
UNLIMITED = -1  # as a limit
MILLISECONDS_MAX = (1 << 31) - 1
_CUT = "…\n".encode()

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TOLD_SIGNALS = frozenset(
    {*END_SIGNALS, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCONT}
)


class StartFlag(IntFlag):
    """What comes with a START."""

    PORTALS = 1  # a third descriptor: the file for the ranks' map


class AppendFlag(IntFlag):
    """How a file is added to."""

    LOG = 1  # it may be in a directory of others: no link is followed; made with mode 0644
    MORE = 2  # the next APPEND goes on with this file, which stays open; only the last is answered
    EMPTIES = 4  # what is in the file is lost first


class ExitFlag(IntFlag):
    """What the client does before it ends."""

    DROP = 1  # what is not written yet is dropped


class Gift(IntEnum):
    """What the server may write to by itself, in place of the client."""

    NOTHING = 0  # the client writes on
    PIPE = 1  # a pipe without a name, whose descriptor comes with the packet
    NULL = 2  # it is /dev/null


class Stdio(IntFlag):
    """What the client's standard streams are, and who uses them."""

    SAME_OUTPUT = 1  # 1 and 2 are the same file, also if it was opened twice
    STDIN_TERMINAL = 2
    STDOUT_TERMINAL = 4
    STDERR_TERMINAL = 8
    STDIN_CLOSED = 16
    STDOUT_CLOSED = 32
    STDERR_CLOSED = 64
    STAND_IN = 128  # another process ends when the user leaves
    YODJOB = 256  # the command is yodjob: nothing is launched


# -- launch server to client ----------------------------------------------


class Hello(Struct, frozen=True):
    """The server is there: its first packet, sent when it accepts.

    Attributes:
        namespaces: inodes of the files of ``NAMESPACES`` in /proc/self/ns.
        root: device and inode of the root directory.
        release: the build that the server is of.
    """

    unix_pid: int
    press_ms: int
    liveness_ms: int
    namespaces: tuple[int, ...]
    root: tuple[int, int]
    release: bytes


class Cold(Struct, frozen=True):
    """The client runs the launch itself. Never after anything has begun.

    Attributes:
        is_launch: False: nothing is to be launched.
    """

    reason: str
    is_launch: bool = True


class Output(Struct, frozen=True):
    """For standard output (1) or error (2)."""

    stream: int
    data: bytes


class Read(Struct, frozen=True):
    """The client may send this many bytes more of its standard input."""

    count_bytes: int


class Start(Struct, frozen=True):
    """Start a keeper. Descriptors: its control socket, its specification, with PORTALS the map."""

    keeper: int
    has_portals: bool = False


class Continue(Struct, frozen=True):
    """Send a keeper SIGCONT: one that was stopped would never end its ranks."""

    keeper: int


class KillOrphans(Struct, frozen=True):
    """Kill what lost keepers have left; answered when none of it is left."""

    token: int


class Suspend(Struct, frozen=True):
    """Stop as by SIGTSTP; ``Signal(SIGCONT)`` follows."""


class Append(Struct, frozen=True):
    """Add to the end of a file, relative to the client's directory; made where it is missing."""

    token: int
    path: bytes
    data: bytes
    flags: AppendFlag = AppendFlag(0)


class Pong(Struct, frozen=True):
    """Answers a PING."""


class Exit(Struct, frozen=True):
    """The launch is over. The last packet.

    Attributes:
        status: the exit status, or minus the number of the signal that yod is to die of.
        drops: output that is not written yet is dropped.
    """

    status: int
    drops: bool = False


class Times(Struct, frozen=True):
    """From now on these hold instead of those of HELLO: the invocation has set limits."""

    press_ms: int
    liveness_ms: int

    @classmethod
    def of_seconds(cls, press_s: float, liveness_s: float) -> Times:
        """In milliseconds: at least one, and no more than the client counts."""
        return cls(_milliseconds(press_s), _milliseconds(liveness_s))


class Leave(Struct, frozen=True):
    """The user goes, and the client stays: it has no terminal any more. Answered by LEFT.

    Attributes:
        text: for the user; at most ``LEAVE_TEXT_MAX_BYTES`` are sent.
    """

    text: str


class Give(Struct, frozen=True):
    """Let the server write to this stream, 1 or 2, once all that it was sent is written."""

    stream: int


def cut(data: bytes, most_bytes: int = DATA_MAX) -> bytes:
    """Lines of UTF-8 that fit a packet; an ellipsis stands for what is too long."""
    if len(data) <= most_bytes:
        return data
    return data[: most_bytes - len(_CUT)].decode(errors="ignore").encode() + _CUT


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(seconds * 1000), MILLISECONDS_MAX))


FromServer = (
    Hello
    | Cold
    | Output
    | Read
    | Start
    | Continue
    | KillOrphans
    | Suspend
    | Append
    | Pong
    | Exit
    | Times
    | Leave
    | Give
)


# -- client to launch server ----------------------------------------------


class Request(Struct, frozen=True):
    """Run this launch. Descriptors: the strings as a sealed memfd, the current directory (O_PATH).

    Attributes:
        ignored_signals: those that the client was started to ignore.
        arguments, variables: how many there are among the strings; see ``decode_strings``.
        limits: resource and soft limit; RLIMIT_ numbers, ``UNLIMITED``.
    """

    umask: int
    stdio: Stdio
    ignored_signals: tuple[int, ...]
    arguments: int
    variables: int
    limits: tuple[tuple[int, int], ...]


class Input(Struct, frozen=True):
    """What was read; empty: the end of the file.

    Attributes:
        is_gone: it is a terminal that has hung up; nothing was read.
    """

    data: bytes
    is_gone: bool = False


class Written(Struct, frozen=True):
    """This much of a stream's output was written, or dropped after OUTPUT_FAILED."""

    stream: int
    count_bytes: int


class Signal(Struct, frozen=True):
    """The client got this signal."""

    number: int


class OutputFailed(Struct, frozen=True):
    """Nothing is written to that stream any more. EPIPE: its reader is gone."""

    stream: int
    errno: int


class Started(Struct, frozen=True):
    """Answers a START: the keeper's process, or the error."""

    keeper: int
    unix_pid: int = 0
    errno: int = 0


class Ended(Struct, frozen=True):
    """A keeper's process has ended."""

    keeper: int
    wait_status: int


class OrphansKilled(Struct, frozen=True):
    """Answers a KILL_ORPHANS."""

    token: int


class Appended(Struct, frozen=True):
    """Answers an APPEND; errno 0: it was written whole."""

    token: int
    errno: int


class Ping(Struct, frozen=True):
    """The client has heard nothing for a quarter of ``liveness_ms``."""


class Left(Struct, frozen=True):
    """Answers a LEAVE.

    Attributes:
        streams: those that nothing is written to any more, 1 or 2; all else is written on.
    """

    streams: tuple[int, ...]


class Given(Struct, frozen=True):
    """Answers a GIVE, behind the last WRITTEN. Descriptor: with PIPE the stream."""

    stream: int
    gift: Gift


FromClient = (
    Request
    | Input
    | Written
    | Signal
    | OutputFailed
    | Started
    | Ended
    | OrphansKilled
    | Appended
    | Ping
    | Left
    | Given
)


class ServerKind(IntEnum):
    """Kinds of packets of the launch server."""

    HELLO = 1
    COLD = 2
    OUTPUT = 3
    READ = 4
    START = 5
    CONTINUE = 6
    KILL_ORPHANS = 7
    SUSPEND = 8
    APPEND = 9
    PONG = 10
    EXIT = 11
    TIMES = 12
    LEAVE = 13
    GIVE = 14


class ClientKind(IntEnum):
    """Kinds of packets of the client."""

    REQUEST = 1
    INPUT = 2
    WRITTEN = 3
    SIGNAL = 4
    OUTPUT_FAILED = 5
    STARTED = 6
    ENDED = 7
    ORPHANS_KILLED = 8
    APPENDED = 9
    PING = 10
    LEFT = 11
    GIVEN = 12
