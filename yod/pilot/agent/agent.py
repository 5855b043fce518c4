"""The driver of an agent: tasks come from a client, run, and go back with their outcome.

What is to be done is said by :class:`~yod.pilot.scheduler.agent.AgentMachine`. Everything that
happens in a turn of the loop is told in one message of its kind.
"""

from __future__ import annotations

import _socket
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from native.errors import YodError
from native.loop.reactor import Reactor
from yod.pilot.agent.channels import Channels
from yod.pilot.agent.events import Profiles
from yod.pilot.agent.held import Held, told
from yod.pilot.agent.reconfig import Reconfig
from yod.pilot.agent.runners import Runners
from yod.pilot.agent.settings import SOCKET, Settings
from yod.pilot.files.attempt import failure_of
from yod.pilot.files.bringer import Bringer, Tried
from yod.pilot.link.clock import call
from yod.pilot.link.link import Link, Listener
from yod.pilot.link.watchdog import Permission
from yod.pilot.model import command, states
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.sizes import NodeSize, RankSlot
from yod.pilot.model.staging import Directive
from yod.pilot.scheduler import agent as rules
from yod.pilot.scheduler.slots import Slots
from yod.pilot.scheduler.stages import Stage
from yod.pilot.wire import messages as wire
from yod.pilot.work.place import Outcome, Work

_FLUSH_S = 0.5  # between writes of profiles
_LAST_S = 10.0  # for what does not end at the pilot's end


class Agent:
    """One pilot.

    Args:
        on_over: called when the pilot is over and nothing is left of it.
    """

    def __init__(
        self,
        settings: Settings,
        sizes: list[NodeSize],
        reactor: Reactor,
        on_over: Callable[[], None],
    ) -> None:
        self.reactor = reactor
        self.session_uid = settings.session_uid
        self.pilot_uid = settings.pilot_uid
        self.sandbox = settings.sandbox
        self.nodes = [size.name for size in sizes]
        self._settings = settings
        backups = settings.backup_nodes
        self._told = told(sizes[: len(sizes) - backups])  # what a client counts on
        self._on_over = on_over
        self._machine = rules.AgentMachine(Slots(sizes, backups), settings.kill_delay_s)
        self._tasks: dict[str, Held] = {}
        self._results: dict[str, wire.Over] = {}  # of all tasks, for a client that comes later
        self._over: list[wire.Over] = []  # not told yet
        self._reached: dict[str, list[str]] = {}
        self._links: list[Link] = []
        self._infos: dict[str, str] = {}  # of services
        self._own_services: tuple[str, ...] = ()
        self._ending = ""  # the pilot's final state
        self._reason = ""
        self._is_lost = False
        self._is_asked = False
        self._timer = reactor.timer(lambda: self._handle(rules.DeadlineReached()))
        self._runtime = reactor.timer(self._runtime_over)
        self._flush = reactor.timer(self._write_profiles)
        self._last = reactor.timer(self._leave)
        self._profiles: Profiles
        self._bringer = Bringer(reactor, "staging")
        self._listener: Listener | None = None
        self._is_up = False
        lost = partial(self.end, states.FAILED)
        self._runners = Runners(
            self,
            not settings.nodes,
            self._ready,
            self._node_lost,
            lost,
            backups,
        )
        self._variables = settings.variables()
        self._channels = Channels(reactor, settings.channels, lost)
        self._reconfig = Reconfig(self.sandbox, settings.reconfig_src)
        self._permission = Permission(self.sandbox, settings.silent_s)

    def start(self) -> None:
        """Begin: the starter, the socket, the word to the client.

        Raises:
            YodError: it cannot.
        """
        if not self._permission.is_there():
            raise YodError("its client has given it up")
        self._listener = Listener(os.path.join(self.sandbox, SOCKET), self.reactor, self._let_in)
        client, ahead_s = call(self._settings.client)
        self._profiles = Profiles(self.sandbox, self.pilot_uid, ahead_s)
        self._variables |= self._profiles.began(self.sandbox) | self._channels.begin()
        os.environ.update(self._variables)  # the starter's programs have them
        self._runners.begin()
        if self._settings.is_remote:
            self._listener.reach(os.environ.get("YOD_PARTITION", "").rpartition(":")[0])
        services = self._settings.services.items()
        self._take_tasks([wire.Order(uid, description) for uid, description in services])
        self._own_services = tuple(self._settings.services)
        self._runtime.set(self.reactor.monotonic() + self._settings.runtime_s)
        self._flush.set(self.reactor.monotonic() + _FLUSH_S)
        if client is not None:
            self._let_in(client)
        else:  # it has gone already; another one may come
            self._look_for_client()
        signaled = partial(self.end, states.CANCELED, "a signal", is_lost=True)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.reactor.on_signal(number, signaled)
        self.reactor.on_signal(signal.SIGINT, lambda: None)  # the client decides

    def end(self, state: str, reason: str, *, is_lost: bool = False) -> None:
        """End all tasks, then the pilot.

        Args:
            is_lost: neither the client nor its time ends it.
        """
        if self._ending:
            return
        self._ending, self._reason = state, reason
        self._is_lost = is_lost or state == states.FAILED
        if state == states.FAILED:
            print(reason, file=sys.stderr, flush=True)
        self._last.set(self.reactor.monotonic() + self._settings.kill_delay_s + _LAST_S)
        self._handle(rules.Cancel(tuple(self._tasks)))
        self._ask()

    # -- as those see it that run tasks ---------------------------------------

    def ended(self, uid: str, outcome: Outcome) -> None:
        """A task's processes are gone."""
        self._may_go_on()  # what it has been told to end may be long over
        held = self._tasks.get(uid)
        if held is None or held.outcome is not None or self._runners.brings_back(uid, outcome):
            return
        self._runners.over(uid)
        self._profiles.ended_task(uid, outcome, self._machine.is_canceled(uid))
        may_restart = outcome.is_lost and held.description.value("restartable")
        held.outcome = outcome
        self._handle(rules.Ended(uid, outcome.failure, may_restart))
        if self._machine.stage_of(uid) is Stage.WAITING:
            held.outcome = None  # it runs again

    def take(self, orders: list[wire.Order]) -> list[str]:
        """Tasks that programs of others submit; those are returned whose uids there are already."""
        there = [one.uid for one in orders if one.uid in self._tasks or one.uid in self._results]
        self._take_tasks(orders)
        return there

    def started(self, uid: str, at: float) -> None:
        """A task runs."""
        self._handle(rules.Ready(uid))

    def informed(self, uid: str, text: str) -> None:
        """A service has said this of itself."""
        self._infos[uid] = text
        self._tell(wire.Info(uid, text))

    def start_process(
        self,
        node: int,
        argv: list[str],
        environment: dict[str, str],
        directory: str,
        stdout: str,
        stderr: str,
        cores: tuple[int, ...],
        on_end: Callable[[Outcome], None],
    ) -> int:
        """Start a process on a node."""
        return self._runners.start_process(
            node, argv, environment, directory, stdout, stderr, on_end
        )

    def kill_process(self, number: int, signo: int) -> None:
        """Send a process, and those of its group, a signal."""
        self._runners.kill_process(number, signo)

    # -- clients --------------------------------------------------------------

    def _let_in(self, end: _socket.socket) -> None:
        link = Link(end, self.reactor, lambda body: self._take(body, link), lambda _: lost())

        def lost() -> None:
            self._links.remove(link)
            self._may_go_on(at_once=True)
            self._look_for_client()

        self._links.append(link)
        if self._is_up:
            self._say_up(link)

    def _look_for_client(self) -> None:
        if not self._settings.goes_on and not self._links:
            self.end(states.CANCELED, "its client has gone")

    def _may_go_on(self, *, at_once: bool = False) -> bool:
        """It has not been given up while it stood still; else all is ended."""
        if not self._ending and not self._permission.is_there(at_once=at_once):
            self._profiles.cut()
            self.end(states.FAILED, "its client has given it up", is_lost=True)
        return not self._ending

    def _say_up(self, link: Link) -> None:
        link.send(wire.Up(self.pilot_uid, os.getpid(), self._told))

    def _take(self, body: bytes, link: Link) -> None:
        self._may_go_on()
        match wire.decode_client(body):
            case wire.Tasks(orders):
                known = [o.uid for o in orders if o.uid in self._tasks or o.uid in self._results]
                self._take_tasks(orders)
                self._tell_again(link, known)
            case wire.Cancel(uids):
                self._profiles.commanded("cancel_tasks")
                self._handle(rules.Cancel(tuple(uids)))
            case wire.GiveBack(uids):
                self._handle(rules.HandBack(tuple(uids)))
            case wire.AskWhy(uid):
                link.send(wire.Why(uid, self._runners.why(uid) or self._machine.why(uid)))
            case wire.Stop(uid):
                self._runners.stop_raptor(uid)
            case wire.Register(uid, text):
                self._infos[uid] = text
                self._handle(rules.Registered(uid))
            case wire.End():
                self._profiles.commanded("cancel_pilot")
                self.end(states.CANCELED, "")
            case wire.Ask():
                link.send(wire.Here())
            case wire.Hello():
                self._tell_again(link, [*self._tasks, *self._results])
                link.send(wire.Ended([]))  # that was all

    def _tell_again(self, link: Link, uids: list[str]) -> None:
        """A client that came later, or had no manager of these yet, hears how they stand."""
        for state, here in self._machine.standing(uids).items():
            link.send(wire.Reached(state, here))
        over = (self._results[uid] for uid in uids if uid in self._results)
        for part in wire.parts(over, wire.over_bytes):
            link.send(wire.Ended(part))

    def _tell(self, message: wire.FromAgent) -> None:
        for link in self._links:
            link.send(message)

    def _take_tasks(self, orders: list[wire.Order]) -> None:
        here: list[str] = []
        self._reconfig.look()
        for order in orders:
            uid = order.uid
            if uid in self._tasks or uid in self._results:
                continue
            description = TaskDescription(order.description)
            held = self._tasks[uid] = Held(order, description)
            self._runners.masters.know(order, description)
            failure = self._reconfig.change(description)
            self._handle(held.came(self._own_services, failure))
            if self._ending:
                self._handle(rules.Cancel((uid,)))
            if not held.input:
                here.append(uid)
        self._profiles.staged(here)
        self._reach(states.AGENT_SCHEDULING, here)

    # -- the machine ----------------------------------------------------------

    def _handle(self, event: rules.Event) -> None:
        self._carry_out(self._machine.handle(event, self.reactor.monotonic()))
        self._ask()

    def _ask(self) -> None:
        """Let tasks begin, and tell what has happened, when this turn is over."""
        if not self._is_asked:
            self._is_asked = True
            self.reactor.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_asked = False
        if not self._ending and self._may_go_on():
            actions = self._machine.start(self.reactor.monotonic())
            begun = [action.uid for action in actions if isinstance(action, rules.Begin)]
            if begun:
                self._profiles.began_tasks(begun)
                self._reach(states.AGENT_EXECUTING, begun)
            self._carry_out(actions)
        for state, uids in self._reached.items():
            self._tell(wire.Reached(state, uids))
        self._reached.clear()
        self._tell_over()
        self._timer.set(self._machine.deadline())
        if self._ending and not self._tasks:
            self._leave()

    def _tell_over(self) -> None:
        over, self._over = self._over, []
        self._runners.masters.tell(over)
        for part in wire.parts(over, wire.over_bytes):
            self._tell(wire.Ended(part))

    def _reach(self, state: str, uids: list[str]) -> None:
        if uids:
            self._reached.setdefault(state, []).extend(uids)

    def _carry_out(self, actions: list[rules.Action]) -> None:
        for action in actions:
            match action:
                case rules.Begin(uid, slots):
                    self._begin(uid, slots)
                case rules.Finish(uid, state, reason):
                    self._finish(uid, state, reason)
                case rules.Signal(uid, signo):
                    if signo == signal.SIGTERM:
                        self._profiles.canceled(uid)
                    self._runners.signal(uid, signo)
                case rules.StageIn(uid):
                    self._reach(states.AGENT_STAGING_INPUT, [uid])
                    self._stage(uid, self._tasks[uid].input, is_input=True)
                case rules.StageOut(uid):
                    self._reach(states.AGENT_STAGING_OUTPUT, [uid])
                    self._stage(uid, self._tasks[uid].output, is_input=False)
                case rules.Returned(uids):
                    for uid in uids:
                        del self._tasks[uid]
                    self._tell(wire.Returned(uids))

    def _begin(self, uid: str, slots: list[RankSlot]) -> None:
        held = self._tasks[uid]
        held.slots = slots
        description = held.description
        sandbox = self._sandbox_of(uid, description)
        variables = command.variables_of(uid, description, slots, os.environ)
        for service in description.value("services"):
            variables[f"RP_INFO_{service.replace('.', '_').upper()}"] = self._infos.get(service, "")
        variables["RP_TASK_SANDBOX"] = sandbox
        if "RP_PROF" in self._variables:
            variables["RP_PROF_TGT"] = os.path.join(sandbox, f"{uid}.prof")
        order = held.order
        work = Work(uid, order.description, slots, sandbox, variables, order.payload)
        self._runners.start(work, description)

    def _finish(self, uid: str, state: str, reason: str) -> None:
        held = self._tasks.pop(uid)
        if self._ending and state == states.CANCELED:
            if self._is_lost:  # the client hears of the pilot, and fails it or runs it elsewhere
                self._profiles.collected(uid, state)
                self._runners.masters.over(uid)
                return
            reason = reason or (self._reason and f"its pilot has ended: {self._reason}")
        outcome = held.outcome or Outcome(exit_code=None)
        over = wire.Over(
            uid,
            state,
            outcome.exit_code,
            reason,
            outcome.stdout,
            outcome.stderr,
            outcome.value,
            outcome.exception,
            outcome.exception_detail,
            [(self.nodes[slot.node], slot.cores, slot.gpus) for slot in held.slots],
        )
        self._results[uid] = over
        self._over.append(over)
        self._profiles.collected(uid, state)
        self._runners.masters.over(uid)

    def _sandbox_of(self, uid: str, description: TaskDescription) -> str:
        return os.path.join(self.sandbox, description.value("sandbox") or uid)

    # -- files ----------------------------------------------------------------

    def _stage(self, uid: str, directives: list[Directive], *, is_input: bool) -> None:
        roots = self._settings.roots(self._sandbox_of(uid, self._tasks[uid].description))

        def then(tried: Tried) -> None:
            if not is_input:
                self._profiles.brought(uid, tried)
            self._handle(rules.Staged(uid, failure_of(tried)))
            if is_input and uid in self._tasks:
                self._profiles.staged([uid], tried)
                self._reach(states.AGENT_SCHEDULING, [uid])

        self._bringer.bring(directives, roots, then)

    # -- nodes ----------------------------------------------------------------

    def _ready(self) -> None:
        self._is_up = True
        self._profiles.up()
        for link in self._links:
            self._say_up(link)

    def _node_lost(self, index: int, reason: str) -> None:
        """Nothing begins on a node any more; what ran there is told to have ended."""
        print(reason, file=sys.stderr, flush=True)
        self._handle(rules.NodeLost(index))
        if not any(node.size.cores for node in self._machine.slots.nodes):
            self.end(states.FAILED, reason)

    # -- the end --------------------------------------------------------------

    def _runtime_over(self) -> None:
        minutes = self._settings.runtime_s / 60
        self.end(states.DONE, f"its runtime of {minutes:g} minutes is over")

    def _write_profiles(self) -> None:
        self._profiles.flush()
        self._may_go_on()
        self._flush.set(self.reactor.monotonic() + _FLUSH_S)

    def _leave(self) -> None:
        """All tasks are over, or take too long to end."""
        for uid in list(self._tasks):
            self._finish(uid, states.FAILED, "the pilot has ended; the task did not")
        self._tell_over()
        self._runners.close()
        if self._listener is not None:
            self._listener.close()
        self._bringer.close()
        self._channels.close()
        self._profiles.close()
        self._tell(wire.PilotOver(self._ending, self._reason, self.pilot_uid))  # nothing is left
        for link in list(self._links):
            link.finish()
        self._links.clear()
        self._on_over()
