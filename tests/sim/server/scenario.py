"""Crowds of clients: who comes when, for what, and what happens to them."""

from __future__ import annotations

import errno
import random
import signal
from enum import Enum

from msgspec import Struct

from native.limits import Limits
from native.wire.load import Mpi
from tests.sim.apps import Mix, draw
from tests.sim.launchers import Job, Reader
from tests.sim.server.client import Answer, Client, Wish
from tests.sim.server.record import Record
from tests.sim.server.world import ServerSim
from yod.launch.phases import Phase
from yod.plan.plan import Options


class Harm(Enum):
    """What happens to a client."""

    KILL = "it is killed"
    KILL_ALL = "it is killed with its keepers"
    STOP = "it is stopped for a while"
    KEEPER = "its keeper is killed"
    PRESS = "its user presses"
    USR1 = "its user sends SIGUSR1"
    SUSPEND = "its user presses Ctrl-Z"


class Fault(Struct, frozen=True):
    """One fault: strikes when the client comes to a phase, and ``delay_s`` later."""

    harm: Harm
    phase: object
    delay_s: float
    times: int = 1
    seconds: float = 1.0


PHASES = (
    "connected",
    "asked",
    Phase.ALLOCATING,
    Phase.FORMING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.ENDING,
    Phase.RELEASING,
    Phase.DONE,
)
_MIXES = (
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.3, writes=1, largest_write=500),
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.05, writes=0),
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.3, writes=2, largest_write=500, ends_badly=0.1),
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.1, writes=1, starts_badly=0.05),
    Mix(uses_pmi=False, seconds=0.3, writes=4, largest_write=4000, forks=0.3),
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.2, writes=1, reads_stdin=True),
    Mix(uses_pmi=False, is_stuck=0.0, seconds=0.2, writes=12, largest_write=60_000),
)


class Faults:
    """Strikes clients as they come to their phases."""

    def __init__(self, sim: ServerSim) -> None:
        self._sim = sim
        self._of: dict[Record, tuple[Client, Fault]] = {}
        self.struck: set[tuple[object, object]] = set()
        self._ends_at: tuple[object, int] | None = None
        sim.on_entered = self._entered

    def plan(self, client: Client, fault: Fault) -> None:
        """What shall happen to a client."""
        self._of[client.record] = client, fault

    def end_server_at(self, phase: object, count: int) -> None:
        """The server is told to end when one client more than so many comes to a phase."""
        self._ends_at = phase, count

    def _entered(self, record: Record, phase: object) -> None:
        if self._ends_at is not None and self._ends_at[0] is phase:
            self._ends_at = phase, self._ends_at[1] - 1
            if self._ends_at[1] < 0:
                self._ends_at = None
                self._sim.clock.after(0.0, self._sim.end)
        client, fault = self._of.get(record, (None, None))
        if client is not None and fault is not None and fault.phase is phase:
            self._sim.clock.after(fault.delay_s, lambda: self._strike(client, fault))

    def _strike(self, client: Client, fault: Fault) -> None:
        if not client.is_alive:
            return
        self._sim.clock.note(client.name, fault)
        self.struck.add((fault.harm, fault.phase))
        match fault.harm:
            case Harm.KILL | Harm.KILL_ALL:
                client.kill(fault.harm is Harm.KILL_ALL)
            case Harm.STOP:
                client.stop(fault.seconds)
            case Harm.KEEPER:
                for keeper in list(client.keepers.values()):
                    if client.record.truth is not None:
                        client.record.truth.trouble.add("keeper killed")
                    keeper.be_killed()
            case Harm.PRESS:
                for number in range(fault.times):
                    self._sim.clock.after(number * 1.1, client.press)
            case Harm.USR1:
                client.signalled(signal.SIGUSR1)
            case Harm.SUSPEND:
                client.signalled(signal.SIGTSTP)


def crowd(seed: int, clients: int = 1000, harmed: float = 0.3) -> ServerSim:
    """So many clients that come near together; some of them meet with harm."""
    rng = random.Random(seed)
    few = seed % 4 == 3
    count = clients * 9 // 10 if seed % 5 == 4 else clients + 1
    # A keeper that nobody has told to end is not to be killed for it, which would hide that.
    limits = Limits(launches_count=count, unkillable_s=1e6)
    sim = ServerSim(seed, limits, slots=clients if few else None)
    faults = Faults(sim)

    def play() -> None:
        for number in range(clients):
            client = sim.connect(_wish(rng, harmed), rng.uniform(0, clients * 4e-5))
            if rng.random() < harmed:
                faults.plan(client, _fault(rng, seed + number))
        if seed % 14 == 6:
            sim.clock.after(rng.uniform(0, 1.0), sim.end)
        elif seed % 14 == 13:
            faults.end_server_at(rng.choice(PHASES), rng.randrange(clients // 2))
        sim.finish()

    sim.run(play)
    sim.struck = faults.struck
    return sim


def small(seed: int) -> ServerSim:
    """Few clients, most of which meet with harm."""
    return crowd(seed, clients=40, harmed=0.6)


def _wish(rng: random.Random, harmed: float) -> Wish:
    mix = rng.choice(_MIXES) if rng.random() < harmed else _MIXES[0]
    job = Job(
        draw(rng, rng.choice((1, 1, 1, 1, 2, 2, 3, 8)), mix),
        options=Options(
            kills_at_once=rng.random() < 0.2,
            wait_s=rng.choice([0.0, 60.0]),
        ),
        mpi=Mpi(()),
        is_shipped=False,
        image_bytes=rng.randint(1, 1_000_000),
        input_bytes=rng.choice([0, 1000, 200_000]),
        reads_input=mix.reads_stdin,
        reader=rng.choice(list(Reader)) if rng.random() < harmed else Reader.FAST,
    )
    logs = "/home/user/log", "", "/home/" + "user/" * rng.choice([1000, 20_000]) + "log"
    wish = Wish(job, answer_s=rng.uniform(1e-4, 5e-3), room=rng.choice([1, 2, 64, 64]))
    wish.log_file = rng.choices(logs, (10, 10, 1))[0]
    if rng.random() < harmed / 6:
        wish.answer = rng.choice(list(Answer))
        wish.refusal = rng.choice(["no such program", "no such program: " + 100_000 * "é"])
        wish.has_descriptors = rng.random() < 0.5
        wish.keeper_errno = rng.choice([0, errno.EAGAIN])
    return wish


def _fault(rng: random.Random, number: int) -> Fault:
    harms = list(Harm)
    return Fault(
        harms[number % len(harms)],
        PHASES[number // len(harms) % len(PHASES)],
        rng.choice([0.0, rng.uniform(0, 1e-3), rng.uniform(0, 0.3)]),
        rng.randint(1, 3),
        rng.choice([0.01, 1.0, 8.0, 30.0]),
    )
