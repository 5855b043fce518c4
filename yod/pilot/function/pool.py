"""The driver of a pool: warm Python workers on the nodes of a pilot, for tasks that are calls."""

from __future__ import annotations

import _socket
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from native import limits
from native.errors import PeerProtocolError, YodError
from native.loop.reactor import Timer
from native.waitstatus import how_it_ended
from yod.pilot.function import workers as rules
from yod.pilot.function.overlay import Overlay
from yod.pilot.function.rank import SOCKET
from yod.pilot.function.together import MODULE as TOGETHER
from yod.pilot.function.together import Answers, outcome_of, outputs_of
from yod.pilot.link.link import Link, Listener
from yod.pilot.wire import calls as wire
from yod.pilot.work.place import Outcome, Place, Work

DIRECTORY = "workers"  # in the pilot's sandbox: what workers print
MODULE = "yod.pilot.function.worker"
_SAVE = '[ ! -s "$1" ] || mv "$1" "$2"; [ ! -s "$3" ] || mv "$3" "$4"'
_LAST_WORD_S = 2.0  # for the answers of ranks that have ended


class _Group:
    """A call of several ranks, which are launched for it."""

    def __init__(self, work: Work, ranks: int, end: Callable[[], None], timer: Timer) -> None:
        self.end = end
        self.timer = timer
        self.payload = work.payload
        self.directory = work.sandbox
        self.ranks = ranks
        self.links: dict[int, Link] = {}
        self.answers = Answers(ranks)
        self.outcome: Outcome | None = None  # of the launch
        self.lost: int | None = None

    def close(self) -> None:
        """Hear no more of it."""
        for link in self.links.values():
            link.close()
        self.links.clear()
        self.timer.close()


class FunctionPool:
    """Runs calls of functions.

    Args:
        host: the address at which nodes reach this host; empty: there is one host only.

    Attributes:
        path: of the socket that workers connect to.
        overlay: runs the calls of raptors.
        on_lead: called with the first word and the link of a program that submits tasks.

    Raises:
        YodError: workers cannot be let in.
    """

    def __init__(self, place: Place, host: str = "") -> None:
        self._place = place
        self._rules = rules.Workers()
        self._works: dict[str, tuple[Work, float]] = {}
        self._links: dict[int, Link] = {}
        self._processes: dict[int, int] = {}  # worker -> number of its process
        self._apart: set[int] = set()  # workers that do not see the pilot's sandbox
        self._groups: dict[str, _Group] = {}
        own = limits.load(dict(os.environ))
        self._kill_delay_s = own.kill_delay_s
        self.overlay = Overlay(place, self._kill_delay_s, own.call_bytes)
        self.on_lead: Callable[[wire.Lead, Link], None] = lambda _told, link: link.close()
        self._directory = os.path.join(place.sandbox, DIRECTORY)
        self.path = os.path.join(place.sandbox, SOCKET)
        try:
            os.makedirs(self._directory, exist_ok=True)
            self._listener = Listener(self.path, place.reactor, self._let_in)
        except OSError as error:
            raise YodError(f"{self.path}: {error.strerror}") from None
        if host:
            self._listener.reach(host)

    def start(self, work: Work) -> None:
        """Run a call."""
        self._works[work.uid] = (work, time.time())
        slot = work.slots[0]
        self._carry_out(self._rules.want(work.uid, rules.Key(slot.node, slot.gpus)))

    def expect(self, work: Work, ranks: int, end: Callable[[], None]) -> list[str]:
        """A call of several ranks is to be launched: the words of their program.

        Args:
            end: ends the launch, when one rank has gone and the others wait for it.
        """
        timer = self._place.reactor.timer(partial(self._too_late, work.uid))
        self._groups[work.uid] = _Group(work, ranks, end, timer)
        return [sys.executable, "-P", "-m", TOGETHER, self.path]

    def ranks_over(self, uid: str, outcome: Outcome) -> None:
        """The launch of a call's ranks has ended; what they have said last may still come."""
        group = self._groups[uid]
        group.outcome = outcome
        group.timer.set(self._place.reactor.monotonic() + _LAST_WORD_S)
        self._look_at(uid)

    def signal(self, uid: str, signo: int) -> None:
        """Send the process that has a call a signal."""
        process = self._processes.get(self._rules.number_of(uid) or 0)
        if process is not None:
            self._place.kill_process(process, signo)

    def close(self) -> None:
        """End all."""
        self._listener.close()
        for link in self._links.values():
            link.close()
        self._links.clear()
        self.overlay.close()
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    # -- calls of several ranks --------------------------------------------------

    def _join(self, told: wire.Here, link: Link) -> None:
        """A rank of such a call has come; the call goes to all at once."""
        uid, rank = told.task, told.rank
        group = self._groups[uid]
        group.links[rank] = link

        def take(body: bytes) -> None:
            answer = wire.decode_answer(body)
            if not isinstance(answer, wire.Answer):
                raise PeerProtocolError("a rank has come twice")
            group.answers.add(rank, answer)
            if group.answers.is_complete:
                for each in group.links.values():
                    each.close()
                group.links.clear()
                self._look_at(uid)

        def lost(_reason: str) -> None:
            group.links.pop(rank, None)
            if not group.answers.has(rank) and group.lost is None and group.outcome is None:
                group.lost = rank  # if it has failed the launch ends the others after a while
                wait_s = self._kill_delay_s + _LAST_WORD_S
                group.timer.set(self._place.reactor.monotonic() + wait_s)
            self._look_at(uid)

        link.redirect(take, lost)
        if len(group.links) == group.ranks:
            call = wire.frame(wire.Call(0, group.payload, group.directory))
            for each in group.links.values():
                each.send_frame(call)

    def _look_at(self, uid: str) -> None:
        group = self._groups.get(uid)
        if group is not None and group.outcome is not None and not group.links:
            self._end_group(uid)

    def _too_late(self, uid: str) -> None:
        """A rank has gone, and its launch has not; or an answer has not come that was sent."""
        group = self._groups[uid]
        if group.outcome is not None:
            self._end_group(uid)
            return
        group.answers.lost = group.lost
        group.end()

    def _end_group(self, uid: str) -> None:
        group = self._groups.pop(uid)
        group.close()
        assert group.outcome is not None
        self._place.ended(uid, group.answers.outcome(group.outcome))

    # -- workers ----------------------------------------------------------------

    def _carry_out(self, actions: list[rules.Action]) -> None:
        for action in actions:
            match action:
                case rules.Give(number, uid):
                    self._give(number, uid)
                case rules.Start(number, key):
                    self._start(number, key)
                case rules.End(number):
                    self._end(number)
                case rules.Lose():
                    pass  # `_over` knows how the process has ended

    def _start(self, number: int, key: rules.Key) -> None:
        words = [sys.executable, "-P", "-m", MODULE, self.path, str(number)]
        self._processes[number] = self._place.start_process(
            key.node,
            words,
            {},
            self._directory,
            f"{number:06}.out",
            f"{number:06}.err",
            (),
            partial(self._over, number),
        )

    def _end(self, number: int) -> None:
        link = self._links.pop(number, None)
        if link is not None:
            link.close()
        if number in self._processes:
            self._place.kill_process(self._processes[number], signal.SIGKILL)

    def _over(self, number: int, outcome: Outcome) -> None:
        """The process of a worker has ended."""
        self._processes.pop(number, None)
        link = self._links.pop(number, None)
        if link is not None:
            link.close()
        for action in self._rules.over(number):
            if isinstance(action, rules.Lose):
                self._lose(number, action, outcome)
        self._apart.discard(number)

    def _lose(self, number: int, lost: rules.Lose, outcome: Outcome) -> None:
        work, came = self._works.pop(lost.uid)
        if lost.has_begun:
            how = how_it_ended(outcome.signal) if outcome.signal else outcome.failure
            outcome.reason = f"its worker ended in the call: {how or 'exit code 0'}"
            if number in self._apart and not outcome.is_lost:
                self._save_output(number, work, partial(self._tell_lost, lost.uid, outcome, came))
                return
            self._keep_output(number, work)
        else:
            last = (outcome.stderr.strip().splitlines() or [outcome.failure])[-1]
            outcome.reason = f"its worker could not start: {last}"
        self._tell_lost(lost.uid, outcome, came)

    def _tell_lost(self, uid: str, outcome: Outcome, came: float) -> None:
        outcome.is_lost = True
        outcome.times = [("task_start", came), *outcome.times[1:]]
        self._place.ended(uid, outcome)

    def _keep_output(self, number: int, work: Work) -> None:
        """What the call has printed is where it belongs, also if its worker was killed."""
        for name, own in zip(outputs_of(work), ("out", "err"), strict=True):
            with suppress(OSError):  # its node may have been lost, and the directory with it
                path = os.path.join(self._directory, f"{number:06}.{own}")
                if os.path.getsize(path):
                    os.rename(path, os.path.join(work.sandbox, name))

    def _save_output(self, number: int, work: Work, then: Callable[[], None]) -> None:
        """Likewise, on a node of its own."""
        files: list[str] = []
        for name, own in zip(outputs_of(work), ("out", "err"), strict=True):
            files += [
                os.path.join(self._directory, f"{number:06}.{own}"),
                os.path.join(work.sandbox, name),
            ]
        self._place.start_process(
            work.slots[0].node,
            ["/bin/sh", "-c", _SAVE, "/bin/sh", *files],
            {},
            work.sandbox,
            os.devnull,
            os.devnull,
            (),
            lambda _: then(),
        )

    # -- their words ------------------------------------------------------------

    def _let_in(self, end: _socket.socket) -> None:
        def hello(body: bytes) -> None:
            told = wire.decode_answer(body)
            if isinstance(told, wire.Lead):
                self.on_lead(told, link)
                return
            if isinstance(told, wire.Here) and told.raptor:
                self.overlay.came(told, link)
                return
            if isinstance(told, wire.Here) and told.task in self._groups:
                self._join(told, link)
                return
            if not isinstance(told, wire.Here) or told.number not in self._processes:
                link.close()
                return
            number = told.number
            link.redirect(partial(self._take, number), partial(self._broke, number))
            self._links[number] = link
            if told.is_apart:
                self._apart.add(number)
            self._carry_out(self._rules.came(number))

        link = Link(end, self._place.reactor, hello, lambda _: None)

    def _give(self, number: int, uid: str) -> None:
        work, _ = self._works[uid]
        call = wire.Call(
            number,
            work.payload,
            work.sandbox,
            work.environment,
            *outputs_of(work),
            carries=number in self._apart,
            keeps=bool(work.description.get("sandbox")),
        )
        self._links[number].send_frame(wire.frame(call))
        if work.description.get("startup_timeout"):
            self._place.started(uid, time.time())

    def _take(self, number: int, body: bytes) -> None:
        answer = wire.decode_answer(body)
        if not isinstance(answer, wire.Answer):
            raise PeerProtocolError("a worker has come twice")
        uid = self._rules.answered(number)
        if not uid:
            raise PeerProtocolError("a worker has answered what it was not asked")
        work, came = self._works.pop(uid)
        outcome = outcome_of(answer, came)
        if number in self._apart and not answer.left:
            outcome.is_back = True
            failure = _open(answer.files, work.sandbox) if answer.files else ""
            if failure and not outcome.failure:
                outcome.exit_code, outcome.reason = None, f"its output: {failure}"
        self._place.ended(uid, outcome)

    def _broke(self, number: int, reason: str) -> None:
        self._links.pop(number, None)
        self._carry_out(self._rules.broke(number))


def _open(files: bytes, directory: str) -> str:
    """Put what a call has left into its sandbox; why that cannot be done; empty: it is."""
    from yod.pilot.files.parcel import open_parcel

    return open_parcel(files, directory)
