"""A pilot, as the application has it: the process of its agent, and the connection to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from native.errors import UsageError, YodError
from yod.pilot.agent.settings import SOCKET
from yod.pilot.client.callbacks import Callback
from yod.pilot.client.journal import Others, PilotProcess, PilotUp
from yod.pilot.client.sandboxes import Places, sandbox_of
from yod.pilot.link.greeting import sealed
from yod.pilot.link.link import Link, connect
from yod.pilot.link.process import Process, beginning_of, tail
from yod.pilot.link.watchdog import Watchdog, give_up
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription
from yod.pilot.wire import messages as wire

if TYPE_CHECKING:
    from yod.pilot.client.pmgr import PilotManager
    from yod.pilot.client.raptor import Raptor
    from yod.pilot.client.tasking import Tasking
    from yod.pilot.site.jobs import SiteJob

_ANSWER_S = 10.0
_LATE = "its agent did not end in time, and was killed"
_END_S = 10.0  # for an agent to end by itself, beside the time that its tasks have


class Pilot(Places):
    """A pilot. Everything but the calls is written by the session's thread.

    Attributes:
        uid: its name, unique in the session.
        description: what was asked for.
        state: one of :mod:`yod.pilot.model.states`.
        reason: why it has ended.
        nodelist: its nodes, once it is active.
        job: of a batch system; None: it is none.
        waiters: threads of the application that wait for a state of it.
    """

    def __init__(self, pmgr: PilotManager, uid: str, description: PilotDescription) -> None:
        self._pmgr = pmgr
        self.uid = uid
        self.description = description
        self.state = states.NEW
        self.reason = ""
        self.nodelist: list[dict[str, Any]] = []
        self.cores = 0
        self.waiters = 0
        self.callbacks: list[Callback] = []
        self.owners: list[Tasking] = []
        self.job: SiteJob | None = None
        self._link: Link | None = None
        self._first: Link | None = None  # to an agent that has not said that it is up
        self._is_ending = False
        self._last_word: tuple[str, str] | None = None
        self._services: list[wire.Register] = []  # of others
        self._whys: dict[str, Callable[[str], None]] = {}
        self._loop = pmgr.session.loop
        self._process = Process(self._loop.reactor, self._gone)
        self._late = self._loop.reactor.timer(lambda: self._give_up(_LATE))
        self._watchdog = Watchdog(
            self._loop.reactor,
            pmgr.session.limits.pilot_silent_s,
            lambda: self._any_link,
            wire.Ask(),
            self._suspect,
            self._give_up,
        )

    def __repr__(self) -> str:
        return f"<Pilot {self.uid} {self.state}>"

    def __str__(self) -> str:
        return f"[{self.uid}, {self.resource}, {self.state}]"

    @property
    def unix_pid(self) -> int:
        """The process of its agent, or of what starts it; 0: there is none here."""
        return self._process.unix_pid

    @property
    def session(self) -> object:
        """Its session."""
        return self._pmgr.session

    @property
    def pmgr(self) -> PilotManager:
        """Its manager."""
        return self._pmgr

    @property
    def resource(self) -> str:
        """On what it runs."""
        name: str = self.description.value("resource")
        return name

    @property
    def resource_details(self) -> dict[str, Any]:
        """Its nodes, and how much they have."""
        return {"nodes": self.nodelist, "cores": self.cores}

    @property
    def pilot_sandbox(self) -> str:
        """Its directory."""
        return sandbox_of(self.description.value("sandbox"), self._pmgr.session.path, self.uid)

    @property
    def log(self) -> str:
        """What its agent has written last."""
        return tail(os.path.join(self.pilot_sandbox, "agent.log"))

    stdout = stderr = log

    @property
    def is_quiet(self) -> bool:
        """Its agent has been asked for a word, and has not said one yet."""
        return self._watchdog.is_asked

    @property
    def why(self) -> str:
        """Why it stands where it does, in a sentence."""
        return self._pmgr.why(self)

    def wait(self, state: object = None, timeout: float | None = None) -> str:
        """Wait until it has been in a state, or is over; the present state is returned."""
        found = self._pmgr.wait_pilots(self.uid, state, timeout)
        assert isinstance(found, str)
        return found

    def cancel(self) -> None:
        """End it; :meth:`wait` tells when it has ended."""
        self._pmgr.cancel_pilots(self.uid)

    def register_callback(
        self, cb: Callable[..., object], metric: str | None = None, cb_data: Any = None
    ) -> None:
        """Call at each state."""
        self._pmgr.register_callback(cb, cb_data, metric, self.uid)

    def unregister_callback(
        self, cb: Callable[..., object] | None = None, metric: str | None = None
    ) -> None:
        """Call no more."""
        self._pmgr.unregister_callback(cb, metric, self.uid)

    def submit_tasks(self, descriptions: Any) -> Any:
        """Run tasks on this pilot and no other."""
        return self._pmgr.submit_tasks(self, descriptions)

    def submit_raptors(self, descriptions: Any) -> list[Raptor]:
        """Begin raptors on this pilot."""
        raptors: list[Raptor] = self._pmgr.tmgr_of(self).submit_raptors(descriptions, self.uid)
        return raptors

    def prepare_env(self, env_name: str, env_spec: dict[str, Any]) -> None:
        """Make an environment, which tasks name as ``named_env``, and wait for it.

        Raises:
            UsageError: the specification is wrong.
            YodError: it cannot be made.
        """
        from yod.pilot.site import environments

        environments.check(env_name, env_spec, f"pilot {self.uid}")
        environments.make(self.pilot_sandbox, env_name, env_spec)

    def register_service(self, uid: str, info: object) -> None:
        """A service that is no task of the pilot is ready: tasks that name it begin.

        Args:
            info: what they have as ``RP_INFO_`` and its name.
        """
        if not isinstance(uid, str) or not uid:
            raise UsageError(f"pilot {self.uid}: {uid!r} cannot name a service")
        self._loop.call(lambda: self._register(wire.Register(uid, str(info))))

    def stage_in(self, directives: Any) -> list[str]:
        """Bring files into the pilot's sandbox, and wait for them; where they are now."""
        return self._pmgr.stage(self, directives, is_input=True)

    def stage_out(self, directives: Any = None) -> list[str]:
        """Bring files out of the pilot's sandbox, and wait for them; where they are now."""
        return self._pmgr.stage(self, directives or [], is_input=False)

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        known = {name: getattr(self, name) for name in ("uid", "state", "resource", "reason")}
        return known | {"sandbox": self.pilot_sandbox, "description": self.description.as_dict()}

    def why_task(self, uid: str) -> str:
        """Why a task stands where it does, as the agent sees it."""
        if self._loop.is_here:
            return "a callback cannot ask the agent"
        answer: list[str] = []

        def told(text: str) -> None:
            answer.append(text or "it is on its way")
            with self._loop.changed:
                self._loop.changed.notify_all()

        self._loop.call(lambda: self.ask_why(uid, told))
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: answer, timeout=_ANSWER_S)
        return answer[0] if answer else "its agent does not answer"

    # -- in the loop ------------------------------------------------------------

    @property
    def _any_link(self) -> Link | None:
        return self._link or self._first

    def launched(self, unix_pid: int, *, is_script: bool = False, is_here: bool = False) -> None:
        """The process of its agent is there, or of what starts it.

        Args:
            is_script: it is a script.
            is_here: it is the agent's own: nothing is waited for.
        """
        self._process.began(unix_pid, is_script)
        journal = self._pmgr.session.journal
        journal.add(PilotProcess(self.uid, unix_pid, beginning_of(unix_pid), is_script))
        journal.flush()  # else a later client might not know of it
        if is_here:
            self._watchdog.begin(self._pmgr.session.limits.phase_s)

    def submitted(self, job: SiteJob) -> None:
        """It is to be a job of a batch system."""
        self.job = job

    def called(self, link: Link, told: wire.Open | wire.NotOpen) -> None:
        """Its job has begun, on nodes that do not see the pilot's sandbox: the agent is here."""
        if self.job is None or self.state in states.FINAL or self._is_ending or self.unix_pid:
            link.close()
            return
        if isinstance(told, wire.NotOpen):
            link.close()
            self._over(states.FAILED, f"{self.job}: {told.reason}")
            return
        self._pmgr.submitted(self)  # though the command that hands it in may not have ended
        key = sealed(self._pmgr.session.reach().key, told.salt, told.sealed)
        end = link.give()
        try:
            self.launched(self._pmgr.launch_here(self, told.address, key, end.fileno()))
        except YodError as error:
            self._over(states.FAILED, str(error))
        finally:
            end.close()  # whoever holds the nodes has it, and the job ends with that

    def job_over(self, why: str) -> None:
        """Its job is over, and its agent has not said so."""
        if self._link is not None:
            return  # it will, or the connection tells
        if self._is_ending:
            self._over(states.CANCELED, "")
            return
        job_log = tail(os.path.join(self.pilot_sandbox, "job.log"))
        last = (self.log.strip() or job_log.strip()).splitlines()
        said = f", before it was active: {last[-1]}" if last else ""
        self._over(states.FAILED, f"{why}{said}")

    def connected(self, link: Link, up: wire.Up) -> None:
        """Its agent has come."""
        if self.state in states.FINAL or self._link is not None:
            link.close()
            return
        if self._first is not None and self._first is not link:
            self._first.close()
        self._link, self._first = link, None
        if self.job is not None:
            self.job.active()
        link.redirect(self._take, self._lost)
        self._watchdog.begin()
        self.nodelist = [
            {"name": n.name, "cores": n.cores, "gpus": n.gpus, "mem": n.mem_mb} for n in up.nodes
        ]
        self.cores = sum(node.cores for node in up.nodes)
        self._pmgr.session.journal.add(PilotUp(self.uid, up.nodes))
        self._pmgr.submitted(self)
        self._pmgr.advance(self, states.PMGR_ACTIVE)
        for service in self._services:
            self.send(service)
        if self._is_ending:
            self.send(wire.End())

    def dial(self, process: PilotProcess | None) -> None:
        """Find the agent again, which an earlier client has started.

        Args:
            process: what that client has started; None: nothing here, as far as is known.
        """
        reactor = self._loop.reactor
        if process is not None:
            self._process.find(process.unix_pid, process.beginning, process.is_script)
        path = os.path.join(self.pilot_sandbox, SOCKET)
        try:
            end = connect(path)
        except YodError as error:
            if self.job is None and not self.unix_pid:  # else it may come, or its end is told
                self._over(states.FAILED, f"its agent has ended: {error}")
            return

        def take(body: bytes) -> None:
            message = wire.decode_agent(body)
            if isinstance(message, wire.Up):
                self.connected(link, message)
                self.send(wire.Hello(self._pmgr.session.uid))

        link = self._first = Link(end, reactor, take, self._lost)
        self._watchdog.begin()

    def send(self, message: wire.FromClient) -> None:
        """Say something to the agent, if it is there."""
        if self._link is not None:
            self._link.send(message)

    def end(self) -> None:
        """Have it ended."""
        if self.state in states.FINAL or self._is_ending:
            return
        self._is_ending = True
        delay = self._pmgr.session.limits.kill_delay_s
        self._late.set(self._loop.reactor.monotonic() + delay + _END_S)
        if self._link is not None:
            self.send(wire.End())
        elif self.unix_pid:
            self._process.signal(signal.SIGTERM)
        elif self.job is not None:
            self.job.cancel()

    def _register(self, service: wire.Register) -> None:
        self._services.append(service)
        self.send(service)

    def ask_why(self, uid: str, then: Callable[[str], None]) -> None:
        """Ask the agent why a task stands where it does."""
        if self._link is None:
            then("its pilot is not there")
            return
        self._whys[uid] = then
        self.send(wire.AskWhy(uid))

    def hang_up(self) -> None:
        """The client ends."""
        self._close()
        if self._any_link is not None:
            self._any_link.finish()
        self._link = self._first = None

    def _take(self, body: bytes) -> None:
        match wire.decode_agent(body):
            case wire.Reached(state, uids):
                for owner in self.owners:
                    owner.reached(state, uids)
            case wire.Ended(tasks):
                for owner in self.owners:
                    owner.ended(self, tasks)
                known = [owner.tasks for owner in self.owners]
                others = [each for each in tasks if not any(each.uid in own for own in known)]
                if others:
                    slim = [structs.replace(each, value=b"") for each in others]
                    self._pmgr.session.journal.add(Others(self.uid, slim))
            case wire.Returned(uids):
                for owner in self.owners:
                    owner.returned(self, uids)
            case wire.Why(uid, text):
                then = self._whys.pop(uid, None)
                if then is not None:
                    then(text)
            case wire.Info(uid, text):
                for owner in self.owners:
                    owner.informed(uid, text)
            case wire.PilotOver() as word:
                self.took(word)

    def took(self, word: wire.PilotOver) -> None:
        """Its agent has said its last word."""
        self._last_word = (word.state, word.reason)
        if not self.unix_pid:
            self._over(*self._last_word)  # else its exit is told

    def _lost(self, reason: str) -> None:
        self._link = self._first = None
        if self.state not in states.FINAL and not self._last_word:
            self._give_up(f"the connection to its agent is lost: {reason}")

    def _suspect(self, reason: str) -> None:
        """Its agent stands still. One of another host may go on, and has time to find the mark."""
        give_up(self.pilot_sandbox)
        if self._any_link is None or self._any_link.is_near:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """End what cannot be told to end; where it goes on it finds the mark of :meth:`_over`."""
        if (link := self._any_link) is not None:
            link.kill()
        self._link = self._first = None
        self._process.signal(signal.SIGKILL)
        if self.job is not None:
            self.job.cancel()
        self._over(states.FAILED, reason)

    def _gone(self, how: str) -> None:
        """The process of its agent, or what starts it, is not there any more."""
        if self.state in states.FINAL:
            return
        if self._last_word:
            self._over(*self._last_word)
            return
        if self._any_link is not None:
            return  # what it has said last may not have been read; the connection's end tells
        if self._is_ending:
            self._over(states.CANCELED, "")
            return
        last = (self.log.strip().splitlines() or [""])[-1]
        self._over(states.FAILED, f"its agent {how} before it was active: {last or 'no word'}")

    def _over(self, state: str, reason: str) -> None:
        if self.state in states.FINAL:
            return
        self._close()
        if self._last_word is None:
            give_up(self.pilot_sandbox)  # before anybody else gets its tasks
        lacking = self._pmgr.stage_last(self) if state != states.FAILED and self.nodelist else ""
        self.reason = lacking or reason
        self._pmgr.advance(self, states.FAILED if lacking else state)
        for owner in self.owners:
            owner.pilot_over(self)
        for then in self._whys.values():
            then("its pilot has ended")
        self._whys.clear()

    def _close(self) -> None:
        self._late.close()
        self._watchdog.close()
        if self.job is not None:
            self.job.close()
        self._process.close()
