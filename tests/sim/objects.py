"""Objects on their way down a tree, in chunks: times and faults, no bytes."""

from __future__ import annotations

from msgspec import Struct

from native.ids import ObjectKey, PortalId
from native.port.port import ObjectArrived, ObjectFailed, ObjectSent
from tests.sim.clock import Clock
from tests.sim.network import Connection, Network, Process

DAMAGED = b"\0" * 32


class _Copy(Struct):
    """An object at one process: expected, on its way, or whole."""

    process: Process
    key: ObjectKey
    size: int
    chunk_bytes: int
    targets: tuple[PortalId, ...]
    digest: bytes
    is_whole: bool
    has_first: bool
    first_at: float = 0.0
    done: int = 0  # targets that have all of it


class _Hop(Struct, eq=False):
    """A copy on its way to one target."""

    source: _Copy
    target: _Copy
    is_over: bool = False
    has_landed: bool = False  # but for the last chunk, where the source lacks it


class Objects:
    """Every object of the partition.

    Attributes:
        damaged: keys whose next hop lands with the wrong digest.
    """

    def __init__(self, clock: Clock, network: Network) -> None:
        self.clock = clock
        self.network = network
        self.damaged: set[ObjectKey] = set()
        self._copies: dict[tuple[PortalId, ObjectKey], _Copy] = {}
        self._hops: list[_Hop] = []
        network.on_break = self._broken

    def receive(
        self,
        process: Process,
        key: ObjectKey,
        size: int,
        chunk_bytes: int,
        children: tuple[PortalId, ...],
    ) -> None:
        """What :meth:`native.port.port.Port.receive_object` does."""
        copy = _Copy(process, key, size, chunk_bytes, children, b"", False, False)
        self._copies[process.id, key] = copy

    def send(
        self,
        process: Process,
        key: ObjectKey,
        size: int,
        chunk_bytes: int,
        targets: tuple[PortalId, ...],
        digest: bytes,
    ) -> None:
        """What :meth:`native.port.port.Port.send_object` does."""
        copy = _Copy(process, key, size, chunk_bytes, targets, digest, True, True)
        self._copies[process.id, key] = copy
        self._forward(copy)

    def cancel(self, process: Process, key: ObjectKey) -> None:
        """What :meth:`native.port.port.Port.cancel_object` does."""
        copy = self._copies.pop((process.id, key), None)
        if copy is None:
            return
        for hop in self._of(copy):
            self._end(hop)
            if hop.target is copy:
                self._fail(hop.source, "the receiver has cancelled it")

    def forget(self, process: Process) -> None:
        """A process is gone."""
        for (owner, key), copy in list(self._copies.items()):
            if owner == process.id and copy.process is process:
                del self._copies[owner, key]

    def _of(self, copy: _Copy) -> list[_Hop]:
        return [hop for hop in self._hops if hop.source is copy or hop.target is copy]

    def _forward(self, copy: _Copy) -> None:
        for target_id in copy.targets:
            target = self._copies.get((target_id, copy.key))
            if target is None or target.is_whole or not target.process.is_alive:
                text = f"{target_id} does not expect it"
                self.clock.after(1e-3, lambda text=text: self._fail(copy, text))  # type: ignore[misc]
                return
            hop = _Hop(copy, target)
            self._hops.append(hop)
            rate = self.clock.rng.uniform(5e7, 1e9) / target.process.slowness
            chunk_s = min(copy.chunk_bytes, copy.size) / rate + 1e-4
            whole_s = copy.size / rate + 1e-4
            self.clock.after(chunk_s, lambda hop=hop: self._first(hop))  # type: ignore[misc]
            self.clock.after(whole_s, lambda hop=hop: self._last(hop))  # type: ignore[misc]

    def _first(self, hop: _Hop) -> None:
        if hop.is_over:
            return
        hop.target.has_first = True
        hop.target.first_at = self.clock.now
        self._forward(hop.target)

    def _last(self, hop: _Hop) -> None:
        if hop.is_over:
            return
        if not hop.source.is_whole:
            hop.has_landed = True
            return
        self._end(hop)
        source, target = hop.source, hop.target
        target.is_whole = True
        target.digest = source.digest
        if target.key in self.damaged:
            self.damaged.discard(target.key)
            target.digest = DAMAGED
        arrived = ObjectArrived(target.key, target.digest, target.first_at, self.clock.now)
        target.process.on_object(arrived)
        source.done += 1
        self._sent_by(source)
        self._sent_by(target)
        for below in [hop for hop in self._hops if hop.source is target and hop.has_landed]:
            self.clock.after(1e-4, lambda below=below: self._last(below))  # type: ignore[misc]

    def _sent_by(self, copy: _Copy) -> None:
        if copy.is_whole and copy.targets and copy.done == len(copy.targets):
            copy.done += 1  # once
            self._copies.pop((copy.process.id, copy.key), None)
            if copy.process.is_alive:
                copy.process.on_object(ObjectSent(copy.key))

    def _end(self, hop: _Hop) -> None:
        hop.is_over = True
        if hop in self._hops:
            self._hops.remove(hop)

    def _fail(self, copy: _Copy, text: str) -> None:
        if self._copies.get((copy.process.id, copy.key)) is not copy:
            return
        del self._copies[copy.process.id, copy.key]
        for hop in self._of(copy):
            self._end(hop)
        if copy.process.is_alive:
            copy.process.on_object(ObjectFailed(copy.key, text))

    def _broken(self, connection: Connection) -> None:
        for hop in list(self._hops):
            if hop.source.process in connection.ends and hop.target.process in connection.ends:
                self._end(hop)
                for copy in (hop.source, hop.target):
                    self.clock.after(
                        1e-3,
                        lambda copy=copy: self._fail(copy, "its peer was lost"),  # type: ignore[misc]
                    )
