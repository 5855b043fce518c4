"""An executor in the session's thread: its workers are tasks, and calls go to them directly."""

from __future__ import annotations

import _socket
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from msgspec import Struct

from native.errors import PeerProtocolError, YodError
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.session import Session
from yod.pilot.client.task import Task
from yod.pilot.client.tmgr import TaskManager
from yod.pilot.executor import crew as rules
from yod.pilot.executor.wants import Kind, Wants
from yod.pilot.function import codec
from yod.pilot.function.pool import MODULE
from yod.pilot.link.greeting import SOCKET_VARIABLE
from yod.pilot.link.link import Link, Listener
from yod.pilot.model import states
from yod.pilot.wire import calls as wire

HERE = "local.localhost"


class WorkerLost(YodError):
    """The worker of a call has ended in it, or there is none to be had."""


class RemoteTraceback(Exception):
    """The traceback of an exception, as it was in the worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Asked(Struct):
    """A call of the application's.

    Attributes:
        answers: of the ranks that have answered.
        name: of its own, once it is taken; came: when that was, in seconds of day.
    """

    payload: bytes
    wants: Wants
    future: Future[Any]
    answers: dict[int, wire.Answer] = {}
    name: str = ""
    came: float = 0.0


class Calling:
    """The workers and calls of one executor. But for the constructor everything is in the loop.

    Args:
        cores: for workers; 0: as many as the pilots have.
        first: a packed call that each worker does first; empty: none.
    """

    def __init__(
        self,
        session: Session,
        tmgr: TaskManager,
        pilots: list[Pilot],
        uid: str,
        cores: int,
        first: bytes = b"",
    ) -> None:
        self._first = wire.frame(wire.Begin(first)) if first else b""
        self._session = session
        self._tmgr = tmgr
        self._pilots = pilots
        self._uid = uid
        self._most = cores
        self._reactor = session.loop.reactor
        self._crew = rules.Crew(1)
        self._calls: dict[int, Asked] = {}
        self._numbers = 0
        self._links: dict[int, dict[int, Link]] = {}  # worker -> rank -> its connection
        self._tasks: dict[int, Task] = {}
        self._on_quiet: Callable[[], None] | None = None
        self._timer = self._reactor.timer(self._due)
        self._profile = session.profiles.open(uid, uid)
        self._path = os.path.join(session.path, f"{uid}.sock")
        self._listener = Listener(self._path, self._reactor, self._let_in)
        if any(pilot.resource != HERE for pilot in pilots):
            self._listener.reach()
        self._measure()

    def ask(self, asked: Asked) -> None:
        """A call is wanted."""
        lost = self._lost()
        if lost:
            self._fail(asked, WorkerLost(lost))
            return
        self._numbers += 1
        self._calls[self._numbers] = asked
        asked.name, asked.came = f"{self._uid}.call.{self._numbers:06}", time.time()
        self._carry_out(self._crew.ask(self._numbers, asked.wants, self._reactor.monotonic()))

    def finish(self, on_quiet: Callable[[], None], *, cancels: bool) -> None:
        """No call comes any more; with ``cancels`` those that have not begun are not wanted."""
        self._on_quiet = on_quiet
        if cancels:
            for asked in list(self._calls.values()):
                asked.future.cancel()  # those that run are not
        self._look()

    def close(self) -> None:
        """End what is left, and fail its calls. Calling twice is harmless."""
        self._on_quiet = None
        self._listener.close()
        self._timer.close()
        for links in self._links.values():
            for link in links.values():
                link.close()
        self._links.clear()
        for asked in self._calls.values():
            self._fail(asked, WorkerLost("the executor has been closed"))
        self._calls.clear()

    # -- workers ----------------------------------------------------------------

    def _carry_out(self, actions: list[rules.Action]) -> None:
        """Do what the rules say; what follows from it, too."""
        queue = actions
        while queue:
            more: list[rules.Action] = []
            for action in queue:
                match action:
                    case rules.Give(worker, call):
                        more += self._give(worker, call)
                    case rules.Start(worker, kind):
                        self._start(worker, kind)
                    case rules.End(worker, is_forced):
                        self._end(worker, is_forced=is_forced)
                    case rules.Fail(call, reason, is_late):
                        self._give_up(call, reason, is_late=is_late)
            queue = more
        self._timer.set(self._crew.deadline())
        if self._on_quiet is not None:
            self._look()

    def _look(self) -> None:
        """Is it over?"""
        if self._on_quiet is None or not self._crew.is_quiet:
            return
        on_quiet, self._on_quiet = self._on_quiet, None
        self._carry_out(self._crew.dismiss())
        on_quiet()

    def _lost(self) -> str:
        """Why no worker will ever come; empty: one may."""
        if not all(pilot.state in states.FINAL for pilot in self._pilots):
            return ""
        last = self._pilots[-1]
        how = f"the pilot {last.uid} is {last.state}"
        return f"{how}: {last.reason}" if last.reason else how

    def _measure(self) -> list[rules.Action]:
        """How many cores there are now."""
        lost = self._lost()
        if lost:
            return self._crew.abandon(lost)
        cores = sum(
            pilot.cores or pilot.description.value("cores")
            for pilot in self._pilots
            if pilot.state not in states.FINAL
        )
        return self._crew.resize(max(1, min(cores, self._most or cores)))

    def _start(self, worker: int, kind: Kind) -> None:
        words = ["-P", "-m", MODULE, self._path, str(worker)]
        entries = {
            "uid": f"{self._uid}.{worker:06}",
            "executable": sys.executable,
            "environment": {SOCKET_VARIABLE: self._path},
        }
        task = self._tmgr.submit_tasks(entries | {"arguments": words} | kind.description())
        self._tasks[worker] = task
        self._links[worker] = {}
        self._tmgr.when_over(task, partial(self._over, worker))

    def _end(self, worker: int, *, is_forced: bool) -> None:
        if is_forced:
            self._tasks[worker].cancel()
            return
        for link in self._links.pop(worker, {}).values():
            link.close()

    def _over(self, worker: int, task: Task) -> None:
        del self._tasks[worker]
        for link in self._links.pop(worker, {}).values():
            link.close()
        last = (task.stderr.strip().splitlines() or [""])[-1]
        how = task.reason or f"exit code {task.exit_code}"
        reason = f"the worker {task.uid} has ended: {how}" + (f": {last}" if last else "")
        number = self._crew.call_of(worker)
        if number in self._calls:
            self._calls[number].answers = {}
        self._carry_out([*self._crew.over(worker, reason), *self._measure()])

    def _due(self) -> None:
        self._carry_out(self._crew.due(self._reactor.monotonic()))

    # -- calls ------------------------------------------------------------------

    def _give(self, worker: int, number: int) -> list[rules.Action]:
        asked = self._calls[number]
        future = asked.future
        if not future.running() and not future.set_running_or_notify_cancel():
            del self._calls[number]
            return self._crew.answered(worker, self._reactor.monotonic())
        whole = wire.frame(wire.Call(number, asked.payload, asked.wants.directory))
        for link in self._links[worker].values():
            link.send_frame(whole)
        return []

    def _give_up(self, number: int, reason: str, *, is_late: bool) -> None:
        asked = self._calls.pop(number)
        raised = [answer for answer in asked.answers.values() if answer.exception]
        if raised:
            self._fail(asked, _error_of(raised[0]))
        else:
            self._fail(asked, TimeoutError(reason) if is_late else WorkerLost(reason))

    def _fail(self, asked: Asked, error: BaseException) -> None:
        future = asked.future
        if asked.name:
            now = time.time()
            self._profile.prof("call_asked", asked.name, time=asked.came)
            self._profile.prof("call_lost", asked.name, msg=str(error), time=max(now, asked.came))
        if future.running() or future.set_running_or_notify_cancel():
            future.set_exception(error)

    def _let_in(self, end: _socket.socket) -> None:
        def hello(body: bytes) -> None:
            told = wire.decode_answer(body)
            task = self._tasks.get(told.number) if isinstance(told, wire.Here) else None
            if not isinstance(told, wire.Here) or task is None:
                link.close()
                return
            worker, rank = told.number, told.rank
            take, broke = partial(self._take, worker, rank), partial(self._broke, worker)
            link.redirect(take, broke)
            links = self._links[worker]
            links[rank] = link
            if self._first:
                link.send_frame(self._first)
            if len(links) == task.ranks:
                self._links[worker] = dict(sorted(links.items()))
                now = self._reactor.monotonic()
                self._carry_out([*self._measure(), *self._crew.came(worker, now)])

        link = Link(end, self._reactor, hello, lambda _: None)

    def _take(self, worker: int, rank: int, body: bytes) -> None:
        answer = wire.decode_answer(body)
        if not isinstance(answer, wire.Answer):
            raise PeerProtocolError("a worker has come twice")
        asked = self._calls.get(answer.number)
        if asked is None or self._crew.call_of(worker) != answer.number:
            return  # its time was over before
        links = self._links[worker]
        if len(links) > 1:
            asked.answers = {**asked.answers, rank: answer}
            if len(asked.answers) < len(links):
                if answer.exception:  # others may wait for this rank for ever
                    until = self._reactor.monotonic() + self._session.limits.kill_delay_s
                    self._crew.hasten(worker, until)
                    self._timer.set(self._crew.deadline())
                return
        del self._calls[answer.number]
        self._settle(asked, answer, self._tasks[worker].uid)
        self._carry_out(self._crew.answered(worker, self._reactor.monotonic()))

    def _settle(self, asked: Asked, answer: wire.Answer, worker: str) -> None:
        """A call has its result, or one of each rank."""
        every = [asked.answers[rank] for rank in sorted(asked.answers)] or [answer]
        began, ended = min(one.began for one in every), max(one.ended for one in every)
        self._profile.many(
            (
                ("call_asked", asked.name, "", "", min(asked.came, began)),
                ("call_start", asked.name, "", worker, began),
                ("call_stop", asked.name, "", worker, ended),
            )
        )
        for each in every:
            if each.exception:
                asked.future.set_exception(_error_of(each))
                return
        try:
            values = [codec.unpack_value(each.value) for each in every]
        except Exception as error:  # whatever the application's classes raise
            asked.future.set_exception(error)
            return
        asked.future.set_result(values if asked.answers else values[0])

    def _broke(self, worker: int, reason: str) -> None:
        self._carry_out(self._crew.broke(worker, self._reactor.monotonic()))


def _error_of(answer: wire.Answer) -> BaseException:
    """What a call has raised; where it could not be packed, something that says the same."""
    try:
        error = codec.unpack_value(answer.value) if answer.value else None
    except Exception:  # whatever the application's class raises
        error = None
    if not isinstance(error, BaseException):
        error = YodError(answer.exception)
    error.__cause__ = RemoteTraceback(answer.detail)
    return error
