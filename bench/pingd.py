"""pingd on a partition of many nodes: its text, its page, and a change on the page.

    python bench/pingd.py [--nodes 10000] [--rounds 9] [--write FILE]

bebopd is the daemon's machine and driver over the real transport, in a process of its own. Its
nodes are announced to the machine before it serves; half of them have jobs. One node is a port of
its own, whose announcements change the table. The page is shown by headless Chromium. Times are
those of a user: the command from its start to its end, the page from the navigation to the
picture with all nodes, a change from the message to bebopd to the picture.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from launch import machine, table
from support import results

from allocator.bebopd import Bebopd
from allocator.driver import Driver
from allocator.jobs.grants import Owner
from allocator.nodes.placement import ArrayPlacement
from allocator.records import MemoryLedger
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import MessageReceived, Send
from native.port.portals import PartitionKey, PortalsPort
from native.wire.alloc import Grant, Hosting, NodeRequest, NodeSpec
from native.wire.status import Announce
from tests.support.chromium import Chromium

BIN = Path(sys.executable).parent
TEXT_GOAL_S, VIEW_GOAL_S, CHANGE_GOAL_S, LOAD_GOAL_BYTES = 0.3, 1.0, 0.5, 1 << 20
JOB_NODES = 50
SLOTS = 4
DAEMON = Principal(PrincipalKind.PARTITION, 0)
ALICE = Principal(PrincipalKind.USER, 1000)
LIMITS = Limits(silent_s=1e9, heartbeat_s=1e8)
LIMIT_S = 60.0


def serve(path: str, count: int) -> None:
    """Be a bebopd; each line on standard input changes a node."""
    key = bytes(32)
    bebopd = Bebopd(
        ArrayPlacement(),
        epoch=1,
        next_job_id=1,
        sign=lambda data: bytes(16),
        job_key=lambda job_id, uid, expires: bytes(32),
        owner_of=lambda uid: Owner(uid, "alice", uid),
        wall_clock=time.time,
        limits=LIMITS,
    )
    reactor = Reactor()
    began = reactor.monotonic()
    for number in range(1, count):
        at = PortalId((10 << 24) + number, 7117)
        announce = Announce(number, f"nid{number:06d}", SLOTS, at.nid, at.pid, 1)
        bebopd.handle(MessageReceived(at, DAEMON, announce), began)
    for _ in range(count // 2 // JOB_NODES):
        yod = PortalId(1, 70_000)
        request = NodeRequest((NodeSpec(JOB_NODES * SLOTS),), "solve")
        actions = bebopd.handle(MessageReceived(yod, ALICE, request), began)
        grants = [a.message for a in actions if isinstance(a, Send)]
        (grant,) = (message for message in grants if isinstance(message, Grant))
        root = grant.nodes.address(0)
        bebopd.handle(MessageReceived(root, DAEMON, Hosting(grant.job_id)), began)
    port = PortalsPort(listen="127.0.0.1:0", unix_path=path, partition_key=key)
    Driver(bebopd, port, reactor, MemoryLedger())
    pct = PortalsPort(listen="127.0.0.1:0", partition_key=key)
    pct.use_key(port.id, PartitionKey(key))
    reactor.watch(pct.fileno(), lambda: pct.events() and None)
    slots = SLOTS

    def change() -> None:
        nonlocal slots
        if not sys.stdin.buffer.raw.read(1):
            reactor.stop()
            return
        slots += 1
        pct.send(port.id, Announce(0, "nid000000", slots, pct.id.nid, pct.id.pid, 1))

    reactor.watch(0, change)
    change_first = Announce(0, "nid000000", slots, pct.id.nid, pct.id.pid, 1)
    pct.send(port.id, change_first)
    print("up", flush=True)
    reactor.run()


def texts(path: str, rounds: int, *words: str) -> list[float]:
    """Seconds of pingd's runs."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        command = [BIN / "pingd", "--partition", f"unix:{path}", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        taken.append(time.perf_counter() - began)
    return taken


def pages(
    url: str, count: int, rounds: int, bebopd: subprocess.Popen[bytes]
) -> tuple[list[float], list[float], int]:
    """Seconds of first views and of changes, and the most bytes of a first load."""
    views, changes, most = [], [], 0
    is_there = f"document.querySelectorAll('#nodes i').length === {count}"
    chromium = Chromium()
    try:
        for number in range(rounds):
            chromium.open("about:blank")
            chromium.events.clear()
            began = time.perf_counter()
            chromium.open(url)
            chromium.wait(is_there)
            chromium.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            views.append(time.perf_counter() - began)
            got = [e["params"] for e in chromium.events if e["method"] == "Network.dataReceived"]
            most = max(most, sum(each["encodedDataLength"] or each["dataLength"] for each in got))
            chromium.run("move(0)")
            began = time.perf_counter()
            assert bebopd.stdin is not None
            bebopd.stdin.write(b"x")
            bebopd.stdin.flush()
            slots = SLOTS + 1 + number
            chromium.wait(f"document.getElementById('node').innerText.includes('{slots} slots')")
            changes.append(time.perf_counter() - began)
    finally:
        chromium.close()
    return views, changes, most


def cell(values: list[float], goal_s: float) -> list[str]:
    low, high = min(values), max(values)
    median = statistics.median(values)
    return [f"**{median:.2f}** ({low:.2f}..{high:.2f})", f"{goal_s:g}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.nodes)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/bebopd.sock"
        words = [sys.executable, __file__, "--nodes", str(options.nodes), "--serve", path]
        bebopd = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert bebopd.stdin is not None and bebopd.stdout is not None
        web: subprocess.Popen[bytes] | None = None
        try:
            assert bebopd.stdout.readline() == b"up\n"
            plain = texts(path, options.rounds)
            totals = texts(path, options.rounds, "-summary")
            command = [str(BIN / "pingd"), "--partition", f"unix:{path}", "--web"]
            web = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert web.stdout is not None
            url = web.stdout.readline().decode().split()[-1]
            views, changes, load_bytes = pages(url, options.nodes, options.rounds, bebopd)
        finally:
            if web is not None:
                web.terminate()
                web.wait(LIMIT_S)
            bebopd.stdin.close()
            bebopd.wait(LIMIT_S)
    rows = [
        ["`pingd`", *cell(plain, TEXT_GOAL_S)],
        ["`pingd -summary`", *cell(totals, TEXT_GOAL_S)],
        ["first view of the page", *cell(views, VIEW_GOAL_S)],
        ["a change on the page", *cell(changes, CHANGE_GOAL_S)],
    ]
    section = "\n".join(
        [
            "# pingd on many nodes",
            "",
            f"Seconds: **median** (min..max) of {options.rounds} rounds, with {options.nodes} nodes"
            " of which half have jobs.",
            "",
            *machine(),
            "",
            *table(["", "seconds", "goal"], rows),
            "",
            f"The first load of the page is {load_bytes:,} bytes (goal: below 1 MB).".replace(
                ",", " "
            ),
            "",
        ]
    )
    print(section)
    if options.write:
        results.write(options.write, section)


if __name__ == "__main__":
    main()
