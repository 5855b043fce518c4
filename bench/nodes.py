"""Jobs on very many nodes: what a grant costs bebopd, and a load message yod and a PCT.

    python bench/nodes.py [--rounds 9] [--few] [--write FILE]

The machines and the codec alone, in this process: no network, no other process, no disk. All
nodes of the partition are free, and a job gets them all, with one rank on each. Names and
addresses count up, or they are in no order at all. In the last rows every second node has a
job.

With --few: what a request for four nodes costs in the largest partition, of which half has jobs,
by policy; and what bebopd remembers of a node.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from launch import machine, table
from support import results

from allocator.bebopd import Bebopd
from allocator.jobs.grants import Owner
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.policies import POLICIES
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import MessageReceived, Send
from native.wire import codec, load
from native.wire.alloc import Freed, Grant, Hosting, NodeRequest, NodeSpec, Refused
from native.wire.base import Message
from native.wire.status import Accepted, Announce
from pct.node import Node

SIZES = (1_000, 10_000, 100_000)
FEW_GOAL_MS = 5.0
NODE_GOAL_BYTES = 500
GOAL_MS = 50.0  # of the largest, from the request to the encoded grant
PCT_PORT = 7117
DAEMON = Principal(PrincipalKind.PARTITION, 0)
ALICE = Principal(PrincipalKind.USER, 1000)
YOD = PortalId(1, 70_000)
LIMITS = Limits(silent_s=1e9)
ANNOUNCED, GRANTED, LOADED, TAKEN, FREED = (
    "announcement of a node",
    "request to encoded grant",
    "grant to encoded load message",
    "load message at the last PCT",
    "end of the job at bebopd",
)
STEPS = (ANNOUNCED, GRANTED, LOADED, TAKEN, FREED)
Figures = dict[str, list[float]]
T = TypeVar("T")


class Partition:
    """A bebopd and its nodes.

    Args:
        is_regular: names and addresses count up.
    """

    def __init__(self, count: int, is_regular: bool, figures: Figures) -> None:
        self.count = count
        self.placement = ArrayPlacement()
        self._machine = Bebopd(
            self.placement,
            epoch=1,
            next_job_id=1,
            sign=lambda data: bytes(16),
            job_key=lambda job_id, uid, expires: bytes(32),
            owner_of=lambda uid: Owner(uid, "alice", uid),
            wall_clock=time.time,
            limits=LIMITS,
        )
        order = list(range(count))
        if not is_regular:
            random.Random(0).shuffle(order)
        began = time.perf_counter()
        for number, place in enumerate(order):
            at = PortalId((10 << 24) + place, PCT_PORT)
            self.tell(at, Announce(number, f"nid{place:06d}", 1, at.nid, at.pid, 1, ()))
        figures[ANNOUNCED].append((time.perf_counter() - began) / max(1, count) * 1e3)

    def tell(
        self, source: PortalId, message: Message, by: Principal = DAEMON, now: float = 0.0
    ) -> list[Message]:
        actions = self._machine.handle(MessageReceived(source, by, message), now)
        return [action.message for action in actions if isinstance(action, Send)]

    def ask(self, *specs: NodeSpec) -> Message:
        """The answer to a request; nothing is encoded yet."""
        return self.tell(YOD, NodeRequest(specs, "true"), ALICE)[0]

    def end(self, grant: Grant) -> None:
        """A job has run, and ends."""
        root = grant.nodes.address(0)
        self.tell(root, Hosting(grant.job_id))
        self.tell(root, Freed.of(grant.job_id, grant.nodes.numbers()))


def timed(name: str, figures: Figures, call: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = call()
    figures[name].append((time.perf_counter() - began) * 1e3)
    return result


def load_of(grant: Grant) -> bytes:
    """The load message of a job of one rank a node, as the root gets it."""
    member = load.MemberLoad(grant.runs.size, 0, (b"true",), b"/")
    return codec.encode(
        load.Load(
            job_id=grant.job_id,
            credential=grant.credential,
            credential_mac=grant.credential_mac,
            place=len(grant.nodes) - 1,
            nodes=grant.nodes,
            runs=grant.runs,
            arity=LIMITS.arity_count,
            objects=(load.ShippedObject(b"/bin/true", 1, bytes(32), 0o755),),
            arguments=load.Arguments((member,), (b"HOME=/",)),
            umask=0o22,
            limits=(),
            mpi=load.Mpi(()),
            input_ranks=(),
            chunk_bytes=LIMITS.chunk_bytes,
            deadline_s=LIMITS.phase_s,
            orphan_s=LIMITS.orphan_s,
            output_window_bytes=LIMITS.output_window_bytes,
        )
    )


def pct_of(grant: Grant) -> Node:
    """The PCT of a grant's last node."""
    last = grant.nodes[-1]
    bebopd = PortalId(1, 1)
    pct = Node(
        name=last.name,
        slots=1,
        address=PortalId(last.nid, last.pid),
        bebopd=bebopd,
        wanted=last.node,
        incarnation=1,
        limits=LIMITS,
        is_signed=lambda data, mac: True,
        unix_time=time.time,
    )
    pct.begin(0.0)
    pct.handle(MessageReceived(bebopd, DAEMON, Accepted(last.node, 1, 10.0)), 0.0)
    return pct


def measure(partition: Partition, specs: tuple[NodeSpec, ...], figures: Figures) -> str:
    """One job from its request to its end; the bytes of grant and load, or why there is none."""
    answer = partition.ask(*specs)  # the caches are filled
    if isinstance(answer, Refused):
        return "refused"
    assert isinstance(answer, Grant)
    partition.end(answer)
    gc.collect()

    def grant_encoded() -> bytes:
        return codec.encode(partition.ask(*specs))

    grant = codec.decode(timed(GRANTED, figures, grant_encoded))
    assert isinstance(grant, Grant)
    data = timed(LOADED, figures, lambda: load_of(grant))
    pct = pct_of(grant)

    def taken() -> None:
        pct.handle(MessageReceived(partition_root, DAEMON, codec.decode(data)), 0.0)

    partition_root = grant.nodes.address(0)
    timed(TAKEN, figures, taken)
    assert pct.jobs, "the load message was refused"
    timed(FREED, figures, lambda: partition.end(grant))
    return f"{len(codec.encode(grant)):,} and {len(data):,}".replace(",", " ")


def few(rounds: int) -> list[list[str]]:
    """Milliseconds of a request for four nodes, by policy and kind of request."""
    figures: Figures = {step: [] for step in STEPS}
    partition = Partition(SIZES[-1], True, figures)
    taken = sorted(random.Random(1).sample(range(SIZES[-1]), SIZES[-1] // 2))
    partition.ask(NodeSpec(len(taken), tuple(taken), True))
    gc.collect()
    gc.freeze()
    kinds = {
        "4 ranks": NodeRequest((NodeSpec(4),), "true"),
        "4 nodes": NodeRequest((NodeSpec(4, node_count=4),), "true"),
        "4 unused nodes": NodeRequest((NodeSpec(4, node_count=4),), "true", is_exclusive=True),
    }
    rows = []
    for name, policy in POLICIES.items():
        partition.placement.follow(policy)
        cells = [name]
        for request in kinds.values():
            values = []
            for _ in range(rounds):
                began = time.perf_counter()
                grant = partition.tell(YOD, request, ALICE)[0]
                values.append((time.perf_counter() - began) * 1e3)
                assert isinstance(grant, Grant)
                partition.end(grant)
            cells.append(f"**{statistics.median(values):.1f}** ({max(values):.1f})")
        rows.append(cells)
    gc.unfreeze()
    return rows


def bytes_a_node() -> float:
    """Memory that a node of the largest partition takes, its announcement decoded."""
    partition = Partition(0, True, {step: [] for step in STEPS})
    draw = random.Random(2)
    gc.collect()
    tracemalloc.start(1)
    for number in range(SIZES[-1]):
        at = PortalId((10 << 24) + number, PCT_PORT)
        incarnation, memory = draw.getrandbits(62), 1 << 38
        said = Announce(-1, f"nid{number:06d}", 64, *at, incarnation, (), (), memory)
        partition.tell(at, codec.decode(codec.encode(said)), now=float(number))
    gc.collect()
    found = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return found / SIZES[-1]


def few_report(rows: list[list[str]], node_bytes: float, rounds: int) -> str:
    """The results as a section of Markdown."""
    worst = max(float(cell.split("**")[1]) for cells in rows for cell in cells[1:])
    goals = [
        ["a request for a few", f"at most {FEW_GOAL_MS:.0f} ms", f"{worst:.1f} ms"],
        ["memory of a node", f"at most {NODE_GOAL_BYTES} bytes", f"{node_bytes:.0f} bytes"],
    ]
    lines = [
        "# A few of very many nodes",
        "",
        f"Milliseconds from request to grant in a partition of {SIZES[-1]} nodes, of which every",
        f"second has a job: **median** (max) of {rounds} rounds. The machine alone.",
        "",
        *table(["policy", "4 ranks", "4 nodes", "4 unused nodes"], rows),
        "",
        *table(["goal", "", "measured"], goals),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        "    python bench/nodes.py --few",
        "",
    ]
    return "\n".join(lines)


def row(name: str, figures: Figures, size: str) -> list[str]:
    """The medians with their ranges."""
    cells = []
    for step in STEPS:
        values = figures[step]
        if not values:
            cells.append("")
        elif step == ANNOUNCED:
            cells.append(f"{statistics.median(values):.3f}")
        else:
            low, high = min(values), max(values)
            cells.append(f"**{statistics.median(values):.1f}** ({low:.1f}..{high:.1f})")
    return [name, *cells, size]


def report(rows: list[list[str]], largest_ms: float, rounds: int) -> str:
    """The results as a section of Markdown."""
    lines = [
        "# Jobs on very many nodes",
        "",
        f"Milliseconds: **median** (min..max) of {rounds} rounds. Machines and codec alone, in one",
        "process: no network, no disk. One rank on each node.",
        "",
        *table(["nodes", *STEPS, "bytes of grant and load"], rows),
        "",
        *table(
            ["goal", "", "measured"],
            [[f"{SIZES[-1]} nodes: {GRANTED}", f"at most {GOAL_MS:.0f} ms", f"{largest_ms:.1f}"]],
        ),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        f"    python bench/nodes.py --rounds {rounds}",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    parser.add_argument("--few", action="store_true", help="of a few nodes of very many")
    options = parser.parse_args()
    if options.few:
        text = few_report(few(options.rounds), bytes_a_node(), options.rounds)
        print(text)
        if options.write:
            results.write(options.write, text)
        return
    rows = []
    largest_ms = float("inf")
    for is_regular in (True, False):
        for count in SIZES:
            figures: Figures = {step: [] for step in STEPS}
            partition = Partition(count, is_regular, figures)
            for _ in range(options.rounds):
                size = measure(partition, (NodeSpec(count),), figures)
            how = "" if is_regular else ", in no order"
            rows.append(row(f"{count}{how}", figures, size))
            if is_regular:
                largest_ms = statistics.median(figures[GRANTED])
            print(rows[-1], file=sys.stderr)
    for count in SIZES[:-1]:
        figures = {step: [] for step in STEPS}
        partition = Partition(2 * count, True, figures)
        every = tuple(range(0, 2 * count, 2))
        partition.ask(NodeSpec(count, every, True))
        for _ in range(options.rounds):
            size = measure(partition, (NodeSpec(count),), figures)
        rows.append(row(f"{count}, every second of {2 * count}", figures, size))
        print(rows[-1], file=sys.stderr)
    text = report(rows, largest_ms, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
