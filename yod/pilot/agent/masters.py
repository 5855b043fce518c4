"""Programs of tasks that submit tasks: masters of raptors, and workers that want something run.

A raptor whose master is a program is asked about each call that others have for it, before a worker
gets that. What waits for the master's answer, or for the master, ends with the master.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from yod.pilot.model import modes, states
from yod.pilot.model.description import TaskDescription
from yod.pilot.wire import masters as wire
from yod.pilot.wire.messages import Order, Over, over_bytes, parts
from yod.pilot.work.place import Outcome, Work

if TYPE_CHECKING:
    from yod.pilot.function.overlay import Overlay
    from yod.pilot.link.link import Link
    from yod.pilot.wire.calls import Lead


class Taker(Protocol):
    """The agent, as those see it that submit tasks to it."""

    def ended(self, uid: str, outcome: Outcome) -> None:
        """A task is over."""

    def take(self, orders: list[Order]) -> list[str]:
        """Tasks are to be run; those are returned whose uids there are already."""


class _Program:
    """One that submits tasks."""

    def __init__(self, link: Link, uid: str) -> None:
        self.link = link
        self.uid = uid

    def say(self, message: wire.ToProgram) -> None:
        self.link.send_frame(wire.frame(message))


class Masters:
    """All such programs of one agent.

    Args:
        overlay: gives who runs raptors' calls; None: nobody has had to yet.
    """

    def __init__(self, taker: Taker, overlay: Callable[[], Overlay | None]) -> None:
        self._taker = taker
        self._overlay = overlay
        self._expected: set[str] = set()  # raptors whose masters are programs, and not over
        self._here: set[str] = set()  # those whose tasks have come
        self._over: set[str] = set()  # those that are
        self._programs: set[_Program] = set()
        self._leaders: dict[str, _Program] = {}  # raptor -> its master, when it is there
        self._owners: dict[str, _Program] = {}  # task -> who gets its result
        self._asked: dict[str, tuple[Work, str]] = {}  # call -> it, and its raptor
        self._stopped: set[str] = set()  # before they were there

    def know(self, order: Order, description: TaskDescription) -> None:
        """A task has come; that of a raptor may do so behind its calls."""
        if description.kind == modes.RAPTOR_MASTER and not description.is_queue:
            self._expected.add(order.uid)
            self._here.add(order.uid)
        elif order.is_led and description.value("raptor_id") not in self._over:
            self._expected.add(description.value("raptor_id"))

    def asks(self, work: Work, raptor: str) -> bool:
        """A call is to be run; True: its master is asked first, or has ended."""
        if raptor in self._over:
            self._taker.ended(work.uid, Outcome(exit_code=None, reason=_ended(raptor)))
            return True
        if raptor not in self._expected:
            return False
        master = self._leaders.get(raptor)
        if master is not None and self._owners.get(work.uid) is master:
            return False
        self._asked[work.uid] = (work, raptor)
        if master is not None:
            self._ask(master, [work])
        return True

    def drop(self, uid: str) -> bool:
        """A call is not wanted any more; True: its master was asked, or is not there yet."""
        if self._asked.pop(uid, None) is None:
            return False
        self._taker.ended(uid, Outcome(exit_code=None, reason="it was not wanted any more"))
        return True

    def why(self, uid: str) -> str:
        """Why a call stands still; empty: it does not, or not here."""
        if uid not in self._asked:
            return ""
        raptor = self._asked[uid][1]
        if raptor in self._leaders:
            return f"its raptor {raptor} is asked whether it is to run"
        return f"the program of its raptor {raptor} has not come yet"

    def stop(self, raptor: str) -> bool:
        """A raptor is to end; True: that is its program's business."""
        if raptor not in self._here:  # its program will never come
            self.over(raptor)
            self._over.add(raptor)
        if raptor not in self._expected:
            return False
        master = self._leaders.get(raptor)
        if master is None:
            self._stopped.add(raptor)
        else:
            master.say(wire.Stop())
        return True

    def over(self, uid: str) -> None:
        """A task is over; with a master its raptor ends."""
        if uid not in self._expected:
            return
        self._expected.discard(uid)
        self._here.discard(uid)
        self._over.add(uid)
        self._leaders.pop(uid, None)
        self._end(uid)

    def tell(self, overs: list[Over]) -> None:
        """Tasks are over: who wants to know it is told."""
        by_program: dict[_Program, list[Over]] = {}
        for over in overs:
            program = self._owners.pop(over.uid, None)
            if program is not None:
                by_program.setdefault(program, []).append(over)
        for program, own in by_program.items():
            for part in parts(own, over_bytes):
                program.say(wire.Results(part))

    def joined(self, raptor: str, worker: str) -> None:
        """A rank of a worker is there."""
        master = self._leaders.get(raptor)
        if master is not None:
            master.say(wire.Joined(worker))

    def came(self, told: Lead, link: Link) -> None:
        """A program is there."""
        program = _Program(link, told.task)
        self._programs.add(program)
        link.redirect(partial(self._take, program), partial(self._gone, program))
        if told.task not in self._expected:
            return
        self._leaders[told.task] = program
        if told.task in self._stopped:
            program.say(wire.Stop())
        waiting = [work for work, raptor in self._asked.values() if raptor == told.task]
        if waiting:
            self._ask(program, waiting)

    def close(self) -> None:
        """Hear no more of them."""
        for program in self._programs:
            program.link.close()
        self._programs.clear()

    def _ask(self, master: _Program, works: list[Work]) -> None:
        # What is called stays here: the master chooses, and the call may be long.
        master.say(wire.Asked([Order(work.uid, work.description) for work in works]))

    def _take(self, program: _Program, body: bytes) -> None:
        match wire.decode_program(body):
            case wire.Submit(orders):
                there = set(self._taker.take(orders))
                self._owners |= {o.uid: program for o in orders if o.uid not in there}
                if there:
                    reason = "there is one of this name"
                    program.say(
                        wire.Results([Over(uid, states.FAILED, None, reason) for uid in there])
                    )
            case wire.Chosen(uids, refused):
                for uid in uids:
                    asked, overlay = self._asked.pop(uid, None), self._overlay()
                    if asked is not None and overlay is not None:  # else it has been canceled
                        self._owners[uid] = program
                        overlay.start(*asked)
                for uid, reason in refused.items():
                    if self._asked.pop(uid, None) is not None:
                        self._taker.ended(uid, Outcome(exit_code=None, reason=reason))
            case wire.Finish():
                if self._leaders.get(program.uid) is program:
                    self._end(program.uid)

    def _end(self, raptor: str) -> None:
        waiting = [uid for uid, (_, own) in self._asked.items() if own == raptor]
        for uid in waiting:
            del self._asked[uid]
            self._taker.ended(uid, Outcome(exit_code=None, reason=_ended(raptor)))
        overlay = self._overlay()
        if overlay is not None:
            overlay.stop(raptor)

    def _gone(self, program: _Program, _reason: str) -> None:
        self._programs.discard(program)
        for uid in [uid for uid, owner in self._owners.items() if owner is program]:
            del self._owners[uid]
        if self._leaders.get(program.uid) is program:
            del self._leaders[program.uid]


def _ended(raptor: str) -> str:
    return f"its raptor {raptor} has ended"
