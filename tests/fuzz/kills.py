"""Random signals to random processes: ``python -m tests.fuzz.kills COUNT [SEED]``.

Root's daemons run jobs of two users, several at a time. In each round one process of all
(a daemon, a yod, a keeper, a rank or what it has started) is killed, stopped for a
moment, or told to end. Then every yod must end in time with a documented status, and say why where
that is not 0; jobs that the signal did not concern must end well; nothing of a
job may be left, and every node must be free. Daemons that have ended are started again.
A launch server and its clients are struck by :mod:`tests.fuzz.server_kills`.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.fuzz.runs import in_tens, own_place
from tests.fuzz.strikes import KINDS, MOMENT_S, NUMBER, SIGNALS, environment_of
from tests.support.daemons import FAULT, Daemons
from tests.support.leaks import command_line, descendants, is_a_stores, marked
from tests.support.nobody import NOBODY, as_nobody
from tests.support.partition import BIN, finish
from tests.support.wait import wait_for_exit, wait_until

NODES = 3
SLOTS = 8
JOBS = 4  # at a time
NOTICE_S = 30  # what is awaited for longer, yod says
SHOWN = 4000  # characters of a log


class Job:
    """One yod, and the user whose it is."""

    def __init__(self, partition: Daemons, home: Path, rng: random.Random, number: int) -> None:
        self.mark = f"{NUMBER}={number}".encode()
        self.kind = rng.choice(KINDS)
        self.is_theirs = rng.random() < 0.5
        self.name = f"job {number} ({self.kind.name}, {'theirs' if self.is_theirs else 'ours'})"
        words = [BIN / "yod", "-sz", str(self.kind.ranks), *self.kind.words]
        env = {NUMBER: str(number)}
        if self.is_theirs:
            self.process = as_nobody(partition, home, *words, env=env)
        else:
            self.process = partition.start_command(*words, env=env)

    def end(self, is_victim: bool, is_concerned: bool) -> int:
        """Wait for its end; gives its status.

        Args:
            is_victim: the signal went to yod itself.
            is_concerned: or to something that this job may have needed.

        Raises:
            AssertionError: it does not end, not well, or in silence.
        """
        done = finish(self.process, self.kind.given.encode())
        what = f"{self.name}: {done.status}: {done.out[-200:]!r} {done.err[-2000:]!r}"
        assert FAULT not in done.err and "Traceback" not in done.err, what
        if done.status == 0:
            said, wanted = done.out.splitlines(), self.kind.said.splitlines()
            assert sorted(said) == sorted(wanted), what
        else:
            assert is_concerned, what
            assert done.status > 0 or is_victim, what
            assert done.err or is_victim, what
        return done.status


class Trial:
    """Rounds on one partition."""

    def __init__(self, partition: Daemons, home: Path, seed: int) -> None:
        self._partition = partition
        self._home = home
        self._rng = random.Random(seed)
        self._before = partition.files()

    def round(self) -> str:
        """Some jobs and one signal; gives what it did.

        Raises:
            AssertionError: a promise is broken. It tells the whole round.
        """
        self._began_at = time.monotonic()
        self._did: list[str] = []
        try:
            return self._round()
        except AssertionError as error:
            daemons = (*self._partition.pcts, self._partition.bebopd)
            for daemon in daemons:
                daemon.show_state()
            logs = "".join(f"--- {daemon.log.name}\n{daemon.text()[-SHOWN:]}" for daemon in daemons)
            raise AssertionError("\n".join((*self._did, str(error), logs))) from None

    def _round(self) -> str:
        partition, rng = self._partition, self._rng
        jobs = [Job(partition, self._home, rng, n) for n in range(rng.randint(1, JOBS))]
        for job in jobs:
            self._tell(f"{job.name} is {job.process.pid}")
        self._moment(jobs)
        victim = rng.choice(sorted(descendants(os.getpid())))
        number = rng.choice(SIGNALS)
        text = f"{signal.Signals(number).name} to {command_line(victim)[:80]}"
        concerned = self._concerned(victim, jobs)
        self._tell(f"{text}, which is {victim}; it concerns {[job.name for job in concerned]}")
        try:
            os.kill(victim, number)
            if number == signal.SIGSTOP:
                self._moment(jobs)
                os.kill(victim, signal.SIGCONT)
                self._tell("SIGCONT")
            elif victim in self._daemons():
                wait_for_exit(victim)
                self._tell("it has ended")
        except ProcessLookupError:
            text += ", which had ended"
            self._tell("it had ended")
        for job in jobs:
            status = job.end(is_victim=job.process.pid == victim, is_concerned=job in concerned)
            self._tell(f"{job.name} has ended with {status}")
        self._restore()
        return text

    def _tell(self, what: str) -> None:
        self._did.append(f"{time.monotonic() - self._began_at:.3f} s: {what}")

    def _concerned(self, victim: int, jobs: list[Job]) -> list[Job]:
        """Whose job a process is; all of them where it is a daemon, or does not tell."""
        tree = {victim} | descendants(victim)
        if victim in self._daemons():
            return jobs
        marks = {mark for pid in tree for mark in environment_of(pid).split(b"\0")}
        return [job for job in jobs if job.mark in marks] or jobs

    def _daemons(self) -> set[int]:
        return {daemon.unix_pid for daemon in (*self._partition.pcts, self._partition.bebopd)}

    def _moment(self, jobs: list[Job]) -> None:
        outputs = [job.process.stderr for job in jobs]
        select.select(outputs, [], [], self._rng.uniform(0, MOMENT_S))

    def _restore(self) -> None:
        """Daemons that have ended are replaced; nothing but daemons is left."""
        partition = self._partition
        if not partition.bebopd.is_alive:
            partition.bebopd.kill()
            partition.replace_bebopd()
        for node, pct in enumerate(partition.pcts):
            if not pct.is_alive:
                pct.kill()
                partition.replace_pct(node)
        wait_until(lambda: set(partition.states()) == {"free"}, what="free nodes")
        self._nothing_left()
        for daemon in (*partition.pcts, partition.bebopd):
            said = daemon.text()
            assert FAULT not in said, said[said.index(FAULT) :][:2000]

    def _nothing_left(self) -> None:
        partition = self._partition

        def left() -> list[str]:
            processes = descendants(os.getpid()) | marked(partition.mark)
            processes -= self._daemons()
            made = partition.files() - self._before
            objects = [path for path in made if not is_a_stores(path)]
            return [*map(command_line, processes - {os.getpid()}), *objects]

        try:
            wait_until(lambda: not left())
        except AssertionError:
            raise AssertionError(f"left behind: {left()}") from None


def trial(partition: Daemons, seed: int, count: int) -> list[str]:
    """So many rounds; gives what each did.

    Raises:
        AssertionError: a promise is broken.
    """
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as home:
        os.chown(home, NOBODY, NOBODY)
        rounds = Trial(partition, Path(home), seed)
        try:
            return [rounds.round() for _ in range(count)]
        except AssertionError as error:
            raise AssertionError(f"with seed {seed}: {error}") from None


def main() -> None:
    """Rounds on daemons of our own, ten to a line of progress; the seed is told first."""
    with own_place() as (place, seed):
        os.environ["YOD_NOTICE_S"] = str(NOTICE_S)
        partition = Daemons(place, NODES, slots=SLOTS)
        partition.start()
        try:
            in_tens(int(sys.argv[1]), seed, partial(trial, partition))
        finally:
            partition.stop()
    print("nothing found")


if __name__ == "__main__":
    main()
