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
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import results
from transport_cases import (
    AS_LIBFABRIC,
    BANDWIDTHS,
    BARE,
    BUNDLE,
    EVENT,
    LATENCIES,
    LIBFABRIC,
    OURS,
    PEERS,
    RATES,
    TRIGGER,
    UCX,
    WAITS,
    WAY_NAMES,
    WAYS,
    Case,
    Figures,
    Runner,
    name_of,
)
from transport_report import report

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent / "native"
LIMIT_S = 60.0  # for one run
KEY_BYTES = 32
LOOK_S = 0.5
MOST_BUSY = 0.1  # of the processors, by others
UCX_TRANSPORTS = {"tcp": "tcp,self", "shm": "posix,sysv,self"}


# ---- ours and the bare sockets ----


def build(scratch: Path) -> None:
    """Compile both programs, and make a key; the library is the one beside us.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    words = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-o"]
    subprocess.run([*words, str(scratch / "socket"), str(HERE / "socket.c")], check=True)
    library = [f"-L{NATIVE}", "-lportals", f"-Wl,-rpath,{NATIVE}", "-pthread"]
    source = [str(HERE / "transport.c"), f"-I{NATIVE / 'transport' / 'include'}"]
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


def able(found: Sequence[Runner], cases: Sequence[Case], absent: dict[str, str]) -> list:
    """Pairs of case and those who run it, after one run of each that does not count."""
    good = []
    for case in cases:
        several = []
        for runner in (runner for runner in found if runner.can(case)):
            try:
                runner.run(case)
            except (subprocess.SubprocessError, ValueError, IndexError) as error:
                absent[f"{runner.name}, {name_of(case)}, {case.test.name}"] = str(error)[:120]
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
