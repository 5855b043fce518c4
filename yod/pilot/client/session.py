"""A session: a directory, a thread, and all that it has of managers, pilots and tasks."""

from __future__ import annotations

import _socket
import atexit
import os
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from native import limits
from native.errors import UsageError, YodError
from yod.pilot.client import journal, sandboxes
from yod.pilot.client.events import SessionProfiles
from yod.pilot.client.loop import Loop
from yod.pilot.link.greeting import Address
from yod.pilot.link.link import Link, Listener
from yod.pilot.model.states import FINAL
from yod.pilot.site.resources import names as resource_names
from yod.pilot.site.resources import resource_of
from yod.pilot.wire import messages as wire

if TYPE_CHECKING:
    from yod.pilot.client.pilot import Pilot
    from yod.pilot.client.pmgr import PilotManager
    from yod.pilot.client.tmgr import TaskManager

SOCKET = "client.sock"
_DAY_S = 86400
_FLUSH_S = 0.5
_CLOSE_S = 15.0  # beside the time that tasks have to end


class Session:
    """What one application does with pilots and tasks.

    Args:
        uid: its name, and that of its directory below the present one. Default: a new one. Where
            there is a session of this name, its pilots and tasks are found again: managers get
            those that managers of their uids had.
        cfg: taken for the sake of older scripts; it has no effect.
        base: the directory below which the session's is. Default: the present one.

    Attributes:
        path: its directory, which is also that of the pilots' sandboxes.
        journal: what it writes down of itself.
        past: what it was before; None: it is new.
        goes_on: pilots that begin now do so without it.
    """

    def __init__(
        self, uid: str | None = None, cfg: object = None, *, base: str = "", **_older: object
    ) -> None:
        if uid is not None and (not uid or "/" in uid or uid in (".", "..")):
            raise UsageError(f"session: 'uid' is {uid!r}, which cannot name a directory")
        self.limits = limits.load(dict(os.environ))
        self.cfg = cfg
        parent = os.path.abspath(base or os.getcwd())
        self.uid, self.path, is_there = _directory(parent, uid)
        self.past = journal.read(self.path) if is_there else None
        self.is_closed = False
        self.goes_on = True
        self._pilots: dict[str, Pilot] = {}
        self._pmgrs: list[PilotManager] = []
        self._tmgrs: list[TaskManager] = []
        self._numbers: dict[str, int] = {}
        self._numbering = threading.Lock()
        self.loop = Loop(self.uid)
        try:
            self.journal = journal.Journal(self.path, self.loop.reactor)
            self.profiles = SessionProfiles(self.path, self.uid)
            self._flush = self.loop.reactor.timer(self._write_profiles)
            self._listener = self.loop.call(self._listen)
        except (OSError, YodError) as error:
            self.loop.close()
            if isinstance(error, YodError):
                raise
            raise YodError(f"{self.path}: {error.strerror or error}") from None
        if self.past is not None:
            self._count_past(self.past)
        _open.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.uid}>"

    def close(
        self, download: bool = False, terminate: bool = True, cleanup: bool | None = None
    ) -> None:
        """End the session. Calling twice is harmless.

        Args:
            download: the profiles of agents are copied here. They are here already.
            terminate: end the pilots, and wait for their end; else they go on.
            cleanup: remove the sandboxes of pilots that are over. Default: as each one says.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self.profiles.session.prof("session_close", self.uid)
        try:
            if terminate:
                self._end_pilots()
            for tmgr in self._tmgrs:
                tmgr.close()
            self.loop.call(self._shut)
        finally:
            self.loop.close()
            self.journal.close()
            self.profiles.close(self.uid)
            _open.discard(self)
        for uid, pilot in self._pilots.items():
            wanted = pilot.description.value("cleanup") if cleanup is None else cleanup
            if wanted and pilot.state in FINAL:
                sandboxes.remove(self.sandbox_of(uid), self.path, uid)

    def _end_pilots(self) -> None:
        for pmgr in self._pmgrs:
            pmgr.cancel_pilots()
        for pmgr in self._pmgrs:
            pmgr.wait_pilots(timeout=self.limits.kill_delay_s + _CLOSE_S)

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        managers = self.list_pilot_managers(), self.list_task_managers()
        return {"uid": self.uid, "path": self.path, "pmgrs": managers[0], "tmgrs": managers[1]}

    def list_resources(self) -> list[str]:
        """The names of what a pilot can run on."""
        return sorted(resource_names())

    def get_resource_config(self, resource: str, schema: str | None = None) -> dict[str, Any]:
        """What is known of a resource.

        Raises:
            UsageError: it is not known.
        """
        return resource_of(resource, schema or "").as_dict()

    def fetch_profiles(self, tgt: str | None = None, **_older: object) -> list[str]:
        """The paths of all profiles.

        Args:
            tgt: a directory to copy them to.
        """
        self.loop.post(self.profiles.flush)
        found = []
        own = {os.path.join(self.path, uid): self.sandbox_of(uid) for uid in self._pilots}
        elsewhere = [place for link, place in own.items() if place != link]
        for root in (self.path, *elsewhere):
            for directory, _, names in os.walk(root):
                found += [os.path.join(directory, name) for name in names if name.endswith(".prof")]
        if tgt is None:
            return sorted(found)
        import shutil

        copies = []
        for path in sorted(found):
            place = next((each for each in elsewhere if path.startswith(f"{each}/")), "")
            below = os.path.relpath(path, os.path.dirname(place) if place else self.path)
            copy = os.path.join(tgt, self.uid, below)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            copies.append(shutil.copy(path, copy))
        return copies

    def get_pilot_managers(self, pmgr_uids: object = None) -> list[PilotManager]:
        """The pilot managers."""
        return list(self._pmgrs)

    def get_task_managers(self, tmgr_uids: object = None) -> list[TaskManager]:
        """The task managers."""
        return list(self._tmgrs)

    def list_pilot_managers(self) -> list[str]:
        """The uids of the pilot managers."""
        return [each.uid for each in self._pmgrs]

    def list_task_managers(self) -> list[str]:
        """The uids of the task managers."""
        return [each.uid for each in self._tmgrs]

    # -- for managers -----------------------------------------------------------

    def next_uid(self, kind: str, digits: int) -> str:
        """A name that nothing in the session has."""
        with self._numbering:  # callbacks submit tasks, too
            number = self._numbers.get(kind, 0)
            self._numbers[kind] = number + 1
        return f"{kind}.{number:0{digits}}"

    def sandbox_of(self, pilot_uid: str) -> str:
        """The directory of a pilot."""
        pilot = self._pilots.get(pilot_uid)
        return pilot.pilot_sandbox if pilot else os.path.join(self.path, pilot_uid)

    def roots(self, pilot_uid: str, sandbox: str) -> dict[str, str]:
        """The directories of the schemas in staging directives, for the client's side."""
        pilot = self.sandbox_of(pilot_uid)
        session = os.path.dirname(pilot)
        return {
            "client": os.getcwd(),
            "pwd": os.getcwd(),
            "task": sandbox,
            "pilot": pilot,
            "session": session,
            "resource": os.path.dirname(session),
            "endpoint": "/",
        }

    def add_pmgr(self, pmgr: PilotManager) -> None:
        """A pilot manager is the session's."""
        self.demand_open()
        self._pmgrs.append(pmgr)

    def add_tmgr(self, tmgr: TaskManager) -> None:
        """A task manager is the session's."""
        self.demand_open()
        self._tmgrs.append(tmgr)

    def add_pilot(self, pilot: Pilot) -> None:
        """A pilot is the session's."""
        self._pilots[pilot.uid] = pilot

    def pilot(self, uid: str) -> Pilot | None:
        """The pilot of this name."""
        return self._pilots.get(uid)

    @property
    def socket(self) -> str:
        """Where agents come to."""
        return self._listener.path

    def reach(self) -> Address:
        """Let agents on other hosts come, too, at an address. In the loop.

        Raises:
            YodError: it is not possible.
        """
        return self._listener.reach()

    def _count_past(self, past: journal.Past) -> None:
        """New pilots and tasks get other names than those that were there."""
        for name in (*past.pilots, *past.orders):
            while "." in name:  # a worker of executor.0000 is executor.0000.000001
                name, _, number = name.rpartition(".")
                if number.isdigit():
                    self._numbers[name] = max(self._numbers.get(name, 0), int(number) + 1)

    def demand_open(self) -> None:
        """Whoever wants something of the session may ask.

        Raises:
            YodError: it is closed.
        """
        if self.is_closed:
            raise YodError(f"session {self.uid} is closed")

    # -- in the loop ------------------------------------------------------------

    def _listen(self) -> Listener:
        self._flush.set(self.loop.reactor.monotonic() + _FLUSH_S)
        path = os.path.join(self.path, SOCKET)
        return Listener(path, self.loop.reactor, self._let_in)

    def _let_in(self, end: _socket.socket) -> None:
        """An agent, or a job without one, which says first whose it is."""

        def take(body: bytes) -> None:
            match wire.decode_agent(body):
                case wire.AskTime():
                    link.send(wire.Time(time.time()))
                case wire.Up(uid) as up if uid in self._pilots:
                    self._pilots[uid].connected(link, up)
                case wire.PilotOver(_, _, uid) as word if uid in self._pilots:
                    self._pilots[uid].took(word)
                    link.close()
                case wire.Open(uid) | wire.NotOpen(uid) as told if uid in self._pilots:
                    self._pilots[uid].called(link, told)
                case _:
                    link.close()

        link = Link(end, self.loop.reactor, take, lambda _: None)

    def _write_profiles(self) -> None:
        self.profiles.flush()
        self._flush.set(self.loop.reactor.monotonic() + _FLUSH_S)

    def _shut(self) -> None:
        for pilot in self._pilots.values():
            pilot.hang_up()
        goes_on = any(pilot.job and pilot.state not in FINAL for pilot in self._pilots.values())
        self._listener.close(comes_again=goes_on)
        self._flush.close()


def _directory(parent: str, uid: str | None) -> tuple[str, str, bool]:
    """The session's name and directory, and whether it was there; a new one is made.

    Raises:
        UsageError: there is something else of this name.
        YodError: it cannot be made.
    """
    import getpass

    stem = f"rp.session.{os.uname().nodename}.{getpass.getuser()}.{int(time.time()) // _DAY_S}"
    number = 0
    while True:
        name = uid or f"{stem}.{number:04}"
        path = os.path.join(parent, name)
        try:
            os.mkdir(path)
        except FileExistsError:
            if uid and os.path.exists(os.path.join(path, journal.NAME)):
                return name, path, True
            if uid:
                raise UsageError(f"{path}: it is there, and is no session") from None
            number += 1
        except OSError as error:
            raise YodError(f"{path}: {error.strerror}") from None
        else:
            return name, path, False


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """An application that forgets a session leaves no pilot behind."""
    for session in list(_open):
        session.close()
