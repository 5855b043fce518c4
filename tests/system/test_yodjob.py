"""yodjob: jobs by their ids, whose yods run on this host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from native.host import userdirs
from native.wire import job
from tests.support.nobody import NOBODY, as_nobody
from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import LIMIT_S, read_until, wait_until

MARK = "@" + userdirs.boot_id()[:8]
READS = ("sh", "-c", "echo ready; cat")  # rank 0 until the end of input
# Says what it hears.
LISTENS = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.write(1, b"ready\\n")
while signal.sigwait({signal.SIGUSR1}):
    os.write(1, b"usr1\\n")
"""
IDS = 200


def yodjob(partition: Partition, *words, env=None) -> Done:
    return finish(start(partition, *words, env=env))


def start(partition: Partition, *words, env=None) -> subprocess.Popen[bytes]:
    return partition.start_command(BIN / "yodjob", *map(str, words), env=env)


def listed(partition: Partition, env=None) -> dict[str, dict]:
    done = yodjob(partition, "list", "--json", env=env)
    assert (done.status, done.err) == (0, "")
    return {found["id"]: found for found in json.loads(done.out)["jobs"]}


@contextmanager
def running(partition: Partition, *words, size: int = 1, env=None, **options) -> Iterator:
    """A yod whose ranks have said that they are ready; killed at the end, if it is still there."""
    with partition.start_yod("-sz", str(size), *(words or READS), env=env, **options) as yod:
        try:
            read_until(yod.stdout.fileno(), b"ready\n", times=size)
            yield yod
        finally:
            yod.kill()


def id_of(partition: Partition, yod: subprocess.Popen[bytes]) -> str:
    (job_id,) = (key for key, found in listed(partition).items() if found["unix_pid"] == yod.pid)
    return job_id


def names(place) -> list[str]:
    return sorted(os.listdir(place.runtime / "yod/jobs"))


def test_a_running_job_is_listed_and_shown(here):
    with running(here, size=2) as yod:
        job_id = id_of(here, yod)
        assert job_id.startswith("local.") == (here.kind == "embedded")
        lines = [line.split() for line in yodjob(here, "list").out.splitlines()]
        assert lines[0] == ["JOBID", "NAME", "USER", "ST", "TIME", "RANKS", "NODES", "WHERE"]
        line = next(line for line in lines if line[0] == job_id)
        assert (line[1], line[3], line[5]) == ("sh", "R", "2")
        shown = yodjob(here, "show", job_id)
        assert shown.status == 0
        assert f"job {job_id}\n" in shown.out
        assert f"  yod        process {yod.pid}\n" in shown.out
        assert "  state      RUNNING (R)\n" in shown.out
        (record,) = json.loads(yodjob(here, "show", "--json", job_id).out)["jobs"]
        assert (record["id"], record["state"], record["ranks"]) == (job_id, "RUNNING", 2)
        yod.communicate(timeout=LIMIT_S)
    assert job_id not in listed(here)


def test_a_signal_reaches_every_rank(here):
    with running(here, sys.executable, "-c", LISTENS, size=3) as yod:
        job_id = id_of(here, yod)
        for name in ("USR1", "SIGUSR1", int(signal.SIGUSR1)):
            assert yodjob(here, "signal", name, job_id) == (0, "", "")
            read_until(yod.stdout.fileno(), b"usr1\n", times=3)
        assert yodjob(here, "signal", "KILL", job_id).status == 0
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 128 + signal.SIGKILL
    assert b"killed by SIGKILL" in err


def test_a_job_is_cancelled_as_by_sigterm_and_who_waits_is_told(here):
    with running(here, "sh", "-c", "echo ready; exec sleep 600", size=2) as yod:
        job_id = id_of(here, yod)
        with wait_for(here, job_id) as waits:
            assert yodjob(here, "cancel", job_id) == (0, "", "")
            _, err = yod.communicate(timeout=LIMIT_S)
            assert finish(waits) == (128 + signal.SIGTERM, "", "")
    assert yod.returncode == -signal.SIGTERM
    said = err.decode().splitlines()
    assert said[0] == (
        "yod: cancelled by yodjob: SIGTERM sent to all ranks;"
        " interrupt again after 1 s to send SIGKILL"
    )
    assert said[1].endswith("killed by yod (SIGTERM) because the job was cancelled by yodjob")


def test_cancelled_again_the_ranks_are_killed(here):
    stubborn = "trap '' TERM; echo ready; while :; do sleep 600; done"
    with running(here, "sh", "-c", stubborn, env={"YOD_PRESS_S": "0"}) as yod:
        job_id = id_of(here, yod)
        for word in (b"SIGTERM sent", b"SIGKILL sent"):
            assert yodjob(here, "cancel", job_id).status == 0
            read_until(yod.stderr.fileno(), word)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGTERM


@pytest.mark.parametrize("status", [0, 7])
def test_wait_has_the_status_of_the_job(embedded, status):
    program = ("sh", "-c", f"echo ready; read x; exit {status}")
    with running(embedded, *program) as yod, wait_for(embedded, id_of(embedded, yod)) as waits:
        yod.communicate(b"\n", timeout=LIMIT_S)
        assert finish(waits) == (status, "", "")


def test_of_several_jobs_the_first_that_fails_gives_the_status(embedded):
    program = ("sh", "-c", "echo ready; read x; exit $x")
    with ExitStack() as stack:
        yods = [stack.enter_context(running(embedded, *program)) for _ in range(3)]
        ids = [id_of(embedded, yod) for yod in yods]
        with wait_for(embedded, *ids) as waits:
            for yod, status in zip(reversed(yods), (b"5\n", b"4\n", b"0\n"), strict=True):
                yod.communicate(status, timeout=LIMIT_S)
            assert finish(waits) == (4, "", "")


def test_a_killed_yod_is_told_to_who_waits_and_leaves_no_job(embedded, place):
    with running(embedded) as yod, wait_for(embedded, job_id := id_of(embedded, yod)) as waits:
        yod.kill()
        done = finish(waits)
    said = f"yodjob: {job_id}: it ended without an answer: process {yod.pid} was killed\n"
    assert done == (125, "", said)
    assert listed_at(embedded, place, -3600) == 0
    assert names(place) == ["count", job_id + MARK]  # it is young
    assert listed(embedded) == {}
    assert listed_at(embedded, place, 3600) == 0
    assert names(place) == ["count"]


def wait_for(partition: Partition, *job_ids: str) -> subprocess.Popen[bytes]:
    """A yodjob that is connected to the jobs."""
    waits = start(partition, "wait", *job_ids)
    wait_until(lambda: has_asked(waits))
    return waits


def has_asked(waits: subprocess.Popen[bytes]) -> bool:
    """Whether a yodjob sleeps until it is answered."""
    try:
        return "poll" in Path(f"/proc/{waits.pid}/wchan").read_text()
    except OSError:
        return False


def listed_at(partition: Partition, place, ahead_s: int) -> int:
    """The status of a `yodjob list` whose clock is so much ahead."""
    directory = place.directory / f"ahead{ahead_s}"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(
        f"import time\nnow = time.time\ntime.time = lambda: now() + {ahead_s}\n"
    )
    env = {"PYTHONPATH": str(directory)}
    words = (sys.executable, "-m", "partition.yodjob", "list")
    return finish(partition.start_command(*words, env=env)).status


def test_a_stopped_yod_holds_up_nobody(embedded):
    with running(embedded) as stopped, running(embedded) as yod:
        ids = id_of(embedded, stopped), id_of(embedded, yod)
        stopped.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
        jobs = listed(embedded)
        assert [jobs[job_id]["code"] for job_id in ids] == ["S", "R"]
        done = yodjob(embedded, "cancel", *ids)
        said = f"it does not answer: it is stopped (kill -CONT {stopped.pid})"
        assert done == (1, "", f"yodjob: {ids[0]}: {said}\n")
        yod.communicate(timeout=LIMIT_S)
        stopped.send_signal(signal.SIGCONT)
        assert listed(embedded)[ids[0]]["code"] == "R"  # what nobody waited for is not done
        stopped.communicate(timeout=LIMIT_S)
    assert (stopped.returncode, yod.returncode) == (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["show", "local.9"], 1, "local.9: there is no such job of yours on this host"),
        (["cancel", "../x"], 1, "../x: there is no such job of yours on this host"),
        (["wait", "17"], 125, "17: there is no such job of yours on this host"),
        (["signal", "NONE", "17"], 2, "no signal NONE: a name as USR1, or 1 to 64"),
        (["signal", "65", "17"], 2, "no signal 65: a name as USR1, or 1 to 64"),
        (["show"], 2, "Missing argument 'ID...'."),
        (["park", "17"], 2, "No such command 'park'."),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(embedded, words, status, said):
    assert yodjob(embedded, *words) == (status, "", f"yodjob: {said}\n")


def test_two_hundred_ids_taken_and_given_up_at_once_are_different(embedded):
    """By eight processes at a time, so that each has been given up when another is taken."""
    count = "import sys\nfrom tests.system.test_yodjob import take\ntake(int(sys.argv[1]))\n"
    with ExitStack() as stack:
        several = [
            stack.enter_context(embedded.start_command(sys.executable, "-c", count, str(IDS // 8)))
            for _ in range(8)
        ]
        ids = [line for each in several for line in finish(each).out.split()]
    assert len(set(ids)) == len(ids) == IDS


def take(count: int) -> None:
    """Register and end launches, one after the other; print their ids."""
    from native.host.jobsockets import Directory

    for _ in range(count):
        directory = Directory(os.environ, makes_it=True)
        job_id, end = directory.listen(0)
        end.close()
        os.unlink(directory.name_of(job_id))
        directory.close()
        print(job_id)


def test_launches_at_once_have_different_ids(embedded):
    with ExitStack() as stack:
        yods = [stack.enter_context(running(embedded)) for _ in range(20)]
        jobs = listed(embedded)
        assert len(jobs) == 20
        assert {found["unix_pid"] for found in jobs.values()} == {yod.pid for yod in yods}
        assert yodjob(embedded, "cancel", *jobs) == (0, "", "")
        for yod in yods:
            yod.communicate(timeout=LIMIT_S)


def test_another_user_neither_lists_nor_signals(embedded, place, theirs, needs_root):
    with running(embedded) as yod:
        job_id = id_of(embedded, yod)
        env = {"XDG_RUNTIME_DIR": str(place.runtime)}  # not theirs, and so not used
        assert (
            len(finish(as_nobody(embedded, theirs, BIN / "yodjob", "list")).out.splitlines()) == 1
        )
        done = finish(
            as_nobody(embedded, theirs, BIN / "yodjob", "signal", "KILL", job_id, env=env)
        )
        assert (done.status, done.out) == (1, "")
        # Even where they can reach the socket, they are not spoken to.
        path = place.runtime / "yod/jobs"
        for directory in (place.runtime, path.parent, path):
            directory.chmod(0o755)
        (path / (job_id + MARK)).chmod(0o777)
        speak = (
            "import socket, sys\n"
            "end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "end.connect(sys.argv[1])\n"
            "try: print(end.recv(9999))\n"
            "except ConnectionResetError: print(b'')\n"
        )
        words = [sys.executable, "-c", speak, path / (job_id + MARK)]
        assert finish(as_nobody(embedded, theirs, *words)).out == "b''\n"
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 0


def test_root_may_speak_to_a_users_job(embedded, theirs, needs_root):
    with as_nobody(embedded, theirs, BIN / "yod", *READS) as yod:
        read_until(yod.stdout.fileno(), b"ready\n")
        path = theirs / ".local/state/yod/jobs" / f"local.1{MARK}"
        assert path.stat().st_uid == NOBODY
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
            end.connect(str(path))
            assert job.decode_reply(end.recv(9999)) == job.Hello(1, "local.1")
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 0


def test_without_a_home_or_room_a_launch_runs_and_has_no_id(embedded, place, tmp_path, needs_root):
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=2", "tmpfs", full], check=True)
    try:
        (full / "a").touch()  # the last inode
        places = [
            {"XDG_RUNTIME_DIR": str(full)},
            {"XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None, "HOME": "/nonexistent"},
            {"XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": "/proc"},
        ]
        for env in places:
            assert embedded.yod("echo", "ran", env=env) == (0, "ran\n", "")
            assert listed(embedded, env) == {}
    finally:
        subprocess.run(["umount", full], check=True)
