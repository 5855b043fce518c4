"""A pilot, as the application has it: the process of its agent, and the connection to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import structs

from native.errors import YodError
from native.waitstatus import how_it_ended
from yod.pilot.agent.settings import SOCKET
from yod.pilot.client.callbacks import Callback
from yod.pilot.client.journal import Others, PilotUp
from yod.pilot.link.greeting import sealed
from yod.pilot.link.link import Link, connect
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription
from yod.pilot.site import environments
from yod.pilot.site.jobs import SiteJob
from yod.pilot.wire import messages as wire

if TYPE_CHECKING:
    from yod.pilot.client.pmgr import PilotManager
    from yod.pilot.client.raptor import Raptor
    from yod.pilot.client.tasking import Tasking

_LOG_BYTES = 4096
_ANSWER_S = 10.0
_END_S = 10.0  # for an agent to end by itself, beside the time that its tasks have


class Pilot:
    """A pilot. Everything but the calls is written by the session's thread.

    Attributes:
        uid: its name, unique in the session.
        description: what was asked for.
        state: one of :mod:`yod.pilot.model.states`.
        reason: why it has ended.
        nodelist: its nodes, once it is active.
        job: of a batch system; None: it is none.
    """

    def __init__(self, pmgr: PilotManager, uid: str, description: PilotDescription) -> None:
        self._pmgr = pmgr
        self.uid = uid
        self.description = description
        self.state = states.NEW
        self.reason = ""
        self.nodelist: list[dict[str, Any]] = []
        self.cores = 0
        self.is_awaited = False
        self.callbacks: list[Callback] = []
        self.owners: list[Tasking] = []
        self.unix_pid = 0
        self._is_script = False
        self.job: SiteJob | None = None
        self._link: Link | None = None
        self._is_ending = False
        self._last_word: tuple[str, str] | None = None
        self._whys: dict[str, Callable[[str], None]] = {}
        self._loop = pmgr.session.loop
        self._late = self._loop.reactor.timer(self._too_late)

    def __repr__(self) -> str:
        return f"<Pilot {self.uid} {self.state}>"

    def __str__(self) -> str:
        return f"[{self.uid}, {self.resource}, {self.state}]"

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
        return os.path.join(self._pmgr.session.path, self.uid)

    @property
    def session_sandbox(self) -> str:
        """The directory of its session."""
        return self._pmgr.session.path

    @property
    def resource_sandbox(self) -> str:
        """The directory with the sessions."""
        return os.path.dirname(self._pmgr.session.path)

    @property
    def log(self) -> str:
        """What its agent has written last."""
        return self._tail("agent.log")

    stdout = log
    stderr = log

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
        environments.check(env_name, env_spec, f"pilot {self.uid}")
        environments.make(self.pilot_sandbox, env_name, env_spec)

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

    def launched(self, unix_pid: int, *, is_script: bool = False) -> None:
        """The process of its agent is there, or of a script that starts it."""
        self.unix_pid = unix_pid
        self._is_script = is_script
        self._loop.reactor.on_child(unix_pid, self._exited)

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
        last = (self._tail("agent.log").strip() or self._tail("job.log").strip()).splitlines()
        said = f", before it was active: {last[-1]}" if last else ""
        self._over(states.FAILED, f"{why}{said}")

    def connected(self, link: Link, up: wire.Up) -> None:
        """Its agent has come."""
        if self.state in states.FINAL or self._link is not None:
            link.close()
            return
        self._link = link
        if self.job is not None:
            self.job.active()
        link.redirect(self._take, self._lost)
        self.nodelist = [
            {"name": n.name, "cores": n.cores, "gpus": n.gpus, "mem": n.mem_mb} for n in up.nodes
        ]
        self.cores = sum(node.cores for node in up.nodes)
        self._pmgr.session.journal.add(PilotUp(self.uid, up.nodes))
        self._pmgr.advance(self, states.PMGR_ACTIVE)
        if self._is_ending:
            self.send(wire.End())

    def dial(self) -> None:
        """Find the agent again, which an earlier client has started."""
        path = os.path.join(self.pilot_sandbox, SOCKET)
        try:
            end = connect(path)
        except YodError as error:
            if self.job is None:  # else it may come, or the batch system tells
                self._over(states.FAILED, f"its agent has ended: {error}")
            return

        def take(body: bytes) -> None:
            message = wire.decode_agent(body)
            if isinstance(message, wire.Up):
                self.connected(link, message)
                self.send(wire.Hello(self._pmgr.session.uid))

        link = Link(end, self._loop.reactor, take, self._lost)

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
            self._signal(signal.SIGTERM)
        elif self.job is not None:
            self.job.cancel()

    def ask_why(self, uid: str, then: Callable[[str], None]) -> None:
        """Ask the agent why a task stands where it does."""
        if self._link is None:
            then("its pilot is not there")
            return
        self._whys[uid] = then
        self.send(wire.AskWhy(uid))

    def hang_up(self) -> None:
        """The client ends."""
        self._late.close()
        if self.job is not None:
            self.job.close()
        if self._link is not None:
            self._link.finish()
            self._link = None

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
        self._link = None
        if self.state in states.FINAL or self._last_word:
            return
        self._signal(signal.SIGKILL)  # what cannot be told to end
        if self.job is not None:
            self.job.cancel()
        self._over(states.FAILED, f"the connection to its agent is lost: {reason}")

    def _exited(self, wait_status: int) -> None:
        self.unix_pid = 0
        if self.state in states.FINAL:
            return
        if self._last_word:
            self._over(*self._last_word)
            return
        if self._link is not None:
            return  # what it has said last may not have been read; the connection's end tells
        if self._is_ending:
            self._over(states.CANCELED, "")
            return
        last = (self._tail("agent.log").strip().splitlines() or [""])[-1]
        ended = how_it_ended(wait_status)
        self._over(states.FAILED, f"its agent {ended} before it was active: {last or 'no word'}")

    def _over(self, state: str, reason: str) -> None:
        if self.state in states.FINAL:
            return
        self._late.close()
        if self.job is not None:
            self.job.close()
        self.reason = reason
        self._pmgr.advance(self, state)
        for owner in self.owners:
            owner.pilot_over(self)
        for then in self._whys.values():
            then("its pilot has ended")
        self._whys.clear()

    def _too_late(self) -> None:
        self._signal(signal.SIGKILL)
        if self.job is not None:
            self.job.cancel()
        self._over(states.FAILED, "its agent did not end in time, and was killed")

    def _signal(self, number: int) -> None:
        if self.unix_pid:
            with suppress(OSError):
                (os.killpg if self._is_script else os.kill)(self.unix_pid, number)

    def _tail(self, name: str) -> str:
        try:
            with open(os.path.join(self.pilot_sandbox, name), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""
