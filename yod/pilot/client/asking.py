"""Sessions as commands see them: by their journals, and by their agents where these live."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from native.errors import YodError
from native.frames import Frames
from yod.pilot.agent.settings import SOCKET
from yod.pilot.client import journal
from yod.pilot.link.link import connect
from yod.pilot.link.process import beginning_of
from yod.pilot.model import states
from yod.pilot.wire import messages as wire

NO_ANSWER = "its agent does not answer"
_ANSWER_S = 10.0
_READ_BYTES = 1 << 18


class Seen:
    """A session, as it stands.

    Attributes:
        tasks: task -> state; over: how those that are over have ended.
        pilots: pilot -> state, and why.
        given: task -> its pilot.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.uid = os.path.basename(path)
        past = journal.read(path)
        self.over = dict(past.over)
        self.tasks = {uid: past.state_of(uid) for uid in past.orders}
        self.given = dict(past.given)
        self.pilots: dict[str, tuple[str, str]] = {}
        for uid in past.pilots:
            ended = past.ended.get(uid)
            if ended is not None:
                self.pilots[uid] = (ended.state, ended.reason)
                continue
            process = past.processes.get(uid)
            try:
                self._ask(uid)
            except TimeoutError:
                self.pilots[uid] = (states.PMGR_ACTIVE, NO_ANSWER)
            except (YodError, OSError) as error:
                if process is not None and beginning_of(process.unix_pid) == process.beginning:
                    self.pilots[uid] = (states.PMGR_ACTIVE_PENDING, "its agent has not come yet")
                else:
                    self.pilots[uid] = (states.FAILED, f"its agent has ended: {error}")
            else:
                self.pilots[uid] = (states.PMGR_ACTIVE, "")

    @property
    def counts(self) -> Counter[str]:
        """How many tasks are in each state."""
        return Counter(self.tasks.values())

    def failed(self) -> list[wire.Over]:
        """Tasks that have failed."""
        return [over for over in self.over.values() if over.state == states.FAILED]

    def why(self, uid: str) -> str:
        """Why a task stands where it does; empty: its state says all.

        Raises:
            YodError: there is no such task, or its agent does not answer.
        """
        if uid not in self.tasks:
            raise YodError(f"{self.uid} has no task {uid}")
        over = self.over.get(uid)
        if over is not None:
            return over.reason
        pilot = self.given.get(uid)
        if not pilot:
            return "no pilot has it yet"
        state, reason = self.pilots.get(pilot, ("", ""))
        if state != states.PMGR_ACTIVE or reason:
            return f"{pilot} is {state}: {reason}"
        for message in self._talk(pilot, wire.AskWhy(uid)):
            if isinstance(message, wire.Why):
                return message.text or "its agent does not have it"
        return NO_ANSWER

    def _ask(self, pilot: str) -> None:
        for message in self._talk(pilot, wire.Hello(self.uid)):
            match message:
                case wire.Reached(state, uids):
                    for uid in uids:
                        if self.tasks.get(uid) not in (None, *states.FINAL):
                            self.tasks[uid] = state
                            self.given[uid] = pilot
                case wire.Ended(tasks):
                    for over in tasks:
                        if over.uid in self.tasks and over.uid not in self.over:
                            self.over[over.uid] = over
                            self.tasks[over.uid] = over.state
                    if not tasks:
                        return

    def _talk(self, pilot: str, message: wire.FromClient) -> Iterator[wire.FromAgent]:
        """Say something to the agent of a pilot, and take what it says."""
        end = connect(os.path.join(self.path, pilot, SOCKET))
        try:
            end.settimeout(_ANSWER_S)
            end.sendall(wire.frame(message))
            frames = Frames(wire.MESSAGE_BYTES_MAX)
            while data := end.recv(_READ_BYTES):
                for body in frames.add(data):
                    yield wire.decode_agent(body)
        finally:
            end.close()


def sessions_below(directory: str) -> list[str]:
    """The directories of sessions in a directory, by their names."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir() and os.path.exists(os.path.join(entry.path, journal.NAME)):
                found.append(entry.path)
    return sorted(found)
