"""What a helper does for `yodjob submit`: the whole of it, for the client's user.

Imports are three quarters of what a submission takes from a shell, and here they are made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from native.errors import YodError
from native.wire.client import cut
from partition.commands import handed
from partition.server.errands import Said
from partition.yodjob import failure

SUBMIT = "submit"
_STANDARD_INPUT = "-"
_OF_A_PROCESS = ("/dev/", "/proc/")  # /dev/stdin, and what a shell makes of <(command)


def run(words: Sequence[str], umask: int) -> Said | None:
    """Do what a line of `yodjob` says, with this process's environment and directory.

    Args:
        words: the line, without the name of the command.
        umask: the client's.

    Returns:
        None: nothing is done; the client is to do it. That is a line which click must read, one
        with a script that only the client can open, and one that waits for the job.
    """
    if not words or words[0] != SUBMIT:
        return None
    time.tzset()  # for -begin and -deadline
    before = os.umask(umask)
    try:
        read = handed.read(words[1:], os.environ)
        if read is None:
            return None
        arguments, given = read
        if given["waits"] or (arguments and _is_of_the_client(arguments[0])):
            return None
        told = handed.hand_in(arguments, given, os.environ)
    except (YodError, OSError) as error:
        line, status = failure(error)
        return Said(_bytes([line]), b"", status)
    finally:
        os.umask(before)
    return Said(_bytes([f"yodjob: {each}" for each in told.warnings]), _bytes([told.line]), 0)


def _is_of_the_client(path: str) -> bool:
    return path == _STANDARD_INPUT or os.path.abspath(path).startswith(_OF_A_PROCESS)


def _bytes(lines: Sequence[str]) -> bytes:
    """Lines as they are written."""
    return cut("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
