"""Questions over the tree: from the place that asks to the one that answers, and back."""

from __future__ import annotations

from collections import deque

import pytest

from native.errors import PeerProtocolError
from native.wire import codec, pmi
from native.wire.pmi import KeyValue, Process, SpawnCommand
from pct.account import Account
from pct.tree import tree
from pct.wireup import questions
from pct.wireup.questions import REPLY_BYTES, ROOT, Questions, Step

JOB_ID = 7
MODEX = pmi.Modex(Process(0, 0))
WORKER = SpawnCommand(b"./worker", (), 1)


class Places:
    """The questions of every place of a tree, whose messages to one another all arrive.

    Attributes:
        answered: (place, reply) in the order of the replies.
        to_answer: (place, ask) for which the place has no names.
        to_yod: what the root has sent up.
        seen: (place, message) of all that has come to a place.
        accounts: of each place.
    """

    def __init__(self, size: int, arity: int = 2, store_bytes: int = 1 << 20) -> None:
        self.accounts = [Account(store_bytes) for _ in range(size)]
        self.answered: list[tuple[int, pmi.Reply]] = []
        self.to_answer: list[tuple[int, pmi.Ask]] = []
        self.to_yod: list[pmi.Ask | pmi.Reply] = []
        self.seen: list[tuple[int, pmi.Ask | pmi.Reply]] = []
        self._arity = arity
        self.at = [self._place(place, size) for place in range(size)]

    def _place(self, place: int, size: int) -> Questions:
        child_of = {
            below: child
            for child in tree.children(place, size, self._arity)
            for below in tree.subtree(child, size, self._arity)
        }
        return Questions(
            JOB_ID,
            place,
            child_of,
            lambda ask, step: self.to_answer.append((place, ask)),
            self.accounts[place],
        )

    def ask(self, place: int, target: int, question: pmi.Question) -> None:
        step = Step()
        self.at[place].ask(
            target, question, lambda reply, step: self.answered.append((place, reply)), step
        )
        self.carry(place, step)

    def reply(self, ask: pmi.Ask, place: int, *pairs: KeyValue) -> None:
        step = Step()
        self.at[place].reply(ask, questions.SUCCESS, pairs, step)
        self.carry(place, step)

    def carry(self, place: int, step: Step) -> None:
        """Deliver what a step sends, and what comes of it."""
        waiting = deque([(place, step)])
        while waiting:
            here, done = waiting.popleft()
            for target, message in done.to:
                assert target in tree.children(here, len(self.at), self._arity)
                waiting.append((target, self._heard(target, None, message)))
            for message in done.up:
                if here == ROOT:
                    self.to_yod.append(message)
                else:
                    above = tree.parent(here, self._arity)
                    waiting.append((above, self._heard(above, here, message)))

    def _heard(self, place: int, child: int | None, message: pmi.Ask | pmi.Reply) -> Step:
        self.seen.append((place, message))
        codec.encode(message)
        step = Step()
        if isinstance(message, pmi.Ask):
            self.at[place].asked(message, child, step)
        else:
            self.at[place].replied(message, step)
        return step


def pair(key: bytes, value: bytes = b"v") -> KeyValue:
    return KeyValue(key, value)


# -- the way ---------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_a_question_reaches_its_place_from_every_other_and_the_reply_comes_back(size, arity):
    for source in range(size):
        for target in range(size):
            places = Places(size, arity)
            places.ask(source, target, MODEX)
            ((here, ask),) = places.to_answer
            assert (here, ask.source, ask.target) == (target, source, target)
            places.reply(ask, target, pair(b"data"))
            ((asker, reply),) = places.answered
            assert asker == source and reply.pairs == (pair(b"data"),)
            assert places.to_yod == []


def test_a_question_takes_no_detour():
    places = Places(7)
    places.ask(3, 4, MODEX)
    assert [place for place, _ in places.seen] == [1, 4]


def test_replies_may_come_in_any_order_and_each_once():
    places = Places(3)
    for rank in range(3):
        places.ask(1, 2, pmi.Modex(Process(0, rank)))
    for _, ask in reversed(places.to_answer):
        places.reply(ask, 2, pair(b"%d" % ask.question.process.rank))
    assert [reply.pairs[0].key for _, reply in places.answered] == [b"2", b"1", b"0"]
    places.reply(places.to_answer[0][1], 2)
    assert len(places.answered) == 3


def test_what_is_told_waits_for_no_reply():
    places = Places(3)
    step = Step()
    places.at[1].tell(2, pmi.EndTool(4), step)
    places.carry(1, step)
    ((place, ask),) = places.to_answer
    assert (place, ask.serial) == (2, 0)
    places.reply(ask, 2)
    assert places.answered == []


def test_a_spawn_comes_to_the_root_which_hands_it_on():
    places = Places(7)
    places.ask(5, ROOT, pmi.Spawn(Process(0, 5), (WORKER,), ()))
    ((place, ask),) = places.to_answer
    assert (place, ask.source) == (ROOT, 5)


# -- who may ask -----------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "child", "question", "text"),
    [
        (4, 2, 3, MODEX, "a question of place 4 from place 3"),
        (1, 2, 3, MODEX, "a question of place 1 from place 3"),
        (0, 2, 3, MODEX, "a question of place 0 from place 3"),
        (99, 2, 3, MODEX, "a question of place 99 from place 3"),
        (3, 1, None, MODEX, "a question of place 3 from the parent"),
        (1, 3, None, MODEX, "a question of place 1 from the parent"),
        (2, 5, None, MODEX, "a question for place 5, which is not below"),
        (2, 0, None, MODEX, "a question for place 0, which is not below"),
        (2, 99, None, MODEX, "a question for place 99, which is not below"),
        (3, 1, 3, pmi.Publish((), False), "Publish is not place 1's to answer"),
        (3, 4, 3, pmi.Lookup((), False), "Lookup is not place 4's to answer"),
        (2, 3, None, pmi.Unpublish(()), "Unpublish is not place 3's to answer"),
        (3, 2, 3, pmi.Spawn(Process(0, 3), (WORKER,), ()), "Spawn is not place 2's to answer"),
    ],
)
def test_a_question_that_lies_or_goes_nowhere_is_refused_and_not_passed_on(
    source, target, child, question, text
):
    step = Step()
    ask = pmi.Ask(JOB_ID, source, target, 1, question)
    with pytest.raises(PeerProtocolError, match=text):
        Places(7).at[1].asked(ask, child, step)
    assert step == Step()


def test_the_root_knows_which_places_there_are():
    with pytest.raises(PeerProtocolError, match="a question for place 7, which is not below"):
        Places(7).at[0].asked(pmi.Ask(JOB_ID, 3, 7, 1, MODEX), 1, Step())


def test_a_reply_for_a_place_that_is_not_goes_nowhere():
    step = Step()
    Places(3).at[0].replied(pmi.Reply(JOB_ID, 9, 1, 0, ()), step)
    assert step == Step()


# -- limits ----------------------------------------------------------------


LONG = b"x" * REPLY_BYTES
MANY = tuple(b"%d" % number for number in range(1025))


@pytest.mark.parametrize(
    "question",
    [
        pmi.Publish((pair(b"k", LONG),), False),
        pmi.Lookup((LONG,), False),
        pmi.Unpublish((LONG,)),
        pmi.Spawn(Process(0, 0), (WORKER,), (pair(LONG),)),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a", (LONG,), 1),), ()),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a", (), 1, b"", (LONG,)),), ()),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a", (), 1, b"", (), (LONG,)),), ()),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a" * 900, (), 1, b"/" * 900),) * 200, ()),
        pmi.Publish(tuple(map(pair, MANY)), False),
        pmi.Lookup(MANY, False),
        pmi.Unpublish(MANY),
        pmi.Spawn(Process(0, 0), (WORKER,) * 257, ()),
    ],
)
def test_a_question_that_fits_no_message_is_answered_at_once_and_not_sent(question):
    places = Places(3)
    places.ask(1, ROOT, question)
    ((place, reply),) = places.answered
    assert (place, reply.status) == (1, questions.NO_RESOURCE)
    assert "at most" in reply.text or "more than" in reply.text
    assert places.seen == []


@pytest.mark.parametrize(
    "question",
    [
        pmi.Publish(tuple(pair(name, b"v" * 200) for name in MANY[:1024]), False),
        pmi.Lookup(tuple(b"n" * 240 for _ in range(1024)), False),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a", (b"",) * 50, 1),) * 256, ()),
        pmi.Spawn(Process(0, 0), (SpawnCommand(b"a" * 900, (), 1 << 20),) * 256, ()),
        pmi.Spawn(Process(0, 0), (WORKER,), tuple(pair(b"k" * 8, b"v" * 90) for _ in range(2000))),
    ],
)
def test_every_question_that_is_sent_fits_a_message(question):
    places = Places(3)
    places.ask(1, ROOT, question)  # the harness encodes
    assert places.seen


def test_a_spawn_of_nothing_is_answered_at_once():
    places = Places(3)
    places.ask(1, ROOT, pmi.Spawn(Process(0, 0), (), ()))
    ((_, reply),) = places.answered
    assert (reply.status, reply.text) == (questions.NO_RESOURCE, "no program")


def test_a_node_asks_as_many_questions_at_once_as_it_can_keep_and_no_more():
    places = Places(3, store_bytes=2 * questions.cost_of(MODEX))
    for _ in range(3):
        places.ask(1, 2, MODEX)
    ((_, refused),) = places.answered
    assert refused.status == questions.NO_RESOURCE
    assert "YOD_JOB_STORE_BYTES" in refused.text
    places.reply(places.to_answer[0][1], 2)
    places.ask(1, 2, MODEX)
    assert len(places.to_answer) == 3


def test_lookups_that_wait_at_the_root_are_kept_within_its_limit_and_given_back():
    places = Places(3)
    lookup = pmi.Lookup((b"never",), True)
    places.accounts[ROOT].take((1 << 20) - 2 * questions.cost_of(lookup))
    for _ in range(3):
        places.ask(1, ROOT, lookup)
    ((_, refused),) = places.answered
    assert refused.status == questions.NO_RESOURCE
    places.at[ROOT].check()
    places.at[ROOT].clear()
    assert places.accounts[ROOT].used_bytes == (1 << 20) - 2 * questions.cost_of(lookup)


def test_names_beyond_the_roots_limit_are_refused_by_name_of_the_limit():
    places = Places(3, store_bytes=4096)
    for number in range(20):
        places.ask(1, ROOT, pmi.Publish((pair(b"%d" % number),), False))
    statuses = [reply.status for _, reply in places.answered]
    assert statuses[0] == questions.SUCCESS and statuses[-1] == questions.NO_RESOURCE
    assert "at most 4096 bytes" in places.answered[-1][1].text
    places.ask(1, ROOT, pmi.Unpublish((b"0",)))
    places.ask(1, ROOT, pmi.Publish((pair(b"x"),), False))
    assert places.answered[-1][1].status == questions.SUCCESS


def test_names_that_fit_no_reply_are_not_taken():
    places = Places(3)
    for name in (b"a", b"b"):
        places.ask(1, ROOT, pmi.Publish((pair(name, bytes(200_000)),), True))
    places.ask(2, ROOT, pmi.Lookup((b"a", b"b"), False))
    assert places.answered[-1][1].status == questions.NO_RESOURCE
    for name in (b"a", b"b"):
        places.ask(2, ROOT, pmi.Lookup((name,), False))
        assert places.answered[-1][1].pairs == (pair(name, bytes(200_000)),)


# -- names -----------------------------------------------------------------


def test_names_are_published_looked_up_and_taken_away_at_the_root():
    places = Places(7)

    def status(place: int, question: pmi.Question) -> tuple[int, tuple[KeyValue, ...]]:
        places.ask(place, ROOT, question)
        return places.answered[-1][1].status, places.answered[-1][1].pairs

    assert status(3, pmi.Publish((pair(b"a"), pair(b"b")), False)) == (0, ())
    assert status(5, pmi.Publish((pair(b"a"),), False)) == (questions.EXISTS, ())
    assert status(6, pmi.Lookup((b"b", b"c"), False)) == (0, (pair(b"b"),))
    assert status(6, pmi.Lookup((b"c",), False)) == (questions.NOT_FOUND, ())
    assert status(0, pmi.Unpublish((b"a",))) == (0, ())
    assert status(1, pmi.Unpublish((b"a", b"b"))) == (questions.NOT_FOUND, ())
    assert status(1, pmi.Lookup((b"a", b"b"), False)) == (questions.NOT_FOUND, ())


def test_a_lookup_that_waits_is_answered_when_the_last_name_comes():
    places = Places(3)
    places.ask(2, ROOT, pmi.Lookup((b"a", b"b"), True))
    places.ask(2, ROOT, pmi.Lookup((b"b",), True))
    places.ask(1, ROOT, pmi.Publish((pair(b"a"),), False))
    assert [place for place, _ in places.answered] == [1]
    places.ask(1, ROOT, pmi.Publish((pair(b"b"),), False))
    assert sorted(place for place, _ in places.answered) == [1, 1, 2, 2]


def test_of_two_that_wait_for_a_name_that_is_read_once_the_first_gets_it():
    places = Places(3)
    places.ask(2, ROOT, pmi.Lookup((b"a",), True))
    places.ask(1, ROOT, pmi.Lookup((b"a",), True))
    places.ask(0, ROOT, pmi.Publish((pair(b"a", b"1"),), True))
    assert [place for place, reply in places.answered if reply.pairs] == [2]
    places.ask(0, ROOT, pmi.Publish((pair(b"a", b"2"),), True))
    assert [place for place, reply in places.answered if reply.pairs] == [2, 1]
