"""Very many PCTs that announce themselves to one bebopd: all at once, and later.

    python bench/announcing.py [--nodes 10000] [--seconds 60] [--write FILE]

bebopd is the command. The PCTs are simulated: each has a transport of its own, proves the
partition's key, announces itself, and does so again when bebopd has said to; a few processes have
them all. The storm is the time from the first announcement to the last answer, with the making of
all connections. The processors of this machine are shared by both sides.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from launch import machine, table
from support import results

from native.host.rlimits import raise_soft
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Received
from native.port.portals import PartitionKey, PortalsPort
from native.wire.status import Accepted, Announce

BIN = Path(sys.executable).parent
EACH = 450  # nodes of a process: the kernel watches no more in one loop
STORM_GOAL_S, STEADY_GOAL = 10.0, 0.05
LIMIT_S = 300.0
RETRY_S = Limits().announce_retry_s


class Pct:
    """One node, as bebopd sees it."""

    def __init__(
        self,
        reactor: Reactor,
        number: int,
        address: str,
        key: bytes,
        on_accepted: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._on_accepted = on_accepted
        self._port = PortalsPort(listen="127.0.0.1:0", partition_key=key)
        self._bebopd = self._port.resolve(address)
        self._port.use_key(self._bebopd, PartitionKey(key))
        at = self._port.id
        self._message = Announce(number, f"nid{number:06d}", 4, at.nid, at.pid, 1)
        self._timer = reactor.timer(self.announce)
        self.is_accepted = False
        reactor.watch(self._port.fileno(), self._events)

    def announce(self) -> None:
        """Send it."""
        self._port.send(self._bebopd, self._message)
        if not self.is_accepted:
            self._timer.set(self._reactor.monotonic() + RETRY_S)

    def _events(self) -> None:
        for event in self._port.events():
            if isinstance(event, Received) and isinstance(event.message, Accepted):
                if not self.is_accepted:
                    self.is_accepted = True
                    self._on_accepted()
                self._timer.set(self._reactor.monotonic() + event.message.heartbeat_s)


def be_pcts(first: int, count: int, address: str, key: bytes) -> None:
    """Be some PCTs; standard input says when, and its end when not any more."""
    raise_soft()
    reactor = Reactor()
    left = count

    def accepted() -> None:
        nonlocal left
        left -= 1
        if not left:
            reactor.stop()

    pcts = [Pct(reactor, first + number, address, key, accepted) for number in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    for pct in pcts:
        pct.announce()
    reactor.run()
    print("accepted", flush=True)
    reactor.watch(0, reactor.stop)
    reactor.run()
    os._exit(0)  # no port says goodbye


def processor_s(unix_pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{unix_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(count: int, seconds: float, scratch: Path) -> tuple[float, float, float]:
    """Seconds of the storm, bebopd's processor time in it, and its share of a core later."""
    key_file = scratch / "key"
    words = [BIN / "bebopd", "--listen", "127.0.0.1:0", "--unix", "none", "--ready-fd", "1"]
    words += ["--key-file", key_file, "--state-dir", scratch / "records"]
    bebopd = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    workers: list[subprocess.Popen[str]] = []
    try:
        assert bebopd.stdout is not None
        address = bebopd.stdout.readline().strip()
        for first in range(0, count, EACH):
            own = ["--pcts", str(first), str(min(EACH, count - first)), address, str(key_file)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            workers.append(subprocess.Popen([sys.executable, __file__, *own], **pipes))  # type: ignore[call-overload]
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        began, used = time.monotonic(), processor_s(bebopd.pid)
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "accepted\n"
        storm_s, storm_used = time.monotonic() - began, processor_s(bebopd.pid) - used
        # Some have been told a short interval, when the table was short: those are over then.
        time.sleep(2 * Limits().announced_s(count))
        began, used = time.monotonic(), processor_s(bebopd.pid)
        time.sleep(seconds)
        share = (processor_s(bebopd.pid) - used) / (time.monotonic() - began)
        return storm_s, storm_used, share
    finally:
        for process in [*workers, bebopd]:
            process.kill()
            process.wait()


def report(count: int, seconds: float, measured: tuple[float, float, float]) -> str:
    """The results as a section of Markdown."""
    storm_s, storm_used, share = measured
    every_s = Limits().announced_s(count)
    rows = [
        ["all nodes announce themselves", f"{storm_s:.1f} s", f"at most {STORM_GOAL_S:g} s"],
        ["bebopd's processor time of it", f"{storm_used:.1f} s", ""],
        [f"later, each every {every_s:g} s", f"{share:.1%} of a core", f"below {STEADY_GOAL:.0%}"],
    ]
    command = f"python bench/announcing.py --nodes {count} --seconds {seconds:g}"
    lines = [
        "# Very many nodes announce themselves",
        "",
        f"{count} simulated PCTs with a connection each, and one real bebopd, all on this machine,",
        f"whose load, with what else ran, was {os.getloadavg()[1]:.0f} at the end (of 5 minutes).",
        "",
        *table(["", "measured", "goal"], rows),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        f"    {command}",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000, help="how many (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of rest (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    parser.add_argument("--pcts", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pcts is not None:
        first, count, address, key_file = options.pcts
        be_pcts(int(first), int(count), address, Path(key_file).read_bytes())
        return
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < options.nodes * 1.2:
        raise SystemExit(f"{options.nodes} nodes need more open files than the hard limit")
    with tempfile.TemporaryDirectory(prefix="yod-bench-") as scratch:
        text = report(
            options.nodes,
            options.seconds,
            measure(options.nodes, options.seconds, Path(scratch)),
        )
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
