"""Peers that lie: no machine stops, no other job is touched, and every node becomes free.

A liar repeats honest peers' messages with changed fields, to any target. It cannot change the
identity that it has proven.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from native.errors import PeerProtocolError
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.wire import codec
from native.wire.base import Message
from native.wire.load import Mpi, Protocol
from tests.sim.apps import Mix, draw
from tests.sim.launchers import Job, YodActor
from tests.sim.network import Process
from tests.sim.seeds import seeds
from tests.sim.world import Sim

NODES = 5
LIES = 400
STRANGER = 1001  # uid
NUMBERS = (0, 1, 2, 3, 7, 64, 65536, 1 << 20, (1 << 31) - 1, -1)
MIXES = (
    Mix(seconds=0.3, forks=0.2),
    Mix(seconds=0.3, names=True, spawns=0.4, children=(b"worker", b"namer")),
    Mix(seconds=0.3, tools=0.5),
    Mix(seconds=0.3, uses_pmix=True, names=True, spawns=0.4, children=(b"pmix-worker",)),
)


class Liar:
    """Hears every message, and repeats messages with changes."""

    def __init__(self, sim: Sim, rng: random.Random) -> None:
        self.sim = sim
        self.rng = rng
        self.heard: list[Message] = []
        sim.network.watch_send = lambda source, target, message: self.heard.append(message)

    def stranger(self, job_id: int) -> Process:
        """A process of another user, with the key of a job of theirs."""
        process = Process("liar", "elsewhere", PortalId(0x0A030001, 70_000))
        user = Principal(PrincipalKind.USER, STRANGER)
        job = Principal(PrincipalKind.JOB, STRANGER, job_id)
        process.principal_to = lambda other: user if other.id == self.sim.bebopd_id else job
        process.on_message = lambda source, principal, message: None
        process.on_gone = lambda peer, text: None
        self.sim.network.add(process)
        return process

    def lie(self, source: Process, job_ids: tuple[int, ...]) -> None:
        """Send something."""
        if not source.is_alive or not self.heard:
            return
        try:
            message = self._changed(self.rng.choice(self.heard[-300:]), job_ids)
            codec.decode(codec.encode(message))
        except (PeerProtocolError, ValueError):
            return  # the codec's door keeps it out
        targets = [self.sim.bebopd_id, *(pct.process.id for pct in self.sim.pcts.values())]
        watch, self.sim.network.watch_send = self.sim.network.watch_send, lambda *_: None
        self.sim.network.send(source, self.rng.choice(targets), message)
        self.sim.network.watch_send = watch

    def _changed(self, message: Any, job_ids: tuple[int, ...]) -> Any:
        changes: dict[str, Any] = {}
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if name == "job_id":
                changes[name] = self.rng.choice(job_ids)
            elif self.rng.random() < 0.7:
                continue
            elif isinstance(value, bool):
                changes[name] = not value
            elif isinstance(value, int) and not hasattr(value, "name"):
                changes[name] = self.rng.choice(NUMBERS)
            elif isinstance(value, tuple) and value:
                changes[name] = self._other_tuple(value, job_ids)
        return msgspec.structs.replace(message, **changes)

    def _other_tuple(self, value: tuple[Any, ...], job_ids: tuple[int, ...]) -> tuple[Any, ...]:
        chosen = self.rng.random()
        if chosen < 0.2:
            return value[:-1]
        if chosen < 0.4:
            return value * 2
        if chosen < 0.5:
            return tuple(reversed(value))
        if isinstance(value[0], msgspec.Struct):
            return tuple(self._changed(each, job_ids) for each in value)
        if isinstance(value[0], int):
            return tuple(self.rng.choice(NUMBERS) for _ in value)
        return value


def play(seed: int, is_stranger: bool) -> tuple[Sim, YodActor, YodActor]:
    """Two launches, and a liar: a stranger, or the second of the two yods."""
    rng = random.Random(seed)
    sim = Sim(seed, NODES, lambda number: 3, Limits(phase_s=5.0, arity_count=2))
    liar = Liar(sim, rng)
    sim.boot()
    mix = MIXES[seed % len(MIXES)]
    mpi = Mpi((Protocol.PMIX,)) if mix.uses_pmix else Mpi((Protocol.PMI1,))
    honest = sim.launch(Job(draw(rng, NODES, mix), mpi=mpi))
    other = sim.launch(Job(draw(rng, NODES, mix), mpi=mpi))
    began = sim.clock.now
    source = liar.stranger(2) if is_stranger else other.process
    sim.liars.add(source.id)

    def lie() -> None:
        if other.truth is None and not is_stranger:
            return
        own = 0 if other.truth is None else other.truth.job_id
        if other.truth is not None and not is_stranger:
            other.truth.trouble.add("its yod lies")
            other.has_lied = other.truth.is_lied_to = True
        liar.lie(source, (1, 2, 3, 77) if is_stranger else (own, own, own, 1))

    def run() -> None:
        for _ in range(LIES):
            sim.clock.at(began + rng.uniform(0.001, 1.0), lie)
        if not is_stranger:  # its ranks may wait for what it has spoilt
            for second in (20, 25, 30):
                sim.clock.at(began + second, other.press)
        sim.finish()

    sim.guarded(run)
    return sim, honest, other


@pytest.mark.parametrize("seed", seeds(12, of=25))
def test_a_stranger_touches_nobody(seed: int):
    _, honest, other = play(seed, is_stranger=True)
    assert honest.machine.report.exit_status == 0, honest.said
    assert other.machine.report.exit_status == 0, other.said


@pytest.mark.parametrize("seed", seeds(12, of=25))
def test_a_lying_yod_harms_its_own_job_only(seed: int):
    _, honest, _ = play(seed, is_stranger=False)
    assert honest.machine.report.exit_status == 0, honest.said
