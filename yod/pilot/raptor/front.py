"""How the program of a task submits tasks to the agent of its pilot, and hears of their ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from native import limits
from native.errors import UsageError, YodError
from native.frames import Frames
from yod.pilot.function.rank import SOCKET
from yod.pilot.link.link import connect
from yod.pilot.model import modes, states
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.staging import directives_of
from yod.pilot.wire import masters as wire
from yod.pilot.wire.calls import Lead
from yod.pilot.wire.calls import frame as frame_call
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX, Order, Over, order_bytes, parts

_READ_BYTES = 1 << 16
_AT_THE_PROGRAM = ("function", "args", "kwargs", "metadata", "uid")  # keys that no agent needs

Told = dict[str, Any]  # a task as a dictionary


class Front:
    """The connection of one program.

    Args:
        on_message: takes what the agent says, in a thread of its own.
        on_lost: called when the agent has gone.

    Raises:
        YodError: this is not the program of a task, or the agent has gone.
    """

    def __init__(
        self,
        on_message: Callable[[wire.ToProgram], None] | None = None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        try:
            self.task = os.environ["RP_TASK_ID"]
            path = os.path.join(os.environ["RP_PILOT_SANDBOX"], SOCKET)
        except KeyError:
            raise UsageError("only the program of a task can submit tasks to its pilot") from None
        self._bytes_max = limits.load(dict(os.environ)).call_bytes
        self._on_message = on_message or self._ended
        self._on_lost = on_lost
        self._end = connect(path)
        self._end.settimeout(None)
        self._lock = threading.Lock()
        self._numbering = threading.Lock()
        self._number = 0
        self._waiting: dict[str, tuple[threading.Event, Told]] = {}
        self._is_lost = False

    def begin(self) -> Self:
        """Say who this is, and listen."""
        self._end.sendall(frame_call(Lead(self.task)))
        threading.Thread(target=self._listen, name="agent", daemon=True).start()
        return self

    def say(self, message: wire.FromProgram) -> None:
        """Tell the agent something; nobody hears it when that has gone."""
        with self._lock, suppress(OSError):
            self._end.sendall(wire.frame(message))

    def next_uid(self) -> str:
        """A name that no other task of this program has."""
        with self._numbering:
            self._number += 1
            return f"{self.task}.p{os.getpid()}.{self._number:06}"

    def submit(self, orders: Iterable[Order]) -> None:
        """Have tasks run."""
        for part in parts(orders, order_bytes):
            self.say(wire.Submit(part))

    def order(self, description: TaskDescription, raptor: str = "") -> Order:
        """A task as the agent gets it.

        Args:
            raptor: the raptor that gets calls and workers which name none.

        Raises:
            UsageError: the description is wrong.
        """
        own = TaskDescription(dict(description))
        if raptor and modes.is_registered(own.kind):
            own["raptor_id"] = own.get("raptor_id") or raptor
        own.verify()
        uid = own["uid"] = own.get("uid") or self.next_uid()
        where, kind = f"task {uid}", own.kind
        if kind == modes.RAPTOR_MASTER:
            raise UsageError(f"{where}: a raptor is submitted by the application")
        for key, is_input in (("input_staging", True), ("output_staging", False)):
            if any(each.is_clients for each in directives_of(own.value(key), is_input, where)):
                raise UsageError(
                    f"{where}: {key!r} names files of the application; name places of the pilot"
                )
        payload = b""
        if kind == modes.RAPTOR_WORKER:
            from yod.pilot.client.raptor import make_worker

            own["raptor_id"] = raptor
            make_worker(own, raptor)
        elif modes.is_of_raptor(kind):
            own["raptor_id"] = own.get("raptor_id") or raptor
            if own["raptor_id"] or kind in modes.CALLS:
                from yod.pilot.function.codec import pack

                payload = pack(own, where, self._bytes_max)
        else:
            own.pop("raptor_id", None)
        plain = {name: value for name, value in own.items() if name not in _AT_THE_PROGRAM}
        return Order(uid, plain, payload)

    def run_task(self, description: Any) -> Told:
        """Have a task run, and wait for its end.

        Returns:
            The task as a dictionary: ``state``, ``exit_code``, ``stdout`` and so on.

        Raises:
            UsageError: the description is wrong.
            YodError: the agent has gone.
        """
        own = TaskDescription(dict(description))
        own["uid"] = self.next_uid()
        order = self.order(own)
        done = threading.Event()
        task = told_of(own)
        self._waiting[order.uid] = (done, task)
        self.submit([order])
        if self._is_lost:
            done.set()
        done.wait()
        if task["state"] not in states.FINAL:
            raise YodError("the agent of the pilot has gone")
        return task

    def ended(self, over: Over) -> bool:
        """Note that a task is over.

        Returns:
            Whether :meth:`run_task` waits for it.
        """
        found = self._waiting.pop(over.uid, None)
        if found is None:
            return False
        complete(found[1], over)
        found[0].set()
        return True

    def _ended(self, message: wire.ToProgram) -> None:
        if isinstance(message, wire.Results):
            for over in message.tasks:
                self.ended(over)

    def _listen(self) -> None:
        frames = Frames(MESSAGE_BYTES_MAX)
        with suppress(OSError):
            while data := self._end.recv(_READ_BYTES):
                for body in frames.add(data):
                    self._on_message(wire.decode_agent(body))
        self._is_lost = True
        for done, _ in list(self._waiting.values()):
            done.set()
        self._on_lost()


def told_of(description: TaskDescription) -> Told:
    """A task as the reference's masters have it."""
    description["mode"] = description.kind
    return {
        "uid": description["uid"],
        "type": "task",
        "name": description.value("name") or description["uid"],
        "description": description,
        "state": states.AGENT_SCHEDULING,
        "target_state": None,
        "exit_code": None,
        "stdout": "",
        "stderr": "",
        "return_value": None,
        "exception": None,
        "exception_detail": None,
    }


def complete(task: Told, over: Over) -> None:
    """Add how a task has ended."""
    task |= {
        "state": over.state,
        "target_state": over.state,
        "exit_code": over.exit_code,
        "stdout": over.stdout,
        "stderr": over.stderr,
        "return_value": None,
        "exception": over.exception or None,
        "exception_detail": over.exception_detail or over.reason or None,
        "reason": over.reason,
    }
    if over.value:
        from yod.pilot.function.codec import unpack_value

        task["return_value"] = unpack_value(over.value)


_fronts: dict[int, Front] = {}  # by process: a fork has none of its own


def front() -> Front:
    """The connection of this process, made when it is needed.

    Raises:
        YodError: this is not the program of a task.
    """
    own = _fronts.get(os.getpid())
    if own is None or own._is_lost:
        own = _fronts[os.getpid()] = Front().begin()
    return own
