"""The profiles of an agent: which event is written where, and when."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from yod.pilot.files.attempt import Attempt
from yod.pilot.model import states
from yod.pilot.profile.staging import rows_of_staging
from yod.pilot.profile.writer import NO_PROFILE, Row, open_writer
from yod.pilot.work.place import Outcome

_COMPONENTS = (
    "bootstrap_0",
    "agent_0",
    "agent_staging_input.0000",
    "agent_scheduling.0000",
    "agent_executing.0000",
    "agent_staging_output.0000",
)

# Of a task that runs, in order; those that `Outcome.times` lacks have the time of the one before.
_RUN = (
    *("task_start", "task_mkdir", "task_mkdir_done", "task_run_start", "task_run_ok"),
    *("launch_start", "launch_pre", "launch_submit", "exec_start", "exec_pre", "rank_start"),
    *("rank_stop", "exec_post", "exec_stop", "launch_collect", "launch_post", "launch_stop"),
)
_ON = ("advance", "publish", "put")
_VIRTUAL = "virtual"
_HANDED_OVER = _RUN.index("task_run_start") + 1  # of these there are so many before the program
_TOOL = "prof"  # in the pilot's sandbox, where those of the reference have it
_TOOL_TEXT = """#!/bin/sh
# Notes an event of a task: prof EVENT [MESSAGE]
test -z "$RP_PROF_TGT" && exit
printf '%s,%s,app,MainThread,%s,,%s\\n' "$(date +%s.%7N)" "$1" "$RP_TASK_ID" "$2" >>"$RP_PROF_TGT"
"""
_PENDING = {
    states.AGENT_STAGING_INPUT: states.AGENT_SCHEDULING_PENDING,
    states.AGENT_SCHEDULING: states.AGENT_EXECUTING_PENDING,
    states.AGENT_EXECUTING: states.AGENT_STAGING_OUTPUT_PENDING,
    states.AGENT_STAGING_OUTPUT: states.TMGR_STAGING_OUTPUT_PENDING,
}


class Profiles:
    """All profiles of one agent.

    Args:
        ahead_s: of the client's clock, by how much that of this host is.
    """

    def __init__(self, directory: str, pilot_uid: str, ahead_s: float = 0.0) -> None:
        self._pilot_uid = pilot_uid
        writers = [open_writer(directory, name, ahead_s) for name in _COMPONENTS]
        self.boot, self.agent, self.staging_in, self.scheduling, self.executing, self.out = writers
        self._writers = writers
        self._canceled: set[str] = set()  # tasks that have been told to end
        self._ended: dict[str, float] = {}  # tasks that may run again, or leave

    def began(self, directory: str) -> dict[str, str]:
        """The agent's process is there; nothing has to be set up.

        Returns:
            Variables for tasks that note events of their own.
        """
        uid = self._pilot_uid
        for event in ("bootstrap_0_start", "ve_setup_start", "ve_setup_stop", "bootstrap_0_ok"):
            self.boot.prof(event, uid)
        now = time.time()
        for writer in self._writers[1:]:
            for _ in ("child", "parent"):
                writer.prof("component_init", uid)
        for writer in (self.boot, self.agent):
            writer.prof("sync_rel", uid, "", "agent_0 start", now)
        self.agent.prof("hostname", uid, "", os.uname().nodename)
        if self.boot is NO_PROFILE:
            return {}
        path = os.path.join(directory, _TOOL)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
        with open(fd, "w", encoding="ascii") as file:
            file.write(_TOOL_TEXT)
        return {"RP_PROF": path}

    def commanded(self, what: str, uid: str = "") -> None:
        """The client has said something."""
        self.agent.prof("cmd", uid or self._pilot_uid, "", what)

    def up(self) -> None:
        """Tasks can run."""
        uid, state = self._pilot_uid, states.PMGR_ACTIVE
        for event in ("advance", "publish"):
            self.agent.prof(event, uid, state)

    def staged(self, uids: Iterable[str], tried: Iterable[Attempt] = ()) -> None:
        """The agent has tasks whose input is there.

        Args:
            tried: what it has brought for the only one.
        """
        now = time.time()
        rows: list[Row] = []
        for uid in uids:
            files = rows_of_staging(uid, tried, is_input=True)
            rows += _passage(uid, states.AGENT_STAGING_INPUT, files[0][4] if files else now, now)
            if files:
                rows[-3:-3] = files
        self.staging_in.many(rows)
        rows = []
        for uid in uids:
            rows.append(("get", uid, states.AGENT_SCHEDULING_PENDING, "", now))
            rows.append(("advance", uid, states.AGENT_SCHEDULING, "", now))
            rows.append(("schedule_try", uid, "", "", now))
        self.scheduling.many(rows)

    def began_tasks(self, uids: Iterable[str]) -> None:
        """Tasks have slots."""
        now = time.time()
        rows: list[Row] = []
        other: list[Row] = []
        for uid in uids:
            self._ended.pop(uid, None)  # it runs again
            rows.append(("schedule_ok", uid, "", "", now))
            rows += [(event, uid, states.AGENT_EXECUTING_PENDING, "", now) for event in _ON]
            other.append(("get", uid, states.AGENT_EXECUTING_PENDING, "", now))
            other.append(("advance", uid, states.AGENT_EXECUTING, "", now))
        self.scheduling.many(rows)
        self.executing.many(other)

    def canceled(self, uid: str) -> None:
        """A task that runs is told to end."""
        self._canceled.add(uid)
        self.executing.prof("task_run_cancel_start", uid)

    def ended_task(self, uid: str, outcome: Outcome, is_canceled: bool) -> None:
        """A task's processes are gone, and its slots are free."""
        now = time.time()
        known = dict(outcome.times)
        at = next(iter(known.values()), now)
        rows: list[Row] = []
        has_run = "rank_start" in known or "exec_start" in known or not outcome.failure
        for event in _RUN if has_run else _RUN[:_HANDED_OVER]:
            told = known.get(event)
            if told is not None:
                at = max(at, told)
            rows.append((event, uid, "", "" if told is not None else _VIRTUAL, at))
        if not has_run:
            rows.append(("task_run_fail", uid, "", "", at))
        now = max(now, at)
        for event in ("unschedule_start", "task_run_stop"):
            rows.append((event, uid, "", "", now))
        if is_canceled:
            if uid not in self._canceled:  # it has ended with another one
                rows.append(("task_run_cancel_start", uid, "", _VIRTUAL, now))
            rows.append(("task_run_cancel_stop", uid, "", "", now))
        self._canceled.discard(uid)
        self.executing.many(rows)
        self._ended[uid] = now
        self.scheduling.many(
            [("unschedule_start", uid, "", "", now), ("unschedule_stop", uid, "", "", now)]
        )

    def brought(self, uid: str, tried: Iterable[Attempt]) -> None:
        """Output of a task has been brought."""
        self._leave(uid)
        self.out.many(rows_of_staging(uid, tried, is_input=False))

    def collected(self, uid: str, final: str) -> None:
        """A task is the client's again."""
        self._leave(uid)
        now = time.time()
        if final != states.DONE:
            self.out.prof("drop", uid, final, time=now)
            return
        state = states.TMGR_STAGING_OUTPUT_PENDING
        self.out.many([(event, uid, state, "", now) for event in _ON])

    def _leave(self, uid: str) -> None:
        """A task that has run does not run again."""
        at = self._ended.pop(uid, None)
        if at is None:
            return
        pending = states.AGENT_STAGING_OUTPUT_PENDING
        self.executing.many([(event, uid, pending, "", at) for event in _ON])
        rows: list[Row] = [
            ("get", uid, pending, "", at),
            ("advance", uid, states.AGENT_STAGING_OUTPUT, "", at),
        ]
        for what in ("stdout", "stderr", "uprof"):
            rows.append((f"staging_{what}_start", uid, "", "", at))
            rows.append((f"staging_{what}_stop", uid, "", "", at))
        self.out.many(rows)

    def flush(self) -> None:
        """Write what is kept."""
        for writer in self._writers:
            writer.flush()

    def cut(self) -> None:
        """What is done from now on is nobody's: the client has said how all has ended."""
        for writer in self._writers:
            writer.close()

    def close(self) -> None:
        """The agent ends."""
        uid = self._pilot_uid
        for writer in self._writers[1:]:
            writer.prof("component_final", uid)
        for event in ("cleanup_start", "cleanup_stop", "bootstrap_0_stop"):
            self.boot.prof(event, uid)
        for writer in self._writers:
            writer.close()


def _passage(uid: str, state: str, begun: float, ended: float) -> list[Row]:
    """A task goes through one component."""
    following = _PENDING[state]
    return [
        ("get", uid, state + "_PENDING", "", begun),
        ("advance", uid, state, "", begun),
        ("advance", uid, following, "", ended),
        ("publish", uid, following, "", ended),
        ("put", uid, following, "", ended),
    ]
