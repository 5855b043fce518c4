"""Questions of one node that another place of the job's tree can answer.

They go from node to node to their target and the replies back to their source. The
root keeps what the ranks have published and answers about it here.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from native.errors import PeerProtocolError
from native.wire import pmi, pmix
from native.wire.base import MESSAGE_MAX_BYTES, Message
from native.wire.pmi import KeyValue
from pct import kvs

ROOT = 0  # place of the root
ASKED_MAX = 65536  # questions of one node that wait for a reply
REPLY_BYTES = MESSAGE_MAX_BYTES - 1024  # of pairs in one reply, of words in one question
SUCCESS, ERROR, EXISTS, NO_RESOURCE, NOT_FOUND = 0, -1, -11, -29, -46  # as PMIx has them


class Abort(Struct, frozen=True):
    """A rank asks for the job's end, or has broken the protocol.

    Attributes:
        rank: of the job.
    """

    rank: int
    exit_code: int
    text: str


class Step(Struct):
    """What one event of the wire-up leads to.

    Attributes:
        replies: (connection, bytes) for clients, in order.
        hang_ups: connections to close.
        server: messages for the PMIx server.
        up, down: messages for the parent, and for every child.
        to: (place of a child, message).
        ended_tools: worlds of tools whose launcher has gone.
        failure: why this node cannot serve the job.
    """

    replies: list[tuple[int, bytes]] = []
    hang_ups: list[int] = []
    server: list[pmix.FromPct] = []
    up: list[Message] = []
    down: list[Message] = []
    to: list[tuple[int, Message]] = []
    ended_tools: list[int] = []
    failure: str = ""
    abort: Abort | None = None


Continuation = Callable[[pmi.Reply, Step], None]
AnyQuestion = pmi.Publish | pmi.Lookup | pmi.Unpublish | pmi.Modex | pmi.EndTool | pmi.Spawn


class Questions:
    """What one node asks, answers and passes on.

    Args:
        child_of: for each place below, the child on the way to it.
        answer: called with a question for this place that is not about names.
    """

    def __init__(
        self,
        job_id: int,
        place: int,
        child_of: dict[int, int],
        answer: Callable[[pmi.Ask, Step], None],
    ) -> None:
        self._job_id = job_id
        self._place = place
        self._child_of = child_of
        self._answer_here = answer
        self._serial = 0
        self._asked: dict[int, Continuation] = {}
        self._names = kvs.Names()
        self._lookups: list[pmi.Ask] = []  # until the names are there

    @property
    def next_serial(self) -> int:
        """The serial that the next question will have."""
        return self._serial + 1

    def ask(self, target: int, question: AnyQuestion, then: Continuation, step: Step) -> None:
        """Ask; ``then`` gets the reply, perhaps at once."""
        self._serial += 1
        text = ""
        if len(self._asked) >= ASKED_MAX:
            text = f"more than {ASKED_MAX} questions of this node wait"
        elif _size_of(question) > REPLY_BYTES:
            text = f"more than {REPLY_BYTES} bytes"
        if text:
            then(pmi.Reply(self._job_id, self._place, 0, NO_RESOURCE, (), text), step)
            return
        self._asked[self._serial] = then
        ask = pmi.Ask(self._job_id, self._place, target, self._serial, question)
        self._forward(ask, step)

    def tell(self, target: int, question: AnyQuestion, step: Step) -> None:
        """Ask what has no reply of its own."""
        self._forward(pmi.Ask(self._job_id, self._place, target, 0, question), step)

    def asked(self, ask: pmi.Ask, child: int | None, step: Step) -> None:
        """A question on its way.

        Args:
            child: the place of the child it came from; None: the parent.

        Raises:
            PeerProtocolError: it does not come from where it says, or goes nowhere.
        """
        if child is not None and self._child_of.get(ask.source) != child:
            raise PeerProtocolError(f"a question of place {ask.source} from place {child}")
        if child is None and ask.target != self._place and ask.target not in self._child_of:
            raise PeerProtocolError(f"a question for place {ask.target}, which is not below")
        self._forward(ask, step)

    def replied(self, reply: pmi.Reply, step: Step) -> None:
        """An answer on its way."""
        if reply.target != self._place:
            self._route(reply.target, reply, step)
        elif (then := self._asked.pop(reply.serial, None)) is not None:
            then(reply, step)

    def reply(
        self, ask: pmi.Ask, status: int, pairs: tuple[KeyValue, ...], step: Step, text: str = ""
    ) -> None:
        """Answer a question."""
        self.replied(pmi.Reply(self._job_id, ask.source, ask.serial, status, pairs, text), step)

    def _forward(self, ask: pmi.Ask, step: Step) -> None:
        if ask.target == self._place:
            self._answer(ask, step)
        else:
            self._route(ask.target, ask, step)

    def _route(self, target: int, message: Message, step: Step) -> None:
        if (child := self._child_of.get(target)) is not None:
            step.to.append((child, message))
        elif self._place != ROOT:
            step.up.append(message)

    def _answer(self, ask: pmi.Ask, step: Step) -> None:
        match ask.question:
            case pmi.Publish(pairs, is_read_once):
                why_not = self._names.publish(pairs, is_read_once)
                self.reply(ask, EXISTS if why_not else SUCCESS, (), step, why_not)
                waiting, self._lookups = self._lookups, []
                for lookup in waiting:
                    self._answer(lookup, step)
            case pmi.Lookup(keys, is_waiting):
                found = self._names.lookup(keys, is_waiting)
                if found is None:
                    self._lookups.append(ask)
                else:
                    self.reply(ask, SUCCESS if found else NOT_FOUND, found, step)
            case pmi.Unpublish(keys):
                were_there = self._names.unpublish(keys)
                self.reply(ask, SUCCESS if were_there else NOT_FOUND, (), step)
            case _:
                self._answer_here(ask, step)


def _size_of(question: AnyQuestion) -> int:
    """About how many bytes a question has."""
    match question:
        case pmi.Publish(pairs):
            words = [part for pair in pairs for part in (pair.key, pair.value)]
        case pmi.Lookup(keys) | pmi.Unpublish(keys):
            words = list(keys)
        case pmi.Spawn(_, commands, pairs):
            words = [part for pair in pairs for part in (pair.key, pair.value)]
            for command in commands:
                words += [command.program, *command.arguments]
                words += [*command.environment, *command.hosts]
        case _:
            words = []
    return sum(len(word) + 8 for word in words)
