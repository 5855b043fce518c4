"""Batch jobs: how many submissions a second are on the disk, and how soon a job runs.

    python bench/batch.py [--jobs 1000] [--rounds 5] [--write FILE]

Submissions: one client hands jobs in over one connection and waits for all answers; each answer
comes behind its commit. All slots are held meanwhile, so that no job begins. For Slurm, a loop in a
shell runs `sbatch`. How soon: on idle nodes, from the shell's start of the command, and from
the time that the queue has for the submission, to the first instruction of the script. `yodctl up`
has started a launch server, which hands the jobs in; without it `yodjob` starts Python each time.
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
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from launch import machine, table, up
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

from native import limits
from native.ids import PortalId
from native.wire import batch
from native.wire.alloc import NodeSpec, Refused
from native.wire.base import Message
from partition.batch import ask
from partition.find.discover import Where
from partition.find.talking import reached
from partition.submit.message import Script, submission, wrapped

NODES, SLOTS = 4, 4
PER_S, ARRIVAL_MS, SHELL_MS = 1000, 30, 90
SBATCH_SHARE = 10  # sbatch is measured with a part of the jobs
LIMIT_S = 120.0
FIRST = "#!/bin/sh\ndate +%s.%N > {file}\n"


def hand_in(where: Where, messages: Iterable[batch.Submit], most: int) -> tuple[list[int], float]:
    """One client hands jobs in, each answered behind its commit; their ids, and the seconds.

    Args:
        most: so many have no answer yet, at most.
    """
    in_force = limits.load(os.environ)
    left = iter(messages)
    job_ids: list[int] = []
    sent = 0
    with reached(where, in_force) as (port, bebopd, reactor):

        def send(some: int) -> None:
            nonlocal sent
            for message in islice(left, some):
                port.send(PortalId(*bebopd), message)
                sent += 1

        def ready() -> None:
            for event in port.events():
                answer: Message | None = getattr(event, "message", None)
                assert not isinstance(answer, Refused), answer
                if isinstance(answer, batch.Submitted):
                    job_ids.append(answer.job_id)
                    send(1)
            if len(job_ids) == sent:
                reactor.stop()

        watch = port.listen(reactor, ready)
        began = time.perf_counter()
        send(most)
        reactor.run()
        seconds = time.perf_counter() - began
        watch.close()
    return job_ids, seconds


def of_one_slot(script: Script) -> batch.Submit:
    """The submission of a job whose output nobody wants."""
    return submission(script, NodeSpec(1), "", 0.0, "", "/dev/null")


def submissions_per_s(where: Where, count: int) -> float:
    """Submissions that one client has durably answered in a second; the jobs are cancelled."""
    script = wrapped("true")
    messages = [of_one_slot(script) for _ in range(count)]
    job_ids, seconds = hand_in(where, messages, count)
    for job_id in job_ids:
        ask.order(where, limits.load(os.environ), batch.Cancel(job_id))
    return count / seconds


def soon_ms(
    submit: Callable[[Path], float], scratch: Path, rounds: int
) -> tuple[list[float], list[float]]:
    """For each round the milliseconds from the command, and from the queue's time of arrival.

    Args:
        submit: hands a script in; gives the unix time at which the queue says that it came, 0:
            it does not say.
    """
    from_shell, from_queue = [], []
    for number in range(rounds + 1):
        told = scratch / f"first{number}"
        script = scratch / "first.sh"
        script.write_text(FIRST.format(file=told))
        told.unlink(missing_ok=True)
        began = time.time()
        arrived = submit(script)
        text = wait_for_text(told)
        if number:  # the first is not counted
            from_shell.append((float(text) - began) * 1000)
            from_queue.append((float(text) - arrived) * 1000 if arrived else 0.0)
    return from_shell, from_queue


def wait_for_text(path: Path) -> str:
    """What a file has when it is whole."""
    until = time.monotonic() + LIMIT_S
    while not (path.exists() and path.read_text().endswith("\n")):
        if time.monotonic() > until:
            raise SystemExit(f"{path.name} has not come")
        time.sleep(0.002)
    return path.read_text()


def ours(stack: ExitStack, scratch: Path) -> tuple[Where, Mapping[str, str], str]:
    """A partition of daemons, its environment, and `yodjob`."""
    directory = Path(sys.executable).parent
    words = ("--local", str(NODES), "--slots", str(SLOTS))
    environment = up(str(directory / "yodctl"), stack, scratch / "host", *words)
    os.environ.update(environment)
    from partition.find import discover

    return discover.find("", environment), environment, str(directory / "yodjob")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000, help="each time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("YOD_ALLOCATION", None)
    rows: list[list[str]] = []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        where, environment, yodjob = ours(stack, scratch)

        def submit(script: Path, more: Mapping[str, str] = MappingProxyType({})) -> float:
            done = subprocess.run(
                [yodjob, "submit", "-quiet", "-o", "/dev/null", str(script)],
                env={**environment, **more},
                check=True, capture_output=True, text=True, timeout=LIMIT_S,
            )  # fmt: skip
            row = ask.rows(where, limits.load(os.environ), [int(done.stdout)])[0]
            return row.submitted

        shell, queue = soon_ms(submit, scratch, options.rounds)
        cold = {"YOD_LAUNCH_SERVER": "cold"}
        alone, _ = soon_ms(lambda script: submit(script, cold), scratch, options.rounds)
        holder = subprocess.Popen(
            [yodjob, "alloc", "--json", "-sz", str(NODES * SLOTS)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        stack.callback(holder.communicate)
        assert holder.stdout is not None
        holder.stdout.readline()
        rates = [submissions_per_s(where, options.jobs) for _ in range(options.rounds)]
        rate, shell_ms, queue_ms = map(statistics.median, (rates, shell, queue))
        rows.append(["yod", f"{rate:.0f}", f"{queue_ms:.0f}", f"{shell_ms:.0f}"])
        rows.append(["yod, no launch server", "", "", f"{statistics.median(alone):.0f}"])
    slurm_row, absent = of_slurm(options.jobs, options.rounds)
    rows += slurm_row
    text = report(rows, (rate, queue_ms, shell_ms), absent, options.jobs, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


def of_slurm(jobs: int, rounds: int) -> tuple[list[list[str]], str]:
    """The row of Slurm; or why there is none."""
    if reason := slurm_missing():
        return [], reason
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        slurm = stack.enter_context(Slurm(NODES))
        words = ["sbatch", "--parsable", "-o", "/dev/null"]

        def submit(script: Path) -> float:
            subprocess.run(
                [*words, str(script)],
                env=slurm.environment, check=True, capture_output=True, timeout=LIMIT_S,
            )  # fmt: skip
            return 0.0

        shell, _ = soon_ms(submit, scratch, rounds)
        count = max(1, jobs // SBATCH_SHARE)
        held = " ".join([*words, "--hold", "--wrap", "true"])
        began = time.perf_counter()
        loop = f"for i in $(seq {count}); do {held} > /dev/null; done"
        subprocess.run(["sh", "-c", loop], env=slurm.environment, check=True, timeout=LIMIT_S)
        rate = count / (time.perf_counter() - began)
    return [["sbatch (Slurm)", f"{rate:.0f}", "", f"{statistics.median(shell):.0f}"]], ""


def report(
    rows: list[list[str]],
    ours: tuple[float, float, float],
    absent: str,
    jobs: int,
    rounds: int,
) -> str:
    """The results as a section of Markdown."""
    rate, queue_ms, shell_ms = ours
    lines = [
        "# Batch jobs",
        "",
        f"Medians of {rounds} rounds. Submissions: {jobs} over one connection, each answered",
        f"behind its commit, while all slots are held; {jobs // SBATCH_SHARE} of sbatch by a loop.",
        f"Milliseconds to the first instruction of a script on {NODES} idle nodes of this host.",
        "",
        *table(["", "submissions a second", "from its arrival, ms", "from the shell, ms"], rows),
        "",
        *table(
            ["goal", "", "measured"],
            [
                ["submissions a second", f"at least {PER_S}", f"{rate:.0f}"],
                ["from its arrival, ms", f"at most {ARRIVAL_MS}", f"{queue_ms:.0f}"],
                ["from the shell, ms", f"at most {SHELL_MS}", f"{shell_ms:.0f}"],
            ],
        ),
    ]
    lines += [f"\nNot measured: sbatch (Slurm): {absent}."] if absent else []
    command = f"python bench/batch.py --jobs {jobs} --rounds {rounds}"
    lines += ["", "## Machine and command", "", *machine(), "", f"    {command}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
