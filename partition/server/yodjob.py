"""What a helper does for `yodjob`: the whole of a command, for the client's user.

Imports are three quarters of what a command takes from a shell, and here they are made.
"""

from __future__ import annotations

import gc
import io
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout

from native.errors import YodError
from native.waitstatus import FAILED
from native.wire.client import OUTPUT_WINDOW_BYTES, Stdio, cut
from partition.commands import handed, plain
from partition.server.errands import Said
from partition.yodjob import failure

SUBMIT = "submit"
_LOOK = ("list", "show")  # what can be done again
_ORDER = ("cancel", "signal")
_STANDARD_INPUT = "-"
_OF_A_PROCESS = ("/dev/", "/proc/")  # /dev/stdin, and what a shell makes of <(command)
_WORDS_MAX = 500  # a line for each is less than what may be said
_JOBS_MAX = 2000  # of a list; likewise
_UNWRITTEN_BYTES = 4096  # what a process has written by its end alone, if it is less than this
_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")  # the first of these that is set counts
_PLAIN_LOCALES = ("C", "POSIX")  # in which Python writes UTF-8


def run(words: Sequence[str], umask: int, streams: Stdio) -> Said | None:
    """Do what a line of `yodjob` says, with this process's environment and directory.

    Args:
        words: the line, without the name of the command.
        umask: the client's.
        streams: those of the client.

    Returns:
        None: nothing is done, or nothing but to look; the client is to do it. That is a command
        that waits or is asked for seldom, a line which click must read, one with a script that
        only the client can open, and one that has much to say.
    """
    if not words or words[0] not in (SUBMIT, *_LOOK, *_ORDER):
        return None
    time.tzset()
    before = os.umask(umask)
    try:
        if words[0] == SUBMIT:
            return _submitted(words[1:])
        return _asked(words[0], words[1:], streams)
    finally:
        os.umask(before)


def _submitted(words: Sequence[str]) -> Said | None:
    try:
        read = handed.read(words, os.environ)
        if read is None:
            return None
        arguments, given = read
        if given["waits"] or (arguments and _is_of_the_client(arguments[0])):
            return None
        told = handed.hand_in(arguments, given, os.environ)
    except (YodError, OSError) as error:
        line, status = failure(error)
        return Said(_bytes([line]), b"", status)
    return Said(_bytes([f"yodjob: {each}" for each in told.warnings]), _bytes([told.line]), 0)


def _is_of_the_client(path: str) -> bool:
    return path == _STANDARD_INPUT or os.path.abspath(path).startswith(_OF_A_PROCESS)


def _bytes(lines: Sequence[str]) -> bytes:
    """Lines as they are written."""
    return cut("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))


def _asked(name: str, words: Sequence[str], streams: Stdio) -> Said | None:
    """Look at jobs, signal or end them, and keep what the command prints."""
    if len(words) > _WORDS_MAX or not _writes_utf8(os.environ):
        return None
    # A terminal gets each line at once, so what is said of errors comes in its place there.
    is_one = Stdio.SAME_OUTPUT in streams
    is_in_order = is_one and Stdio.STDOUT_TERMINAL in streams
    output = io.StringIO()
    errors = output if is_in_order else io.StringIO()
    plain.user_name.cache_clear()  # users come and go while this process lives
    collects = gc.isenabled()
    status = 0
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            if not plain.run(name, words, _JOBS_MAX):
                return None
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else FAILED
    except (YodError, OSError) as error:
        line, status = failure(error)
        errors.write(f"{line}\n")
    finally:
        if collects:
            gc.enable()
    of_errors = b"" if is_in_order else _written(errors)
    said = Said(of_errors, _written(output), status)
    is_mixed = is_one and not is_in_order and said.errors and len(said.output) > _UNWRITTEN_BYTES
    is_long = len(said.errors) + len(said.output) > OUTPUT_WINDOW_BYTES
    if name in _LOOK and (is_mixed or is_long):
        return None
    return Said(cut(said.errors), said.output, status) if is_long else said


def _written(stream: io.StringIO) -> bytes:
    return stream.getvalue().encode(errors="backslashreplace")


def _writes_utf8(environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment would write UTF-8."""
    chosen = next(filter(None, map(environment.get, _LOCALE)), _PLAIN_LOCALES[0])
    return chosen in _PLAIN_LOCALES or chosen.lower().replace("-", "").partition(".")[2] == "utf8"
