"""How fast libportals puts, beside a bare socket, libfabric and UCX.

    python bench/transport.py [--rounds 20] [--ways tcp,unix,shm] [--write FILE]

Two processes run on this host, each bound to a processor of its own if there are two. A round
runs every test once. Tests that are compared run directly after each other, in random order,
and a ratio is the median of the rounds' ratios. Bare sockets wait as the library beside them
does: spinning on MSG_DONTWAIT, or blocking in recv. The figure of one run is the median of 50
laps, for libfabric of three runs.

On a busy machine the figures mean nothing, in either direction: the kernel keeps a process that
never gives up its processor from it for longer, so a library whose thread makes its callers
yield looks many times as fast as the socket below it. The report shows how much of the
processors other work took before each round; above 10 % nothing is written.

The programs are bench/transport.c and bench/socket.c, which describe the tests. The result
names what cannot run here, with the reason.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import results
from launch import machine, table

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent / "native"
LIMIT_S = 60.0  # for one run
WAYS = ("tcp", "unix", "shm")
WAITS = ("spin", "block")
KB, MB = 1 << 10, 1 << 20
KEY_BYTES = 32
LOOK_S = 0.5
MOST_BUSY = 0.1  # of the processors, by others
PEERS = 200
OURS, BARE, LIBFABRIC, UCX = "yod", "bare", "libfabric tcp", "UCX"
UCX_TRANSPORTS = {"tcp": "tcp,self", "shm": "posix,sysv,self"}
WAY_NAMES = {"tcp": "TCP", "unix": "Unix socket", "shm": "shared memory"}
WAIT_NAMES = {"spin": "spinning", "block": "blocking"}


class Test(NamedTuple):
    """One kind of traffic.

    Attributes:
        name: as in the tables.
        ours: what transport.c calls it.
        bare: what socket.c calls it; empty: nothing to compare with.
        size: of a message, in bytes.
        count: messages there and back, or windows.
        window: messages of a window; 0: there and back.
    """

    name: str
    ours: str
    bare: str
    size: int
    count: int
    window: int = 0


PUT = Test("put", "ping", "ping", 8, 10000)
EVENT = Test("put, event queue", "event", "ping", 8, 10000)
TRIGGER = Test("triggered put", "trigger", "ping", 8, 10240)
RATE = Test("one call each", "stream", "stream", 8, 2000, 64)
BUNDLE = Test("in bundles of 64", "bundle", "stream", 8, 2000, 64)
STREAM_64K = Test("64 kB", "stream", "stream", 64 * KB, 300, 16)
STREAM_1M = Test("1 MB", "stream", "stream", MB, 200, 4)
STREAM_64M = Test("64 MB", "stream", "stream", 64 * MB, 6, 1)
PING_64K = Test("64 kB there and back", "ping", "ping", 64 * KB, 1000)
PING_1M = Test("1 MB there and back", "ping", "ping", MB, 200)

LATENCIES = (PUT, EVENT, TRIGGER)
RATES = (RATE, BUNDLE)
BANDWIDTHS = (STREAM_64K, STREAM_1M, STREAM_64M)
AS_LIBFABRIC = (PING_64K, PING_1M)  # over TCP, spinning


class Case(NamedTuple):
    """A test over one way, with one way of waiting: what is compared."""

    way: str
    wait: str
    test: Test


class Runner(NamedTuple):
    """Something that runs some of the cases.

    Attributes:
        name: as in the tables.
        can: whether it has such a case.
        run: gives the nanoseconds per message.
    """

    name: str
    can: Callable[[Case], bool]
    run: Callable[[Case], float]


# ---- ours and the bare sockets ----


def build(scratch: Path) -> None:
    """Compile both programs, and make a key; the library is the one beside us.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    words = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-o"]
    subprocess.run([*words, str(scratch / "socket"), str(HERE / "socket.c")], check=True)
    library = [f"-L{NATIVE}", "-lportals", f"-Wl,-rpath,{NATIVE}", "-pthread"]
    source = [str(HERE / "transport.c"), f"-I{NATIVE / 'include'}"]
    subprocess.run([*words, str(scratch / "transport"), *source, *library], check=True)
    (scratch / "key").write_bytes(os.urandom(KEY_BYTES))


def _arguments(case: Case, kind: str) -> list[str]:
    test = case.test
    # A blocking wait is several times as long.
    count = test.count // 4 if case.wait == "block" and test.size == 8 else test.count
    words = [case.wait, kind, str(test.size), str(count)]
    return [*words, str(test.window)] if test.window else words


def _number(command: Sequence[str], way: str) -> float:
    """What a program prints; its key is beside it."""
    key = Path(command[0]).with_name("key")
    done = subprocess.run(
        command,
        env={**os.environ, "PTL_TRANSPORT": way, "PTL_KEY_FILE": str(key)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=True,
        text=True,
    )
    return float(done.stdout)


def own(scratch: Path) -> Runner:
    program = str(scratch / "transport")
    return Runner(
        OURS,
        lambda case: True,
        lambda case: _number([program, *_arguments(case, case.test.ours)], case.way),
    )


def bare(scratch: Path) -> Runner:
    """Sockets; of shared memory only the ping of a word."""
    program = str(scratch / "socket")
    return Runner(
        BARE,
        lambda case: case.way != "shm" or (case.test.bare == "ping" and case.test.size == 8),
        lambda case: _number([program, case.way, *_arguments(case, case.test.bare)], case.way),
    )


def idle_peer_bytes(scratch: Path, way: str) -> float:
    """Bytes of our heap that one of many silent peers takes."""
    return _number([str(scratch / "transport"), "block", "peers", "8", str(PEERS)], way)


# ---- the others: a server, then a client that prints ----


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _is_listened(port: int) -> bool:
    rows = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    wanted = f":{port:04X}"
    return any(
        row.split()[1].endswith(wanted) and row.split()[3] == "0A"
        for row in rows.splitlines()
        if wanted in row
    )


def _bound(nth: int, words: Sequence[str]) -> list[str]:
    """The command, on the nth of our processors."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return list(words)
    return ["taskset", "-c", str(processors[nth]), *words]


def _converse(
    server: Sequence[str], client: Sequence[str], port: int, extra: Mapping[str, str]
) -> str:
    """What the client prints.

    Raises:
        subprocess.CalledProcessError, subprocess.TimeoutExpired: it failed.
    """
    environment = {**os.environ, **extra}
    waiting = subprocess.Popen(
        _bound(1, server), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + LIMIT_S
        while not _is_listened(port) and time.monotonic() < until and waiting.poll() is None:
            time.sleep(0.002)
        done = subprocess.run(
            _bound(0, client),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=True,
            text=True,
        )
        waiting.wait(LIMIT_S)
        return done.stdout
    finally:
        waiting.kill()
        waiting.wait()


def _libfabric_once(case: Case) -> float:
    port = _free_port()
    count = max(case.test.count // 3, 50)
    words = ["fi_pingpong", "-p", "tcp", "-e", "msg", "-I", str(count), "-S", str(case.test.size)]
    text = _converse(
        [*words, "-B", str(port)], [*words, "-P", str(port), "127.0.0.1"], port, os.environ
    )
    row = text.strip().splitlines()[-1].split()
    return float(row[-2]) * 1000  # microseconds of a transfer


def libfabric() -> Runner:
    """fi_pingpong between connected endpoints: it spins, and goes there and back."""
    return Runner(
        LIBFABRIC,
        lambda case: case.way == "tcp" and case.wait == "spin" and case.test.bare == "ping",
        lambda case: statistics.median(_libfabric_once(case) for _ in range(3)),
    )


def _ucx(case: Case) -> float:
    port, test = _free_port(), case.test
    count = test.count * max(test.window, 1) // (4 if case.wait == "block" else 1)
    words = ["ucx_perftest", "-p", str(port)]
    client = [
        *(*words, "127.0.0.1", "-f", "-t", "tag_bw" if test.window else "tag_lat"),
        *("-s", str(test.size), "-n", str(max(count, 10)), "-w", str(max(count // 10, 2))),
        *(["-E", "sleep"] if case.wait == "block" else []),
    ]
    extra = {"UCX_TLS": UCX_TRANSPORTS[case.way], "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if case.way == "tcp":
        extra["UCX_NET_DEVICES"] = "lo"
    row = _converse(words, client, port, extra).strip().splitlines()[-1].split()
    # iterations, median, average and overall microseconds, twice MB/s, twice messages/s
    return 1e9 / float(row[-1]) if test.window else float(row[1]) * 1000


def ucx() -> Runner:
    """ucx_perftest with tagged messages, as the MPI libraries use it."""
    return Runner(
        UCX,
        lambda case: case.way in UCX_TRANSPORTS and case.test not in (EVENT, TRIGGER, BUNDLE),
        _ucx,
    )


def runners(scratch: Path) -> tuple[list[Runner], dict[str, str]]:
    """Those that can run here; and why others cannot."""
    found = [own(scratch), bare(scratch)]
    absent = {}
    for program, make in (("fi_pingpong", libfabric), ("ucx_perftest", ucx)):
        runner = make()
        if shutil.which(program):
            found.append(runner)
        else:
            absent[runner.name] = f"{program} is not installed"
    return found, absent


# ---- measuring ----

Figures = dict[tuple[str, Case], list[float]]  # ns per message, one per round


def able(found: Sequence[Runner], cases: Sequence[Case], absent: dict[str, str]) -> list:
    """Pairs of case and those who run it, after one run of each that does not count."""
    good = []
    for case in cases:
        several = []
        for runner in (runner for runner in found if runner.can(case)):
            try:
                runner.run(case)
            except (subprocess.SubprocessError, ValueError, IndexError) as error:
                absent[f"{runner.name}, {_name(case)}, {case.test.name}"] = str(error)[:120]
            else:
                several.append(runner)
        good.append((case, several))
    return good


def _ticks() -> tuple[int, int]:
    """Ticks of all processors so far: busy ones, and all."""
    words = Path("/proc/stat").read_text().partition("\n")[0].split()
    ticks = [int(word) for word in words[1:9]]  # guests are in user and nice
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def busy_share() -> float:
    """What others take of the processors while we do nothing, 0 to 1."""
    busy, total = _ticks()
    time.sleep(LOOK_S)
    busy_after, total_after = _ticks()
    return (busy_after - busy) / max(total_after - total, 1)


def measure(
    found: Sequence[tuple[Case, Sequence[Runner]]], rounds: int
) -> tuple[Figures, list[float]]:
    """Every runner's figures for every case, and how busy others were in each round."""
    seen: Figures = {(r.name, case): [] for case, several in found for r in several}
    busy = []
    for number in range(rounds):
        busy.append(busy_share())
        order = random.Random(number)
        for case, several in order.sample(found, len(found)):
            for runner in order.sample(several, len(several)):
                seen[runner.name, case].append(runner.run(case))
        print(f"round {number + 1} of {rounds}, {busy[-1]:.0%} busy", file=sys.stderr)
    return seen, busy


# ---- the report ----


def _name(case: Case) -> str:
    return f"{WAY_NAMES[case.way]}, {WAIT_NAMES[case.wait]}"


class Summary:
    """Figures, read as medians and as ratios."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def ns(self, name: str, case: Case) -> float | None:
        """Nanoseconds per message; None: not measured."""
        values = self._figures.get((name, case))
        return statistics.median(values) if values else None

    def times(self, name: str, case: Case) -> float | None:
        """How many times as long as the other we take."""
        ours, theirs = self._figures.get((OURS, case)), self._figures.get((name, case))
        if not ours or not theirs:
            return None
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _section(
    summary: Summary,
    tests: Sequence[Test],
    places: Sequence[tuple[str, str]],
    show: Callable[[Test, float], str],
    *,
    is_rate: bool,
) -> list[str]:
    """A table of some tests: each one's figure, and ours in terms of it."""
    others = [
        name
        for name in (BARE, LIBFABRIC, UCX)
        if any(summary.ns(name, Case(*place, test)) for place in places for test in tests)
    ]
    head = ["", OURS]
    for name in others:
        head += [name, f"{OURS} / {name}"]
    rows = []
    for test in tests:
        for way, wait in places:
            case = Case(way, wait, test)
            ours = summary.ns(OURS, case)
            if ours is None:
                continue
            row = [f"{test.name}: {_name(case)}", f"**{show(test, ours)}**"]
            for name in others:
                ns, ratio = summary.ns(name, case), summary.times(name, case)
                row.append("" if ns is None else show(test, ns))
                row.append(_cell(1 / ratio if ratio and is_rate else ratio, ".2f"))
            rows.append(row)
    return table(head, rows)


def _us(_: Test, ns: float) -> str:
    return f"{ns / 1000:.2f}"


def _per_us(_: Test, ns: float) -> str:
    return f"{1000 / ns:.2f}"


def _gb(test: Test, ns: float) -> str:
    return f"{test.size / ns:.2f}"


def goals(summary: Summary, peers: Mapping[str, float]) -> list[str]:
    """Each goal beside what was measured."""

    def latency(way: str, wait: str, most: float) -> list[str]:
        case = Case(way, wait, PUT)
        return [
            f"8-byte put, {_name(case)}, by the bare one",
            f"at most {most}",
            _cell(summary.times(BARE, case), ".2f"),
        ]

    def bandwidth(way: str, wait: str) -> list[str]:
        case = Case(way, wait, STREAM_1M)
        ratio = summary.times(BARE, case)
        return [
            f"bandwidth at 1 MB, {_name(case)}, by the bare one",
            "at least 0.9",
            _cell(1 / ratio if ratio else None, ".2f"),
        ]

    def fabric(test: Test) -> list[str]:
        ratio = summary.times(LIBFABRIC, Case("tcp", "spin", test))
        return [f"{test.name}, time by that of libfabric tcp", "at most 1", _cell(ratio, ".2f")]

    shared = summary.ns(OURS, Case("shm", "spin", PUT))
    rows = [
        latency("tcp", "spin", 1.3),
        latency("tcp", "block", 1.3),
        latency("unix", "spin", 1.6),
        latency("unix", "block", 1.3),
        *(bandwidth(way, wait) for way in ("tcp", "unix") for wait in WAITS),
        *(fabric(test) for test in (PUT, PING_64K, PING_1M)),
        [
            "8-byte put, shared memory, spinning, us",
            "below 1",
            _cell(shared / 1000 if shared else None, ".2f"),
        ],
        *(
            [f"memory of an idle peer, {WAY_NAMES[way]}, bytes", "at most 1024", f"{size:.0f}"]
            for way, size in peers.items()
        ),
    ]
    return table(["goal", "", "measured"], rows)


def _versions() -> list[str]:
    """The others, as a Markdown list."""
    found = []
    for words, mark, name in (
        (["fi_info", "--version"], "libfabric", "libfabric"),
        (["ucx_info", "-v"], "[Vv]ersion", "UCX"),
    ):
        if not shutil.which(words[0]):
            continue
        text = subprocess.run(words, capture_output=True, text=True).stdout
        if version := re.search(rf"{mark}[ =:]*([0-9.]+)", text):
            found.append(f"- {name} {version[1]}")
    return found


def report(
    figures: Figures,
    peers: Mapping[str, float],
    absent: Mapping[str, str],
    ways: Sequence[str],
    busy: Sequence[float],
    command: str,
) -> str:
    """The results as a section of Markdown."""
    summary = Summary(figures)
    places = [(way, wait) for way in ways for wait in WAITS]
    lines = [
        "# Transport",
        "",
        "Two processes of one host, bound to a processor each where there are two; puts without",
        f"acknowledgement on a matching interface. Medians of {len(busy)} rounds; ratios",
        "are those of the rounds' ratios. Bare is a socket with the same traffic and wait",
        "mode: spinning on MSG_DONTWAIT or blocking in recv; for shared memory a word to spin on,",
        "or an eventfd. libfabric is `fi_pingpong -p tcp -e msg`, which spins; UCX is",
        "`ucx_perftest` with tagged messages, polling or sleeping, over TCP or posix and sysv.",
        "",
        *goals(summary, peers),
        "",
        "## Latency of 8 bytes",
        "",
        "Microseconds of half a round trip. Waiting for counters, for event queues, and for",
        "counters with each put triggered by the arrival before it.",
        "",
        *_section(summary, LATENCIES, places, _us, is_rate=False),
        "",
        "## Rate of 8-byte messages",
        "",
        "Millions per second; windows of 64, at most two of them on their way. Bare: a send for",
        "each message.",
        "",
        *_section(summary, RATES, places, _per_us, is_rate=True),
        "",
        "## Bandwidth",
        "",
        "10^9 bytes per second, from one buffer into one buffer, both used before; one way, or",
        "there and back as `fi_pingpong` measures it.",
        "",
        *_section(summary, (*BANDWIDTHS, *AS_LIBFABRIC), places, _gb, is_rate=True),
        "",
        f"Memory of an idle peer: growth of the heap by {PEERS} processes that have put once. The",
        "rings that shared memory maps for each peer are not in it.",
    ]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    load = f"- other work took {max(busy):.0%} of the processors at most, before a round"
    lines += ["", "## Machine and command", "", *machine(), *_versions(), load]
    lines += ["", f"    {command}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="counted rounds (%(default)s)")
    parser.add_argument("--ways", default=",".join(WAYS), help="of messages (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    ways = options.ways.split(",")
    tests = (*LATENCIES, *RATES, *BANDWIDTHS)
    cases = [Case(way, wait, test) for way in ways for wait in WAITS for test in tests]
    cases += [Case("tcp", "spin", test) for test in AS_LIBFABRIC if "tcp" in ways]
    with tempfile.TemporaryDirectory(prefix="yod-bench-") as name:
        scratch = Path(name)
        build(scratch)
        found, absent = runners(scratch)
        figures, busy = measure(able(found, cases, absent), options.rounds)
        peers = {}
        for way in ways:
            try:
                peers[way] = idle_peer_bytes(scratch, way)
            except subprocess.SubprocessError as error:
                absent[f"memory of an idle peer, {WAY_NAMES[way]}"] = str(error)[:120]
        command = f"python bench/transport.py --rounds {options.rounds}"
        if options.ways != ",".join(WAYS):
            command += f" --ways {options.ways}"
        text = report(figures, peers, absent, ways, busy, command)
    print(text)
    if options.write and max(busy) > MOST_BUSY:
        sys.exit(f"nothing is written: others took {max(busy):.0%} of the processors")
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
