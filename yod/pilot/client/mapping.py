"""A task for each line of a file: what ``yod-pilot map`` does."""

from __future__ import annotations

import signal
from typing import IO, Any, TextIO

from yod.pilot.client.pmgr import PilotManager
from yod.pilot.client.session import Session
from yod.pilot.client.task import Task
from yod.pilot.client.tmgr import TaskManager
from yod.pilot.model import states
from yod.pilot.model.description import TaskDescription

MARK = "{}"
_COPY_BYTES = 1 << 16
_SHOWN_MAX = 10  # of those that have failed
_EVERY_S = 0.5


def words_of(words: list[str], line: str) -> list[str]:
    """The command of one line."""
    if any(MARK in word for word in words):
        return [word.replace(MARK, line) for word in words]
    return [*words, line]


def run(
    lines: list[str],
    words: list[str],
    cores: int | None,
    resource: str,
    runtime: float,
    uid: str | None,
    output: Any,
    said: TextIO | None,
) -> int:
    """Run all, show how it goes, and return how many have failed.

    Raises:
        KeyboardInterrupt: a signal has come; all has been ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with Session(uid) as session:
        tmgr, pmgr = TaskManager(session), PilotManager(session)
        asked = {"resource": resource, "runtime": runtime}
        pilot = pmgr.submit_pilots(asked | ({"cores": cores} if cores else {}))
        tmgr.add_pilots(pilot)
        descriptions = []
        for n, line in enumerate(lines):
            program, *arguments = words_of(words, line)
            entries = {"uid": f"line.{n + 1:06}", "executable": program, "arguments": arguments}
            descriptions.append(TaskDescription({**entries, "literal": True}))
        tasks: list[Task] = tmgr.submit_tasks(descriptions)
        try:
            _watch(tmgr, tasks, said)
        finally:
            if said is not None and said.isatty():
                said.write("\n")
        if output is not None:
            for task in tasks:
                _copy(task.output_files[0] if task.output_files else "", output)
        failed = [task for task in tasks if task.state != states.DONE]
        if said is not None:
            for task in failed[:_SHOWN_MAX]:
                last = (task.stderr.strip().splitlines() or [""])[-1]
                said.write("  ".join(filter(None, (task.uid, task.reason, last))) + "\n")
            text = f"{len(tasks) - len(failed)} of {len(tasks)} lines done; {session.path}"
            said.write(f"yod-pilot: {text}\n")
        return len(failed)


def _watch(tmgr: TaskManager, tasks: list[Task], said: TextIO | None) -> None:
    """Wait for all; on a terminal, with a line that says how far it is."""
    is_shown = said is not None and said.isatty()
    while not all(task.state in states.FINAL for task in tasks):
        tmgr.wait_tasks([task.uid for task in tasks], timeout=_EVERY_S if is_shown else None)
        if is_shown and said is not None:
            over = sum(task.state in states.FINAL for task in tasks)
            failed = sum(task.state == states.FAILED for task in tasks)
            said.write(f"\r{over} of {len(tasks)}, {failed} failed")
            said.flush()


def _copy(path: str, output: IO[bytes]) -> None:
    try:
        with open(path, "rb") as file:
            while data := file.read(_COPY_BYTES):
                output.write(data)
    except FileNotFoundError:
        pass  # it has never begun
