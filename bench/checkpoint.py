"""Ranks that CRIU writes down and brings back, and the same by hand with `criu` alone.

    python bench/checkpoint.py [--ranks 8] [--megabytes 100] [--rounds 3] [--write FILE]

All files are on a RAM disk (``/dev/shm``). By hand `criu dump` and `criu restore` of all
processes run at once; they have no namespaces, and nobody keeps digests of the images. Warm: with
the launch server that ``yodctl up`` starts. A rank is paused as long as it says itself: it looks at
the clock every millisecond. As root.

criu keeps what it has found out about the kernel in /run, where that is a RAM disk; where it is
none, as in some containers, the measurement gives itself one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from launch import IS_COLD, IS_WARM, machine, table, up
from support import results

RAM_DISK = "/dev/shm"
BIN = Path(sys.executable).parent
OWN = Path(__file__).resolve().parents[1] / ".venv-criu" / "criu"  # by tests/setup
LIMIT_S = 120.0
GAP_S = 0.05  # a rank that has not seen the clock for so long was paused
IMAGES, DUMP = "images written, s", "written down, s"
RESTORE, PAUSE = "brought back, s", "longest pause of a rank, s"
WARM, COLD, HAND = "yod, warm", "yod, cold", "criu by hand, all at once"

PROGRAM = """
import os, sys, time
kept = os.urandom(int(sys.argv[1]) << 20)
out = open(sys.argv[2], "a")
print("begins", file=out, flush=True)
last = time.monotonic()
while True:
    time.sleep(0.001)
    now = time.monotonic()
    if now - last > float(sys.argv[3]):
        print("gap", now - last, file=out, flush=True)
        now = time.monotonic()
    last = now
"""

WITH_RUN = 'mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && exec "$@"'

Figures = dict[str, dict[str, list[float]]]


def demand_ram_disk() -> None:
    """Begin again in a mount namespace with a RAM disk in /run, where that is none."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    if ["/run", "tmpfs"] not in mounts:
        own = [sys.executable, *sys.argv]
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", WITH_RUN, "sh", *own])


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when it is so."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            raise SystemExit("bench/checkpoint.py: what was waited for has not come")
        time.sleep(0.002)


def gaps(files: list[Path]) -> list[list[float]]:
    """Of each rank: how long it was paused, each time."""
    found = []
    for file in files:
        lines = file.read_text().splitlines() if file.exists() else []
        found.append([float(line.split()[1]) for line in lines if line.startswith("gap")])
    return found


def begun(files: list[Path]) -> bool:
    """All ranks have their memory."""
    return all(file.exists() and "begins" in file.read_text() for file in files)


def longest(files: list[Path]) -> float:
    """The longest pause of any rank, when each has had one."""
    wait_for(lambda: all(gaps(files)))
    return max(max(each) for each in gaps(files))


def dumping_s(kept: Path) -> float:
    """From the first to the last of what is written of the ranks, before there are digests."""
    (made,) = kept.glob("checkpoint.*")
    begins = min(path.stat().st_mtime for path in made.glob("rank.*/streams"))
    return max(path.stat().st_mtime for path in made.glob("rank.*/stats-dump")) - begins


def by_yod(
    environment: Mapping[str, str], criu: str, place: Path, ranks: int, megabytes: int
) -> dict[str, float]:
    """One round of ours: the seconds of each figure."""
    files = [place / f"gaps.{rank}" for rank in range(ranks)]
    words = f"{megabytes} {place}/gaps.$YOD_RANK {GAP_S}"
    inner = f"exec {sys.executable} {place}/program.py {words}"
    environment = {**environment, "YOD_CRIU": criu}
    yod, yodjob = str(BIN / "yod"), str(BIN / "yodjob")
    kept = place / "kept"
    options = ("--checkpoint-dir", str(kept), "--checkpoint-by", "criu", "--mpi", "none")
    command = [yod, "-quiet", *options, "-sz", str(ranks), "sh", "-c", inner]
    job = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
    wait_for(lambda: begun(files))
    listed = subprocess.run(
        [yodjob, "list", "--json"], env=environment, capture_output=True, check=True
    )
    job_id = next(
        each["id"] for each in json.loads(listed.stdout)["jobs"] if each.get("unix_pid") == job.pid
    )
    began = time.perf_counter()
    subprocess.run(
        [yodjob, "checkpoint", job_id], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    found = {DUMP: time.perf_counter() - began, PAUSE: longest(files), IMAGES: dumping_s(kept)}
    job.send_signal(signal.SIGKILL)
    job.wait()
    before = [len(each) for each in gaps(files)]
    began = time.perf_counter()
    job = subprocess.Popen(
        [yod, "-quiet", "--restart", str(kept)], env=environment, stdin=subprocess.DEVNULL
    )
    wait_for(lambda: all(len(now) > n for now, n in zip(gaps(files), before, strict=True)))
    found[RESTORE] = time.perf_counter() - began
    job.send_signal(signal.SIGKILL)
    job.wait()
    return found


def by_hand(criu: str, place: Path, ranks: int, megabytes: int) -> dict[str, float]:
    """One round of `criu` alone."""
    files = [place / f"gaps.{rank}" for rank in range(ranks)]
    program = [sys.executable, str(place / "program.py"), str(megabytes)]
    processes = [
        subprocess.Popen(
            [*program, str(file), str(GAP_S)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for file in files
    ]
    wait_for(lambda: begun(files))
    places = [place / f"images.{rank}" for rank in range(ranks)]
    for each in places:
        each.mkdir()

    def all_at_once(what: str, options: list[list[str]]) -> float:
        began = time.perf_counter()
        running = [
            subprocess.Popen([criu, what, "-D", str(where), "-o", f"{what}.log", *own])
            for where, own in zip(places, options, strict=True)
        ]
        if any(each.wait() for each in running):
            raise SystemExit(f"bench/checkpoint.py: criu {what} failed, see {place}")
        return time.perf_counter() - began

    trees = [["-t", str(each.pid), "--leave-running"] for each in processes]
    took_s = all_at_once("dump", trees)
    found = {DUMP: took_s, IMAGES: took_s, PAUSE: longest(files)}
    for each in processes:
        each.kill()
        each.wait()
    found[RESTORE] = all_at_once("restore", [["--restore-detached"]] * ranks)
    for each in processes:
        os.kill(each.pid, signal.SIGKILL)
    wait_for(lambda: not any(os.path.exists(f"/proc/{each.pid}/exe") for each in processes))
    return found


def report(figures: Figures, ranks: int, megabytes: int, rounds: int) -> str:
    """The results as a section of Markdown."""
    middle = {
        way: {name: statistics.median(values) for name, values in own.items()}
        for way, own in figures.items()
    }
    rows = []
    for name, goal in ((IMAGES, "1.3"), (DUMP, ""), (RESTORE, "1.5"), (PAUSE, "")):
        cells = [
            f"**{middle[way][name]:.2f}** ({min(own[name]):.2f}..{max(own[name]):.2f})"
            for way, own in figures.items()
        ]
        shares = [f"{middle[way][name] / middle[HAND][name]:.2f}" for way in (WARM, COLD)]
        rows.append([name, *cells, *shares, goal])
    lines = [
        "# Checkpoints by CRIU",
        "",
        f"{ranks} ranks of {megabytes} MB each on one host, to a RAM disk: **median** (min..max)",
        f"of {rounds} rounds, the ways in turn. By hand nobody keeps digests of the images,",
        "compares them at the restart, or puts them on a disk; with `yod` all of it counts, and",
        "the start of yod itself, but in the first row: from the first image to the last.",
        "Warm: with the launch server that `yodctl up` starts. *Share*: of the time by hand.",
        f"The load of the host, of one minute, was {os.getloadavg()[0]:.0f}.",
        "",
        *table(["", WARM, COLD, HAND, "share, warm", "share, cold", "goal at most"], rows),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        f"    python bench/checkpoint.py --ranks {ranks} --megabytes {megabytes} --rounds {rounds}",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--criu", default=os.environ.get("YOD_CRIU", str(OWN)))
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    demand_ram_disk()
    figures: Figures = {WARM: {}, COLD: {}, HAND: {}}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        environment = up(str(BIN / "yodctl"), stack, scratch)
        ways = {
            WARM: partial(by_yod, environment | IS_WARM),
            COLD: partial(by_yod, environment | IS_COLD),
            HAND: by_hand,
        }
        for number in range(chosen.rounds):
            for way, measured in ways.items():
                with tempfile.TemporaryDirectory(dir=RAM_DISK, prefix="bench-of-yod-") as name:
                    place = Path(name)
                    (place / "program.py").write_text(PROGRAM)
                    found = measured(chosen.criu, place, chosen.ranks, chosen.megabytes)
                for key, value in found.items():
                    figures[way].setdefault(key, []).append(value)
            print(f"round {number + 1} of {chosen.rounds}", file=sys.stderr)
    section = report(figures, chosen.ranks, chosen.megabytes, chosen.rounds)
    print(section)
    if chosen.write:
        results.write(chosen.write, section)


if __name__ == "__main__":
    main()
