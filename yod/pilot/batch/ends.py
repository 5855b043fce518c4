"""How a job ends whose nodes do not see the session's directory, where it cannot tell its client.

Its exit status is all that the batch system passes on.
"""

from __future__ import annotations

from enum import IntEnum


class End(IntEnum):
    """Exit status of such a job.

    Attributes:
        NO_YOD: the node has none at the client's path.
        NOBODY: at the application's address nobody listens, or no way leads there.
        STRANGER: who listens there does not have the pilot's key.
        NO_PIPE: a job of OAR cannot make the pipe by which it gets its script.
        NO_SCRIPT: nothing has come by that.
    """

    NO_YOD = 81
    NOBODY = 82
    STRANGER = 83
    NO_PIPE = 84
    NO_SCRIPT = 85


_MEANING = {
    End.NO_YOD: "and has no yod at {python}",
    End.NOBODY: "and does not reach the application at {home}"
    " (YOD_PILOT_HOST says by which address it does), or that has ended",
    End.STRANGER: "and at {home} is nobody who has this pilot's key",
    End.NO_PIPE: "and cannot make a pipe for its script in /tmp",
    End.NO_SCRIPT: "and has not got its script by oarsh from here",
}


def meaning_of(status: int | None, directory: str, python: str, home: str) -> str:
    """What a job has to say by its exit status; empty: nothing.

    Args:
        home: the application's address.
    """
    for end, text in _MEANING.items():
        if status == end:
            told = text.format(python=python, home=home)
            return f"its first node does not see {directory}, {told}"
    return ""
