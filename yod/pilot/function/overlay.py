"""The driver of raptors' calls: their workers are tasks, whose ranks connect to the agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from native.errors import PeerProtocolError
from native.loop.reactor import Timer
from yod.pilot.function import codec
from yod.pilot.function.raptors import Given, Raptors
from yod.pilot.function.together import Answers, outcome_of, outputs_of, times_of
from yod.pilot.link.link import Link
from yod.pilot.model.description import TaskDescription
from yod.pilot.wire import calls as wire
from yod.pilot.work.place import Outcome, Place, Work

_TAIL = 1024  # characters of what each stream has printed


class _Call:
    """A call that is here.

    Attributes:
        came: when, in seconds of day.
        count: of its ranks.
        left: the numbers of the ranks that have neither answered nor gone.
        worker: the task whose ranks it has; is_lost: one of them has gone.
        failure: why what it has left is not there; empty: it is.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.came = time.time()
        self.count: int = TaskDescription(work.description).value("ranks")
        self.answers = Answers(self.count)
        self.ranks: tuple[int, ...] = ()
        self.left: set[int] = set()
        self.worker = ""
        self.is_lost = False
        self.failure = ""
        self.timer: Timer | None = None

    def close(self) -> None:
        """Nothing is timed any more."""
        if self.timer is not None:
            self.timer.close()

    def outcome(self) -> Outcome:
        """How it has ended."""
        outcome = self._outcome()
        if self.failure and not outcome.failure:
            outcome.exit_code, outcome.reason = None, self.failure
        return outcome

    def _outcome(self) -> Outcome:
        answers = self.answers.in_order()
        if self.count == 1 and answers:
            return outcome_of(answers[0], self.came)
        launched = Outcome()
        if self.is_lost:
            reason = f"the worker {self.worker} ended in the call"
            launched = Outcome(exit_code=None, reason=reason, is_lost=True)
        outcome = self.answers.outcome(launched)
        outcome.stdout = "".join(each.stdout for each in answers)[-_TAIL:]
        outcome.stderr = "".join(each.stderr for each in answers)[-_TAIL:]
        outcome.times = [("task_start", self.came)]
        if answers:
            began, ended = min(e.began for e in answers), max(e.ended for e in answers)
            outcome.times = times_of(self.came, began, ended)
        return outcome


class _Rank:
    """A rank of a worker."""

    def __init__(self, link: Link, told: wire.Here) -> None:
        self.link = link
        self.worker = told.task
        self.rank = told.rank
        self.is_apart = told.is_apart


class Overlay:
    """Runs the calls of raptors.

    Args:
        kill_delay_s: for the other ranks of a call, when one has raised or gone.
        bytes_max: of the files of a call that go to a node that does not see the pilot's sandbox.

    Attributes:
        dropped: workers of which a rank was told to end, since its call was not wanted any more.
        on_joined: called with a raptor and its worker, when a rank of that is there.
    """

    def __init__(self, place: Place, kill_delay_s: float, bytes_max: int) -> None:
        self._place = place
        self._kill_delay_s = kill_delay_s
        self._bytes_max = bytes_max
        self._rules = Raptors()
        self._calls: dict[str, _Call] = {}
        self._ranks: dict[int, _Rank] = {}
        self._come = 0
        self.dropped: set[str] = set()
        self.on_joined: Callable[[str, str], None] = lambda _raptor, _worker: None

    def start(self, work: Work, raptor: str) -> None:
        """Run a call."""
        call = self._calls[work.uid] = _Call(work)
        try:
            given = self._rules.want(work.uid, raptor, call.count)
        except KeyError:
            self._refuse(work.uid, f"its raptor {raptor} has ended")
            return
        self._give(given)

    def signal(self, uid: str) -> None:
        """A call is not wanted any more; the ranks that have it begin anew."""
        call = self._calls.get(uid)
        if call is None:
            return
        ranks, given = self._rules.drop(uid)
        if not ranks:
            self._refuse(uid, "it was not wanted any more")
        else:
            self._drop(call)
        self._give(given)

    def stop(self, raptor: str) -> None:
        """A raptor takes no more calls; its workers end."""
        waiting, ranks = self._rules.end(raptor)
        for uid in waiting:
            self._refuse(uid, f"its raptor {raptor} has ended")
        for number in ranks:
            self._ranks[number].link.close()
            self._gone(number, "")

    def why(self, uid: str) -> str:
        """Why a call stands still; empty: it does not."""
        return self._rules.why(uid)

    def close(self) -> None:
        """End all."""
        for rank in self._ranks.values():
            rank.link.close()
        for call in self._calls.values():
            call.close()
        self._ranks.clear()
        self._calls.clear()

    def came(self, told: wire.Here, link: Link) -> None:
        """A rank of a worker; it ends when its connection is closed."""
        self._come -= 1
        number = self._come
        try:
            given = self._rules.came(number, told.raptor, told.task, told.rank)
        except KeyError:  # others have done all calls meanwhile
            link.close()
            return
        link.redirect(partial(self._take, number), partial(self._gone, number))
        self._ranks[number] = _Rank(link, told)
        self.on_joined(told.raptor, told.task)
        self._give(given)

    def _refuse(self, uid: str, reason: str) -> None:
        self._calls.pop(uid).close()
        self._place.ended(uid, Outcome(exit_code=None, reason=reason))

    def _drop(self, call: _Call) -> None:
        """Have the ranks that still have a call end it."""
        for number in sorted(call.left):
            self.dropped.add(call.worker)
            self._ranks[number].link.send_frame(wire.frame(wire.Drop(number)))

    def _give(self, given: list[Given]) -> None:
        for each in given:
            call = self._calls[each.uid]
            work = call.work
            ranks = [self._ranks[number] for number in each.ranks]
            call.ranks, call.left, call.worker = each.ranks, set(each.ranks), ranks[0].worker
            together = tuple(rank.rank for rank in ranks) if call.count > 1 else ()
            payload, files = self._input_of(work, ranks)
            for number, rank in zip(each.ranks, ranks, strict=True):
                told = wire.Call(
                    number,
                    payload,
                    work.sandbox,
                    work.environment,
                    *outputs_of(work),
                    together,
                    carries=rank.is_apart,
                    keeps=bool(work.description.get("sandbox")),
                    files=files if rank.is_apart else b"",
                )
                rank.link.send_frame(wire.frame(told))
            if work.description.get("startup_timeout"):
                self._place.started(each.uid, time.time())

    def _input_of(self, work: Work, ranks: list[_Rank]) -> tuple[bytes, bytes]:
        """The packed call, and the files that go with it to nodes of their own."""
        if not any(rank.is_apart for rank in ranks):
            return work.payload, b""
        from yod.pilot.files.parcel import TooLarge, parcel_of

        try:
            return work.payload, parcel_of(work.sandbox, self._bytes_max, outputs_of(work))
        except TooLarge as error:
            reason = f"its input, for a node that lacks the session's directory, is {error}"
        except OSError as error:
            reason = f"its input: {error.filename or work.sandbox}: {error.strerror}"
        return codec.pack_refusal(reason), b""

    def _take(self, number: int, body: bytes) -> None:
        answer = wire.decode_answer(body)
        if not isinstance(answer, wire.Answer):
            raise PeerProtocolError("a worker has come twice")
        uid = self._rules.call_of(number)
        call = self._calls.get(uid)
        if call is None or number not in call.left:
            raise PeerProtocolError("a worker has answered what it was not asked")
        call.answers.add(call.ranks.index(number), answer)
        if self._ranks[number].is_apart:
            from yod.pilot.files.parcel import open_parcel

            grows = outputs_of(call.work) if call.count > 1 else ()
            failure = answer.left or open_parcel(answer.files, call.work.sandbox, grows)
            call.failure = call.failure or failure
        self._less(uid, call, number)

    def _gone(self, number: int, _reason: str) -> None:
        del self._ranks[number]
        uid, given = self._rules.gone(number)
        call = self._calls.get(uid)
        if call is not None and number in call.left:
            call.is_lost = True
            self._less(uid, call, number)
        self._give(given)

    def _less(self, uid: str, call: _Call, number: int) -> None:
        """A rank has answered, or has gone; those that are left may wait for it for ever."""
        call.left.discard(number)
        if call.left:
            if call.timer is None and (call.is_lost or call.answers.has_raised):
                reactor = self._place.reactor
                call.timer = reactor.timer(partial(self._drop, call))
                call.timer.set(reactor.monotonic() + self._kill_delay_s)
            return
        call.close()
        del self._calls[uid]
        given = self._rules.done(uid)
        self._place.ended(uid, call.outcome())
        self._give(given)
