"""The profiles of a client: which event is written where."""

from __future__ import annotations

import time
from collections.abc import Iterable

from yod.pilot.files.attempt import Attempt
from yod.pilot.model import states
from yod.pilot.profile.staging import rows_of_staging
from yod.pilot.profile.writer import NoProfile, Row, open_writer

_FINAL = frozenset(states.FINAL)
_LAUNCHING = (states.PMGR_LAUNCHING, states.PMGR_ACTIVE_PENDING, states.PMGR_ACTIVE)


class SessionProfiles:
    """All profiles of a session's client."""

    def __init__(self, directory: str, uid: str) -> None:
        self._directory = directory
        self._components: list[tuple[NoProfile, str]] = []
        self.session = open_writer(directory, uid)
        self.session.prof("session_start", uid)

    def open(self, component: str, owner: str) -> NoProfile:
        """One more file: that of a component of a manager."""
        writer = open_writer(self._directory, component)
        for _ in ("child", "parent"):
            writer.prof("component_init", owner)
        self._components.append((writer, owner))
        return writer

    def flush(self) -> None:
        """Write what is kept."""
        self.session.flush()
        for writer, _ in self._components:
            writer.flush()

    def close(self, uid: str) -> None:
        """The session is over."""
        for writer, owner in self._components:
            writer.prof("component_final", owner)
            writer.close()
        self.session.prof("session_stop", uid)
        self.session.close()

    def staged(self, uid: str, tried: Iterable[Attempt], *, is_input: bool) -> None:
        """Files of a pilot have been staged, or not."""
        self.session.many(rows_of_staging(uid, tried, is_input=is_input))


class PilotEvents:
    """What a pilot manager does."""

    def __init__(self, profiles: SessionProfiles, uid: str) -> None:
        self._manager = profiles.open(uid, uid)
        self._launching = profiles.open(f"pmgr_launching.{uid.rpartition('.')[2]}", uid)
        self._manager.prof("setup_done", uid)

    def reached(self, uid: str, state: str) -> None:
        """A pilot has reached a state."""
        writers = []
        if state not in _FINAL:
            writers.append(self._manager)
        if state in _LAUNCHING or state in _FINAL:
            writers.append(self._launching)
        if state == states.PMGR_LAUNCHING:
            self._manager.prof("put", uid, states.PMGR_LAUNCHING_PENDING)
            self._launching.prof("get", uid, states.PMGR_LAUNCHING_PENDING)
        for writer in writers:
            writer.prof("advance", uid, state)
            writer.prof("publish", uid, state)

    def submission(self, uid: str, event: str) -> None:
        """``submission_start`` and the like."""
        self._launching.prof(event, uid)


class TaskEvents:
    """What a task manager does."""

    def __init__(self, profiles: SessionProfiles, uid: str) -> None:
        number = uid.rpartition(".")[2]
        self._manager = profiles.open(uid, uid)
        self._scheduling = profiles.open(f"tmgr_scheduling.{number}", uid)
        self._staging_in = profiles.open(f"tmgr_staging_input.{number}", uid)
        self._staging_out = profiles.open(f"tmgr_staging_output.{number}", uid)
        self._manager.prof("setup_done", uid)

    def submitted(self, uids: Iterable[str]) -> None:
        """Tasks are the manager's."""
        now = time.time()
        rows: list[Row] = []
        other: list[Row] = []
        pending, scheduling = states.TMGR_SCHEDULING_PENDING, states.TMGR_SCHEDULING
        for uid in uids:
            rows.append(("advance", uid, states.NEW, "", now))
            rows.append(("publish", uid, states.NEW, "", now))
            rows.append(("advance", uid, pending, "", now))
            rows.append(("publish", uid, pending, "", now))
            rows.append(("put", uid, pending, "", now))
            other.append(("get", uid, pending, "", now))
            other.append(("advance", uid, scheduling, "", now))
            other.append(("publish", uid, scheduling, "", now))
        self._manager.many(rows)
        self._scheduling.many(other)

    def assigned(self, uids: Iterable[str]) -> None:
        """Tasks have a pilot."""
        now = time.time()
        rows: list[Row] = []
        other: list[Row] = []
        pending, staging = states.TMGR_STAGING_INPUT_PENDING, states.TMGR_STAGING_INPUT
        for uid in uids:
            rows.append(("advance", uid, pending, "", now))
            rows.append(("publish", uid, pending, "", now))
            rows.append(("put", uid, pending, "", now))
            other.append(("get", uid, pending, "", now))
            other.append(("advance", uid, staging, "", now))
            other.append(("publish", uid, staging, "", now))
        self._scheduling.many(rows)
        self._staging_in.many(other)

    def lost(self, uids: Iterable[str]) -> None:
        """Tasks have come back, or their pilot has gone: they are another one's."""
        now = time.time()
        self._scheduling.many([("lost", uid, "", "", now) for uid in uids])

    def sent(self, uids: Iterable[str]) -> None:
        """Tasks are on their way to the agent."""
        now = time.time()
        state = states.AGENT_STAGING_INPUT_PENDING
        rows: list[Row] = []
        for uid in uids:
            rows.append(("advance", uid, state, "", now))
            rows.append(("publish", uid, state, "", now))
            rows.append(("put", uid, state, "", now))
        self._staging_in.many(rows)

    def collected(self, uid: str) -> None:
        """A task has come back from its agent."""
        now = time.time()
        self._staging_out.many(
            [
                ("get", uid, states.TMGR_STAGING_OUTPUT_PENDING, "", now),
                ("advance", uid, states.TMGR_STAGING_OUTPUT, "", now),
                ("publish", uid, states.TMGR_STAGING_OUTPUT, "", now),
            ]
        )

    def ended(self, uid: str, state: str) -> None:
        """A task is in its final state."""
        now = time.time()
        self._staging_out.many([("advance", uid, state, "", now), ("publish", uid, state, "", now)])

    def staged(self, uid: str, tried: Iterable[Attempt], *, is_input: bool) -> None:
        """Files of a task have been staged, or not."""
        tried = list(tried)
        writer = self._staging_in if is_input else self._staging_out
        if is_input and tried:
            began = tried[0].began
            for event in ("create_sandbox_start", "create_sandbox_stop"):
                writer.prof(event, uid, time=began)
        writer.many(rows_of_staging(uid, tried, is_input=is_input))
