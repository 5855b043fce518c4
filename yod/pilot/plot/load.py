"""Loads the story of a session from its journal and its profiles."""

from __future__ import annotations

import os

from native.errors import YodError
from yod.pilot.analysis.records import in_time_of_day
from yod.pilot.analysis.story import WANTED, PilotStory, Slots, Story, TaskStory
from yod.pilot.client import journal
from yod.pilot.model.description import PilotDescription, TaskDescription
from yod.pilot.profile.reader import paths_of, records_of


def load(directory: str) -> Story:
    """The story of the session in a directory.

    Raises:
        YodError: there is no session, or it has no profiles.
    """
    path = os.path.abspath(directory)
    past = journal.read(path)
    story = Story(os.path.basename(path), _pilots(past), _tasks(past))
    paths = paths_of(path)
    if not paths:
        raise YodError(f"{path}: it has no profiles: YOD_PROFILE=0 has turned them off")
    for name in paths:
        for record in in_time_of_day(records_of(path, name, WANTED)):
            story.add(record)
    story.finish()
    return story


def _pilots(past: journal.Past) -> list[PilotStory]:
    found = []
    for uid, begun in past.pilots.items():
        nodes = [(node.name, node.cores) for node in past.nodes.get(uid, [])]
        if not nodes:
            cores = PilotDescription(begun.description).value("cores")
            nodes = [("", cores)] if cores else []
        ended = past.ended.get(uid)
        found.append(PilotStory(uid, nodes, {}, ended.reason if ended else ""))
    return found


def _tasks(past: journal.Past) -> list[TaskStory]:
    found = [
        TaskStory(uid, pilot, _cores(over.slots), over.slots, over.reason, over.stderr, {}, [])
        for uid, (pilot, over) in past.others.items()
        if uid not in past.orders
    ]
    for uid, order in past.orders.items():
        over = past.over.get(uid)
        task = TaskStory(uid, past.given.get(uid, ""), states={}, runs=[])
        if over is not None and over.slots:
            task.slots = over.slots
            task.cores = _cores(over.slots)
        elif over is None:
            value = TaskDescription(order.description).value
            task.cores = value("ranks") * value("cores_per_rank")
        if over is not None:
            task.reason, task.stderr = over.reason, over.stderr
        found.append(task)
    return found


def _cores(slots: Slots) -> int:
    return sum(len(cores) for _, cores, _ in slots)
