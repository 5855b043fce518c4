"""Orders to a starter, and its reports: ``native/wire/STARTER.md``."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from native.errors import PeerProtocolError

REPORT_BYTES_MAX = 4096  # a report with both tails takes less
ORDER_BYTES_MAX = 190_000  # the kernel's least limit of a packet, less its own head

MAKE_DIRECTORY = 1
TELL_START = 2

_HEAD = struct.Struct("<5Ii2I")
_REPORT = struct.Struct("<IIiI5Q3QII")

_START, _SIGNAL, _END = 1, 2, 3


class ReportKind(IntEnum):
    """What a report tells."""

    STARTED = 1
    ENDED = 2
    FAILED = 3  # there was no program
    LOST = 4  # its keeper has been killed


class Step(IntEnum):
    """What could not be done for a program."""

    NONE = 0
    FORK = 1
    DIRECTORY = 2
    OUTPUT = 3
    EXEC = 4
    ORDER = 5


class Report(Struct, frozen=True, gc=False):
    """What has become of one program.

    Attributes:
        number: the caller's name for it.
        value: a Unix process id, a wait status, or an errno.
        began, prepared, started, ended, cleaned: seconds of day; 0: it did not come to that.
        stdout, stderr: the ends of both outputs; where both are one file, the first.
    """

    kind: ReportKind
    number: int
    value: int
    step: Step
    began: float
    prepared: float
    started: float
    ended: float
    cleaned: float
    user_s: float
    system_s: float
    max_rss_bytes: int
    stdout: bytes
    stderr: bytes


# What becomes of a program whose starter is lost.
LOST = Report(ReportKind.LOST, 0, 0, Step.NONE, 0, 0, 0, 0, 0, 0, 0, 0, b"", b"")


def encode_start(
    number: int,
    words: Sequence[str],
    variables: Iterable[str],
    directory: str,
    output: str,
    error: str,
    *,
    ranks: int = 1,
    first_rank: int = 0,
    flags: int = MAKE_DIRECTORY,
) -> bytes:
    """The order to start a program.

    Args:
        variables: ``NAME=VALUE``, or ``NAME`` for one that is not to be there.
        output, error: paths, relative to ``directory``; empty: nowhere.

    Raises:
        ValueError: it is too long, or a string has a zero byte.
    """
    variables = list(variables)
    strings = [directory, output, error, *words, *variables]
    text = "\0".join(strings).encode("utf-8", "surrogateescape") + b"\0"
    if text.count(b"\0") != len(strings):
        raise ValueError("a word, a variable or a path has a zero byte")
    head = _HEAD.pack(_START, number, flags, ranks, first_rank, 0, len(words), len(variables))
    if len(head) + len(text) > ORDER_BYTES_MAX:
        raise ValueError(
            f"arguments and environment have {len(text)} bytes; {ORDER_BYTES_MAX} are possible"
        )
    return head + text


def encode_signal(number: int, signo: int) -> bytes:
    """The order to send each rank's process group a signal."""
    return _HEAD.pack(_SIGNAL, number, 0, 0, 0, signo, 0, 0)


def encode_end(number: int) -> bytes:
    """The order to kill all that is left of a program."""
    return _HEAD.pack(_END, number, 0, 0, 0, 0, 0, 0)


def decode_report(packet: bytes) -> Report:
    """One report.

    Raises:
        PeerProtocolError: it is none.
    """
    if len(packet) < _REPORT.size:
        raise PeerProtocolError(f"a report of {len(packet)} bytes")
    kind, number, value, step, *rest = _REPORT.unpack_from(packet)
    began, prepared, started, ended, cleaned, user, system, rss, n_out, n_err = rest
    tails = packet[_REPORT.size :]
    if len(tails) != n_out + n_err:
        raise PeerProtocolError(f"a report with {len(tails)} bytes of output, not {n_out + n_err}")
    try:
        known, at = ReportKind(kind), Step(step)
    except ValueError as error:
        raise PeerProtocolError(f"a report: {error}") from None
    return Report(
        known,
        number,
        value,
        at,
        began * 1e-9,
        prepared * 1e-9,
        started * 1e-9,
        ended * 1e-9,
        cleaned * 1e-9,
        user * 1e-6,
        system * 1e-6,
        rss << 10,
        tails[:n_out],
        tails[n_out:],
    )
