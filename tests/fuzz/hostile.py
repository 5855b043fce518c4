"""Well-formed hostile messages against real daemons: ``python -m tests.fuzz.hostile SECONDS``.

The daemons are root's where the tests are; the attacker is a user with the key that any
user has, and with grants. Each round gets a grant, says what it likes to bebopd and to the
PCTs, and gives the grant back; a stranger speaks meanwhile. Every few rounds a job of
hostile ranks runs, which speak PMI and as agents of a launcher. Then an innocent job must run,
every node be free, and no daemon have failed at anything.
"""

from __future__ import annotations

import os
import select
import sys
import time

from native.auth import derive_user_key
from native.ids import PortalId
from native.port.port import Received
from native.port.portals import JobKey, PortalsPort, UserKey
from native.wire import alloc, codec, load
from native.wire.base import Message
from tests.fuzz.runs import own_place
from tests.support.daemons import FAULT, Daemons
from tests.support.hostile import Maker
from tests.support.wait import LIMIT_S, wait_until

NOBODY = 65534
MESSAGES = 60  # in a round
LOOK_EVERY = 20  # rounds
RANKS_EVERY = 4  # rounds
SAID = 400  # by a hostile rank
SHOWN = 4000  # characters of a log


class Attacker:
    """A user of a partition who means no good.

    Args:
        partition: with at least two nodes.
    """

    def __init__(self, partition: Daemons, seed: int) -> None:
        self._maker = Maker(seed)
        self._partition = partition
        self._uid = NOBODY if os.geteuid() == 0 else os.geteuid()
        key = partition.key_file.read_bytes()
        self._key = UserKey(self._uid, derive_user_key(key, self._uid))
        self._port, self._stranger = PortalsPort(uid=self._uid), PortalsPort(uid=self._uid)
        self._bebopd = self._port.resolve(partition.address)
        for port in (self._port, self._stranger):
            port.use_key(None, self._key)

    def close(self) -> None:
        """Hang up."""
        self._port.close(0.0)
        self._stranger.close(0.0)

    def round(self) -> None:
        """One grant, from its request to its end."""
        request = alloc.NodeRequest((alloc.NodeSpec(2, (0, 1), True),), "hostile")
        grant = self._ask(request)
        nodes = [PortalId(node.nid, node.pid) for node in grant.nodes]
        for peer in nodes:
            key = JobKey(grant.job_id, self._uid, grant.expires, grant.job_key)
            self._port.use_key(peer, key)
        self._maker.numbers = [0, 1, 2, self._uid, grant.job_id, nodes[0].nid, nodes[0].pid]
        rng = self._maker.rng
        for number in range(MESSAGES):
            honest = rng.choice([self._load(grant), load.Go(grant.job_id), request])
            data = self._maker.made_up(grant.job_id)
            if number < 2 or rng.random() < 0.5:
                data = self._maker.twisted(self._load(grant) if number < 2 else honest)
            if number == 0 and rng.random() < 0.5:  # a job that lives while the rest is said
                data = codec.encode(self._load(grant))
            port = self._stranger if rng.random() < 0.1 else self._port
            target = rng.choice([self._bebopd, nodes[0], nodes[0], nodes[1]])
            port._interface.send(*target, data)
            self._take()
        for peer in nodes:
            self._port.send(peer, load.Reset(grant.job_id))
        self._port.send(self._bebopd, alloc.Release(grant.job_id))
        self._wait_for(alloc.Released)
        for peer in nodes:
            self._port.disconnect(peer)

    def _ask(self, request: alloc.NodeRequest) -> alloc.Grant:
        """A grant; those of an earlier round that nobody used may have to lapse first."""
        while True:
            self._port.send(self._bebopd, request)
            answer = self._wait_for(alloc.Grant, alloc.Refused)
            if isinstance(answer, alloc.Grant):
                return answer
            are_free(self._partition)

    def _load(self, grant: alloc.Grant) -> load.Load:
        size = sum(run.count for run in grant.runs)
        return load.Load(
            job_id=grant.job_id,
            credential=grant.credential,
            credential_mac=grant.credential_mac,
            place=0,
            nodes=grant.nodes,
            runs=grant.runs,
            arity=2,
            objects=(load.ShippedObject(b"/bin/true", 1, b"", 0o755),),
            arguments=load.Arguments((load.MemberLoad(size, 0, (b"true",), b"/"),), (b"A=1",)),
            umask=0o22,
            limits=(),
            mpi=load.Mpi((load.Protocol.PMI1,)),
            input_ranks=(),
            chunk_bytes=65536,
            deadline_s=5.0,
            orphan_s=1.0,
            output_window_bytes=65536,
        )

    def _take(self) -> list[Message]:
        events = [*self._port.events(), *self._stranger.events()]
        return [event.message for event in events if isinstance(event, Received)]

    def _wait_for(self, *kinds: type[Message]) -> Message:
        """The next message of these kinds, dropping others."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            for message in self._take():
                if isinstance(message, kinds):
                    return message
            select.select([self._port.fileno(), self._stranger.fileno()], [], [], 1.0)
        raise AssertionError(f"none of {kinds} came\n{self._partition.log()[-SHOWN:]}")


def are_free(partition: Daemons) -> None:
    """Return when every node is."""
    wait_until(lambda: set(partition.states()) == {"free"}, what="free nodes")


def survives(partition: Daemons) -> None:
    """Nothing has happened to anybody else."""
    for daemon in (partition.bebopd, *partition.pcts):
        said = daemon.text()
        assert daemon.is_alive, said[-SHOWN:]
        assert FAULT not in said, said[said.index(FAULT) :][:SHOWN]
    done = partition.yod("-sz", "2", "echo", "hi")
    assert (done.status, done.out) == (0, "hi\nhi\n"), done
    are_free(partition)


def ranks_attack(partition: Daemons, seed: int) -> None:
    """A job whose ranks say what they like to their PCTs, as the attacker's user would."""
    protocol = ("pmi1", "pmi2", "pmi1,pmi2")[seed % 3]
    rank = (sys.executable, "-m", "tests.support.hostile_rank", str(seed), str(SAID))
    done = partition.yod("-sz", "6", f"--mpi={protocol}", *rank)
    assert "Traceback" not in done.err, done
    assert 0 <= done.status <= 255 and FAULT not in done.err, done


def attack(partition: Daemons, seed: int, until: float, rounds: int) -> int:
    """Attack until a time, at most so many rounds; how many there were."""
    for number in range(rounds):
        attacker = Attacker(partition, seed + number)
        try:
            attacker.round()
        finally:
            attacker.close()
        if number % RANKS_EVERY == 0:
            ranks_attack(partition, seed + number)
        if number % LOOK_EVERY == 0:
            survives(partition)
        if time.monotonic() > until:
            break
    survives(partition)
    return number + 1


def main() -> None:
    """Attack daemons of our own for so many seconds; tell the seed before each attack."""
    until = time.monotonic() + float(sys.argv[1])
    with own_place() as (place, seed):
        partition = Daemons(place, 2)
        partition.start()
        try:
            rounds = attack(partition, seed, until, sys.maxsize)
            print(f"{rounds} rounds of {MESSAGES} messages, nothing found")
        finally:
            partition.stop()


if __name__ == "__main__":
    main()
