"""Questions of one node that another place of the job's tree can answer.

A question goes through the tree to its target, and the reply back to its source. The root
keeps the published names and answers questions about them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from native.errors import PeerProtocolError
from native.wire import codec, pmi
from native.wire.base import MESSAGE_MAX_BYTES, Message, clipped
from native.wire.pmi import COMMANDS_MAX, KEYS_MAX, KeyValue
from pct.account import REQUEST_BYTES, Account, Charge, OverLimit, of_words
from pct.wireup import kvs

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.wireup.world import World

ROOT = 0  # place of the root
NUMBER_MAX = 10  # digits
REPLY_BYTES = MESSAGE_MAX_BYTES - 1024  # of pairs in one reply, of words in one question
WORD_BYTES = 8  # what a word has beside its own bytes, at most
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
    """The effects of one event of the wire-up.

    Attributes:
        replies: (connection, bytes) for clients, in order.
        hang_ups: connections to close.
        server: messages for the PMIx server.
        up, down: messages for the parent, and for every child.
        to: (place of a child, message).
        ended_tools: worlds of tools whose launcher has gone.
        tables: (serial, worlds) of the tables of processes that the PMIx server wants.
        failure: why this node cannot serve the job.
    """

    replies: list[tuple[int, bytes]] = []
    hang_ups: list[int] = []
    server: list[pmix.FromPct] = []
    up: list[Message] = []
    down: list[Message] = []
    to: list[tuple[int, Message]] = []
    ended_tools: list[int] = []
    tables: list[tuple[int, tuple[World, ...]]] = []
    failure: str = ""
    abort: Abort | None = None


Continuation = Callable[[pmi.Reply, Step], None]
_FOR_ROOT = (pmi.Publish, pmi.Lookup, pmi.Unpublish, pmi.Spawn)
AnyQuestion = pmi.Publish | pmi.Lookup | pmi.Unpublish | pmi.Modex | pmi.EndTool | pmi.Spawn


class Questions:
    """The questions that one node asks, answers and passes on.

    Args:
        child_of: for each place below, the child on the way to it.
        answer: called with a question for this place that is not about names. If it
            raises OverLimit, that is the reply.
        account: what is kept of questions and names is taken from it.
    """

    def __init__(
        self,
        job_id: int,
        place: int,
        child_of: dict[int, int],
        answer: Callable[[pmi.Ask, Step], None],
        account: Account,
    ) -> None:
        self._job_id = job_id
        self._place = place
        self._child_of = child_of
        self._answer_here = answer
        self._serial = 0
        self._charge = Charge(account)
        self._asked: dict[int, tuple[Continuation, int]] = {}  # and what it costs
        self._names = kvs.Names(account)
        self._lookups: list[pmi.Ask] = []  # until the names are there

    @property
    def next_serial(self) -> int:
        """The serial that the next question will have."""
        return self._serial + 1

    def ask(self, target: int, question: AnyQuestion, then: Continuation, step: Step) -> None:
        """Ask a question; ``then`` is called with the reply, perhaps at once."""
        self._serial += 1
        ask = pmi.Ask(self._job_id, self._place, target, self._serial, question)
        cost, status = cost_of(question), NO_RESOURCE
        if not (text := _excess_of(question)) and (text := codec.why_refused(ask)):
            status = ERROR
        if not text:
            try:
                self._charge.add(cost)
            except OverLimit as over:
                text = str(over)
        if text:
            reply = pmi.Reply(self._job_id, self._place, 0, status, (), clipped(text))
            then(reply, step)
            return
        self._asked[self._serial] = (then, cost)
        self._forward(ask, step)

    def tell(self, target: int, question: AnyQuestion, step: Step) -> None:
        """Send a question that has no reply."""
        self._forward(pmi.Ask(self._job_id, self._place, target, 0, question), step)

    def asked(self, ask: pmi.Ask, child: int | None, step: Step) -> None:
        """Answer a question, or pass it on.

        Args:
            child: the place of the child it came from; None: the parent.

        Raises:
            PeerProtocolError: its source is not below the sender, or its target cannot be
                reached from here.
        """
        # An adopted child was below a lost child: a reply to it cannot be routed.
        way = None if child is None else self._child_of.get(child, child)
        if self._child_of.get(ask.source) != way or ask.source == self._place:
            whom = "the parent" if child is None else f"place {child}"
            raise PeerProtocolError(f"a question of place {ask.source} from {whom}")
        is_here_or_below = ask.target == self._place or ask.target in self._child_of
        if not is_here_or_below and (child is None or self._place == ROOT):
            raise PeerProtocolError(f"a question for place {ask.target}, which is not below")
        if ask.target != ROOT and isinstance(ask.question, _FOR_ROOT):
            name = type(ask.question).__name__
            raise PeerProtocolError(f"{name} is not place {ask.target}'s to answer")
        self._forward(ask, step)

    def replied(self, reply: pmi.Reply, step: Step) -> None:
        """Take an answer, or pass it on."""
        if reply.target != self._place:
            self._route(reply.target, reply, step)
        elif (asked := self._asked.pop(reply.serial, None)) is not None:
            then, cost = asked
            self._charge.drop(cost)
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

    def clear(self) -> None:
        """Free everything that is kept."""
        self._charge.clear()
        self._asked.clear()
        self._lookups.clear()
        self._names.clear()
        self._answer_here = _no_answer

    def check(self) -> None:
        """Assert the invariants."""
        asked = sum(cost for _, cost in self._asked.values())
        waiting = sum(cost_of(ask.question) for ask in self._lookups)
        assert self._charge.held_bytes == asked + waiting
        self._names.check()

    def _answer(self, ask: pmi.Ask, step: Step) -> None:
        try:
            self._answer_within_limits(ask, step)
        except OverLimit as over:
            self.reply(ask, NO_RESOURCE, (), step, str(over))

    def _answer_within_limits(self, ask: pmi.Ask, step: Step) -> None:
        match ask.question:
            case pmi.Publish(pairs, is_read_once):
                why_not = self._names.publish(pairs, is_read_once)
                self.reply(ask, EXISTS if why_not else SUCCESS, (), step, why_not)
                waiting, self._lookups = self._lookups, []
                self._charge.drop(sum(cost_of(lookup.question) for lookup in waiting))
                for lookup in waiting:
                    self._answer(lookup, step)
            case pmi.Lookup(keys, is_waiting):
                if self._names.size_of(keys) > REPLY_BYTES:
                    text = f"these names have more than {REPLY_BYTES} bytes"
                    self.reply(ask, NO_RESOURCE, (), step, text)
                    return
                found = self._names.lookup(keys, is_waiting)
                if found is None:
                    self._charge.add(cost_of(ask.question))
                    self._lookups.append(ask)
                else:
                    self.reply(ask, SUCCESS if found else NOT_FOUND, found, step)
            case pmi.Unpublish(keys):
                were_there = self._names.unpublish(keys)
                self.reply(ask, SUCCESS if were_there else NOT_FOUND, (), step)
            case _:
                self._answer_here(ask, step)


def cost_of(question: AnyQuestion) -> int:
    """The charge for keeping a question until it is answered."""
    return REQUEST_BYTES + of_words(_words_in(question))


def _excess_of(question: AnyQuestion) -> str:
    """Why a question fits no message; empty: it does."""
    count, most = 0, KEYS_MAX
    match question:
        case pmi.Publish(pairs):
            count = len(pairs)
        case pmi.Lookup(keys) | pmi.Unpublish(keys):
            count = len(keys)
        case pmi.Spawn(_, commands):
            count, most = len(commands), COMMANDS_MAX
            if not commands:
                return "no program"
    if count > most:
        return f"{count} at once, at most {most}"
    if sum(len(word) + WORD_BYTES for word in _words_in(question)) > REPLY_BYTES:
        return f"more than {REPLY_BYTES} bytes"
    return ""


def _words_in(question: AnyQuestion) -> list[bytes]:
    match question:
        case pmi.Publish(pairs):
            return _words_of(pairs)
        case pmi.Lookup(keys) | pmi.Unpublish(keys):
            return list(keys)
        case pmi.Spawn(_, commands, pairs):
            words = _words_of(pairs)
            for command in commands:
                words += [command.program, command.directory, b"", b"", b""]
                words += [*command.arguments, *command.environment, *command.hosts]
            return words
    return []


def _words_of(pairs: tuple[KeyValue, ...]) -> list[bytes]:
    return [word for pair in pairs for word in (pair.key, pair.value)]


def number_in(reply: pmi.Reply) -> int:
    """The number that a reply has as the value of its one pair.

    Raises:
        PeerProtocolError: it has none.
    """
    value = reply.pairs[0].value if reply.pairs else b""
    if not value.isdigit() or len(value) > NUMBER_MAX:
        raise PeerProtocolError(f"a reply with {value[:NUMBER_MAX]!r} for a number")
    return int(value)


def _no_answer(ask: pmi.Ask, step: Step) -> None:
    """The job has ended before a question."""
