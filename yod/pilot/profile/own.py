"""Events of an application, in the profile of its task."""

from __future__ import annotations

import os
import time

from yod.pilot.analysis.records import plain


def prof(event: str, msg: str = "") -> None:
    """Note that something happens now, from within a task: ``app_start``, ``app_step`` and so on.

    Outside of a task, and where profiles are off, nothing is noted.

    Raises:
        OSError: it cannot be written.
    """
    path = os.environ.get("RP_PROF_TGT")
    if not path:
        return
    uid, name, text = (plain(one) for one in (os.environ.get("RP_TASK_ID", ""), event, msg))
    line = f"{time.time():.7f},{name},app,MainThread,{uid},,{text}\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, line.encode())  # one write: several ranks may note at the same time
    finally:
        os.close(fd)
