"""What a launch takes from the process that the user has started.

It is a value, so that a launch need not run in that process: a launch server runs those of
many clients.
"""

from __future__ import annotations

from msgspec import Struct


class Invocation(Struct, frozen=True):
    """What the user's process was started with.

    Attributes:
        words: its arguments, the name first.
        environment: of the ranks.
        directory: the current directory, where the ranks start; empty: it does not exist any
            more, or cannot be read.
        umask: of the ranks.
        limits: resource -> soft limit of the ranks; RLIMIT_ numbers, -1 is unlimited.
        ignored_signals: as by nohup; the ranks ignore them, too.
        processors: how many it may run on.
        stand_in: a descriptor; what is written there ends the process that the shell waits for,
            and the process that runs the launch goes on; -1: there is no such process.
    """

    words: tuple[str, ...]
    environment: dict[bytes, bytes]
    directory: str
    umask: int
    limits: tuple[tuple[int, int], ...]
    ignored_signals: tuple[int, ...]
    processors: int
    stand_in: int = -1
