"""PMI for the ranks of one job on one node: their conversations over one key space."""

from __future__ import annotations

from msgspec import Struct

from native.wire import load, pmi
from native.wire.base import Message
from pct import pmi1, tree
from pct.kvs import KeyValueSpace

BARRIER_OUT = b"cmd=barrier_out rc=0\n"


class Abort(Struct, frozen=True):
    """A rank asks for the job's end, or has broken the protocol."""

    rank: int
    exit_code: int
    text: str


class Step(Struct):
    """What one event of the wire-up leads to.

    Attributes:
        replies: (rank, bytes) for clients, in order.
        up, down: messages for the parent and for the children.
    """

    replies: list[tuple[int, bytes]]
    up: list[Message]
    down: list[Message]
    abort: Abort | None = None


class Wireup:
    """The PMI side of one job on one node.

    Args:
        children: places below this node.
        message: the load, for the map of ranks to nodes and the key space's name.
        members: the member of each rank of the job.
    """

    def __init__(
        self, message: load.Load, ranks: tuple[int, ...], children: list[int], members: list[int]
    ) -> None:
        self._job_id = message.job_id
        self._is_root = message.place == 0
        # mpich names shared memory after the key space: no two jobs may share one.
        nonce = message.credential_mac[:8].hex().encode()
        name = b"yod_%d_%s" % (message.job_id, nonce)
        places = [run.place for run in message.runs for _ in range(run.count)]
        self._space = KeyValueSpace(ranks, children)
        self._alive_below = {child: _ranks_below(message, child) for child in children}
        mapping = pmi1.process_mapping(places)
        self._space.spread((pmi.KeyValue(b"PMI_process_mapping", mapping),))
        self._clients = {
            rank: pmi1.Client(rank, len(places), members[rank], name) for rank in ranks
        }

    def line(self, rank: int, line: bytes) -> Step:
        """A line of a rank's client."""
        client = self._clients.get(rank)
        if client is None:
            return Step([], [], [])
        try:
            answer, request, words = client.handle(line)
        except pmi1.PmiError as error:
            return Step([], [], [], Abort(rank, 1, f"PMI: {error}"))
        step = Step([(rank, answer)] if answer else [], [], [])
        match request:
            case pmi1.Request.PUT:
                self._space.put(words[b"key"], words.get(b"value", b""))
            case pmi1.Request.GET:
                value = self._space.get(words[b"key"])
                absent = client.absent(words[b"key"])
                step.replies.append((rank, absent if value is None else client.found(value)))
            case pmi1.Request.BARRIER:
                self._after(self._space.enter(rank), step)
            case pmi1.Request.ABORT:
                code = _exit_code(words.get(b"exitcode", b"1"))
                step.abort = Abort(rank, code, f"the application called abort with code {code}")
        return step

    def left(self, rank: int) -> Step:
        """A rank has ended: barriers do not wait for it."""
        step = Step([], [], [])
        self._after(self._space.leave(rank), step)
        return step

    def ended_below(self, place: int, count: int) -> Step:
        """So many ranks of a child's subtree have ended; with the last of them it is
        waited for no longer."""
        step = Step([], [], [])
        if place in self._alive_below:
            self._alive_below[place] -= count
            if self._alive_below[place] <= 0:
                self._after(self._space.leave_child(place), step)
        return step

    def fence_in(self, place: int, message: pmi.FenceIn) -> Step:
        """A child's subtree is in the barrier."""
        step = Step([], [], [])
        if message.number == self._space.number:
            is_full = self._space.merge_child(place, message.pairs, message.is_last)
            self._after(is_full, step)
        return step

    def fence_out(self, message: pmi.FenceOut) -> Step:
        """All ranks of the job are in the barrier."""
        if message.number != self._space.number:  # repeated by a new parent
            return Step([], [], [])
        self._space.spread(message.pairs)
        step = Step([], [], [message])
        if message.is_last:
            self._release(step)
        return step

    def _after(self, is_full: bool, step: Step) -> None:
        """The barrier is full here: pass it up, or at the root turn it round."""
        if not is_full:
            return
        pieces = self._space.take_fresh()
        kind = pmi.FenceOut if self._is_root else pmi.FenceIn
        messages: list[Message] = [
            kind(self._job_id, self._space.number, pairs, index == len(pieces) - 1)
            for index, pairs in enumerate(pieces)
        ]
        if self._is_root:
            step.down += messages
            self._release(step)
        else:
            step.up += messages

    def _release(self, step: Step) -> None:
        step.replies += [(rank, BARRIER_OUT) for rank in sorted(self._space.release())]


def _ranks_below(message: load.Load, place: int) -> int:
    """Ranks of the subtree of a place."""
    below = set(tree.subtree(place, len(message.nodes), message.arity))
    return sum(run.count for run in message.runs if run.place in below)


def _exit_code(text: bytes) -> int:
    return int(text) if text.lstrip(b"-").isdigit() and len(text) < 10 else 1
