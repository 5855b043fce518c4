"""Makes tasks of descriptions, which are checked first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from native.errors import UsageError
from yod.pilot.client.task import Task
from yod.pilot.model import modes, states
from yod.pilot.model.description import PilotDescription, TaskDescription
from yod.pilot.model.staging import directives_of
from yod.pilot.scheduler.pilots import Wanted
from yod.pilot.wire.messages import Order

if TYPE_CHECKING:
    from yod.pilot.client.tmgr import TaskManager

_AT_THE_CLIENT = ("function", "args", "kwargs", "metadata", "uid")  # keys that no agent needs


def made(
    manager: TaskManager, descriptions: Iterable[Any], there: dict[str, Task]
) -> tuple[list[Task], list[Task]]:
    """The tasks of descriptions, and those of them that are new.

    Args:
        there: tasks of the manager. In a session that was there before, one that is DONE or not
            over stands for a description with its uid.

    Raises:
        UsageError: a description is wrong.
    """
    session = manager.session
    past = session.past.orders if session.past is not None else {}
    found: list[Task] = []
    new: dict[str, Task] = {}
    for one in descriptions:
        description = one if isinstance(one, TaskDescription) else TaskDescription(one)
        description.verify()
        uid = description.get("uid") or session.next_uid("task", 6)
        where = f"task {uid}"
        known = there.get(uid)
        if known is not None and uid in past:
            if known.state not in (states.FAILED, states.CANCELED):
                found.append(known)
                continue
        elif known is not None or uid in new:
            raise UsageError(f"{where}: there is one of this name")
        if "input_staging" in description:
            directives_of(description["input_staging"], True, where)
        if "output_staging" in description:
            directives_of(description["output_staging"], False, where)
        description = description.copy()
        if "raptor_id" in description or description.kind in modes.NEED_RAPTOR:
            from yod.pilot.client.raptor import prepare

            prepare(description, where, there | new, manager.list_pilots())
        task = new[uid] = task_of(manager, uid, description)
        if description.kind in modes.CALLS or (
            description.get("raptor_id") and modes.is_of_raptor(description.kind)
        ):
            from yod.pilot.function.codec import pack

            task.payload = pack(task.description, where, session.limits.call_bytes)
        found.append(task)
    return found, list(new.values())


def task_of(manager: TaskManager, uid: str, description: TaskDescription) -> Task:
    """A task, or a raptor."""
    if description.kind == modes.RAPTOR_MASTER:
        from yod.pilot.client.raptor import Raptor

        return Raptor(manager, uid, description)
    return Task(manager, uid, description)


def services_of(description: PilotDescription, pilot: str) -> list[TaskDescription]:
    """The services of a pilot, each with a uid.

    Raises:
        UsageError: a description is wrong.
    """
    found: dict[str, TaskDescription] = {}
    for number, one in enumerate(description.value("services")):
        service = TaskDescription({**one, "mode": modes.TASK_SERVICE})
        uid = service.get("uid") or f"{pilot}.service.{number:04}"
        service["uid"] = uid
        where = f"pilot {pilot}: service {uid}"
        if uid in found:
            raise UsageError(f"{where}: there is one of this name")
        service.verify()
        for key, is_input in (("input_staging", True), ("output_staging", False)):
            if any(each.is_clients for each in directives_of(service.value(key), is_input, where)):
                raise UsageError(f"{where}: {key!r} is to name places of the pilot")
        found[uid] = service
    return list(found.values())


def wanted(task: Task) -> Wanted:
    """How much of a pilot a task wants."""
    value = task.description.value
    return Wanted(task.uid, value("ranks") * value("cores_per_rank"), value("pilot"))


def order_of(task: Task) -> Order:
    """A task as an agent gets it."""
    plain = {n: value for n, value in task.description.items() if n not in _AT_THE_CLIENT}
    return Order(task.uid, plain, task.payload, _is_led(task))


def _is_led(task: Task) -> bool:
    uid = task.description.get("raptor_id")
    raptor = task.tmgr.task(uid) if uid else None
    return raptor is not None and not raptor.description.is_queue
