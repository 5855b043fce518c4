"""Random signals to launch servers: ``python -m tests.fuzz.server_kills COUNT [SEED]``.

In each round some yods ask a launch server, and one or two processes are killed, stopped for a
moment or for as long as the yods take, or told to end: the server, a helper, a client, a keeper,
a rank or what it has started. Then every yod must end in time with a status that the signal
explains, in one line where the launcher failed; no rank may have run twice; a yod that the signal
did not concern must end well; nothing may be left, and the next yod must run: cold where the
server has ended, and warm when another one was started.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.fuzz.runs import in_tens, own_place
from tests.fuzz.strikes import KINDS, MOMENT_S, NUMBER, SIGNALS
from tests.support.daemons import FAULT
from tests.support.leaks import Watch, command_line, descendants
from tests.support.own_server import Counted, OwnServer
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.wait import wait_for_exit

LAUNCHES = 4  # at a time
LIMITS = {"YOD_LIVENESS_S": "5", "YOD_PREPARE_S": "3", "YOD_NOTICE_S": "60"}
MOMENTS_S = (0.01, 0.03, MOMENT_S)  # a launch takes a few milliseconds
BOUND_S = 60.0  # for the end of a yod: far more than all limits above together
LOST = 125
SHOWN = 6000  # characters of a log
OF_SIGNAL = 128  # the exit status of a rank's death by signal
KEEPER = "yod-keeper"
ROLES = ("server", "helper", "client", "client", "keeper", "keeper", "rank")


class Launch:
    """One yod.

    Attributes:
        allowed: statuses that what was done to it may have; 0 is always among them.
        is_quiet: nothing has happened to it of which it must tell.
        may_say_more: it or its ranks have had a signal, and it says so in lines of their own.
    """

    def __init__(self, server: OwnServer, directory: Path, rng: random.Random, number: int) -> None:
        self.kind = rng.choice(KINDS)
        self.name = f"launch {number} ({self.kind.name})"
        self.allowed = {0}
        self.is_quiet = True
        self.may_say_more = False
        self._counted = Counted(directory, f"ran {number}")
        report = ("-file", str(directory / "report")) if rng.random() < 0.3 else ()
        program = (*self._counted.words('exec "$@"'), "sh", *self.kind.words)
        words = ("-sz", str(self.kind.ranks), *report, *program)
        self.process = server.start_yod(*words, env={NUMBER: str(number)})

    def concern(self, role: str, number: int) -> None:
        """A signal may have an effect on it."""
        self.is_quiet = False
        self.may_say_more |= role in ("client", "keeper", "rank")
        if number == signal.SIGSTOP:
            return
        more = {
            "server": {LOST},
            "helper": {LOST},
            "client": {-number},
            "keeper": {LOST, OF_SIGNAL + signal.SIGKILL},  # its ranks, if it is told to end
            "rank": {LOST, OF_SIGNAL + number},  # 125: at its entry
        }
        self.allowed |= more[role]

    def end(self) -> int:
        """Wait for its end; gives its status.

        Raises:
            AssertionError: it does not end, not as it was allowed to, or a rank ran twice.
        """
        done = finish(self.process, self.kind.given.encode(), BOUND_S)
        what = f"{self.name}: {done.status}: {done.out[-200:]!r} {done.err[-2000:]!r}"
        assert FAULT not in done.err and "Traceback" not in done.err, what
        assert done.status in self.allowed, f"{self.allowed} was expected of {what}"
        ran = self._counted.ranks
        ranks = [str(rank) for rank in range(self.kind.ranks)]
        assert sorted(set(ran)) == ran and set(ran) <= set(ranks), f"{ran} ran in {what}"
        if done.status == 0:
            said, wanted = done.out.splitlines(), self.kind.said.splitlines()
            assert sorted(said) == sorted(wanted) and ran == ranks, f"{ran} ran in {what}"
            assert not self.is_quiet or not done.err, what
        elif done.status == LOST:
            lines = done.err.splitlines()
            assert any(line.startswith("yod: ") for line in lines), what
            assert len(lines) == 1 or self.may_say_more, what
        return done.status


class ServerTrial:
    """Rounds with one launch server after another."""

    def __init__(self, server: OwnServer, place: Place, directory: Path, seed: int) -> None:
        self._server = server
        self._place = place
        self._directory = directory
        self._rng = random.Random(seed)
        self._launches: list[Launch] = []

    def round(self) -> str:
        """Some launches and a signal or two; gives what it did.

        Raises:
            AssertionError: a promise is broken. It tells the whole round.
        """
        self._began_at = time.monotonic()
        self._did: list[str] = []
        try:
            return self._round()
        except AssertionError as error:
            log = self._server.launch_server.log()[-SHOWN:]  # type: ignore[union-attr]
            raise AssertionError("\n".join((*self._did, str(error), log))) from None
        finally:
            for launch in self._launches:
                launch.process.kill()

    def _round(self) -> str:
        server, rng = self._server, self._rng
        watch = Watch(self._place)
        server.launch_server.begin_test(watch)  # type: ignore[union-attr]
        count = rng.randint(1, LAUNCHES)
        with tempfile.TemporaryDirectory(dir=self._directory) as directory:
            self._launches = [Launch(server, Path(directory), rng, n) for n in range(count)]
            for launch in self._launches:
                self._tell(f"{launch.name} is {launch.process.pid}")
            text = self._strike(ROLES)
            if rng.random() < 0.3:  # a keeper that dies with its client leaves orphans
                text += ", " + self._strike(("server", "helper"))
            for launch in self._launches:
                self._tell(f"{launch.name} has ended with {launch.end()}")
        self._restore(watch)
        return text

    def _strike(self, roles: Sequence[str], is_within: bool = False) -> str:
        """A signal at a random time; gives its name and that of its victim.

        Args:
            is_within: another process is stopped meanwhile, and no launch may be waited for.
        """
        self._moment()
        victims = self._victims()
        roles = [role for role in roles if victims[role]]
        if not roles:  # the server has ended
            return "nothing"
        role = self._rng.choice(roles)
        victim, number = self._rng.choice(sorted(victims[role])), self._rng.choice(SIGNALS)
        if role == "helper" and number == signal.SIGINT:  # Ctrl-C does not reach its group
            number = signal.SIGTERM
        concerned = [each for each in self._launches if self._is_of(victim, each)]
        for launch in concerned or self._launches:
            launch.concern(role, number)
        text = f"{signal.Signals(number).name} to a {role}, {command_line(victim)[:80]}"
        self._tell(f"{text}, which is {victim}; it concerns {[each.name for each in concerned]}")
        try:
            os.kill(victim, number)
            if number == signal.SIGSTOP:
                self._while_stopped(role, is_within)
                os.kill(victim, signal.SIGCONT)
                self._tell("SIGCONT")
            elif role in ("server", "helper"):
                wait_for_exit(victim)
                self._tell("it has ended")
        except ProcessLookupError:
            text += ", which had ended"
            self._tell("it had ended")
        return text

    def _while_stopped(self, role: str, is_within: bool) -> None:
        """A moment, another signal, or until every launch has ended without that process."""
        is_long = not is_within and self._rng.random() < 0.5
        if not is_long:
            self._moment()
            return
        if role not in ("server", "helper"):
            self._strike(("server", "helper"), is_within=True)
            return
        for launch in self._launches:
            if role == "server":
                launch.allowed.add(LOST)
            self._tell(f"{launch.name} has ended with {launch.end()}")
        self._launches = []

    def _victims(self) -> dict[str, set[int]]:
        """Processes by what they are."""
        server = self._server.unix_pid if self._server.daemon.is_alive else 0
        found: dict[str, set[int]] = {role: set() for role in ROLES}
        found["server"] = {server} - {0}
        found["helper"] = self._server.helpers if server else set()
        for launch in self._launches:
            found["client"].add(launch.process.pid)
            for unix_pid in descendants(launch.process.pid):
                found["keeper" if is_keeper(unix_pid, launch) else "rank"].add(unix_pid)
        return found

    def _is_of(self, victim: int, launch: Launch) -> bool:
        return victim in {launch.process.pid} | descendants(launch.process.pid)

    def _moment(self) -> None:
        errors = [launch.process.stderr for launch in self._launches]
        select.select(errors, [], [], self._rng.uniform(0, self._rng.choice(MOMENTS_S)))

    def _restore(self, watch: Watch) -> None:
        """Nothing but the server is left, or another one takes its place."""
        server = self._server
        self._launches = []
        is_alive = server.daemon.is_alive
        if is_alive:
            server.wait_idle()
            server.works()
        else:
            done = server.yod("-sz", "2", "echo", "cold")
            assert (done.status, done.out, done.err) == (0, "cold\ncold\n", ""), done
        watch.check()
        said = server.daemon.text()
        assert FAULT not in said and "Traceback" not in said, said
        if not is_alive:
            server.start()
            server.works()
            self._tell("another server works")

    def _tell(self, what: str) -> None:
        self._did.append(f"{time.monotonic() - self._began_at:.3f} s: {what}")


def is_keeper(unix_pid: int, launch: Launch) -> bool:
    """Whether a process is the keeper of a launch: a child that has not become a rank."""
    with suppress(OSError):
        status = Path(f"/proc/{unix_pid}/status").read_text()
        return f"Name:\t{KEEPER}\n" in status and f"PPid:\t{launch.process.pid}\n" in status
    return False


def trial(place: Place, seed: int, count: int) -> list[str]:
    """So many rounds; gives what each did.

    Raises:
        AssertionError: a promise is broken.
    """
    with OwnServer(place, env=LIMITS) as server:
        rounds = ServerTrial(server, place, place.directory, seed)
        try:
            server.works()
            return [rounds.round() for _ in range(count)]
        except AssertionError as error:
            raise AssertionError(f"with seed {seed}: {error}") from None


def main() -> None:
    """Rounds with launch servers of our own, ten to a line of progress; the seed is told first."""
    with own_place() as (place, seed):
        in_tens(int(sys.argv[1]), seed, partial(trial, place))
    print("nothing found")


if __name__ == "__main__":
    main()
