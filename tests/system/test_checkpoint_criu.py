"""Checkpoints by CRIU: programs that know nothing of it are written down, and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from native.host.process import program_behind
from partition.checkpoint import criu
from pct.host import usage
from tests.support.criu import needs_criu
from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import read_until, wait_until

pytestmark = [pytest.mark.warm, pytest.mark.usefixtures("needs_root")]

# Counts to the number in its first argument, a step for each line that the file in its second
# allows. A thread counts with it, another file stays open, and a sum that depends on the order of
# its terms is computed.
PROGRAM = """
import os, queue, signal, sys, threading
import numpy
rank = os.environ["YOD_RANK"]
rng, total = numpy.random.default_rng(int(rank)), numpy.zeros(1000)
tasks, done = queue.Queue(), queue.Queue()
def work():
    while True:
        done.put(tasks.get() * 2)
threading.Thread(target=work, daemon=True).start()
kept = open(f"{sys.argv[3]}/kept.{rank}", "w")
n = 0
print(f"rank {rank} begins in job {os.environ['YOD_JOB_ID']}.", flush=True)
while n < int(sys.argv[1]):
    if n >= int(open(sys.argv[2]).read()):
        signal.sigtimedwait([], 0.01)
        continue
    n += 1
    total += rng.standard_normal(1000) / (1 + abs(total))
    tasks.put(n)
    print(n, done.get(), file=kept, flush=True)
    print(f"rank {rank} at {n}", flush=True)
print(f"rank {rank} has", total.tobytes().hex()[:400], flush=True)
"""


class Study:
    """A job that counts, and its checkpoints."""

    def __init__(self, partition: Partition, place: Path) -> None:
        self.partition = partition
        self.place = place
        self.kept = place / "kept"
        self.limit = place / "limit"
        self.program = place / "count.py"
        self.program.write_text(PROGRAM)
        self.env: dict[str, str | None] = {"YOD_CRIU": needs_criu()}
        if partition.launch_server is not None:
            self.env.update(partition.launch_server.directories)
        self._in_output = ""  # the job's id
        self.let(3)

    def let(self, steps: int) -> None:
        """Each rank may do so many steps from its beginning."""
        other = self.limit.with_suffix(".new")
        other.write_text(str(steps))
        other.rename(self.limit)

    def words(self, size: int) -> list[str]:
        program = ("python3", str(self.program), "9", str(self.limit), str(self.place))
        return ["-sz", str(size), *program]

    def start(self, *words: str, size: int = 2) -> subprocess.Popen[bytes]:
        """Start a job, and wait until its ranks can do no more."""
        kept = ("--checkpoint-dir", str(self.kept), "--checkpoint-by", "criu")
        words = words or tuple(self.words(size))
        yod = self.partition.start_yod(*kept, *words, env=self.env)
        text = read_until(yod.stdout.fileno(), b" at 3\n", times=size)
        self._in_output = text.partition(b"job ")[2].partition(b".\n")[0].decode()
        return yod

    def command(self, *words: str) -> Done:
        return finish(self.partition.start_command(BIN / "yodjob", *words, env=self.env))

    def job_id(self, yod: subprocess.Popen[bytes]) -> str:
        """What commands call it; with a partition of its own it takes an id while it runs."""
        if self.partition.kind not in ("embedded", "warm"):
            return self._in_output
        found: list[str] = []

        def has_id() -> bool:
            listed = json.loads(self.command("list", "--json").out)["jobs"]
            found.extend(job["id"] for job in listed if job.get("unix_pid") == yod.pid)
            return bool(found)

        wait_until(has_id, what="the id of the job")
        return found[0]

    def checkpoint(self, yod: subprocess.Popen[bytes], *words: str) -> Done:
        return self.command("checkpoint", *words, self.job_id(yod))


@pytest.fixture
def study(anywhere: Partition, tmp_path: Path) -> Study:
    tmp_path.chmod(0o755)
    return Study(anywhere, tmp_path)


def results(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if " has " in line)


def test_ranks_that_know_nothing_of_it_go_on_from_a_checkpoint_to_the_same_bits(study):
    study.let(9)
    undisturbed = study.partition.yod(*study.words(2), env=study.env)
    study.let(3)
    yod = study.start()
    done = study.checkpoint(yod, "--kill")
    assert (done.status, done.err) == (0, "")
    done = finish(yod)
    assert done.status == 75
    assert f"yod --restart {study.kept}/checkpoint.1 goes on" in done.err
    study.let(9)
    again = study.partition.yod("--restart", str(study.kept), env=study.env)
    path = study.kept / "checkpoint.1"
    assert (again.status, again.err) == (
        0,
        f"yod: goes on from {path}; what was written behind it appears again\n",
    )
    assert "begins" not in again.out
    assert [again.out.count(f" at {n}\n") for n in range(1, 10)] == [0] * 3 + [2] * 6
    assert results(again.out) == results(undisturbed.out)
    for rank in (0, 1):
        kept = (study.place / f"kept.{rank}").read_text()
        assert kept == "".join(f"{n} {2 * n}\n" for n in range(1, 10))


def test_more_ranks_than_processors_are_written_down_and_all_go_on(embedded, tmp_path):
    study = Study(embedded, tmp_path)
    size = len(os.sched_getaffinity(0)) + 3
    yod = study.start(size=size)
    done = study.checkpoint(yod, "--kill")
    assert (done.status, done.err) == (0, "")
    assert finish(yod).status == 75
    study.let(9)
    again = study.partition.yod("--restart", str(study.kept), env=study.env)
    assert again.status == 0
    assert [again.out.count(f" at {n}\n") for n in (3, 4, 9)] == [0, size, size]


def test_stacks_are_those_of_the_program_before_and_behind_a_restart(embedded, tmp_path):
    study = Study(embedded, tmp_path)
    yod = study.start(size=2)
    shown = study.command("stack", study.job_id(yod)).out
    assert shown.startswith("[0..1] python") and "<module> (count.py:" in shown
    assert study.checkpoint(yod, "--kill").status == 0
    assert finish(yod).status == 75
    study.let(4)
    with embedded.start_yod("--restart", str(study.kept), env=study.env) as again:
        read_until(again.stdout.fileno(), b" at 4\n", times=2)
        shown = study.command("stack", study.job_id(again)).out
        assert shown.startswith("[0..1] python") and "<module> (count.py:" in shown
        again.terminate()


def test_the_time_of_a_program_in_namespaces_is_that_of_its_rank(tmp_path):
    programs = (("sh", "-c", "while :; do :; done"), ("sleep", "600"))
    with ExitStack() as stack:
        ranks: dict[int, int] = {}
        for rank, words in enumerate(programs):
            command = (criu.INIT, "/bin/true", "start", f"/bin/{words[0]}", *words)
            env = {**os.environ, "YOD_RANK": str(rank)}
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            ranks[rank] = process.pid
        wait_until(lambda: usage.read(ranks, is_whole=True)[0] >= 100)
        assert usage.read(ranks, is_whole=True)[1] < 100
        behind = [program_behind(unix_pid) for unix_pid in ranks.values()]
        assert [Path(f"/proc/{each}/comm").read_text() for each in behind] == ["sh\n", "sleep\n"]
    assert program_behind(os.getpid()) == os.getpid()
    assert [program_behind(unix_pid) for unix_pid in ranks.values()] == [-1, -1]


def test_a_job_goes_on_behind_its_checkpoint_by_criu(study):
    yod = study.start()
    assert study.checkpoint(yod, "--check").out.endswith(": a checkpoint can be made\n")
    assert list(study.kept.iterdir()) == []
    done = study.checkpoint(yod)
    assert (done.status, done.err) == (0, "")
    study.let(9)
    done = finish(yod)
    assert done.status == 0
    assert done.out.count(" at 9\n") == 2
    manifest = json.loads((study.kept / "checkpoint.1" / "manifest.json").read_text())
    assert manifest["recipe"]["backend"] == "criu"
    assert manifest["recipe"]["tool"]


def test_a_rank_that_cannot_be_written_down_is_named_with_criu_s_reason_and_goes_on(study):
    program = study.place / "connected.py"
    program.write_text(
        "import os, socket, sys\n"
        "print('job ' + os.environ['YOD_JOB_ID'] + '.', flush=True)\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname()); a, _ = s.accept()\n"
        "for n in range(1, 4): print(f'rank at {n}', flush=True)\n"
        "sys.stdin.read()\n"
    )
    yod = study.start("-sz", "1", "python3", str(program), size=1)
    done = study.checkpoint(yod, "--kill")
    assert done.status == 1
    assert "rank 0: criu cannot write it down: process " in done.err
    assert " has a TCP connection to 127.0.0.1:" in done.err
    trial = study.checkpoint(yod, "--check")
    assert (trial.status, trial.err) == (1, done.err)
    done = finish(yod)
    assert done.status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_rank_under_criu_ends_as_its_program_does(embedded, tmp_path, number):
    env = {"YOD_CRIU": needs_criu()}
    words = ("--checkpoint-dir", str(tmp_path / "kept"), "--checkpoint-by", "criu")
    program = ("sh", "-c", f"kill -{number.value} $$")
    done = embedded.yod(*words, "-sz", "1", *program, env=env)
    assert done.status == 128 + number
    assert f"killed by {number.name}" in done.err
    assert embedded.yod(*words, "-sz", "1", "sh", "-c", "exit 7", env=env).status == 7


def test_without_criu_a_launch_says_what_to_install_and_starts_nothing(embedded, tmp_path):
    words = ("--checkpoint-dir", str(tmp_path / "kept"), "--checkpoint-by", "criu")
    done = embedded.yod(*words, "echo", "here", env={"YOD_CRIU": "/nowhere/criu"})
    assert (done.status, done.out) == (125, "")
    assert "no criu here: install CRIU 4.1 or later, or name it in YOD_CRIU" in done.err


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--gpus-per-rank=1", "GPUs: it cannot save their state"),
        ("--gpus-per-node=1", "GPUs: it cannot save their state"),
        ("--with-portals", "--with-portals: it cannot save connections of ranks"),
        ("-bt", "-bt: it cannot save processes that are traced"),
    ],
)
def test_what_criu_cannot_save_is_refused_before_the_job_begins(embedded, tmp_path, option, why):
    words = ("--checkpoint-dir", str(tmp_path / "kept"), "--checkpoint-by", "criu")
    done = embedded.yod(*words, option, "echo", "here", env={"YOD_CRIU": needs_criu()})
    assert (done.status, done.out) == (125, "")
    assert f"yod: --checkpoint-by criu with {why}" in done.err


def test_a_changed_image_is_named_and_nothing_is_started(embedded, tmp_path):
    study = Study(embedded, tmp_path)
    yod = study.start(size=1)
    assert study.checkpoint(yod, "--kill").status == 0
    assert finish(yod).status == 75
    pages = next((study.kept / "checkpoint.1" / "rank.0").glob("pages-*.img"))
    with open(pages, "r+b") as file:
        file.write(b"other")
    done = embedded.yod("--restart", str(study.kept), env=study.env)
    assert (done.status, done.out) == (125, "")
    assert f"{pages}: changed since it was written" in done.err
