"""Checkpoints of a launch, as its options ask for them. Pure."""

from __future__ import annotations

import signal
from enum import Enum

from msgspec import Struct

from native.wire.group import Checkpoints

GRACE_S, KEEP_COUNT = 60.0, 2
NODES_S = 90.0  # nodes have so long to make directories, to record what they find, to commit
AUTO = -1.0


class Occasion(Enum):
    """What a checkpoint is made before. The value is how users write it, in any case."""

    TERM = "TERM"
    TIMEOUT = "timeout"
    PREEMPT = "preempt"  # a launch that gives way ends for others
    DRAIN = "drain"  # a node of its is drained


class Backend(Enum):
    """What writes the ranks down."""

    SIGNAL = "signal"
    CRIU = "criu"


class Checkpointing(Struct, frozen=True):
    """How the checkpoints of a job are made.

    Attributes:
        backend: None: as the checkpoint that the job goes on from, or ``signal``.
        tool: the version of what does.
        mpi: what speaks to the ranks where it is no server of the nodes' own (``pmix``, with
            CRIU); else empty.
        signal_number: tells a rank to save itself; 0: CRIU writes it down.
        grace_s: how long the ranks have for that.
        keep: how many whole checkpoints stay; 0: all.
        every_s: from one checkpoint to the next; 0: none is made by itself; AUTO: as often as
            what they take and the failures of nodes make best.
        on: what else one is made before.
        where: None until the launch is prepared.
        recipe: what a restart has to know, encoded.
        holds_output: yod writes output into files that it marks.
        local: a directory of each node's, where ranks are saved first; empty: they are saved
            in the directory of checkpoints at once.
        drain_s: nodes have so long to copy them from there; 0: they are not kept there.
    """

    directory: str
    restart: str = ""
    backend: Backend | None = None
    tool: str = ""
    mpi: str = ""
    signal_number: int = signal.SIGUSR1
    grace_s: float = GRACE_S
    keep: int = KEEP_COUNT
    every_s: float = 0.0
    on: frozenset[Occasion] = frozenset()
    where: Checkpoints | None = None
    recipe: bytes = b""
    holds_output: bool = False
    local: str = ""
    drain_s: float = 0.0

    @property
    def most_s(self) -> float:
        """How long a checkpoint may take."""
        return self.grace_s + NODES_S + self.drain_s
