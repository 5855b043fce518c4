"""A PMIx server, faked after ``pct/pmix_server/server.py`` and ``native/wire/pmix.py``.

It collects what its local clients do, asks the PCT for the rest, and keeps the rules
of its conversation; its process is the job's like any rank's.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from native.errors import PeerProtocolError
from native.wire import pmix
from native.wire.pmi import FenceKind, KeyValue, SpawnCommand
from tests.sim.clock import Violation
from tests.sim.processes import UnixProcess

if TYPE_CHECKING:
    from tests.sim.ranks import RankProcess
    from tests.sim.system import Host
    from tests.sim.truth import JobTruth

Process = tuple[str, int]  # namespace, rank of it
Meeting = tuple[FenceKind, tuple[pmix.NamedProcess, ...]]
LOST = -25  # PMIX_ERR_UNREACH, for clients whose partner has gone


class Health(Enum):
    """What a node's PMIx server does."""

    SOUND = "sound"
    UNAVAILABLE = "there is no libpmix"
    DIES_EARLY = "it dies before it is ready"
    NO_KEEPER = "its keeper cannot be started"
    REFUSES = "it takes no namespace"


class PmixServer(UnixProcess):
    """The server's process, and the keeper that owns it.

    Args:
        on_message: takes what it says.
        on_end: called with what became of it.
    """

    def __init__(
        self,
        host: Host,
        job_id: int,
        truth: JobTruth,
        begin: pmix.Begin,
        on_message: Callable[[pmix.FromServer], None],
        on_end: Callable[[str], None],
    ) -> None:
        super().__init__(host, job_id, -1)
        self.truth = truth
        self.is_alive = True
        self.ranks: dict[int, RankProcess] = {}
        self.children = [self]
        self._on_message: Callable[[pmix.FromServer], None] | None = on_message
        self._on_end: Callable[[str], None] | None = on_end
        self._due = {"up": 0.0, "down": 0.0}
        self._serials = itertools.count(1)
        self._worlds: dict[str, pmix.AddWorld] = {}
        self._gone: set[Process] = set()
        self._committed: dict[Process, bytes] = {}
        self._waiting_for: dict[Process, list[Callable[[bytes], None]]] = {}
        self._inside: dict[Meeting, dict[Process, bytes]] = {}
        self._waiting_in: dict[Meeting, list[RankProcess]] = {}
        self._entered: dict[int, Meeting] = {}
        self._asked: dict[int, Callable[[pmix.Answer], None]] = {}
        host.keepers.append(self)
        host.pmix[job_id] = self
        rng = host.clock.rng
        host.clock.after(rng.choice([0.002, 0.01, 0.2]) * host.slowness, lambda: self._begun(begin))

    def _begun(self, begin: pmix.Begin) -> None:
        match self.host.pmix_health:
            case Health.UNAVAILABLE:
                self._say(pmix.Unavailable("no libpmix.so.2"))
            case Health.DIES_EARLY:
                self.die(int(signal.SIGABRT))
            case _:
                self._say(pmix.Ready(b"/usr/lib/libpmix.so.2", "5.0"))

    # -- from and to the PCT ------------------------------------------------------

    def send(self, message: pmix.FromPct) -> None:
        """The PCT writes."""
        data = bytearray(pmix.encode(message))
        try:
            readable = pmix.decode_from_pct(pmix.take(data) or b"")
        except PeerProtocolError as error:
            raise Violation(f"a PCT tells its PMIx server what it cannot read: {error}") from error
        self._later("down", lambda: self._hear(readable))

    def end(self) -> None:
        """It is to put its things away; if it does not, it is killed."""
        self.send(pmix.End())
        self.host.clock.after(2.0, lambda: self.die(int(signal.SIGKILL)))

    def hang_up(self) -> None:
        """The PCT is gone, or through with it."""
        self._on_message = self._on_end = None
        self.host.clock.after(1e-4, lambda: self.die(int(signal.SIGKILL)))

    def be_killed(self) -> None:
        """SIGKILL."""
        self.stuck_s = 0.0
        self.die(int(signal.SIGKILL))

    def ended(self, wait_status: int) -> None:
        if self.unix_pid not in self.host.processes:
            return
        super().ended(wait_status)
        self.is_alive = False
        if self in self.host.keepers:
            self.host.keepers.remove(self)
        if self.host.pmix.get(self.job_id) is self:
            del self.host.pmix[self.job_id]
        self._later("up", self._report_end)

    def _report_end(self) -> None:
        on_end, self._on_end, self._on_message = self._on_end, None, None
        if on_end is not None:
            on_end("it has ended")

    def _say(self, message: pmix.FromServer) -> None:
        data = bytearray(pmix.encode(message))
        readable = pmix.decode_from_server(pmix.take(data) or b"")

        def arrive() -> None:
            if self._on_message is not None:
                self._on_message(readable)

        if self.is_alive and not self.is_dying:
            self._later("up", arrive)

    def _later(self, way: str, call: Callable[[], None]) -> None:
        soon = self.host.clock.rng.uniform(1e-5, 5e-4) * self.host.slowness
        self._due[way] = max(self._due[way], self.host.clock.now + soon)
        self.host.clock.at(self._due[way], call)

    def _hear(self, message: pmix.FromPct) -> None:
        if not self.is_alive or self.is_dying:
            return
        match message:
            case pmix.AddWorld():
                self._add(message)
            case pmix.FenceDone(serial, status, data):
                meeting = self._entered.pop(serial)
                for rank in self._waiting_in.pop(meeting, []):
                    rank.fence_answered(status, data)
            case pmix.Answer(serial):
                self._asked.pop(serial)(message)
            case pmix.GetModex(serial, process):
                self._when_committed(
                    (process.nspace, process.rank),
                    lambda data: self._say(pmix.ModexData(serial, 0 if data else LOST, data)),
                )
            case pmix.Ended(process, wait_status, is_failure, is_local):
                self._told_of_end(process, wait_status, is_failure, is_local)
            case pmix.End():
                self.die(0)

    def _add(self, message: pmix.AddWorld) -> None:
        self.truth.check_namespace(self.host.name, message)
        if message.nspace in self._worlds:
            raise Violation(f"PMIx: {message.nspace} is registered again")
        if self.host.pmix_health is Health.REFUSES:
            self._say(pmix.Added(message.serial, -1, (), "no"))
            return
        self._worlds[message.nspace] = message
        environments = tuple(
            (b"PMIX_NAMESPACE=" + message.nspace.encode(),) for _ in message.local_ranks
        )
        self._say(pmix.Added(message.serial, 0, environments))

    def _told_of_end(
        self, process: pmix.NamedProcess, wait_status: int, is_failure: bool, is_local: bool
    ) -> None:
        world = self._worlds[process.nspace]
        rank = world.first_rank + process.rank
        ended = self.truth.ends.get(rank, (-1, False))[0]
        if ended != wait_status or is_failure != bool(wait_status):
            raise Violation(f"PMIx: {process} is said to have ended with {wait_status}: {ended}")
        if is_local != (process.rank in world.local_ranks):
            raise Violation(f"PMIx: {process} is said to be of another node than it is")

    # -- clients ------------------------------------------------------------------

    def join(self, rank: RankProcess) -> None:
        """A client initialises."""
        nspace, number = rank.pmix_name
        self._say(pmix.Joined(pmix.NamedProcess(nspace, number)))
        self._answer(rank, nspace.encode())

    def commit(self, rank: RankProcess, data: bytes) -> None:
        """A client has put what others may ask for."""
        self._committed[rank.pmix_name] = data
        for then in self._waiting_for.pop(rank.pmix_name, []):
            then(data)
        self._answer(rank, b"")

    def fence(self, rank: RankProcess, meeting: Meeting, data: bytes) -> None:
        """A client is in a fence, connect or disconnect."""
        self._inside.setdefault(meeting, {})[rank.pmix_name] = data
        self._waiting_in.setdefault(meeting, []).append(rank)
        self._look()

    def get(self, rank: RankProcess, process: Process) -> None:
        """A client wants what another one has put."""
        named = pmix.NamedProcess(*process)
        if process[1] in self._worlds[process[0]].local_ranks:
            self._when_committed(process, lambda data: rank.got(process, 0 if data else LOST, data))
            return
        self._ask(
            lambda serial: pmix.GetRemote(serial, named),
            lambda answer: rank.got(
                process, answer.status, answer.pairs[0].value if answer.pairs else b""
            ),
        )

    def publish(self, rank: RankProcess, key: bytes, value: bytes) -> None:
        """A client publishes."""
        named = pmix.NamedProcess(*rank.pmix_name)
        self._ask(
            lambda serial: pmix.PublishNames(serial, named, (KeyValue(key, value),), False),
            lambda answer: rank.advance(b"%d" % answer.status),
        )

    def look_up(self, rank: RankProcess, key: bytes) -> None:
        """A client waits for a name."""
        self._ask(
            lambda serial: pmix.LookupNames(serial, (key,), True),
            lambda answer: rank.advance(b" ".join(pair.value for pair in answer.pairs)),
        )

    def spawn(self, rank: RankProcess, token: int, commands: tuple[SpawnCommand, ...]) -> None:
        """A client starts more processes."""
        named = pmix.NamedProcess(*rank.pmix_name)
        self._ask(
            lambda serial: pmix.SpawnPrograms(serial, named, commands),
            lambda answer: rank.spawn_answered(token, answer.status == 0, answer.nspace),
        )

    def abort(self, rank: RankProcess, code: int) -> None:
        """A client ends the job, and itself when it is answered."""
        named = pmix.NamedProcess(*rank.pmix_name)
        self._ask(
            lambda serial: pmix.AbortJob(serial, named, code, "on purpose"),
            lambda _: rank.advance(b""),
        )

    def gone(self, rank: RankProcess) -> None:
        """A client's process has ended."""
        self._gone.add(rank.pmix_name)
        for then in self._waiting_for.pop(rank.pmix_name, []):
            then(b"")
        self._look()

    def leave(self, rank: RankProcess) -> None:
        """A client finalises."""
        self._say(pmix.Left(pmix.NamedProcess(*rank.pmix_name)))
        self._answer(rank, b"")

    def _answer(self, rank: RankProcess, value: bytes) -> None:
        self.host.clock.after(1e-5, lambda: rank.advance(value))

    def _ask(
        self, request: Callable[[int], pmix.FromServer], then: Callable[[pmix.Answer], None]
    ) -> None:
        serial = next(self._serials)
        self._asked[serial] = then
        self._say(request(serial))

    def _when_committed(self, process: Process, then: Callable[[bytes], None]) -> None:
        if (data := self._committed.get(process)) is not None:
            then(data)
        elif process in self._gone:
            then(b"")
        else:
            self._waiting_for.setdefault(process, []).append(then)

    def _look(self) -> None:
        """Tell of the fences in which all living clients of this node are."""
        for meeting, inside in list(self._inside.items()):
            if meeting in self._entered.values():
                continue  # those of before are being let out
            locals_ = [
                (named.nspace, number)
                for named in meeting[1]
                for number in self._worlds[named.nspace].local_ranks
                if named.rank in (-1, number)
            ]
            if any(each not in inside and each not in self._gone for each in locals_):
                continue
            del self._inside[meeting]
            serial = next(self._serials)
            self._entered[serial] = meeting
            data = b"".join(inside[each] for each in sorted(locals_) if each in inside)
            self._say(pmix.Enter(serial, *meeting, data))
