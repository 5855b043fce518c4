"""How long a whole MPI program takes, and an exchange of keys, beside other launchers.

    python bench/mpi.py [--rounds 15] [--sizes 2,4,16] [--write FILE]

The program calls MPI_Init and MPI_Finalize and nothing else: in Python with the
libraries of PyPI, in C with those of Debian. Each library's own launcher is given the
same program in the same run, in an order of each round's own; see bench/launch.py.

The exchange of keys is among 64 processes that speak PMI-1 with the launcher, without an MPI
library: bench/keys.c. Its time is from the last process's entry into the barrier until the
last one has left it, in which all values go to all nodes; the gets that follow are reported
separately.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from launch import LIMIT_S, Launcher, Times, machine, measure, ms, partition, table
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.support.mpi import LIBRARIES, Library, Mpi  # noqa: E402

PROGRAM_C = """
#include <mpi.h>
int main (int argc, char **argv)
{
    MPI_Init (&argc, &argv);
    return MPI_Finalize ();
}
"""
PROGRAM_PYTHON = "from mpi4py import MPI"

YOD = "yod"
KEY_RANKS = 64
KEY_BYTES = 4096
KEY_NODES = (1, 4, 16, 64)
KEYS_YOD = "yod, local PCTs: {}"
KEYS_EMBEDDED = "yod, embedded"
KEYS_HYDRA = "mpiexec (MPICH)"
PMI2_LIBRARY = "libpmi2.so.0"


def own_name(library: Library) -> str:
    """What a library's own launcher is called in the tables."""
    return Path(library.launcher[0]).name.removesuffix(".hydra")


def program(library: Library, scratch: Path) -> tuple[list[str], dict[str, str]]:
    """The program for a library: the words that start it, and its environment."""
    mpi = Mpi(library, scratch / library.name)
    if library.main_kind == "c":
        return [str(mpi.compile("bench", PROGRAM_C))], {**os.environ, **mpi.c_env}
    return [str(library.python), "-c", PROGRAM_PYTHON], {**os.environ, **mpi.python_env}


def launchers(
    yod: str, stack: ExitStack, scratch: Path
) -> tuple[dict[str, list[Launcher]], dict[str, str]]:
    """What starts each library's program, yod first; and why some cannot run here."""
    found: dict[str, list[Launcher]] = {}
    absent: dict[str, str] = {}
    for library in LIBRARIES.values():
        if reason := library.missing():
            absent[library.name] = reason
            continue
        words, environment = program(library, scratch)
        found[library.name] = [
            Launcher(
                f"{library.name}: {YOD}",
                lambda size, words=words: [
                    *(yod, "--partition", "embedded", "-sz", str(size)),
                    *words,
                ],
                lambda size, environment=environment: environment,
            ),
            Launcher(
                f"{library.name}: {own_name(library)}",
                lambda size, library=library, words=words: library.own_launch(size, words),
                lambda size, both={**environment, **library.launcher_env}: both,
            ),
        ]
    srun = "impi: srun --mpi=pmi2"
    if reason := slurm_missing():
        absent[srun] = reason
    elif "impi" in found:
        slurm = stack.enter_context(Slurm(1))
        words, environment = program(LIBRARIES["impi"], scratch)
        pmi2 = {"I_MPI_PMI": "pmi2", "I_MPI_PMI_LIBRARY": PMI2_LIBRARY}
        environment = {**environment, **slurm.environment, **pmi2}
        command = ["srun", "--mpi=pmi2", "--overcommit", "-N", "1", "-n"]
        found["impi"].append(
            Launcher(
                srun,
                lambda size: [*command, str(size), *words],
                lambda size: environment,
                slurm.settle,
            )
        )
    return found, absent


def can_run(found: dict[str, list[Launcher]], absent: dict[str, str]) -> list[Launcher]:
    """Those that start two ranks; the others go to ``absent`` with what they said."""
    good = []
    for launcher in (launcher for several in found.values() for launcher in several):
        try:
            launcher.run(2)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            absent[launcher.name] = f"does not start two ranks: {error}"
        else:
            good.append(launcher)
    return good


class Exchange(NamedTuple):
    """What one exchange of keys took, in seconds.

    Attributes:
        barrier_s: from the last process's entry to the last one's way out.
        gets_s: from the last one's first get to the last value of the slowest process.
        puts: of one process.
        gets: of one process.
    """

    barrier_s: float
    gets_s: float
    puts: int
    gets: int


class Exchanger:
    """A launcher that runs the exchange of keys.

    Attributes:
        name: as in the tables.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = list(command)
        self._environment = dict(environment)

    def run(self) -> Exchange:
        """One exchange.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = subprocess.run(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LIMIT_S,
            check=True,
        )
        rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
        if sorted(row[0] for row in rows) != list(range(KEY_RANKS)):
            raise RuntimeError(f"{self.name}: {len(rows)} of {KEY_RANKS} ranks answered")
        entered, left, began, got = (max(row[at] for row in rows) / 1e9 for at in (1, 2, 3, 4))
        return Exchange(left - entered, got - began, rows[0][5], rows[0][6])


def exchangers(yod: str, stack: ExitStack, scratch: Path) -> list[Exchanger]:
    """What runs the exchange, started as far as it needs it."""
    keys = scratch / "keys"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-o", str(keys), str(HERE / "keys.c")], check=True)
    words = [str(keys), str(KEY_BYTES)]
    ours = [yod, "--mpi=pmi1", "-sz", str(KEY_RANKS)]
    found = [
        Exchanger(
            KEYS_EMBEDDED,
            [*ours[:1], "--partition", "embedded", *ours[1:], *words],
            os.environ,
        )
    ]
    yodctl = str(Path(yod).with_name("yodctl"))
    for count in KEY_NODES:
        place = partition(yodctl, count, stack, scratch, slots=KEY_RANKS // count)
        found.append(Exchanger(KEYS_YOD.format(count), [*ours, *words], place))
    hydra = LIBRARIES["pypi-mpich"]
    if not hydra.missing():
        found.append(Exchanger(KEYS_HYDRA, hydra.own_launch(KEY_RANKS, words), os.environ))
    return found


def exchange(found: Sequence[Exchanger], rounds: int) -> dict[str, list[Exchange]]:
    """Every exchanger's figures, one per round; the first round is not counted."""
    seen: dict[str, list[Exchange]] = {exchanger.name: [] for exchanger in found}
    for number in range(rounds + 1):
        for exchanger in random.Random(number).sample(found, len(found)):
            figures = exchanger.run()
            if number > 0:
                seen[exchanger.name].append(figures)
        print(f"keys: round {number} of {rounds}", file=sys.stderr)
    return seen


def report(
    times: Times,
    seen: Mapping[str, Sequence[Exchange]],
    absent: Mapping[str, str],
    sizes: Sequence[int],
    rounds: int,
    command: str,
) -> str:
    """The results as a section of Markdown."""
    names = list(dict.fromkeys(name for name, _ in times))
    middle = {pair: statistics.median(values) for pair, values in times.items()}

    def cell(name: str, size: int) -> str:
        values = times[name, size]
        return f"**{ms(middle[name, size])}** ({ms(min(values))}..{ms(max(values))})"

    head = ["", *(f"N = {size}" for size in sizes)]
    rows = [[name, *(cell(name, size) for size in sizes)] for name in names]
    ratios = []
    for name in names:
        library, _, launcher = name.partition(": ")
        own = f"{library}: {YOD}"
        if launcher != YOD and own in names:
            row = [f"{library}: {YOD} / {launcher}"]
            for size in sizes:
                ours, theirs = middle[own, size], middle[name, size]
                row.append(f"{ours / theirs:.2f} ({(ours - theirs) * 1000:+.0f} ms)")
            ratios.append(row)
    lines = [
        "# A whole MPI program",
        "",
        "From the command to its end, a program that calls MPI_Init and MPI_Finalize: in Python",
        "with PyPI's libraries, in C with Debian's. Milliseconds: **median** (min..max) of",
        f"{rounds} rounds, in one run, interleaved, one host, default options.",
        "",
        *table(head, rows),
        "",
        "Ratio of the medians, and their difference:",
        "",
        *table(head, ratios),
        "",
        "Aims: at most 60 ms above Hydra, which is the start of Python; faster than Open MPI's",
        "mpirun; never more than 1.2 times as long with 16 ranks.",
        "",
        "## Exchange of keys",
        "",
        f"{KEY_RANKS} processes put {KEY_BYTES} bytes each by PMI-1, meet in a barrier, and get",
        "all that the others have put. Milliseconds: **median** (min..max).",
        "",
        *table(
            ["", "last in to last out", "then all gets", "puts, gets of one"],
            [_keys_row(name, figures) for name, figures in seen.items()],
        ),
        "",
        "Aim: below 50 ms to the last barrier's answer, growing with the logarithm of the nodes.",
    ]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    lines += ["", "## Machine and command", "", *machine(), *_versions(), "", f"    {command}", ""]
    return "\n".join(lines)


def _keys_row(name: str, figures: Sequence[Exchange]) -> list[str]:
    def spread(values: Sequence[float]) -> str:
        return f"**{ms(statistics.median(values))}** ({ms(min(values))}..{ms(max(values))})"

    counts = f"{figures[0].puts}, {figures[0].gets}"
    gets = spread([each.gets_s for each in figures])
    return [name, spread([each.barrier_s for each in figures]), gets, counts]


def _versions() -> list[str]:
    """The MPI libraries, as a Markdown list."""
    found = []
    for library in LIBRARIES.values():
        if library.missing():
            continue
        script = "import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); t = ctypes.create_string_buffer"
        script += "(9000); l.MPI_Get_library_version(t, ctypes.byref(ctypes.c_int())); "
        script += "print(' '.join(t.value.decode().split())[:60])"
        done = subprocess.run(
            [sys.executable, "-c", script, str(library.libmpi)], capture_output=True, text=True
        )
        if done.returncode == 0:
            text = done.stdout.partition(" Release")[0].partition(", package")[0]
            found.append(f"- {library.name}: {text.strip()}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="counted rounds (%(default)s)")
    parser.add_argument("--sizes", default="2,4,16", help="values of N (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    sizes = [int(word) for word in options.sizes.split(",")]
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if not (yod := shutil.which("yod", path=search)):
        sys.exit("yod is not installed")
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        found, absent = launchers(yod, stack, scratch)
        times = measure(can_run(found, absent), sizes, options.rounds)
        seen = exchange(exchangers(yod, stack, scratch), options.rounds)
        command = f"python bench/mpi.py --rounds {options.rounds}"
        text = report(times, seen, absent, sizes, options.rounds, command)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
