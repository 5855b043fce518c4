"""A long queue: how long `yodjob list` takes, and how long others wait meanwhile.

    python bench/queue_list.py [--jobs 100000] [--rounds 3] [--write FILE]

All slots are held, and so many jobs wait. One client asks about one job again and again while
`yodjob list` runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from batch import NODES, SLOTS, hand_in, of_one_slot, ours
from launch import machine, table
from support import results

from native import limits
from partition.batch import ask
from partition.find.discover import Where
from partition.submit.message import wrapped

LIST_S, OTHERS_MS = 1.0, 20
WINDOW = 256  # submissions that are not answered yet
COUNTS = ("YOD_SUBMITTED_EACH_COUNT", "YOD_SUBMITTED_COUNT")


def fill(where: Where, count: int) -> float:
    """So many jobs wait; the submissions a second."""
    script = wrapped("true")
    messages = (of_one_slot(script) for _ in range(count))
    return count / hand_in(where, messages, WINDOW)[1]


def listed(yodjob: str, where: Where) -> tuple[float, list[float]]:
    """The seconds of one `yodjob list`, and the milliseconds of each question beside it."""
    in_force = limits.load(os.environ)
    waited_ms = []
    began = time.perf_counter()
    process = subprocess.Popen([yodjob, "list"], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        asked = time.perf_counter()
        ask.rows(where, in_force, [1])
        waited_ms.append((time.perf_counter() - asked) * 1000)
    return time.perf_counter() - began, waited_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000, help="that wait (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("YOD_ALLOCATION", None)
    os.environ.update(dict.fromkeys(COUNTS, str(options.jobs + 1)))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        where, environment, yodjob = ours(stack, scratch)
        words = ["-sz", str(NODES * SLOTS), "-o", "/dev/null", "--wrap", "exec sleep infinity"]
        subprocess.run(
            [yodjob, "submit", *words], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        rate = fill(where, options.jobs)
        seconds, waited_ms = [], []
        for number in range(options.rounds + 1):
            took_s, waits_ms = listed(yodjob, where)
            if number:  # the first is not counted
                seconds.append(took_s)
                waited_ms += waits_ms
    text = report(options.jobs, options.rounds, rate, statistics.median(seconds), waited_ms)
    print(text)
    if options.write:
        results.write(options.write, text)


def report(jobs: int, rounds: int, rate: float, list_s: float, waited_ms: list[float]) -> str:
    """The results as a section of Markdown."""
    longest_ms, median_ms = max(waited_ms), statistics.median(waited_ms)
    lines = [
        "# A long queue",
        "",
        f"{jobs} jobs wait; they were handed in at {rate:.0f} a second. Median of {rounds} lists;",
        "another client asks about one job all the time.",
        "",
        *table(
            ["", "goal", "measured"],
            [
                ["`yodjob list`, s", f"at most {LIST_S:g}", f"{list_s:.2f}"],
                ["longest answer to the other, ms", f"at most {OTHERS_MS}", f"{longest_ms:.1f}"],
                ["its median, ms", "", f"{median_ms:.1f}"],
            ],
        ),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        f"    python bench/queue_list.py --jobs {jobs} --rounds {rounds}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
