"""Many launches of `true`: one after the other, and fifty at once; memory of one that runs.

    python bench/rate.py [--launches 1000] [--rounds 3] [--write FILE]

The ways of a round come in random order, each several times. One after the other is a loop
in a shell. At once is `xargs -P`, with fifty launches or two under way. Processor time is that
of all processes that take part: the commands, their children, and the launch server with its
helpers, whose own is read before and after. Memory is that of the command alone, while its
program sleeps.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from launch import IS_COLD, IS_WARM, machine, table, up
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

LOOP = 'i=0; while [ $i -lt "$0" ]; do "$@"; i=$((i+1)); done'
LIMIT_S = 600.0
SLOW_SHARE = 20  # of a way that takes tens of milliseconds each, so many times fewer launches
YOD, YOD_COLD, HYDRA, SRUN = "yod, warm", "yod, cold", "mpiexec (MPICH)", "srun (Slurm)"
IN_TURN, TWO, FIFTY = "in turn", "two at once", "fifty at once"
PER_S_IN_TURN, PER_S_AT_ONCE, PROCESSOR_MS, MEMORY_MB = 150, 300, 4.0, 1.0


class Way:
    """A launcher.

    Attributes:
        command: launches one process of `true`.
        daemons: processes that work for a launch and are no children of it.
    """

    def __init__(
        self,
        name: str,
        launch: Sequence[str],
        environment: Mapping[str, str],
        is_slow: bool = False,
        daemons: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.launch = list(launch)
        self.command = [*launch, "true"]
        self.environment = dict(environment)
        self.is_slow = is_slow
        self.daemons = daemons

    def measure(self, kind: str, launches: int) -> tuple[float, float]:
        """Launches in a second, and milliseconds of processor for each."""
        if kind == IN_TURN:
            command = ["sh", "-c", LOOP, str(launches), *self.command]
            given = b""
        else:
            at_once = "50" if kind == FIFTY else "2"
            command = ["xargs", "-P", at_once, "-I{}", *self.command]
            given = b"x\n" * launches
        worked, began = self._worked_s(), time.perf_counter()
        subprocess.run(
            command,
            env=self.environment,
            input=given,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=LIMIT_S,
        )
        elapsed = time.perf_counter() - began
        return launches / elapsed, (self._worked_s() - worked) * 1000 / launches

    def memory_mb(self) -> tuple[float, float]:
        """Resident and proportional memory of the command while its program runs."""
        command = subprocess.Popen([*self.launch, "sh", "-c", "echo up; sleep 60"], **self._piped())
        try:
            assert command.stdout is not None and command.stdout.readline() == b"up\n"
            found = dict(amounts(command.pid))
            return found["Rss"] / 1024, found["Pss"] / 1024
        finally:
            command.terminate()  # to srun an interrupt is a question
            command.communicate()

    def _piped(self) -> dict[str, object]:
        return {
            "env": self.environment,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
        }

    def _worked_s(self) -> float:
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        theirs = sum(
            int(Path(f"/proc/{unix_pid}/schedstat").read_text().split()[0])
            for unix_pid in self.daemons
        )
        return ours.ru_utime + ours.ru_stime + theirs / 1e9


def amounts(unix_pid: int) -> Iterator[tuple[str, int]]:
    """Name and KiB of each kind of memory of a process."""
    for line in Path(f"/proc/{unix_pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        yield name, int(rest.split()[0])


def ways(stack: ExitStack, scratch: Path) -> tuple[list[Way], dict[str, str]]:
    """The launchers that can run here; and why others cannot."""
    found: list[Way] = []
    absent: dict[str, str] = {}
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if yod := shutil.which("yod", path=search):
        environment = up(str(Path(yod).with_name("yodctl")), stack, scratch / "host")
        server = _server(scratch / "host")
        found.append(Way(YOD, [yod], environment | IS_WARM, daemons=server))
        found.append(Way(YOD_COLD, [yod], environment | IS_COLD, is_slow=True))
    else:
        absent[YOD] = "it is not installed"
    if mpiexec := shutil.which("mpiexec.hydra", path=search):
        found.append(Way(HYDRA, [mpiexec, "-n", "1"], os.environ))
    else:
        absent[HYDRA] = "mpiexec.hydra is not installed"
    if reason := slurm_missing():
        absent[SRUN] = reason
    else:
        slurm = stack.enter_context(Slurm(1))
        found.append(Way(SRUN, ["srun", "-N", "1"], slurm.environment, is_slow=True))
    return found, absent


def _server(place: Path) -> list[int]:
    """The processes of the launch server: itself and its helpers."""
    (lock,) = place.rglob("launch.*lock")
    unix_pid = int(lock.read_text())
    children = Path(f"/proc/{unix_pid}/task/{unix_pid}/children").read_text()
    return [unix_pid, *map(int, children.split())]


Figures = dict[tuple[str, str], list[tuple[float, float]]]


def measure(found: Sequence[Way], launches: int, rounds: int, absent: dict[str, str]) -> Figures:
    """Launches in a second and processor time, by launcher and kind, one of each a round.

    A kind that a launcher fails at is measured no more; ``absent`` gets the reason.
    """
    pairs = [(way, kind) for way in found for kind in (IN_TURN, TWO, FIFTY)]
    pairs = [(way, kind) for way, kind in pairs if kind == IN_TURN or not way.is_slow]
    figures: Figures = {(way.name, kind): [] for way, kind in pairs}
    for way in found:
        way.measure(IN_TURN, 3)
    for number in range(rounds):
        for way, kind in random.Random(number).sample(pairs, len(pairs)):
            count = max(1, launches // SLOW_SHARE) if way.is_slow else launches
            try:
                figures[way.name, kind].append(way.measure(kind, count))
            except subprocess.CalledProcessError as error:
                pairs.remove((way, kind))
                del figures[way.name, kind]
                absent[f"{way.name}, {kind}"] = (
                    f"launches failed ({error.cmd[0]} gave {error.returncode})"
                )
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return figures


def report(
    figures: Figures,
    memory: Mapping[str, tuple[float, float]],
    absent: Mapping[str, str],
    launches: int,
    rounds: int,
) -> str:
    """The results as a section of Markdown."""
    middle = {
        pair: tuple(statistics.median(column) for column in zip(*values, strict=True))
        for pair, values in figures.items()
    }
    names = list(dict.fromkeys(name for name, _ in figures))

    def cells(name: str, column: int, form: str) -> list[str]:
        kinds = (IN_TURN, TWO, FIFTY)
        return [
            format(middle[name, kind][column], form) if (name, kind) in middle else ""
            for kind in kinds
        ]

    lines = [
        "# Many launches",
        "",
        f"Medians of {rounds} rounds in one run, interleaved: {launches} launches of `true` with",
        f"one rank, {launches // SLOW_SHARE} where a launch takes tens of milliseconds. At once:",
        "by `xargs -P2` and `-P50`. Processor: of all processes that take part; that of srun is",
        "without its daemons.",
        "",
        *table(
            ["launches a second", IN_TURN, TWO, FIFTY],
            [[name, *cells(name, 0, ".0f")] for name in names],
        ),
        "",
        *table(
            ["processor, ms a launch", IN_TURN, TWO, FIFTY],
            [[name, *cells(name, 1, ".1f")] for name in names],
        ),
        "",
        *table(
            ["memory of the running command, MB", "resident", "proportional"],
            [[name, *(f"{amount:.2f}" for amount in memory[name])] for name in memory],
        ),
        "",
    ]
    if YOD in names:
        in_turn, at_once = middle[YOD, IN_TURN], middle[YOD, FIFTY]
        rows = [
            [f"launches a second, {IN_TURN}", f"at least {PER_S_IN_TURN}", f"{in_turn[0]:.0f}"],
            [f"launches a second, {FIFTY}", f"at least {PER_S_AT_ONCE}", f"{at_once[0]:.0f}"],
            [f"processor, {FIFTY}, ms", f"at most {PROCESSOR_MS:g}", f"{at_once[1]:.1f}"],
            ["memory of a running yod, MB", f"at most {MEMORY_MB:g}", f"{memory[YOD][0]:.2f}"],
        ]
        lines += table(["goal", "", "measured"], rows)
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    command = f"python bench/rate.py --launches {launches} --rounds {rounds}"
    lines += ["", "## Machine and command", "", *machine(), "", f"    {command}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=1000, help="each time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        found, absent = ways(stack, scratch)
        memory = {way.name: way.memory_mb() for way in found}
        figures = measure(found, options.launches, options.rounds, absent)
        text = report(figures, memory, absent, options.launches, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
