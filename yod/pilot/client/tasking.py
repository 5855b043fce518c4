"""What a task manager does in the session's thread: tasks on their way to pilots and back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from yod.pilot.client.auto import AutoPilots
from yod.pilot.client.callbacks import Callbacks
from yod.pilot.client.events import TaskEvents
from yod.pilot.client.journal import Brought, Ended, Given, Past, Taken
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.staging import TaskStaging
from yod.pilot.client.submitting import order_of, task_of, wanted
from yod.pilot.client.task import Task
from yod.pilot.model import states
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.modes import RAPTOR_MASTER
from yod.pilot.scheduler.pilots import Dispatcher
from yod.pilot.wire import messages as wire

if TYPE_CHECKING:
    from yod.pilot.client.tmgr import TaskManager

RESTARTS_MAX = 3  # of a task whose pilot is lost


class Tasking:
    """The tasks of one manager.

    Attributes:
        tasks: all, by their uids.
        pilots: those that may get tasks.
        dispatcher: which pilot gets which.
        callbacks: for states; sizes: for the number of tasks that wait.
        auto: submits pilots; None: nobody does.
        gone: how the last pilot has ended that tasks could have gone to; empty: none has.
    """

    def __init__(self, tmgr: TaskManager) -> None:
        self.tmgr = tmgr
        self.session = tmgr.session
        self.tasks: dict[str, Task] = {}
        self.pilots: dict[str, Pilot] = {}
        self.dispatcher = Dispatcher()
        self.callbacks = Callbacks()
        self.sizes = Callbacks()
        self.auto: AutoPilots | None = None
        self.gone = ""
        self._loop = self.session.loop
        self._held: dict[str, dict[str, Task]] = {}  # pilot -> its tasks that are not over
        self._canceled: set[str] = set()  # asked for, and not over yet
        self._unbrought: set[str] = set()  # of an earlier client, which may not have brought input
        self._is_asked = False
        self._events = TaskEvents(self.session.profiles, tmgr.uid)
        self._staging = TaskStaging(self.session, self._events, f"{tmgr.uid} staging")

    def close(self) -> None:
        """Do nothing more."""
        self._staging.close()
        if self.auto is not None:
            self.auto.close()

    def held(self, pilot_uids: list[str]) -> list[str]:
        """The tasks that some pilots have."""
        return [task for uid in pilot_uids for task in self._held.get(uid, {})]

    # -- told by pilots ---------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many tasks wait for a pilot."""
        return len(self.dispatcher)

    def held_by(self, pilot_uid: str) -> int:
        """How many tasks a pilot has."""
        return len(self._held.get(pilot_uid, ()))

    def pilot_active(self, pilot: Pilot) -> None:
        """A pilot can take tasks."""
        if pilot.uid in self.pilots:
            held = self._held[pilot.uid]
            self.dispatcher.add(pilot.uid, pilot.cores, len(held))
            ready = []  # that an earlier client has given to it
            for task in held.values():
                is_brought = task.uid not in self._unbrought
                self._unbrought.discard(task.uid)
                if is_brought or not self._stage_in(task):
                    ready.append(task)
            self._send(pilot.uid, ready)
            if not self._canceled.isdisjoint(held):  # when it could not be told
                pilot.send(wire.Cancel([uid for uid in held if uid in self._canceled]))
            self._ask()

    def pilot_over(self, pilot: Pilot) -> None:
        """A pilot is over: its tasks are somebody else's, or failed."""
        self.pilots.pop(pilot.uid, None)
        self.gone = _end_of(pilot)
        is_wanted = pilot.state != states.CANCELED
        state = states.FAILED if is_wanted else states.CANCELED
        self._lose_all(pilot.uid, f"its pilot {self.gone}", state)
        if is_wanted and len(self.dispatcher) and not self.pilots and self.auto is None:
            import logging

            logging.getLogger("yod.pilot").warning(
                "%d tasks of %s wait for a pilot, and none is left: %s",
                *(len(self.dispatcher), self.tmgr.uid, self.gone),
            )

    def reached(self, state: str, uids: list[str]) -> None:
        """Tasks have reached a state at their agent."""
        for uid in uids:
            task = self.tasks.get(uid)
            if task is not None:
                self._advance(task, state)

    def informed(self, uid: str, text: str) -> None:
        """A service has said something of itself."""
        if uid in self.tasks:
            with self._loop.changed:
                self.tasks[uid].info = text
                self._loop.changed.notify_all()

    def ended(self, pilot: Pilot, overs: list[wire.Over]) -> None:
        """Tasks have come back from their agent."""
        held = self._held.get(pilot.uid, {})
        mine = [(task, over) for over in overs if (task := held.pop(over.uid, None)) is not None]
        over_now: list[tuple[Task, wire.Over]] = []
        for task, over in mine:
            value = task.description.value
            if value("output_staging") and (over.state == states.DONE or value("stage_on_error")):
                self._stage_out(task, over)
            elif value("cleanup"):
                self._clean(task, over)
            else:
                over_now.append((task, over))
        self._end(over_now)
        self.dispatcher.ended(pilot.uid, len(mine))
        self._ask()

    def returned(self, pilot: Pilot, uids: list[str]) -> None:
        """Tasks have come back that have not begun."""
        held = self._held.get(pilot.uid, {})
        back = [task for uid in uids if (task := held.pop(uid, None)) is not None]
        self.dispatcher.ended(pilot.uid, len(back))
        self._events.lost([task.uid for task in back])
        for task in reversed(back):
            if task.uid in self._canceled:
                self._over(task, wire.Over(task.uid, states.CANCELED))
                continue
            task.pilot = task.description.value("pilot")
            self.dispatcher.want(wanted(task), is_first=True)
        self._ask()

    # -- tasks and pilots -------------------------------------------------------------

    def find_again(self, past: Past) -> None:
        """The tasks that a manager of this name had. Those with a pilot are sent there again:
        an agent takes a task once."""
        for uid, order in past.orders.items():
            if past.managers[uid] != self.tmgr.uid:
                continue
            description = TaskDescription(order.description)
            task = self.tasks[uid] = task_of(self.tmgr, uid, description)
            task.payload = order.payload
            over, given = past.over.get(uid), past.given.get(uid, "")
            task.state = past.state_of(uid)
            task.pilot = given or task.pilot
            if over is not None:
                task.ended(over)
            elif given:
                self._held.setdefault(given, {})[uid] = task
                if uid not in past.brought and "input_staging" in description:
                    self._unbrought.add(uid)
            else:
                self.dispatcher.want(wanted(task))
        for uid in list(self._held):
            pilot = self.session.pilot(uid)
            if pilot is not None:
                self.add(pilot)
            if pilot is None or pilot.state in states.FINAL:
                self._lose_all(uid, f"its pilot {uid} has ended")

    def add(self, pilot: Pilot) -> None:
        """Tasks may go to a pilot, too."""
        if pilot.uid in self.pilots:
            return
        if pilot.state in states.FINAL:
            self.gone = _end_of(pilot)
            return
        self.pilots[pilot.uid] = pilot
        pilot.owners.append(self)
        self._held.setdefault(pilot.uid, {})
        if pilot.state == states.PMGR_ACTIVE:
            self.pilot_active(pilot)

    def _lose_all(self, pilot_uid: str, reason: str, state: str = states.FAILED) -> None:
        """A pilot is not there any more: its tasks run elsewhere, or are over."""
        for task in list(self._held.pop(pilot_uid, {}).values()):
            value = task.description.value
            if task.uid in self._canceled:
                self._over(task, wire.Over(task.uid, states.CANCELED, None, reason))
            elif value("restartable") and not value("pilot") and task.restarts < RESTARTS_MAX:
                task.restarts += 1
                task.pilot = ""
                self._events.lost([task.uid])
                self.dispatcher.want(wanted(task), is_first=True)
            else:
                self._over(task, wire.Over(task.uid, state, None, reason))
        for uid in self.dispatcher.remove(pilot_uid):
            self._over(self.tasks[uid], wire.Over(uid, state, None, reason))
        self._ask()

    def remove(self, uid: str) -> None:
        """A pilot gets no more tasks, and gives back those that have not begun."""
        pilot = self.pilots.pop(uid)
        self.dispatcher.close(uid)
        pilot.send(wire.GiveBack([]))

    def take(self, tasks: list[Task]) -> None:
        """Tasks are ours now."""
        for task in tasks:
            self._advance(task, states.TMGR_SCHEDULING)
        self._events.submitted([task.uid for task in tasks])
        for orders in wire.parts(map(order_of, tasks), wire.order_bytes):
            self.session.journal.add(Taken(self.tmgr.uid, orders))
        for task in tasks:
            self.dispatcher.want(wanted(task))
        self._assign()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._loop.reactor.call_soon(self._assign)

    def _assign(self) -> None:
        self._is_asked = False
        for uid, uids in self.dispatcher.assign().items():
            tasks = [self.tasks[each] for each in uids]
            held = self._held[uid]
            self._events.assigned(uids)
            self.session.journal.add(Given(uid, uids))
            ready = []
            for task in tasks:
                task.pilot = uid
                held[task.uid] = task
                self._advance(task, states.TMGR_STAGING_INPUT)
                if "input_staging" in task.description and self._stage_in(task):
                    continue
                ready.append(task)
            self._send(uid, ready)
        self.sizes.tell("", self.tmgr, len(self.dispatcher))
        if self.auto is not None:
            self.auto.look()

    def _send(self, pilot_uid: str, tasks: list[Task]) -> None:
        pilot = self.pilots.get(pilot_uid) or self.session.pilot(pilot_uid)
        if not tasks or pilot is None:
            return
        self._events.sent([task.uid for task in tasks])
        orders = []
        for task in tasks:
            self._advance(task, states.AGENT_STAGING_INPUT_PENDING)
            orders.append(order_of(task))
        for part in wire.parts(orders, wire.order_bytes):
            pilot.send(wire.Tasks(part))

    def cancel(self, tasks: list[Task]) -> None:
        """End tasks."""
        by_pilot: dict[str, list[str]] = {}
        for task in tasks:
            if task.state in states.FINAL:
                continue
            if self.dispatcher.drop(task.uid):
                self._over(task, wire.Over(task.uid, states.CANCELED))
            elif task.pilot:
                self._canceled.add(task.uid)
                by_pilot.setdefault(task.pilot, []).append(task.uid)
        for uid, uids in by_pilot.items():
            pilot = self.pilots.get(uid) or self.session.pilot(uid)
            if pilot is not None:
                pilot.send(wire.Cancel(uids))

    def stop(self, task: Task) -> None:
        """A raptor is done when its agent has heard of it."""
        pilot = self.pilots.get(task.pilot) or self.session.pilot(task.pilot)
        if pilot is not None:
            pilot.send(wire.Stop(task.uid))

    def _end(self, each: list[tuple[Task, wire.Over]]) -> None:
        """Tasks are over. It is written down before it is announced."""
        if each:
            for part in wire.parts((over for _, over in each), wire.over_bytes):
                self.session.journal.add(Ended(part))
            self.session.journal.flush()
        for task, over in each:
            self._announce(task, over)

    def _over(self, task: Task, over: wire.Over) -> None:
        self._end([(task, over)])

    def _announce(self, task: Task, over: wire.Over) -> None:
        if task.state in states.FINAL:
            return
        self._canceled.discard(task.uid)
        task.ended(over)
        if over.state == states.DONE and task.state != states.TMGR_STAGING_OUTPUT:
            self._events.collected(task.uid)
        self._events.ended(task.uid, over.state)
        self._advance(task, over.state)
        if task.mode == RAPTOR_MASTER:  # its agent may have its calls, and never hear of it
            for pilot in self.pilots.values():
                pilot.send(wire.Stop(task.uid))
        for call in task.callbacks or ():
            with suppress(RuntimeError):  # the loop that waited for it has been closed
                call(task)
        task.callbacks = None

    def _advance(self, task: Task, told: str) -> None:
        passed = states.TASK.announced(task.state, told)
        if not passed:
            return
        if self.callbacks:
            for state in passed:
                task.state = state
                self.callbacks.tell(task.uid, task, state)
        else:
            task.state = told
        if task.waiters:
            with self._loop.changed:
                self._loop.changed.notify_all()

    # -- files ------------------------------------------------------------------------

    def _stage_in(self, task: Task) -> bool:
        """Bring what the client brings; False: there is nothing."""

        pilot = task.pilot

        def then(failure: str) -> None:
            held = self._held.get(pilot, {})
            if held.get(task.uid) is not task:
                return  # it is over, or another pilot's
            is_canceled = task.uid in self._canceled  # its agent has never heard of it
            if not failure and not is_canceled:
                self.session.journal.add(Brought(task.uid))
                self.session.journal.flush()  # else it might be brought again while it runs
                self._send(pilot, [task])
                return
            del held[task.uid]
            self.dispatcher.ended(pilot)
            state = states.CANCELED if is_canceled else states.FAILED
            self._over(task, wire.Over(task.uid, state, None, "" if is_canceled else failure))
            self._ask()

        return self._staging.bring(task, then, is_input=True)

    def _clean(self, task: Task, over: wire.Over) -> None:
        """A task is over when its sandbox has been removed."""
        self._staging.remove(task, lambda: self._over(task, over))

    def _stage_out(self, task: Task, over: wire.Over) -> None:
        def then(failure: str) -> None:
            if failure and over.state == states.DONE:
                self._over(task, wire.Over(task.uid, states.FAILED, over.exit_code, failure))
            elif task.description.value("cleanup"):
                self._clean(task, over)
            else:
                self._over(task, over)

        self._events.collected(task.uid)
        self._advance(task, states.TMGR_STAGING_OUTPUT)
        if not self._staging.bring(task, then, is_input=False):
            then("")


def _end_of(pilot: Pilot) -> str:
    """How a pilot has ended."""
    how = f"{pilot.uid} is {pilot.state}"
    return f"{how}: {pilot.reason}" if pilot.reason else how
