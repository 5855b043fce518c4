"""What of a study's configuration is for its machine, and where a study can be. Pure."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Settings(Struct, frozen=True):
    """What of the configuration is for the machine.

    Attributes:
        prefix: of the names of jobs.
        polls: the scheduler is asked how jobs are; else it says so by itself.
        timer_s: time between two timeouts.
        update_s: at least so long between two questions to the scheduler.
        server_timeout_s: a server that says nothing for so long is dead.
        connect_s: a server that runs connects within this.
        stop_s: after this the launcher leaves what does not end, and names it.
        restarts: more of them within ``restarts_s`` are a crash loop.
        from_checkpoint: the first server, too, may go on from what an earlier one has saved.
    """

    prefix: str
    polls: bool = True
    job_limit: int = 1000
    timer_s: float = 5.0
    update_s: float = 30.0
    server_timeout_s: float = 10.0
    connect_s: float = 300.0
    stop_s: float = 120.0
    restarts: int = 5
    restarts_s: float = 300.0
    is_tolerant: bool = True
    from_checkpoint: bool = False
    group_size: int = 1


class Phase(Enum):
    """Where a study is."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    BEGINNING = "beginning"
    AWAITING = "awaiting"
    SERVING = "serving"
    ENDING = "ending"
    OVER = "over"
