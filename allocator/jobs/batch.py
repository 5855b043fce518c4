"""Batch jobs of a batch system: their jobs together never hold more nodes than it has given.

The batch system allots a number of nodes and does not choose them. Its script may run
many yods, one after another or at once (Cplant administrator's guide, 67 and 69). What it has
given whom is its own word; a request only says which batch job it is of.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.text import shown
from native.wire.alloc import NodeRequest

WORDS_MAX = 10_000


class BatchLimits(Protocol):
    """Tells how many nodes a batch job was given."""

    def limit(self, batch_job: str) -> int | None:
        """Nodes; None: there is no limit."""


class NoBatch:
    """A partition that knows of no batch system: there are no limits."""

    def limit(self, batch_job: str) -> int | None:
        """None: there is no limit."""
        return None


NO_BATCH = NoBatch()


class Word(Struct, frozen=True):
    """What the batch system says of a job that runs.

    Attributes:
        owner: the user's name.
        nodes: their number.
    """

    owner: str
    nodes: int


class Words:
    """The limits of the batch jobs of a batch system, as it has told them.

    Args:
        system: its name.
        interactive: nodes for all jobs that are of no batch job, together.
        believed_s: it is asked again for a request that comes later than this.
    """

    def __init__(self, system: str, interactive: int, believed_s: float) -> None:
        self.system = system
        self._interactive = interactive
        self._believed_s = believed_s
        self._words: dict[str, tuple[float, Word]] = {}  # the oldest first

    def limit(self, batch_job: str) -> int | None:
        """Nodes; of all jobs that are of no batch job those that are kept for them."""
        if not batch_job:
            return self._interactive
        _, word = self._words.get(batch_job, (0.0, Word("", 0)))
        return word.nodes

    def is_known(self, batch_job: str, now: float) -> bool:
        """Its word is not older than it is believed."""
        asked_at, _ = self._words.get(batch_job, (float("-inf"), None))
        return now < asked_at + self._believed_s

    def take(self, batch_job: str, word: Word | None, now: float) -> None:
        """The batch system has spoken; None: there is no such job any more."""
        self._words.pop(batch_job, None)
        if word is not None:
            self._words[batch_job] = (now, word)
        while len(self._words) > WORDS_MAX:
            del self._words[next(iter(self._words))]

    def demand_owner(self, batch_job: str, user: str) -> None:
        """Refuse a batch job of another user, and one that does not run.

        Raises:
            RequestRefused: it is one.
        """
        _, word = self._words.get(batch_job, (0.0, None))
        if word is None:
            text = f"{self.system} has no job {shown(batch_job)} that runs"
            raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        if word.owner != user:
            text = f"{self.system} job {shown(batch_job)} belongs to {shown(word.owner)}"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)


def demand_no_list(request: NodeRequest, system: str) -> None:
    """Refuse a list of nodes in a batch job, which has a number of them (yodtest of Cplant).

    Raises:
        RequestRefused: there is one.
    """
    for index, spec in enumerate(request.specs):
        if spec.nodes or spec.ranges:
            text = f"a {system} job has a number of nodes, and chooses none: no -list"
            raise RequestRefused(Refusal.BATCH_LIMIT, text, index)


def over_limit(batch_job: str, limit: int, held: Iterable[int], wanted: Iterable[int]) -> str:
    """Why a batch job may not have these nodes as well; empty: it may.

    Args:
        batch_job: the batch system's id; empty: all jobs that are of none.
        limit: its nodes.
        held: nodes of the batch job's pending and running jobs.
        wanted: nodes for the new job; a node that is also held counts once.
    """
    have = set(held)
    new = set(wanted) - have
    if len(have) + len(new) <= limit:
        return ""
    what = f"batch job {batch_job} has {limit} nodes"
    if not batch_job:
        what = f"{limit} nodes are for jobs outside of batch jobs"
    return f"{what}, {len(have)} of them in use: {len(new)} more requested"
