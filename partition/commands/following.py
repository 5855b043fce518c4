"""`yodjob attach --ranks`: what some ranks of a job write from now on."""

from __future__ import annotations

import os
import sys

from native import nodelist
from native.errors import UsageError
from native.host import stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from partition.jobs.ask import Silent, ask

_LINE_MAX_BYTES = 64 * 1024  # of an unfinished line; a longer one is shown in pieces


def follow(job_id: str, text: str | None) -> int:
    """Show them until the job ends, or the user leaves.

    Args:
        text: the ranks; None: all.

    Returns:
        The exit status: the job's; 1: it cannot be followed.
    """
    ranges = None if text is None else ranges_of(text)
    if ranges is None:
        size = _size_of(job_id)
        if not size:
            return FAILED
        ranges = ((0, size - 1),)
    lines = Lines(is_labelled=ranges[0][0] != ranges[-1][1])

    def take(reply: job.Reply) -> None:
        if isinstance(reply, job.Accepted) and os.isatty(2):
            stdio.say(f"yodjob: follows job {shown(job_id)}; Ctrl-C leaves, and the job goes on")
        elif isinstance(reply, job.Output):
            if reply.dropped_bytes:
                stdio.say(f"yodjob: {reply.dropped_bytes} bytes of output were dropped here")
            _write(reply.stream, lines.add(reply.rank, reply.stream, reply.data))

    (answer,) = ask((job_id,), job.Follow(ranges), None, take)
    for stream, data in lines.rest():
        _write(stream, data)
    if isinstance(answer.reply, job.Ended):
        return answer.reply.exit_status
    lost = "its yod has not said how it ended; output may be missing"
    trouble = lost if answer.silent is Silent.LOST else answer.trouble
    stdio.say(f"yodjob: {shown(job_id)}: {trouble}")
    return FAILED


def ranges_of(text: str) -> tuple[tuple[int, int], ...]:
    """First and last rank of each range.

    Raises:
        UsageError: the text names no ranks, or too many ranges.
    """
    try:
        ranges = nodelist.ranges(nodelist.parse(text))
    except UsageError:
        raise UsageError(f"--ranks {shown(text)}: ranks, as in 3 or 0,4..7") from None
    if len(ranges) > job.RANGES_MAX:
        raise UsageError(f"--ranks: {len(ranges)} ranges of ranks, at most {job.RANGES_MAX}")
    return tuple(ranges)


class Lines:
    """Lines of several ranks, each whole and with its rank in front; one rank's as they come."""

    def __init__(self, *, is_labelled: bool) -> None:
        self._is_labelled = is_labelled
        self._open: dict[tuple[int, int], bytes] = {}  # unfinished, by rank and stream

    def add(self, rank: int, stream: int, data: bytes) -> bytes:
        """What is shown now that a rank has written this."""
        if not self._is_labelled:
            return data
        whole, newline, rest = (self._open.pop((rank, stream), b"") + data).rpartition(b"\n")
        if len(rest) >= _LINE_MAX_BYTES:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        if rest:
            self._open[rank, stream] = rest
        return self._labelled(rank, whole) if newline else b""

    def rest(self) -> list[tuple[int, bytes]]:
        """Streams, and their last lines without an end."""
        left, self._open = self._open, {}
        return [(stream, self._labelled(rank, line)) for (rank, stream), line in left.items()]

    def _labelled(self, rank: int, whole: bytes) -> bytes:
        return b"".join(b"%d: %b\n" % (rank, line) for line in whole.split(b"\n"))


def _size_of(job_id: str) -> int:
    """Ranks of a job; 0: it is not to be had, and the user was told why."""
    (answer,) = ask((job_id,), job.Show(), None)
    if isinstance(answer.reply, job.Shown):
        return answer.reply.ranks
    stdio.say(f"yodjob: {shown(job_id)}: {answer.trouble}")
    return 0


def _write(stream: int, data: bytes) -> None:
    out = sys.stdout.buffer if stream == 1 else sys.stderr.buffer
    out.write(data)
    out.flush()
