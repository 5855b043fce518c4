"""Commands about jobs by a launch server: as from a process of their own, but for the time."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.batch import Jobs, jobs
from tests.support.own_server import OwnServer, own_server
from tests.support.partition import BIN, Done, finish
from tests.support.wait import read_until, wait_until
from tests.system.test_yodjob_warm import Warm, all_jobs_end, warm

__all__ = ["all_jobs_end", "jobs", "own_server", "warm"]

COLD = {"YOD_LAUNCH_SERVER": "cold", "YOD_COLD": None}
NOWHERE = ("--partition", "unix:/none/at/all")
HEARS = "trap 'echo got usr1' USR1; trap 'echo got term; exit 3' TERM; echo up;"
HEARS += " while :; do sleep 0.05; done"


class Asked:
    """Jobs that are there, and what lines about them say."""

    def __init__(self, warm: Warm, jobs: Jobs, server: OwnServer) -> None:
        self.warm, self.jobs, self.server = warm, jobs, server
        self.ids: dict[str, str] = {}
        directories = server.launch_server.directories  # where all of these jobs are found
        self.env: dict[str, str | None] = {**directories}
        self.cold = COLD | self.env
        self.warm.env |= self.env
        self.yods: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """A batch job that runs, one that waits, a launch over the daemons, one on this host."""
        self.ids["RUNS"] = runs = self.jobs.submit("-sz", "1", text=HEARS)
        wait_until(lambda: self.jobs.says(runs, "up\n"), what="a batch job")
        self.ids["LAUNCH"] = self.launch()
        self.ids["HERE"] = self.here()
        self.ids["WAITS"] = self.jobs.submit("-sz", "4", "--wrap", "true")

    def launch(self) -> str:
        """The id of a launch in the partition."""
        yod = self.jobs.partition.start_yod(
            "-sz", "1", "sh", "-c", f"echo $YOD_JOB_ID.; {HEARS}", env=self.env
        )
        return self._begun(yod)

    def here(self) -> str:
        """The id of a launch in the server."""
        yod = self.server.start_warm("-sz", "1", "sh", "-c", f"echo .; {HEARS}")
        self._begun(yod)
        found = []

        def has_id() -> bool:
            done = self.warm.run("list")
            found[:] = re.findall(r"^ *(local\.\d+) ", done.out, re.MULTILINE)
            return bool(found)

        wait_until(has_id, what="the id of the job")
        return found[-1]

    def _begun(self, yod: subprocess.Popen[bytes]) -> str:
        self.yods.append(yod)
        return read_until(yod.stdout.fileno(), b"up\n").decode().partition(".")[0].strip()

    def end(self) -> None:
        self.jobs.yodjob(
            "cancel", *(self.ids[each] for each in ("RUNS", "WAITS") if each in self.ids)
        )
        for yod in self.yods:
            yod.terminate()
            finish(yod)

    def words(self, line: str) -> list[str]:
        return [self.ids.get(word, word) for word in line.split()]

    def both(self, line: str, **options: Any) -> tuple[Done, Done]:
        """What a line says warm, where nothing could run cold, and what it says cold."""
        more = options.pop("env", {})
        first = self.warm.run(*self.words(line), env=more, **options)
        second = self.jobs.yodjob(*self.words(line), env=self.cold | more, **options)
        return like(first), like(second)


def like(done: Done) -> Done:
    """With numbers left out: time passes."""
    return Done(done.status, re.sub(r"[\d.]+", "N", done.out), done.err)


@pytest.fixture
def asked(warm: Warm, jobs: Jobs, own_server: OwnServer) -> Iterator[Asked]:
    found = Asked(warm, jobs, own_server)
    try:
        found.begin()
        yield found
    finally:
        found.end()


LINES = [
    ("list", 0),
    ("list --json", 0),
    ("show RUNS", 0),
    ("show --events WAITS RUNS", 0),
    ("show LAUNCH HERE", 0),
    ("show --json --events RUNS WAITS LAUNCH HERE", 0),
    ("show HERE local.999 RUNS 4711 no/id", 1),
    ("show --json local.999", 1),
    ("signal USR1 local.999 4711", 1),
    ("signal NONSENSE RUNS", 2),
    ("signal 0 RUNS", 2),
    ("signal USR1 RUNS WAITS", 1),
    ("cancel local.999 4711 x", 1),
    (f"list {' '.join(NOWHERE)}", 1),
    (f"show {' '.join(NOWHERE)} RUNS HERE", 1),
    (f"cancel {' '.join(NOWHERE)} RUNS", 1),
]
LEFT = [  # to the client
    ("list RUNS", 2),
    ("list --help", 0),
    ("show", 2),
    ("show RUNS --json", 0),
    ("show RUNS_3", 1),
    ("show --nonsense RUNS", 2),
    ("signal USR1", 2),
    ("signal -9 RUNS", 2),
    ("cancel", 2),
    ("list --partition", 2),
]


def test_a_line_says_what_it_says_cold(asked: Asked):
    for line, status in LINES:
        first, second = asked.both(line)
        assert first == second and first.status == status, line


def test_a_line_that_no_server_reads_says_what_it_says_cold(asked: Asked):
    env = {"YOD_LAUNCH_SERVER": str(asked.server.directory), "YOD_COLD": None} | asked.env
    for line, status in LEFT:
        first = like(asked.jobs.yodjob(*asked.words(line), env=env))
        assert first == like(asked.jobs.yodjob(*asked.words(line), env=asked.cold)), line
        assert first.status == status, line


def test_jobs_get_signals_and_end_as_from_a_process_of_its_own(asked: Asked):
    ends = []
    for kind in ("warm", "cold"):
        if kind == "cold":
            asked.end()
            asked.yods.clear()
            asked.begin()
        run, env = (asked.warm.run, {}) if kind == "warm" else (asked.jobs.yodjob, asked.cold)
        line = asked.words("signal USR1 RUNS LAUNCH HERE")
        assert run(*line, env=env) == (0, "", "")
        wait_until(lambda: asked.jobs.says(asked.ids["RUNS"], "got usr1\n"), what="the script")
        for yod in asked.yods:
            read_until(yod.stdout.fileno(), b"got usr1\n")
        assert run(*asked.words("cancel RUNS WAITS LAUNCH HERE"), env=env) == (0, "", "")
        said = [like(finish(yod)) for yod in asked.yods]
        status = [asked.jobs.wait(asked.ids[each]) for each in ("RUNS", "WAITS")]
        again = asked.both("cancel RUNS LAUNCH HERE")
        assert again[0] == again[1] and again[0].status == 1
        ends.append(([re.sub(r"local\.\d+", "ID", str(each)) for each in said], status))
    assert ends[0] == ends[1]


def test_an_output_that_is_lost_is_no_success(asked: Asked):
    with open("/dev/full", "wb") as full:
        first, second = asked.both("list", stdout=full)
    assert first == second and first.err == "yodjob: standard output: no space left on device\n"
    for how in (">&-", "2>&-", "| true"):
        found = []
        for command, env in ((asked.warm.command, asked.warm.env), (BIN / "yodjob", asked.cold)):
            words = ("sh", "-c", f'"$@" {how}', "sh", command, *asked.words("show RUNS local.999"))
            found.append(finish(asked.jobs.partition.start_command(*words, env=env)))
        assert like(found[0]) == like(found[1]), how


def test_lines_come_in_the_order_of_a_process_of_its_own(asked: Asked):
    line = "show local.998 RUNS local.999 HERE"
    options: dict[str, Any] = {"stderr": subprocess.STDOUT}
    first, second = asked.both(line, **options)
    assert first == second and first.out.startswith("yodjob: ")
    screens = [
        on_terminal(asked, asked.warm.command, asked.warm.env, line),
        on_terminal(asked, BIN / "yodjob", asked.cold, line),
    ]
    assert screens[0] == screens[1] and screens[0].startswith("job N\r\n")


def on_terminal(asked: Asked, command: Any, env: Any, line: str) -> str:
    """What a terminal is shown."""
    ours, theirs = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    start = asked.jobs.partition.start_command
    process = start(command, *asked.words(line), env=env, **streams)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError as error:
        assert error.errno == errno.EIO
    finally:
        os.close(ours)
        process.wait()
    return re.sub(r"[\d.]+", "N", shown.decode())


def test_times_of_day_are_those_of_the_users_zone(asked: Asked):
    found = set()
    for zone in ("UTC", "UTC+5"):
        done = [
            run(*asked.words("show HERE"), env=env | {"TZ": zone}).out
            for run, env in ((asked.warm.run, {}), (asked.jobs.yodjob, asked.cold))
        ]
        since = [re.search(r"since +(.*)", each)[1] for each in done]
        assert since[0] == since[1]
        found.add(since[0])
    assert len(found) == 2


def test_another_encoding_is_left_to_the_client(asked: Asked):
    env = {"LC_ALL": "de_DE.ISO-8859-1"}
    done = asked.warm.run(*asked.words("show RUNS"), env=env)
    assert done.status == 1 and "yodjob-cold is missing" in done.err
