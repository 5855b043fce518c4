"""A pilot manager: submits pilots, watches them, ends them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from native.errors import UsageError, YodError
from yod.pilot.client import launching, sandboxes
from yod.pilot.client.callbacks import Callback, Callbacks, uids_of
from yod.pilot.client.events import PilotEvents
from yod.pilot.client.journal import Past, PilotBegun, PilotEnded, PilotJob
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.submitting import services_of
from yod.pilot.client.waiting import states_of, wait
from yod.pilot.files.attempt import failure_of
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription
from yod.pilot.model.resources import Resource
from yod.pilot.model.staging import directives_of
from yod.pilot.model.words import BULK_VARIABLE, PILOT_STATE
from yod.pilot.site.resources import resource_of

if TYPE_CHECKING:
    from yod.pilot.batch.system import System
    from yod.pilot.client.session import Session
    from yod.pilot.client.tmgr import TaskManager
    from yod.pilot.site.jobs import SiteJob


class PilotManager:
    """The pilots of an application."""

    def __init__(self, session: Session, uid: str | None = None, cfg: object = None) -> None:
        self.session = session
        self.uid = uid or session.next_uid("pmgr", 4)
        session.add_pmgr(self)
        self._is_bulk = bool(os.environ.get(BULK_VARIABLE))
        self._pilots: dict[str, Pilot] = {}
        self._callbacks = Callbacks()
        self._since: dict[str, float] = {}
        self._events = session.loop.call(lambda: PilotEvents(session.profiles, self.uid))
        if session.past is not None:
            past = session.past
            session.loop.call(lambda: self._find_again(past))

    def __repr__(self) -> str:
        return f"<PilotManager {self.uid}>"

    def submit_pilots(self, descriptions: Any) -> Any:
        """Begin pilots: one for one description, a list for a list.

        Raises:
            UsageError: a description is wrong; no pilot has begun then.
            YodError: the session is closed.
        """
        if not self.session.loop.is_here:
            self.session.demand_open()
        is_list = isinstance(descriptions, list | tuple)
        asked = list(descriptions) if is_list else [descriptions]
        pilots: list[Pilot] = []
        taken: set[str] = set(self._pilots)
        for one in asked:
            description = one if isinstance(one, PilotDescription) else PilotDescription(one)
            description.verify()
            resource = self._resource_of(description)
            uid = description.value("uid") or self.session.next_uid("pilot", 4)
            if uid in taken:
                raise UsageError(f"pilot {uid}: there is one of this name")
            if description.value("app_comm"):
                launching.demand_channels(resource, f"pilot {uid}")
            directives_of(description.value("input_staging"), True, f"pilot {uid}")
            directives_of(description.value("output_staging"), False, f"pilot {uid}")
            taken.add(uid)
            description = description.copy()
            if description.get("sandbox"):
                description["sandbox"] = sandboxes.place_of(description["sandbox"], uid)
            if description.get("services"):
                description["services"] = services_of(description, uid)
            if description.get("prepare_env"):
                from yod.pilot.site import environments

                for name, spec in description["prepare_env"].items():
                    environments.check(name, spec, f"pilot {uid}")
            pilots.append(Pilot(self, uid, description))
        for pilot in pilots:
            for name, spec in pilot.description.value("prepare_env").items():
                pilot.prepare_env(name, spec)
        self.session.loop.call(lambda: self._begin(pilots))
        return pilots if is_list else pilots[0]

    def get_pilots(self, uids: object = None) -> Any:
        """Pilots by their uids: one, some, or all."""
        if isinstance(uids, str):
            return self._one(uids)
        named: Iterable[Any] = self._pilots if uids is None else uids  # type: ignore[assignment]
        return [self._one(str(uid)) for uid in named]

    def list_pilots(self) -> list[str]:
        """The uids of all pilots."""
        return list(self._pilots)

    def wait_pilots(
        self, uids: object = None, state: object = None, timeout: float | None = None
    ) -> Any:
        """Wait until pilots have been in a state, or are over; their present states."""
        found = self.get_pilots(uids)
        pilots = found if isinstance(found, list) else [found]
        wanted = states_of(state, states.PILOT)
        wait(self.session.loop, pilots, wanted, states.PILOT, timeout)
        present = [pilot.state for pilot in pilots]
        return present if isinstance(found, list) else present[0]

    def cancel_pilots(self, uids: object = None) -> None:
        """End pilots, with their tasks."""
        found = self.get_pilots(uids)
        pilots = found if isinstance(found, list) else [found]
        self.session.loop.call(lambda: [pilot.end() for pilot in pilots])

    kill_pilots = cancel_pilots

    def register_callback(
        self,
        cb: Callable[..., object],
        cb_data: Any = None,
        metric: str | None = None,
        uid: object = None,
        bulk: bool | None = None,
    ) -> None:
        """Call ``cb(pilot, state)``, or with ``bulk`` ``cb(pilots)``, at each state.

        ``cb_data`` comes behind, where it is given.
        """
        if metric not in (None, PILOT_STATE):
            raise UsageError(f"there is no metric {metric!r}; known is {PILOT_STATE}")
        is_bulk = self._is_bulk if bulk is None else bulk
        callback = Callback(cb, cb_data, uids_of(uid), is_bulk=is_bulk)
        self.session.loop.call(lambda: self._callbacks.add(callback))

    def unregister_callback(
        self, cb: Callable[..., object] | None = None, metric: object = None, uid: object = None
    ) -> None:
        """Call no more; without a callback: none of them. ``uid``: of those that were for it."""
        self.session.loop.call(lambda: self._callbacks.remove(cb, uids_of(uid)))

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        return {"uid": self.uid, "session": self.session.uid, "pilots": self.list_pilots()}

    def close(self, terminate: bool = True) -> None:
        """End the pilots, and wait for their end."""
        if terminate and not self.session.is_closed:
            self.cancel_pilots()
            self.wait_pilots()

    # -- for pilots -------------------------------------------------------------

    def submit_tasks(self, pilot: Pilot, descriptions: Any) -> Any:
        """Run tasks on one pilot, by a task manager of the session."""
        manager = self.tmgr_of(pilot)
        asked = descriptions if isinstance(descriptions, list | tuple) else [descriptions]
        for one in asked:
            one["pilot"] = pilot.uid
        return manager.submit_tasks(descriptions)

    def tmgr_of(self, pilot: Pilot) -> TaskManager:
        """A task manager that gives tasks to a pilot.

        Raises:
            YodError: there is none in the session.
        """
        managers = [owner.tmgr for owner in pilot.owners] or self.session.get_task_managers()
        if not managers:
            raise YodError("there is no task manager in the session")
        manager = managers[0]
        if not pilot.owners:
            manager.add_pilots(pilot)
        return manager

    def stage(self, pilot: Pilot, directives: Any, *, is_input: bool) -> list[str]:
        """Bring files into or out of a pilot's sandbox; where they are now, as addresses.

        Raises:
            UsageError: a directive is wrong.
            YodError: a file cannot be brought.
        """
        from yod.pilot.files.staging import bring_all, path_of

        roots = self.session.roots(pilot.uid, pilot.pilot_sandbox)
        os.makedirs(pilot.pilot_sandbox, exist_ok=True)
        found = directives_of(directives, is_input, f"pilot {pilot.uid}")
        tried = bring_all(found, roots)
        note = partial(self.session.profiles.staged, pilot.uid, tried, is_input=is_input)
        self.session.loop.post(note)
        failure = failure_of(tried)
        if failure:
            raise YodError(f"pilot {pilot.uid}: {failure}")
        return [f"file://localhost{path_of(each.target, roots)}" for each in found]

    def why(self, pilot: Pilot) -> str:
        """Why a pilot stands where it does."""
        if pilot.state in states.FINAL:
            return pilot.reason or f"it is {pilot.state}"
        if pilot.state == states.PMGR_ACTIVE:
            if pilot.is_quiet:
                limit = self.session.limits.pilot_silent_s
                return f"its agent does not answer; it is given up after {limit:g} s"
            return "it is active"
        if pilot.job is not None:
            return f"{pilot.job}: {pilot.job.words}"
        waited = time.monotonic() - self._since.get(pilot.uid, time.monotonic())
        return f"its agent has not said a word for {waited:.1f} s; see {pilot.pilot_sandbox}"

    def advance(self, pilot: Pilot, told: str) -> None:
        """A pilot has reached a state. In the loop."""
        passed = states.PILOT.announced(pilot.state, told)
        for state in passed:
            pilot.state = state
            self._events.reached(pilot.uid, state)
            self._callbacks.tell(pilot.uid, pilot, state)
        if passed and pilot.state in states.FINAL:
            self.session.journal.add(PilotEnded(pilot.uid, pilot.state, pilot.reason))
        if pilot.waiters and passed:
            with self.session.loop.changed:
                self.session.loop.changed.notify_all()
        if told == states.PMGR_ACTIVE:
            for owner in list(pilot.owners):
                owner.pilot_active(pilot)

    def _one(self, uid: str) -> Pilot:
        if uid not in self._pilots:
            raise UsageError(f"there is no pilot {uid!r}")
        return self._pilots[uid]

    def _begin(self, pilots: list[Pilot]) -> None:
        session = self.session
        for pilot in pilots:
            self._pilots[pilot.uid] = pilot
            self._since[pilot.uid] = time.monotonic()
            session.add_pilot(pilot)
            session.journal.add(PilotBegun(pilot.uid, self.uid, pilot.description.as_dict()))
            self._events.reached(pilot.uid, states.NEW)
            self.advance(pilot, states.PMGR_LAUNCHING_PENDING)
            self.advance(pilot, states.PMGR_LAUNCHING)
            try:
                sandboxes.make(pilot.pilot_sandbox, session.path, pilot.uid)
                self._events.submission(pilot.uid, "staging_in_start")
                self._stage_first(pilot)
                self._events.submission(pilot.uid, "staging_in_stop")
                self._events.submission(pilot.uid, "submission_start")
                self._launch(pilot)
            except YodError as error:
                pilot.reason = str(error)
                self.advance(pilot, states.FAILED)

    def submitted(self, pilot: Pilot) -> None:
        """A pilot's agent is on its way: its process is there, or its job is handed in."""
        if pilot.state == states.PMGR_LAUNCHING:
            self._events.submission(pilot.uid, "submission_stop")
            self.advance(pilot, states.PMGR_ACTIVE_PENDING)

    def launch_here(self, pilot: Pilot, address: str, key: bytes, call: int) -> int:
        """Start the agent of a pilot whose job's nodes do not see its sandbox. In the loop.

        Raises:
            YodError: it cannot be started.
        """
        return launching.start_here(self._wanted(pilot), address, key, call)

    def _wanted(self, pilot: Pilot) -> launching.Wanted:
        session, resource = self.session, self._resource_of(pilot.description)
        return launching.Wanted(
            session.uid,
            pilot.uid,
            pilot.description,
            resource,
            pilot.pilot_sandbox,
            session.socket,
            session.limits,
            session.goes_on,
        )

    def _launch(self, pilot: Pilot) -> None:
        wanted = self._wanted(pilot)
        resource = wanted.resource
        system = _system_of(resource.manager) if resource.is_job else None
        home = self.session.reach() if resource.is_job else None  # its agent may come from there
        if system is None or home is None:
            unix_pid = launching.start(wanted)
            pilot.launched(unix_pid, is_script=resource.is_job, is_here=resource.is_local)
            self.submitted(pilot)
            return
        words = launching.write_job(wanted, system, home)
        job = self._job_of(pilot, system)
        pilot.submitted(job)
        job.submit(words)

    def _job_of(self, pilot: Pilot, system: System, job_id: str = "") -> SiteJob:
        def named(job_id: str) -> None:
            self.session.journal.add(PilotJob(pilot.uid, system.name, job_id))
            self.session.journal.flush()  # else nobody might know of the job any more
            self.submitted(pilot)

        from yod.pilot.site.jobs import SiteJob

        reactor, home = self.session.loop.reactor, str(self.session.reach())
        return SiteJob(reactor, system, pilot.pilot_sandbox, home, named, pilot.job_over, job_id)

    def _resource_of(self, description: PilotDescription) -> Resource:
        value = description.value
        return resource_of(value("resource"), value("access_schema"))

    def _find_again(self, past: Past) -> None:
        """The pilots that a manager of this name had."""
        for uid, begun in past.pilots.items():
            if begun.pmgr != self.uid:
                continue
            pilot = self._pilots[uid] = Pilot(self, uid, PilotDescription(begun.description))
            self.session.add_pilot(pilot)
            ended = past.ended.get(uid)
            if ended is not None:
                pilot.state, pilot.reason = ended.state, ended.reason
            else:
                self._since[uid] = time.monotonic()
                pilot.state = states.PMGR_ACTIVE_PENDING
                job = past.jobs.get(uid)
                system = _system_of(job.system) if job is not None else None
                if job is not None and system is not None:
                    pilot.submitted(self._job_of(pilot, system, job.job_id))
                pilot.dial(past.processes.get(uid))

    def stage_last(self, pilot: Pilot) -> str:
        """Bring the output of a pilot that ends; why that has failed, or nothing. In the loop."""
        asked = pilot.description.value("output_staging")
        if not asked:
            return ""
        try:
            self.stage(pilot, asked, is_input=False)
        except YodError as error:
            return str(error)
        return ""

    def _stage_first(self, pilot: Pilot) -> None:
        if pilot.description.value("input_staging"):
            self.stage(pilot, pilot.description.value("input_staging"), is_input=True)


def _system_of(name: str) -> System | None:
    """The batch system of this name."""
    from yod.pilot.batch.systems import SYSTEMS

    return SYSTEMS.get(name)
