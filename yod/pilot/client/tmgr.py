"""A task manager: takes tasks, gives them to pilots, tells what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from native.errors import UsageError
from yod.pilot.client.auto import AutoPilots
from yod.pilot.client.callbacks import Callback, uids_of
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.submitting import made
from yod.pilot.client.task import Task
from yod.pilot.client.tasking import Tasking
from yod.pilot.client.waiting import states_of, wait
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription, TaskDescription
from yod.pilot.model.modes import RAPTOR_MASTER
from yod.pilot.model.words import BULK_VARIABLE, TASK_STATE, WAIT_QUEUE_SIZE
from yod.pilot.scheduler.auto import Auto

if TYPE_CHECKING:
    from yod.pilot.client.pmgr import PilotManager
    from yod.pilot.client.raptor import Raptor
    from yod.pilot.client.session import Session


class TaskManager:
    """The tasks of an application.

    Args:
        scheduler: taken for the sake of older scripts: tasks go where there is room.
    """

    def __init__(
        self,
        session: Session,
        cfg: object = None,
        scheduler: str | None = None,
        uid: str | None = None,
    ) -> None:
        self.session = session
        self.uid = uid or session.next_uid("tmgr", 4)
        session.add_tmgr(self)
        self._is_bulk = bool(os.environ.get(BULK_VARIABLE))
        self._loop = session.loop
        self._closers: list[Callable[[], None]] = []
        self._tasking: Tasking
        self._loop.call(self._begin)

    def _begin(self) -> None:
        """In the loop, where pilots may tell of their tasks as soon as this returns."""
        self._tasking = Tasking(self)
        if self.session.past is not None:
            self._tasking.find_again(self.session.past)

    # -- for the application ----------------------------------------------------

    def add_pilots(self, pilots: Any) -> None:
        """Tasks may go to these pilots, too."""
        each = list(pilots) if isinstance(pilots, list | tuple) else [pilots]
        for pilot in each:
            self._loop.call(partial(self._tasking.add, pilot))

    def remove_pilots(self, pilot_ids: Any, drain: bool = False) -> None:
        """Give pilots no more tasks. Those that have not begun there come back.

        Args:
            drain: wait until the others there are over.
        """
        named = list(pilot_ids) if isinstance(pilot_ids, list | tuple) else [pilot_ids]
        uids = [each.uid if isinstance(each, Pilot) else str(each) for each in named]
        for uid in uids:
            if uid not in self._tasking.pilots:
                raise UsageError(f"{self.uid} has no pilot {uid!r}")
        for uid in uids:
            self._loop.call(partial(self._tasking.remove, uid))
        if drain:
            self.wait_tasks(self._loop.call(lambda: self._tasking.held(uids)))

    def auto_pilots(self, pmgr: PilotManager, description: Any, *, most: int, idle: float) -> None:
        """Submit pilots while tasks wait for one, and end those that have nothing to do.

        Args:
            most: so many at a time.
            idle: seconds without a task, after which a pilot is ended.

        Raises:
            UsageError: the description is wrong, or a number.
        """
        one = PilotDescription(description)
        one.verify()
        if most < 1 or idle < 0:
            raise UsageError(f"most={most}, idle={idle}: at least 1, and 0 seconds")
        self._tasking.auto = AutoPilots(self._tasking, pmgr, one, Auto(most, idle))
        self._loop.post(self._tasking.auto.look)

    def submit_raptors(self, descriptions: Any, pilot_id: str | None = None) -> list[Raptor]:
        """Begin raptors: queues of calls, which need workers.

        Args:
            pilot_id: where; needed with several pilots.
        """
        each = list(descriptions) if isinstance(descriptions, list | tuple) else [descriptions]
        own = [TaskDescription({**one, "mode": RAPTOR_MASTER}) for one in each]
        for one in own:
            one["uid"] = one.get("uid") or self.session.next_uid("raptor", 4)
            if pilot_id:
                one["pilot"] = pilot_id
        raptors: list[Raptor] = self.submit_tasks(own)
        return raptors

    def stop_raptor(self, raptor: Task) -> None:
        """Have a raptor take no more calls; it is DONE, and so are its workers."""
        self.wait_tasks(raptor.uid, states.AGENT_EXECUTING)
        self._loop.call(lambda: self._tasking.stop(raptor))

    def list_pilots(self) -> list[str]:
        """The uids of the pilots that may get tasks."""
        return list(self._tasking.pilots)

    def get_pilots(self) -> list[Pilot]:
        """The pilots that may get tasks."""
        return list(self._tasking.pilots.values())

    def submit_tasks(self, descriptions: Any) -> Any:
        """Take tasks: one for one description, a list for a list.

        In a session that was there before, a task that is DONE, or is not over, is not run again
        when it is submitted once more by its uid: it is the one that is there.

        Raises:
            UsageError: a description is wrong; no task has been taken then.
            YodError: the session is closed.
        """
        if not self._loop.is_here:  # a callback may come while the session is being closed
            self.session.demand_open()
        is_list = isinstance(descriptions, list | tuple)
        asked = descriptions if is_list else [descriptions]
        tasks, new = made(self, asked, self._tasking.tasks)
        self._tasking.tasks |= {task.uid: task for task in new}
        self._loop.post(lambda: self._tasking.take(new))
        return tasks if is_list else tasks[0]

    def get_tasks(self, uids: object = None) -> Any:
        """Tasks by their uids: one, some, or all."""
        if isinstance(uids, str):
            return self._one(uids)
        if uids is None:
            return list(self._tasking.tasks.values())
        return [self._one(str(uid)) for uid in uids]  # type: ignore[attr-defined]

    def list_tasks(self) -> list[str]:
        """The uids of all tasks."""
        return list(self._tasking.tasks)

    def wait_tasks(
        self, uids: object = None, state: object = None, timeout: float | None = None
    ) -> Any:
        """Wait until tasks have been in a state, or are over; their present states."""
        found = self.get_tasks(uids)
        tasks = found if isinstance(found, list) else [found]
        wait(self._loop, tasks, states_of(state, states.TASK), states.TASK, timeout)
        present = [task.state for task in tasks]
        return present if isinstance(found, list) else present[0]

    def cancel_tasks(self, uids: object = None) -> None:
        """End tasks; they are CANCELED when nothing of them is left."""
        found = self.get_tasks(uids)
        tasks = found if isinstance(found, list) else [found]
        self._loop.call(lambda: self._tasking.cancel(tasks))

    def register_callback(
        self,
        cb: Callable[..., object],
        cb_data: Any = None,
        metric: str | None = None,
        uid: object = None,
        bulk: bool | None = None,
    ) -> None:
        """Call at each state of each task.

        Args:
            cb: ``cb(task, state)``; with ``bulk`` ``cb(tasks)``; with the metric WAIT_QUEUE_SIZE
                ``cb(manager, size)``. ``cb_data`` comes behind, where it is given.
            uid: of the tasks that it is for. Default: all.
        """
        if metric not in (None, TASK_STATE, WAIT_QUEUE_SIZE):
            raise UsageError(
                f"there is no metric {metric!r}; known are {TASK_STATE} and {WAIT_QUEUE_SIZE}"
            )
        is_bulk = self._is_bulk if bulk is None else bulk
        callback = Callback(cb, cb_data, uids_of(uid), is_bulk=is_bulk)
        each = self._tasking.sizes if metric == WAIT_QUEUE_SIZE else self._tasking.callbacks
        self._loop.call(lambda: each.add(callback))

    def unregister_callback(
        self, cb: Callable[..., object] | None = None, metrics: object = None, uid: object = None
    ) -> None:
        """Call no more; without a callback: none of them. ``uid``: of those that were for it."""
        for each in (self._tasking.callbacks, self._tasking.sizes):
            self._loop.call(partial(each.remove, cb, uids_of(uid)))

    def why(self, uid: str) -> str:
        """Why a task stands where it does, in a sentence."""
        task = self._one(uid)
        if task.state in states.FINAL:
            return task.reason or f"it is {task.state}"
        if not task.pilot or uid in self._tasking.dispatcher:
            return self._why_waiting(task)
        pilot = self._tasking.pilots.get(task.pilot) or self.session.pilot(task.pilot)
        return pilot.why_task(uid) if pilot else f"there is no pilot {task.pilot}"

    def when_over(self, task: Task, call: Callable[[Task], None]) -> None:
        """Call when a task is over, at once if it is. In the session's thread."""
        if task.state in states.FINAL:
            call(task)
        else:
            task.callbacks = [*(task.callbacks or ()), call]

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call in the session's thread when no more tasks are taken."""
        self._closers.append(call)

    def task(self, uid: str) -> Task | None:
        """The task of this name."""
        return self._tasking.tasks.get(uid)

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        return {"uid": self.uid, "session": self.session.uid, "tasks": self.list_tasks()}

    def close(self) -> None:
        """Take no more tasks."""
        for call in self._closers:
            self._loop.call(call)
        self._loop.call(self._tasking.close)

    def _one(self, uid: str) -> Task:
        if uid not in self._tasking.tasks:
            raise UsageError(f"there is no task {uid!r}")
        return self._tasking.tasks[uid]

    def _why_waiting(self, task: Task) -> str:
        if self._tasking.auto is not None and self._tasking.auto.why:
            return self._tasking.auto.why
        if not self._tasking.pilots:
            gone = self._tasking.gone
            if gone:
                return f"it waits for another pilot: {gone}"
            return "no pilot has been added to its manager"
        stood = ", ".join(f"{each.uid} is {each.state}" for each in self._tasking.pilots.values())
        return (
            f"it waits for a pilot with room: {stood}; {len(self._tasking.dispatcher)} tasks wait"
        )
