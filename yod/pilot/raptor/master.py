"""Masters of raptors that are programs of their own: ``class MyMaster(rp.raptor.Master)``.

The agent gives calls to workers; a master submits workers and tasks, chooses which calls of others
its workers get, and sees all results. Its callbacks are called in a thread of their own.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from native.errors import UsageError, YodError
from yod.pilot.model import modes, states
from yod.pilot.model.description import TaskDescription
from yod.pilot.raptor.front import Front, Told, complete, told_of
from yod.pilot.raptor.worker import Profile
from yod.pilot.wire import masters as wire
from yod.pilot.wire.messages import Order, Over


class Master:
    """The master of a raptor, in the program of its task.

    Args:
        cfg: of the application; it has no effect here.

    Raises:
        YodError: this is not the program of a task.
    """

    NEW, ACTIVE, DONE = "NEW", "ACTIVE", "DONE"

    def __init__(self, cfg: Any = None) -> None:
        self._term = threading.Event()
        self._changed = threading.Condition()
        self._early: list[list[Told]] | None = []  # what others have submitted before the start
        self._tasks: dict[str, Told] = {}
        self._workers: dict[str, Told] = {}
        self._front = Front(self._take, self._lost)
        self._uid = self._front.task
        self._pid = os.environ["RP_PILOT_ID"]
        self._sid = os.environ["RP_SESSION_ID"]
        self._sbox = os.environ["RP_TASK_SANDBOX"]
        self._psbox = os.environ["RP_PILOT_SANDBOX"]
        self._ssbox = os.environ["RP_SESSION_SANDBOX"]
        self._rsbox = os.environ["RP_RESOURCE_SANDBOX"]
        self._log = logging.getLogger("yod.pilot.raptor")
        self._prof = Profile()
        self._front.begin()

    @property
    def uid(self) -> str:
        """Of its task, and its raptor."""
        return self._uid

    @property
    def workers(self) -> dict[str, Told]:
        """Its workers by their uids: ``status`` is NEW, ACTIVE or DONE."""
        return self._workers

    # -- for the application ----------------------------------------------------

    def submit_workers(self, descriptions: Any) -> list[str]:
        """Begin workers; their uids.

        Raises:
            UsageError: a description is wrong; nothing has been submitted then.
        """
        orders: list[Order] = []
        for one in _each(descriptions):
            own = TaskDescription({**one, "mode": modes.RAPTOR_WORKER})
            number = len(self._workers) + len(orders)
            own["uid"] = own.get("uid") or f"{self._uid}.worker.{number:04}"
            orders.append(self._front.order(own, self._uid))
        uids = [order.uid for order in orders]
        with self._changed:
            for uid in uids:
                self._workers[uid] = {"uid": uid, "status": self.NEW, "state": states.NEW}
        self._front.submit(orders)
        return uids

    def submit_tasks(self, descriptions: Any) -> None:
        """Submit tasks: calls for the workers, and programs with slots of their own.

        They go through :meth:`request_cb` first, and come to :meth:`result_cb`.

        Raises:
            UsageError: a description is wrong; nothing has been submitted then.
        """
        tasks = []
        for one in _each(descriptions):
            if isinstance(one, dict) and isinstance(one.get("description"), TaskDescription):
                tasks.append(one)
                continue
            own = TaskDescription(dict(one))
            own["uid"] = own.get("uid") or self._front.next_uid()
            tasks.append(told_of(own))
        chosen = self.request_cb(tasks) or []
        named: set[str] = set()
        for task in chosen:
            if task["uid"] in self._tasks or task["uid"] in named:
                raise UsageError(f"task {task['uid']}: there is one of this name")
            named.add(task["uid"])
        orders = [self._front.order(task["description"], self._uid) for task in chosen]
        with self._changed:
            self._tasks |= {task["uid"]: task for task in chosen}
        self._front.submit(orders)

    def run_task(self, description: Any) -> Told:
        """Have a task run, and wait for its end; not from a callback."""
        return self._front.run_task(description)

    def wait_workers(self, count: int | None = None, uids: Any = None) -> None:
        """Wait until so many workers are there, or those of these uids, or all.

        Raises:
            YodError: the master ends, or there are not so many workers left.
        """
        wanted = list(uids or ()) if uids or count else list(self._workers)
        with self._changed:
            while not self._are_there(wanted, count):
                if self._term.is_set():
                    raise YodError("the master ends while it waits for workers")
                self._changed.wait()

    def request_cb(self, tasks: list[Told]) -> list[Told]:
        """Choose among tasks before they are run. To be overridden.

        A call of the application that is not returned is not run, and fails.
        """
        return tasks

    def result_cb(self, tasks: list[Told]) -> None:
        """Tasks are over. To be overridden."""

    def worker_state_cb(self, worker_dict: dict[str, Told], state: str) -> None:
        """A worker has reached a state. To be overridden."""

    def start(self) -> None:
        """Take what others submit."""
        with self._changed:
            early, self._early = self._early or [], None
        for tasks in early:
            self._choose(tasks)

    def stop(self) -> None:
        """End: calls that wait fail, and the workers end."""
        with self._changed:
            is_first = not self._term.is_set()
            self._term.set()
            self._changed.notify_all()
        if is_first:
            self._front.say(wire.Finish())

    def terminate(self) -> None:
        """The same."""
        self.stop()

    def alive(self) -> bool:
        """It has started, and has not been stopped."""
        return self._early is None and not self._term.is_set()

    def join(self) -> None:
        """Wait until it is stopped: by itself, by the application, or with the pilot."""
        self._term.wait()

    # -- told by the agent ------------------------------------------------------

    def _take(self, message: wire.ToProgram) -> None:
        match message:
            case wire.Asked(orders):
                tasks = []
                for order in orders:
                    own = TaskDescription({**order.description, "uid": order.uid})
                    tasks.append(told_of(own))
                with self._changed:
                    if self._early is not None:
                        self._early.append(tasks)
                        return
                self._choose(tasks)
            case wire.Results(overs):
                self._ended(overs)
            case wire.Joined(worker):
                if self._advance(worker, self.ACTIVE, states.AGENT_EXECUTING):
                    self._call(self.worker_state_cb, self._workers, states.AGENT_EXECUTING)
            case wire.Stop():
                self.stop()

    def _choose(self, tasks: list[Told]) -> None:
        refused = f"its raptor {self._uid} has not taken it"
        try:
            chosen = {task["uid"]: task for task in self.request_cb(tasks) or []}
        except Exception as error:  # the application's
            self._log.exception("request_cb has failed")
            chosen = {}
            refused = f"request_cb of its raptor {self._uid}: {type(error).__name__}: {error}"
        own = [task["uid"] for task in tasks if task["uid"] in chosen]
        with self._changed:
            self._tasks |= {uid: chosen[uid] for uid in own}
        rest = {task["uid"]: refused for task in tasks if task["uid"] not in chosen}
        self._front.say(wire.Chosen(own, rest))

    def _ended(self, overs: list[Over]) -> None:
        tasks = []
        for over in overs:
            task = self._tasks.pop(over.uid, None)
            if task is not None:
                complete(task, over)
                tasks.append(task)
            elif over.uid in self._workers:
                self._log.info("worker %s is %s: %s", over.uid, over.state, over.reason)
                pending = states.AGENT_STAGING_OUTPUT_PENDING
                self._advance(over.uid, self.DONE, over.state)
                self._call(self.worker_state_cb, self._workers, pending)
            else:
                self._front.ended(over)
        if tasks:
            self._call(self.result_cb, tasks)

    def _call(self, callback: Any, *args: Any) -> None:
        try:
            callback(*args)
        except Exception:  # the application's
            self._log.exception("%s has failed", callback.__name__)

    def _advance(self, uid: str, status: str, state: str) -> bool:
        """A worker is now so; False: it was, or is not ours."""
        with self._changed:
            worker = self._workers.get(uid)
            if worker is None or worker["status"] == status:
                return False
            worker |= {"status": status, "state": state}
            self._changed.notify_all()
        return True

    def _are_there(self, wanted: list[str], count: int | None) -> bool:
        own: dict[str, str] = {uid: each["status"] for uid, each in self._workers.items()}
        if wanted:
            ended = [uid for uid in wanted if own.get(uid) == self.DONE]
            if ended:
                raise YodError(f"the worker {ended[0]} has ended")
            return all(own.get(uid) == self.ACTIVE for uid in wanted)
        most = sum(status != self.DONE for status in own.values())
        if own and most < (count or 0):
            raise YodError(f"{count} workers are waited for, and {most} are left")
        return sum(status == self.ACTIVE for status in own.values()) >= (count or 0)

    def _lost(self) -> None:
        """The pilot has gone."""
        with self._changed:
            self._term.set()
            self._changed.notify_all()


def _each(descriptions: Any) -> list[Any]:
    return list(descriptions) if isinstance(descriptions, list | tuple) else [descriptions]
