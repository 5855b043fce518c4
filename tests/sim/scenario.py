"""What happens to a partition under one seed: nodes, jobs, users, faults."""

from __future__ import annotations

import itertools
import random

from msgspec import Struct
from msgspec.structs import replace

from native.limits import Limits
from native.wire.load import Mpi, Protocol
from native.wire.nodes import Drain, Restart, Resume
from tests.sim.actor import FOR_EVER
from tests.sim.apps import MISSING, Mix, draw
from tests.sim.clock import Violation
from tests.sim.faults import CRASHES, PHASES, Fault, Faults, Victim
from tests.sim.launchers import Job, Reader, YodActor
from tests.sim.operators import Operator
from tests.sim.pmix import Health
from tests.sim.world import Machines, Sim
from yod.launch.phases import Phase
from yod.plan.plan import Options, Style

CRASHES_BY_PHASE = tuple(itertools.product(CRASHES, PHASES))  # 36
JOBS = 4  # with faults; and two without any
PATIENCE_S = 40.0  # users try for so long to get nodes
RETRY_S = 2.0

MIXES = (
    Mix(),
    Mix(seconds=3.0, ends_badly=0.02),
    Mix(starts_badly=0.02),
    Mix(seconds=1.0, hangs=0.05, ends_badly=0.05),
    Mix(uses_pmi=False, writes=12, largest_write=60_000, forks=0.0),
    Mix(aborts=0.02),
    Mix(seconds=20.0, forks=0.3, hands_over=0.2),
    Mix(reads_stdin=True, seconds=1.0),
    Mix(names=True, spawns=0.1, children=(b"worker", b"nester", b"namer")),
    Mix(names=True, spawns=0.1, children=(b"worker", b"crasher", b"starter", MISSING)),
    Mix(seconds=0.3, spawns=0.1, children=(b"worker", b"aborter"), aborts=0.02),
    Mix(seconds=0.3, tools=0.2, spawns=0.05),
    Mix(seconds=0.3, uses_pmix=True, spawns=0.05, children=(b"pmix-worker", b"pmix-namer")),
)


BOTH = Mpi((Protocol.PMI1, Protocol.PMIX))
PMI1 = Mpi((Protocol.PMI1,))


class Planned(Struct):
    """One launch of a scenario."""

    at_s: float
    job: Job
    faults: tuple[Fault, ...]
    press_at_s: float = -1.0  # after its start, for programs that would not end


def run(seed: int, nodes: int = 100, machines: Machines | None = None) -> Sim:
    """One partition under one seed, to its end; raises :class:`Violation`."""
    rng = random.Random(seed)
    limits = Limits(
        heartbeat_s=20.0,
        silent_s=70.0,
        arity_count=rng.choice([1, 2, 2, 3, 8]) if nodes < 50 else rng.choice([2, 2, 3, 8]),
        output_window_bytes=rng.choice([65536, 65536, 1 << 20]),
        line_room_bytes=65536,
    )
    slots = rng.choice([1, 1, 2, 4])
    sim = Sim(seed, nodes, lambda number: slots, limits, machines)
    sim.guarded(lambda: _play(sim, rng, seed))
    return sim


def _play(sim: Sim, rng: random.Random, seed: int) -> None:
    _disturb(sim, rng)
    sim.boot()
    faults = Faults(sim)
    began = sim.clock.now
    for number in range(JOBS):
        planned = _draw(sim, rng, seed * JOBS + number, number)
        sim.clock.at(began + planned.at_s, lambda planned=planned: _begin(sim, faults, planned))  # type: ignore[misc]
    for number in range(2):
        planned = _draw(sim, rng, rng.randrange(1000), number)
        planned.faults = ()
        sim.clock.at(began + 30.0 * number, lambda planned=planned: _begin(sim, faults, planned))  # type: ignore[misc]
    sim.clock.run(began + PATIENCE_S)
    sim.finish()


def _begin(sim: Sim, faults: Faults, planned: Planned, tries: int = 0) -> None:
    """A user starts a yod, and again later where there were too few nodes."""
    if sim.is_healing:
        return
    if sim.bebopd is None:
        sim.clock.after(1.0, lambda: _begin(sim, faults, planned))
        return
    yod = sim.launch(planned.job)
    faults.plan(yod, *planned.faults)
    if planned.press_at_s >= 0:
        _press_until_over(sim, yod, planned.press_at_s)

    def look() -> None:
        if yod.has_ended and yod.was_refused and tries < PATIENCE_S / RETRY_S - 2:
            sim.yods.remove(yod)
            _begin(sim, faults, planned, tries + 1)

    sim.clock.after(RETRY_S, look)


def _press_until_over(sim: Sim, yod: YodActor, delay_s: float) -> None:
    """Users of programs that hang lose patience, again and again."""

    def press() -> None:
        if not yod.has_ended and yod.process.is_alive:
            yod.press()
            sim.clock.after(3.0, press)

    sim.clock.after(delay_s, press)


def _disturb(sim: Sim, rng: random.Random) -> None:
    """Some nodes are slow, some have the image, few have no room."""
    for host in sim.hosts.values():
        if rng.random() < 0.05:
            host.slowness = 20.0
            sim.pcts[int(host.name[1:])].process.slowness = 20.0
        host.has_listeners = rng.random() < 0.8
    if rng.random() < 0.1:
        rng.choice(list(sim.hosts.values())).has_room = False
        sim.has_shared_room = rng.random() < 0.5


def _draw(sim: Sim, rng: random.Random, number: int, index: int) -> Planned:
    total = sum(sim.slots.values())
    sizes = [rng.randint(1, 8), rng.randint(total // 10, total // 3), min(total, len(sim.slots))]
    size = max(1, sizes[number % 3])
    mix = MIXES[rng.randrange(len(MIXES))]
    job = Job(
        draw(rng, size, mix),
        options=Options(
            kills_at_once=rng.random() < 0.2,
            keeps_going=rng.random() < 0.2,
            wait_s=(0.0, 0.0, 3.0, 60.0)[number % 4],
            stops_ranks=number % 2 == 1,
        ),
        is_shipped=rng.random() < 0.8,
        image_bytes=rng.choice([1, 100_000, 3_000_000, 200_000_000]),
        arguments_inline=rng.random() < 0.7,
        input_bytes=rng.choice([0, 1000, 2_000_000]),
        reads_input=mix.reads_stdin,
        mpi=replace(BOTH if mix.uses_pmix else PMI1, has_portals=number % 3 == 1),
        reader=rng.choice([*([Reader.FAST] * 4), *Reader]),
    )
    victim, phase = CRASHES_BY_PHASE[number % len(CRASHES_BY_PHASE)]
    faults = [
        Fault(
            victim,
            phase,
            delay_s=rng.choice([0.0, rng.uniform(0, 0.01), rng.uniform(0, 0.5)]),
            back_s=rng.choice([0.2, rng.uniform(0.2, 5), rng.uniform(5, 60), -1.0]),
            is_silent=rng.random() < 0.15 and victim is not Victim.KEEPER,
            place=rng.randrange(1000),
        )
    ]
    if rng.random() < 0.4:
        faults.append(_other_fault(rng))
    # A rank that ignores SIGTERM waits in its barrier for those that it has killed.
    hangs = mix.hangs or mix.reads_stdin or job.options.keeps_going
    hangs = hangs or any(fault.victim is Victim.USER for fault in faults)
    return Planned(
        at_s=index * rng.uniform(0, 1.5),
        job=job,
        faults=tuple(faults),
        press_at_s=rng.uniform(2, 20) if hangs else -1.0,
    )


def _other_fault(rng: random.Random) -> Fault:
    victims = (
        Victim.LINK,
        Victim.CUT,
        Victim.CUT_YOD,
        Victim.CUT_BEBOPD,
        Victim.USER,
        Victim.USR1,
        Victim.INNER,
        Victim.LEAF,
        Victim.OBJECT,
        Victim.NO_KEEPER,
        Victim.STOP_YOD,
        Victim.STOP_PCT,
    )
    return Fault(
        rng.choice(victims),
        rng.choice((*PHASES, Phase.FORMING)),
        delay_s=rng.choice([0.0, rng.uniform(0, 1.0)]),
        back_s=rng.uniform(1.0, 40.0),
        place=rng.randrange(1000),
        times=rng.randint(1, 3),
    )


def chatty(seed: int, machines: Machines | None = None) -> Sim:
    """Seven nodes, much output, small windows, slow readers who may leave; a crash, or none."""
    rng = random.Random(seed)
    limits = Limits(
        heartbeat_s=30.0,
        silent_s=100.0,
        output_window_bytes=65536,
        line_room_bytes=4096,
        arity_count=2,
    )
    sim = Sim(seed, 7, limits=limits, machines=machines)
    sim.network.latency_s = (1e-3, 1e-2)  # much is on its way when something breaks
    mix = Mix(uses_pmi=False, writes=60, largest_write=4_000, seconds=0.2, forks=0.2)

    def play() -> None:
        sim.boot()
        reader = rng.choice([Reader.FAST, Reader.SLOW, Reader.STOPS])
        programs = draw(rng, 7, mix)
        leaves = Victim.TERMINAL if seed % 2 else Victim.USER_LEAVES
        style = Style.MERGED if seed % 2 else Style.WHOLE
        options = Options(detaches_on_hangup=True, style=style)
        yod = sim.launch(Job(programs, reader=reader, options=options))
        others = [Victim.LEAF, Victim.ROOT, Victim.LINK, Victim.KEEPER]
        victim = rng.choice([*[Victim.INNER] * 4, *others])
        fault = Fault(
            victim,
            Phase.RUNNING,
            rng.uniform(0, 0.2),
            30.0,
            is_silent=victim is Victim.INNER and rng.random() < 0.5,
            place=rng.randrange(9),
        )
        user = Fault(leaves, PHASES[seed % len(PHASES)], delay_s=seed % 10 * 0.02)
        faults = [*([fault] if seed % 3 else []), *([user] if seed % 5 else [])]
        Faults(sim).plan(yod, *faults)
        sim.finish()

    sim.guarded(play)
    return sim


def late_load(seed: int, machines: Machines | None = None) -> Sim:
    """A yod that holds a grant is stopped, for ever or until the grant has lapsed."""
    rng = random.Random(seed)
    sim = Sim(seed, 5, limits=Limits(arity_count=2), machines=machines)

    def play() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(rng, 3, Mix())))
        began = sim.clock.now
        sim.clock.run(began + 1e-9)
        yod.stopped_until = rng.choice([FOR_EVER, began + rng.uniform(58, 63), began + 90.0])
        if rng.random() < 0.5:
            for pct in list(sim.pcts.values()):
                sim.clock.at(began + 70.0, pct.die)
                sim.clock.at(
                    began + 71.0,
                    lambda number=pct.number: sim.start_pct(number),  # type: ignore[misc]
                )
        sim.clock.run(began + 130.0)
        if rng.random() < 0.5:
            other = sim.launch(Job(draw(rng, 5, Mix())))
            sim.clock.run(sim.clock.now + 60.0, lambda: other.has_ended)
            if other.machine.report.exit_status != 0:
                raise Violation(f"the nodes of a lapsed grant are not free: {other.said}")
        sim.finish()

    sim.guarded(play)
    return sim


WORLDS = (
    Mix(seconds=0.2, names=True, spawns=0.3, children=(b"worker", b"nester", b"namer")),
    Mix(seconds=0.2, spawns=0.3, children=(b"worker", b"crasher", b"starter", MISSING)),
    Mix(seconds=0.2, spawns=0.3, children=(b"worker", b"aborter", b"nester")),
    Mix(seconds=0.2, spawns=0.2, tools=0.6),
    Mix(seconds=0.2, uses_pmi=False, tools=0.8, ends_badly=0.05),
    Mix(seconds=0.2, uses_pmix=True, names=True),
    Mix(seconds=0.2, uses_pmix=True, ends_badly=0.05, aborts=0.02),
    Mix(
        seconds=0.2,
        uses_pmix=True,
        spawns=0.3,
        names=True,
        children=(b"pmix-worker", b"pmix-nester", b"pmix-namer"),
    ),
    Mix(
        seconds=0.2,
        uses_pmix=True,
        spawns=0.3,
        children=(b"pmix-crasher", b"pmix-starter", b"pmix-aborter", MISSING),
    ),
)


def worlds(seed: int, machines: Machines | None = None) -> Sim:
    """Seven nodes, programs that spawn or have agents; a fault while they do, or none."""
    rng = random.Random(seed)
    limits = Limits(heartbeat_s=30.0, silent_s=100.0, arity_count=rng.choice([1, 2, 3, 8]))
    sim = Sim(seed, 7, lambda number: 2, limits=limits, machines=machines)
    for host in sim.hosts.values():
        host.has_listeners = rng.random() < 0.9
    if rng.random() < 0.2:
        rng.choice(list(sim.hosts.values())).pmix_health = rng.choice(list(Health))

    def play() -> None:
        sim.boot()
        mix = WORLDS[seed % len(WORLDS)]
        offers = rng.choice([BOTH, Mpi((Protocol.PMIX,), is_certain=True)])
        mpi = replace(offers if mix.uses_pmix else PMI1, has_portals=seed % 2 == 1)
        options = Options(keeps_going=rng.random() < 0.2, kills_at_once=rng.random() < 0.2)
        yod = sim.launch(Job(draw(rng, rng.randint(2, 14), mix), options=options, mpi=mpi))
        has_all = all(host.pmix_health is Health.SOUND for host in sim.hosts.values())
        others = [Victim.LINK, Victim.USER, Victim.USR1, Victim.STOP_PCT, Victim.PMIX]
        fault = Fault(
            rng.choice(
                [Victim.INNER, Victim.LEAF, Victim.ROOT, Victim.KEEPER, Victim.YOD, *others]
            ),
            rng.choice([*[Phase.RUNNING] * 5, Phase.ENDING]),
            rng.choice([rng.uniform(0, 0.05), rng.uniform(0, 0.5)]),
            rng.uniform(1.0, 40.0),
            is_silent=rng.random() < 0.15,
            place=rng.randrange(1000),
            times=rng.randint(1, 3),
        )
        if seed % 3:
            Faults(sim).plan(yod, fault)
        # For names that nobody publishes, and, with SIGTERM ignored, for who has not.
        waits = mix.names and (not has_all or fault.victim is Victim.USER)
        if options.keeps_going or waits:
            _press_until_over(sim, yod, rng.uniform(2, 5))
        sim.finish()

    sim.guarded(play)
    return sim


def shipped(seed: int, machines: Machines | None = None) -> Sim:
    """Seven nodes in a deep tree that lack everything; an object is damaged, or none."""
    rng = random.Random(seed)
    limits = Limits(heartbeat_s=30.0, silent_s=100.0, arity_count=rng.choice([1, 2, 3]))
    sim = Sim(seed, 7, limits=limits, machines=machines)

    def play() -> None:
        sim.boot()
        size = rng.choice([1, 100_000, 3_000_000, 200_000_000])
        job = Job(
            draw(rng, 7, Mix(seconds=0.05)),
            image_bytes=size,
            arguments_inline=rng.random() < 0.3,
        )
        yod = sim.launch(job)
        if seed % 2:
            Faults(sim).plan(yod, Fault(Victim.OBJECT, Phase.LOADING, rng.uniform(0, 0.01)))
        sim.finish()

    sim.guarded(play)
    return sim


def keepers(seed: int, machines: Machines | None = None) -> Sim:
    """Three nodes whose ranks start others; keepers of two jobs are killed, some at once."""
    rng = random.Random(seed)
    limits = Limits(heartbeat_s=30.0, silent_s=100.0)
    sim = Sim(seed, 3, lambda number: 4, limits=limits, machines=machines)

    def play() -> None:
        sim.boot()
        mix = Mix(seconds=0.3, forks=1.0, is_stuck=0.3)
        faults = Faults(sim)
        at = rng.uniform(0, 0.2)
        for number in range(2):
            yod = sim.launch(Job(draw(rng, 4, mix)))
            delay = at if rng.random() < 0.5 else rng.uniform(0, 0.2)
            place = rng.choice([number, 0])
            faults.plan(yod, Fault(Victim.KEEPER, Phase.RUNNING, delay, place=place))
        sim.finish()

    sim.guarded(play)
    return sim


def operated(seed: int, machines: Machines | None = None) -> Sim:
    """Five nodes, job after job, an operator who drains, resumes and restarts; crashes."""
    rng = random.Random(seed)
    limits = Limits(heartbeat_s=5.0, silent_s=30.0, arity_count=2)
    sim = Sim(seed, 5, lambda number: 2, limits=limits, machines=machines)
    operator = Operator(sim)

    def order() -> None:
        nodes = tuple(rng.sample(range(5), rng.randint(1, 3)))
        kinds = (Drain(nodes, "fan"), Resume(nodes), Restart(nodes), Restart(nodes[:1], True))
        sim.disk.is_full = rng.random() < 0.1
        if not (operator.is_waiting or sim.is_healing):
            operator.give(rng.choices(kinds, (4, 4, 4, 1))[0])

    def launch() -> None:
        if not sim.is_healing and sim.bebopd is not None:
            sim.launch(Job(draw(rng, rng.randint(1, 8), Mix(seconds=rng.choice([0.1, 1.0, 3.0])))))

    def crash() -> None:
        if sim.is_healing or seed % 4 == 0:
            return
        if rng.random() < 0.7 and sim.bebopd is not None:
            # A commit is an event of its own: between it and the answer is a moment, too.
            sim.bebopd.dies_at = (sim.bebopd.events + rng.randint(1, 9), rng.randint(0, 2))
        elif rng.random() < 0.5:
            sim.pcts[rng.randrange(5)].die(rng.random() < 0.2)

    def again() -> None:
        sim.start_bebopd()
        for number in sim.hosts:
            sim.start_pct(number)

    def play() -> None:
        sim.boot()
        plans = ((order, 0.4), (launch, 0.5), (crash, 3.0), (again, 1.0))
        for act, every_s in plans:
            moment = sim.clock.now
            while (moment := moment + rng.uniform(0.0, 2 * every_s)) < sim.clock.now + 15.0:
                sim.clock.at(moment, act)
        sim.clock.run(sim.clock.now + 15.0)
        sim.disk.is_full = False
        sim.start_bebopd()
        assert sim.bebopd is not None
        sim.bebopd.dies_at = None
        sim.finish()
        if operator.answers < 3:
            raise Violation(f"{operator.answers} orders were answered")

    sim.guarded(play)
    return sim


def mixed(seed: int) -> Sim:
    """A small partition of everything."""
    return run(seed, nodes=12)


SCENARIOS = (mixed, chatty, late_load, worlds)
