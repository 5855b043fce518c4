"""How long a launch of `true` takes, beside other launchers.

    python bench/launch.py [--rounds 15] [--sizes 1,4,16,64] [--write FILE]

Every launcher is given the same work in the same run, with its default options:
start N processes of `true`, wait for them, exit. There are two parts: launchers of this host
alone, and those that have a daemon for each node, which are started behind the first part, since
idle daemons take processor time, too. A round runs every pair of launcher and size of its part
once, in random order, so that a slow phase of the machine affects all alike; the first round
is not counted. The time is that of the whole command as a shell would measure it.

The result names launchers that cannot run here, with the reason. On a busy machine,
`chrt -r 1 python bench/launch.py` keeps other work from affecting the times.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

HERE = Path(__file__).resolve().parent
TRIES = 3
LIMIT_S = 120.0  # for one launch

C, PYTHON, WARM, COLD, WARM_PCTS, COLD_PCTS, MPIEXEC, SRUN = (
    "spawn from C",
    "python -c pass",
    "yod, warm",
    "yod, cold",
    "yod over N local PCTs, warm",
    "yod over N local PCTs, cold",
    "mpiexec (MPICH)",
    "srun (Slurm)",
)
IS_COLD = {"YOD_LAUNCH_SERVER": "cold"}
IS_WARM = {"YOD_COLD": "never"}  # else it fails
OVER_HYDRA_MS = 1.0  # of one warm rank
OF_SRUN = {4: 0.3, 16: 0.25, 64: 0.25}  # the time of a warm launch over PCTs, by their number


class Launcher:
    """One way to start N processes.

    Attributes:
        name: as in the tables.
        command: gives the command line for a size.
        environment: gives its environment for a size.
        settle: called after each launch, outside of the measured time.
        sizes: those it is run with; empty: all.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        environment: Callable[[int], Mapping[str, str]] = lambda size: os.environ,
        settle: Callable[[], None] = lambda: None,
        sizes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.command = command
        self.environment = environment
        self.settle = settle
        self.sizes = sizes

    def run(self, size: int) -> float:
        """Seconds that one launch takes.

        A launch that fails is reported on stderr and repeated: MPICH's now and then
        dies of SIGPIPE.

        Raises:
            subprocess.CalledProcessError: it failed each time.
        """
        for _ in range(TRIES - 1):
            try:
                return self._run_once(size)
            except subprocess.CalledProcessError as error:
                print(f"once more: {error}", file=sys.stderr)
        return self._run_once(size)

    def _run_once(self, size: int) -> float:
        command = list(self.command(size))
        started = time.perf_counter()
        done = subprocess.run(
            command,
            env=dict(self.environment(size)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
        elapsed = time.perf_counter() - started
        if done.returncode != 0:
            sys.stderr.write(done.stdout.decode(errors="replace"))
            done.check_returncode()
        self.settle()
        return elapsed


Absent = dict[str, str]  # a launcher that cannot run here -> why


def on_this_host(
    sizes: Sequence[int], stack: ExitStack, scratch: Path, absent: Absent
) -> list[Launcher]:
    """Launchers that have no daemons, or one."""
    found = [Launcher(PYTHON, lambda size: [sys.executable, "-c", "pass"], sizes=[min(sizes)])]

    compiler = os.environ.get("CC", "cc")
    spawn = scratch / "spawn"
    subprocess.run([compiler, "-O2", "-o", str(spawn), str(HERE / "spawn.c")], check=True)
    found.append(Launcher(C, lambda size: [str(spawn), str(size), "true"]))

    if yod := installed("yod"):
        try:
            host = up(yodctl_beside(yod), stack, scratch / "host")
            found += of_yod(yod, (WARM, COLD), lambda size: host)
        except subprocess.CalledProcessError as error:
            absent[WARM] = f"yodctl up failed: {error.stderr.strip()[-200:]}"
    else:
        absent["yod"] = "it is not installed"

    if mpiexec := installed("mpiexec.hydra"):
        found.append(Launcher(MPIEXEC, lambda size: [mpiexec, "-n", str(size), "true"]))
    else:
        absent[MPIEXEC] = "mpiexec.hydra is not installed"
    return found


def over_nodes(
    sizes: Sequence[int], stack: ExitStack, scratch: Path, absent: Absent
) -> list[Launcher]:
    """Launchers that have a daemon for each node."""
    found: list[Launcher] = []
    if yod := installed("yod"):
        try:
            yodctl = yodctl_beside(yod)
            places = {size: partition(yodctl, size, stack, scratch) for size in sizes}
            found += of_yod(yod, (WARM_PCTS, COLD_PCTS), lambda size: places[size])
        except subprocess.CalledProcessError as error:
            absent[WARM_PCTS] = f"yodctl up failed: {error.stderr.strip()[-200:]}"
    if reason := slurm_missing():
        absent[SRUN] = reason
    else:
        slurm = stack.enter_context(Slurm(max(sizes)))
        command = lambda size: ["srun", "-N", str(size), "true"]  # noqa: E731
        found.append(Launcher(SRUN, command, lambda size: slurm.environment, slurm.settle))
    return found


def installed(name: str) -> str | None:
    """The command's path, beside this interpreter first: what is measured is installed with it."""
    beside = Path(sys.executable).parent
    return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


def yodctl_beside(yod: str) -> str:
    """The command of the same installation."""
    return str(Path(yod).with_name("yodctl"))


def of_yod(
    yod: str, names: tuple[str, str], environment: Callable[[int], Mapping[str, str]]
) -> list[Launcher]:
    """yod with a launch server, and without, in an environment that finds its partition."""
    command = lambda size: [yod, "-sz", str(size), "true"]  # noqa: E731
    warm, cold = names
    return [
        Launcher(warm, command, lambda size: {**environment(size), **IS_WARM}),
        Launcher(cold, command, lambda size: {**environment(size), **IS_COLD}),
    ]


def partition(
    yodctl: str, size: int, stack: ExitStack, scratch: Path, *, slots: int = 1
) -> dict[str, str]:
    """A partition of ``size`` PCTs on this host; gives the environment that finds it."""
    place = scratch / f"partition-{size}"
    return up(yodctl, stack, place, "--local", str(size), "--slots", str(slots))


def up(yodctl: str, stack: ExitStack, place: Path, *words: str) -> dict[str, str]:
    """What ``yodctl up`` starts, in a directory of its own; the environment that finds it.

    Raises:
        subprocess.CalledProcessError: it has not started.
    """
    for name in ("home", "run", "state"):
        (place / name).mkdir(parents=True, mode=0o700)
    environment = {
        **os.environ,
        "HOME": str(place / "home"),
        "XDG_RUNTIME_DIR": str(place / "run"),
        "XDG_STATE_HOME": str(place / "state"),
        "YOD_RUN_DIRECTORY": "none",
    }

    def control(*words: str, check: bool = True) -> None:
        subprocess.run(
            [yodctl, *words],
            env=environment,
            check=check,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    stack.callback(control, "down", "--force", check=False)  # also what came up in part
    control("up", *words)
    return environment


Times = dict[tuple[str, int], list[float]]


def measure(found: Sequence[Launcher], sizes: Sequence[int], rounds: int) -> Times:
    """Times of every launcher and size, in seconds, one per round."""
    pairs = [(launcher, size) for launcher in found for size in launcher.sizes or sizes]
    times: Times = {(launcher.name, size): [] for launcher, size in pairs}
    for number in range(rounds + 1):
        order = random.Random(number).sample(pairs, len(pairs))
        for launcher, size in order:
            elapsed = launcher.run(size)
            if number > 0:
                times[launcher.name, size].append(elapsed)
        print(f"round {number} of {rounds}", file=sys.stderr)
    return times


def report(times: Times, absent: Mapping[str, str], sizes: Sequence[int], rounds: int) -> str:
    """The results as a page of Markdown."""
    names = list(dict.fromkeys(name for name, _ in times))
    middle = {pair: statistics.median(values) for pair, values in times.items()}

    def cell(name: str, size: int) -> str:
        if (name, size) not in times:
            return ""
        values = times[name, size]
        low, high = min(values), max(values)
        return f"**{ms(middle[name, size])}** ({ms(low)}..{ms(high)})"

    def ratio(name: str, base: str, size: int) -> str:
        if (name, size) not in middle or (base, size) not in middle:
            return ""
        return f"{middle[name, size] / middle[base, size]:.2f}"

    head = [f"N = {size}" for size in sizes]
    lines = [
        "# Launch time of `true`",
        "",
        f"Milliseconds of the whole command: **median** (min..max) of {rounds} rounds, in one",
        "run, default options, hold at entry and PMI on. Interleaved: first the launchers of this",
        "host alone, then, with their daemons up, those over PCTs and Slurm's. Warm: with the",
        "launch server that `yodctl up` starts.",
        "",
        *table(["", *head], [[name, *(cell(name, size) for size in sizes)] for name in names]),
        "",
        "Ratio of the medians:",
        "",
    ]
    bases = [base for base in (SRUN, MPIEXEC, C) if base in names]
    rows = [
        [f"{name} / {base}", *(ratio(name, base, size) for size in sizes)]
        for name in (WARM, COLD, WARM_PCTS, COLD_PCTS)
        if name in names
        for base in bases
    ]
    lines += [*table(["", *head], rows), "", *table(["goal", "", "measured"], goals(middle))]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    lines += ["", "## Machine", "", *machine(), ""]
    command = f"python bench/launch.py --rounds {rounds}"
    if os.sched_getscheduler(0) == os.SCHED_RR:
        command = f"chrt -r 1 {command}"
    lines += ["## Command", "", f"    {command}", ""]
    return "\n".join(lines)


def goals(middle: Mapping[tuple[str, int], float]) -> list[list[str]]:
    """Rows of what a warm launch should take, and takes."""
    rows: list[list[str]] = []
    for (name, size), seconds in middle.items():
        hydra, srun = middle.get((MPIEXEC, size)), middle.get((SRUN, size))
        if name == WARM and hydra is not None:
            over_ms = OVER_HYDRA_MS if size == 1 else 0.0
            goal = f"at most {over_ms:+.1f} ms" if over_ms else "below 0"
            rows.append([f"{name}, N = {size}, above {MPIEXEC}", goal])
            rows[-1].append(f"{(seconds - hydra) * 1000:+.1f} ms")
        elif name == WARM_PCTS and srun is not None and size in OF_SRUN:
            rows.append([f"{name}, N = {size}, by {SRUN}", f"at most {OF_SRUN[size]}"])
            rows[-1].append(f"{seconds / srun:.2f}")
    return rows


def ms(seconds: float) -> str:
    """Seconds as milliseconds, to three digits."""
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of Markdown."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def machine() -> list[str]:
    """What the figures were measured on, as a Markdown list."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0))
    items = [
        f"{model}, {cores} processors, {memory:.0f} GiB",
        f"Linux {platform.release().partition('-')[0]}, {' '.join(platform.libc_ver())}",
        f"Python {platform.python_version()}{_builder()}",
    ]
    for package in ("yod", "mpich"):
        try:
            items.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    if commit := _output(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]):
        items.append(f"yod's commit {commit}")
    if os.sched_getscheduler(0) == os.SCHED_RR:
        items.append("everything at real-time priority: not slowed by other work")
    if version := _output(["slurmctld", "-V"]):
        items.append(version)
    return [f"- {item}" for item in items]


def _builder() -> str:
    """Whose Python it is: distributions optimize theirs by a profile."""
    return ", the distribution's" if sys.base_prefix == "/usr" else ", built by hand"


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="counted rounds (%(default)s)")
    parser.add_argument("--sizes", default="1,4,16,64", help="values of N (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    sizes = [int(word) for word in options.sizes.split(",")]
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    times: Times = {}
    absent: Absent = {}
    for part in (on_this_host, over_nodes):
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
            found = part(sizes, stack, scratch, absent)
            times |= measure(found, sizes, options.rounds)
    text = report(times, absent, sizes, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
