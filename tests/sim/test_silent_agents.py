"""Agents of pilots that stop and go on, and a client that does: what is given up begins nothing.

Two pilots of one client. Processes stop at any time, for any time; connections are slow. Each
client's and agent's rules are the real ones; the connection, the mark and what runs are not.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable

import pytest

from tests.sim.clock import Clock, Violation
from tests.sim.seeds import seeds
from yod.pilot.model.sizes import Need, NodeSize
from yod.pilot.scheduler import agent as rules
from yod.pilot.scheduler.pilots import Dispatcher, Wanted
from yod.pilot.scheduler.silence import LOOKS, Leave, Silence, Verdict
from yod.pilot.scheduler.slots import Slots

SILENT_S = 60.0
TASKS = 40
RUN_S = 20.0  # of a task, at most
LATE_S = 2.0  # of a message, at most
LAST_S = 5000.0


class Process:
    """Handles what comes in order; while it is stopped all of it waits."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.is_stopped = False
        self.stopped_at = 0.0
        self.stops: list[tuple[float, float]] = []
        self._due: deque[Callable[[], None]] = deque()

    def at(self, due: float, call: Callable[[], None]) -> None:
        def come() -> None:
            self._due.append(call)
            self.go_on()

        self.clock.at(due, come)

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        self.at(self.clock.now + delay_s, call)

    def stop(self) -> None:
        if not self.is_stopped:
            self.is_stopped, self.stopped_at = True, self.clock.now

    def wake(self) -> None:
        if self.is_stopped:
            self.stops.append((self.stopped_at, self.clock.now))
            self.is_stopped = False
            self.go_on()

    def still_s(self, since: float) -> float:
        """For how many seconds the agent was stopped since a time."""
        now = self.clock.now
        stops = [*self.stops, (self.stopped_at, now)] if self.is_stopped else self.stops
        return sum(end - max(begin, since) for begin, end in stops if end > since)

    def go_on(self) -> None:
        while self._due and not self.is_stopped:
            self._due.popleft()()


class Agent(Process):
    """One pilot's."""

    def __init__(self, clock: Clock, name: str, client: Client) -> None:
        super().__init__(clock, name)
        self.client = client
        self.machine = rules.AgentMachine(Slots([NodeSize("n", 2)]), 2.0)
        self.leave = Leave(SILENT_S)
        self.is_over = False

    def say(self, call: Callable[[], None]) -> None:
        self.client.heard(self, call)

    def take(self, uids: list[str]) -> None:
        for uid in uids:
            self.machine.handle(rules.Came(uid, Need()), self.clock.now)
        self.turn()

    def turn(self) -> None:
        now = self.clock.now
        if self.leave.is_over(now):
            if self.name in self.client.marks:
                self.is_over = True
            self.leave.looked(now)
        if self.is_over:
            return
        for action in self.machine.start(now):
            if isinstance(action, rules.Begin):
                self.client.began(self, action.uid)
                self.after(self.clock.rng.uniform(0.0, RUN_S), lambda uid=action.uid: self.end(uid))

    def end(self, uid: str) -> None:
        self.machine.handle(rules.Ended(uid), self.clock.now)
        self.say(lambda: self.client.ended(self, uid))
        self.turn()


class Client(Process):
    """Gives tasks to pilots, and gives pilots up."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, "client")
        self.dispatcher = Dispatcher()
        self.agents = {name: Agent(clock, name, self) for name in ("a", "b")}
        self.silences = {name: Silence(SILENT_S) for name in self.agents}
        self.moved: Counter[str] = Counter()
        self.held: dict[str, set[str]] = {name: set() for name in self.agents}
        self.marks: set[str] = set()
        self.gone: set[str] = set()
        self.over: set[str] = set()
        self.ways: dict[str, float] = {}  # messages of one way overtake no other

    def begin(self) -> None:
        for name in self.agents:
            self.dispatcher.add(name, 2)
            self.silences[name].begin(0, self.clock.now)
            self.look_later(name)
        for n in range(TASKS):
            self.dispatcher.want(Wanted(f"t{n}"))
        self.assign()

    def assign(self) -> None:
        for name, uids in self.dispatcher.assign().items():
            self.held[name] |= set(uids)
            self.tell(name, lambda name=name, uids=uids: self.agents[name].take(uids))

    def tell(self, name: str, call: Callable[[], None]) -> None:
        self.agents[name].at(self.way(f"to {name}"), call)

    def heard(self, agent: Agent, call: Callable[[], None]) -> None:
        def come() -> None:
            if agent.name not in self.gone:
                self.moved[agent.name] += 1
                call()

        self.at(self.way(f"from {agent.name}"), come)

    def way(self, name: str) -> float:
        due = self.clock.now + self.clock.rng.uniform(0.0, LATE_S)
        self.ways[name] = max(due, self.ways.get(name, 0.0))
        return self.ways[name]

    def look_later(self, name: str) -> None:
        if (at := self.silences[name].deadline()) is not None:
            self.at(at, lambda: self.look(name))

    def look(self, name: str) -> None:
        verdict = self.silences[name].look(self.moved[name], self.clock.now)
        self.look_later(name)
        if verdict is Verdict.ASK:
            agent = self.agents[name]
            self.tell(name, lambda: agent.say(lambda: None))
        elif verdict is Verdict.MARK:
            still_s = self.agents[name].still_s(self.clock.now - SILENT_S)
            if still_s < SILENT_S * (1 - 1 / LOOKS) - 3 * LATE_S:  # an answer may be on its way
                raise Violation(f"{name} is marked, and has stood still for {still_s:.1f} s")
            self.marks.add(name)
        elif verdict is Verdict.GIVE_UP:
            self.give_up(name)

    def give_up(self, name: str) -> None:
        self.gone.add(name)
        self.dispatcher.remove(name)
        for uid in sorted(self.held.pop(name)):
            self.dispatcher.want(Wanted(uid), is_first=True)
        self.assign()

    def began(self, agent: Agent, uid: str) -> None:
        self.clock.note(agent.name, uid)
        if agent.name in self.gone:
            raise Violation(f"{agent.name} has begun {uid}, and was given up")

    def ended(self, agent: Agent, uid: str) -> None:
        if uid in self.over:
            raise Violation(f"{uid} has ended twice")
        self.over.add(uid)
        self.held[agent.name].remove(uid)
        self.dispatcher.ended(agent.name)
        self.assign()


def play(seed: int) -> Client:
    clock = Clock(seed)
    client = Client(clock)
    client.begin()
    spared = clock.rng.choice(sorted(client.agents))
    at = 0.0
    for n in itertools.count():
        at += clock.rng.expovariate(1 / 40.0)
        if at > LAST_S / 10:
            break
        victim = clock.rng.choice([client, *client.agents.values()])
        for_s = clock.rng.uniform(0.0, 3 * SILENT_S)
        if victim.name == spared:  # never for so long that it might be given up
            for_s = clock.rng.uniform(0.0, SILENT_S / LOOKS)
        clock.at(at, victim.stop)
        clock.at(at + for_s, victim.wake)
        clock.note(victim.name, ("stops", n, for_s))
    for each in (client, *client.agents.values()):
        clock.at(LAST_S / 10 + 4 * SILENT_S, each.wake)
    if not clock.run(LAST_S, lambda: len(client.over) == TASKS):
        raise Violation(f"{TASKS - len(client.over)} tasks have not ended\n{clock.last(40)}")
    return client


@pytest.mark.parametrize("seed", seeds(60, 1000))
def test_what_is_given_up_begins_nothing_and_each_task_ends_once(seed):
    play(seed)


def test_agents_are_given_up_in_these_runs():
    assert sum(bool(play(seed).gone) for seed in range(20)) > 2


def test_without_the_mark_an_agent_that_goes_on_is_found_out(monkeypatch):
    monkeypatch.setattr(Leave, "is_over", lambda self, now: False)
    with pytest.raises(Violation, match="and was given up"):
        for seed in range(200):
            play(seed)
