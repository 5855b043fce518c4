"""Ranks under the keeper run, take signals and end, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.wire.keeper import (
    Hold,
    KeeperEmpty,
    KeeperLost,
    RankEnded,
)
from tests.support.keeper_job import Job, make_spec
from tests.support.keeper_programs import (
    HERE,
    Build,
)
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until


def test_a_rank_that_ends_tells_status_and_what_it_used() -> None:
    command = (
        sys.executable,
        "-S",
        "-c",
        "x = bytearray(50 << 20)\nfor i in range(3000000): pass\nraise SystemExit(9)",
    )
    with Job(make_spec(command)) as job:
        job.run()
        (ended,) = job.wait_ended()
        assert ended.wait_status == 9 << 8
        assert ended.user_s > 0.01
        assert ended.max_rss_bytes > 50 << 20


def test_the_output_of_a_rank_ends_with_the_rank() -> None:
    closes = ("/bin/sh", "-c", "exec >&-; echo closed >&2; exec sleep 1000")
    with Job(make_spec(closes, ranks=2)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"closed", rank, stream=2)
        assert job.open_streams() == 4
        job.keeper.signal(signal.SIGKILL)
        job.wait_ended()
        job.drain()


def test_the_output_of_a_rank_behind_the_first_64_ends_when_it_is_closed() -> None:
    closes = ("/bin/sh", "-c", "exec >&-; echo closed >&2; exec sleep 1000")
    with Job(make_spec(closes, ranks=66)) as job:
        job.wait_held()
        job.keeper.go()
        job.run_until(lambda: job.open_streams() == 2 * 66 - 2, "two outputs closed")
        job.keeper.signal(signal.SIGKILL)
        job.wait_ended()
        job.drain()


def test_signals_reach_the_whole_group_of_one_rank_or_of_all_where_it_is_asked_for() -> None:
    trap = "trap 'echo got' USR1; sh -c 'trap \"echo child got; exit\" USR1; echo ready; "
    trap += "while :; do sleep 0.01; done' & wait; wait; exit 5"
    with Job(make_spec(("/bin/sh", "-c", trap), ranks=3, signals_group=True)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(3):
            job.wait_output(b"ready", rank)
        job.keeper.signal(signal.SIGUSR1, rank=1)
        (ended,) = job.wait_ended(1)
        assert (ended.rank, ended.wait_status) == (1, 5 << 8)
        job.keeper.signal(signal.SIGUSR1)
        assert {event.wait_status for event in job.wait_ended()} == {5 << 8}
        job.keeper.end()
        job.wait_empty()
        for rank in range(3):
            assert sorted(job.text(rank).splitlines()) == ["child got", "got", "ready"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_is_no_end_reaches_the_process_of_a_rank_alone(
    number: signal.Signals,
) -> None:
    """A helper that expects none would die of it, as this one would."""
    name = number.name.removeprefix("SIG")
    script = "sleep 600 & helper=$!; trap 'read a b state c </proc/$helper/stat; "
    script += f"[ $state = Z ] || exit 5' {name}; echo ready; while :; do wait; done"
    with Job(make_spec(("/bin/sh", "-c", script), ranks=2)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"ready", rank)
        job.keeper.signal(number)
        assert {event.wait_status for event in job.wait_ended()} == {5 << 8}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_a_rank_reaches_its_whole_group_and_nobody_else(number: signal.Signals) -> None:
    script = "sleep 600 & echo group $!; setsid sh -c 'echo apart $$; exec sleep 600' & wait"
    with Job(make_spec(("/bin/sh", "-c", script), ranks=2)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"apart", rank)
            job.wait_output(b"group", rank)
        job.keeper.signal(number, rank=0)
        (ended,) = job.wait_ended(1)
        assert (ended.rank, ended.wait_status) == (0, number)
        words = [dict(map(str.split, job.text(rank).splitlines())) for rank in range(2)]
        wait_for_exit(int(words[0]["group"]))
        others = [words[0]["apart"], words[1]["group"], words[1]["apart"], str(job.unix_pid(1))]
        states = [Path(f"/proc/{each}/stat").read_text().rpartition(") ")[2][0] for each in others]
        assert set(states) <= {"S", "R", "D"}
        job.keeper.end()
        job.wait_empty()


@pytest.mark.parametrize("hold", list(Hold))
def test_each_rank_leads_its_own_session_and_group_apart_from_the_keeper(hold: Hold) -> None:
    code = "from os import *; print(getpid(), getpgrp(), getsid(0), getppid(), getpgid(getppid()))"
    with Job(make_spec((sys.executable, "-S", "-c", code), ranks=2, hold=hold)) as job:
        keeper = job.keeper.unix_pid  # which nobody knows any more when it has ended
        job.run()
        for rank in range(2):
            unix_pid, group, session, parent, parents_group = map(int, job.text(rank).split())
            assert unix_pid == group == session == job.unix_pid(rank)
            assert parent == parents_group == keeper


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("is_held", [False, True])
def test_a_stopped_rank_ends_by_sigterm(hold: Hold, is_held: bool) -> None:
    with Job(make_spec(("/bin/sh", "-c", "echo up; kill -STOP $$; exit 3"), hold=hold)) as job:
        job.wait_held()
        if is_held:
            job.keeper.signal(signal.SIGSTOP)
        else:
            job.keeper.go()
            job.wait_output(b"up")
            wait_for_state(job.unix_pid(), "T")
        job.keeper.signal(signal.SIGTERM)
        if is_held and hold is Hold.TRACE:
            job.keeper.go()  # both are pending until then
        (ended,) = job.wait_ended()
    assert ended.wait_status == signal.SIGTERM
    assert ended.was_signalled


def test_end_kills_what_ignores_every_signal_and_has_left_its_session(build: Build) -> None:
    with Job(make_spec((build("daemon"),), ranks=2)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"ready", rank)
        unix_pids = [int(line) for rank in range(2) for line in job.text(rank).split()[:3]]
        job.keeper.signal(signal.SIGTERM)
        job.keeper.end()
        job.wait_empty()
        for unix_pid in unix_pids:
            wait_for_exit(unix_pid)
        assert [event.wait_status for event in job.wait_ended()] == [signal.SIGKILL] * 2


def wait_for_state(unix_pid: int, state: str) -> None:
    stat = Path(f"/proc/{unix_pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(") ")[2][0] == state, what=f"state {state}")


@pytest.mark.parametrize("is_end", [False, True])
def test_a_rank_that_died_before_it_could_be_killed_died_by_itself(is_end: bool) -> None:
    """Though it is not reaped yet: the keeper learns of its end and the command together."""
    with Job(make_spec(("/bin/sleep", "60"), ranks=3)) as job:
        job.wait_held()
        job.keeper.go()
        os.kill(job.keeper.unix_pid, signal.SIGSTOP)
        wait_for_state(job.keeper.unix_pid, "T")
        os.kill(job.unix_pid(1), signal.SIGKILL)
        wait_for_state(job.unix_pid(1), "Z")
        if is_end:
            job.keeper.end()
        else:
            job.keeper.signal(signal.SIGKILL)
        os.kill(job.keeper.unix_pid, signal.SIGCONT)
        ended = {event.rank: event for event in job.wait_ended()}
        assert {event.wait_status for event in ended.values()} == {signal.SIGKILL}
        assert [ended[rank].was_signalled for rank in range(3)] == [True, False, True]


def test_a_rank_that_ends_by_another_signal_than_it_was_sent_died_by_itself() -> None:
    trap = "trap 'kill -SEGV $$' TERM; echo up; while :; do sleep 0.01; done"
    with Job(make_spec(("/bin/sh", "-c", trap))) as job:
        job.wait_held()
        job.keeper.go()
        job.wait_output(b"up")
        job.keeper.signal(signal.SIGTERM)
        (ended,) = job.wait_ended()
        assert (ended.wait_status & 0x7F, ended.was_signalled) == (signal.SIGSEGV, False)


def test_end_finds_children_of_every_thread() -> None:
    code = """if True:
        import os, subprocess, threading
        def start():
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            os.write(1, b"%d ready\\n" % child.pid)
            threading.Event().wait()
        for _ in range(3):
            threading.Thread(target=start).start()
        """
    with Job(make_spec((sys.executable, "-c", code))) as job:
        job.wait_held()
        job.keeper.go()
        job.run_until(lambda: job.output[0, 1].count(b"ready") == 3, "three children")
        unix_pids = [int(line.split()[0]) for line in job.text().splitlines()]
        job.keeper.end()
        job.wait_empty()
        for unix_pid in unix_pids:
            wait_for_exit(unix_pid)


def test_what_a_rank_left_behind_ends_with_the_job(build: Build) -> None:
    with Job(make_spec((build("daemon"), "leave"))) as job:
        job.wait_held()
        job.keeper.go()
        job.wait_ended()
        left = [int(line) for line in job.wait_output(b"ready").split()[:3]]
        assert any(os.path.exists(f"/proc/{unix_pid}") for unix_pid in left)
        job.keeper.end()
        job.wait_empty()
        for unix_pid in left:
            wait_for_exit(unix_pid)


def test_end_before_go_ends_every_rank_unreleased(build: Build) -> None:
    with Job(make_spec((build("constructors"),), ranks=8)) as job:
        job.keeper.end()  # they may not even be held
        job.wait_empty()
        assert len(job.wait_ended()) == 8
        assert not any(event.was_released for event in job.wait_ended())
        assert set(job.output.values()) == {b""}


def test_hanging_up_ends_the_job(build: Build) -> None:
    with Job(make_spec((build("daemon"),))) as job:
        job.wait_held()
        job.keeper.go()
        unix_pids = [int(line) for line in job.wait_output(b"ready").split()[:3]]
        job.keeper.close()
        for unix_pid in (*unix_pids, job.unix_pid(), job.keeper.unix_pid):
            wait_for_exit(unix_pid)
        job.drain()
        assert not job.of(KeeperEmpty, RankEnded)
        job.events.append(KeeperEmpty())  # nothing more to wait for


def test_a_killed_keeper_takes_its_ranks_along(build: Build) -> None:
    with Job(make_spec(("/bin/sleep", "1000"), ranks=3)) as job:
        job.wait_held()
        job.keeper.go()
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        assert job.events[-1] == KeeperLost("the keeper failed: killed by SIGKILL")
        for rank in range(3):
            wait_for_exit(job.unix_pid(rank))


def test_held_ranks_die_with_their_keeper_and_never_run(build: Build) -> None:
    programs = build("constructors"), build("constructors", "-static")
    with Job(make_spec((programs[0],), ranks=2, others=((programs[1],),))) as job:
        job.wait_held()
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        job.drain()
        assert set(job.output.values()) == {b""}


class Pct:
    """A PCT of its own process, which a test may kill."""

    def __init__(self, mode: str, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.keeper_job", mode, *command],
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdout
        self.fd = self.process.stdout.fileno()

    def read_until(self, text: bytes) -> list[str]:
        return read_until(self.fd, text).decode().splitlines()


@pytest.fixture
def pct() -> Iterator[Callable[..., Pct]]:
    started: list[Pct] = []

    def start(mode: str, *command: str) -> Pct:
        started.append(Pct(mode, *command))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        assert each.process.stdout
        each.process.stdout.close()


def test_killing_descendants_spares_whom_it_is_told_to(build: Build) -> None:
    code = """if True:
        import os, subprocess, sys
        from native.loop.reactor import Reactor
        from native.host.process import become_subreaper
        from pct.host.spawn.orphans import Orphans
        become_subreaper()
        spared = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
        killed = subprocess.Popen([sys.argv[1]], stdout=subprocess.PIPE)
        while killed.stdout.readline() != b"ready\\n":
            pass
        reactor = Reactor()
        orphans = Orphans(reactor, lambda: {spared.pid})
        orphans.kill(reactor.stop)
        reactor.run()
        assert not os.path.exists(f"/proc/{killed.pid}")
        orphans.kill(lambda: print("none at once"))
        assert spared.poll() is None
        Orphans(reactor).kill(reactor.stop)
        reactor.run()
        assert not os.path.exists(f"/proc/{spared.pid}")
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, build("daemon")],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "none at once\n"), done.stderr


def test_what_was_killed_below_a_child_is_reaped_though_it_looks_like_the_programs_own() -> None:
    code = """if True:
        import os, subprocess
        from native.loop.reactor import Reactor
        from native.host.process import become_subreaper
        from pct.host.spawn.orphans import Orphans, children_of
        become_subreaper()
        words = ["sh", "-c", "setsid sleep 1000 > /dev/null & echo $!; wait"]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        below = int(child.stdout.readline())
        reactor = Reactor()
        Orphans(reactor, lambda: {below}).kill(reactor.stop)
        reactor.run()
        print(children_of(os.getpid()))
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_all_who_wait_for_the_same_orphans_hear_of_their_end() -> None:
    """Two keepers are killed at once; and one is started while their orphans are killed."""
    code = """if True:
        import os, subprocess
        from native.loop.reactor import Reactor
        from pct.host.spawn.orphans import Orphans
        sleep = ["sleep", "1000"]
        orphan, keepers = subprocess.Popen(sleep), []
        reactor = Reactor()
        orphans = Orphans(reactor, lambda: [each.pid for each in keepers])
        waiting = {1, 2}
        def over(number):
            waiting.discard(number)
            if not waiting:
                reactor.stop()
        orphans.kill(lambda: over(1))
        keepers.append(subprocess.Popen(sleep))
        orphans.kill(lambda: over(2))
        reactor.run()
        assert not os.path.exists(f"/proc/{orphan.pid}")
        assert keepers[0].poll() is None
        keepers[0].kill()
        print("all have heard")
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "all have heard\n"), done.stderr


def test_a_killed_pct_leaves_no_process(build: Build, pct: Callable[..., Pct]) -> None:
    process = pct("plain", build("daemon"))
    lines = process.read_until(b"ready\n")
    unix_pids = [int(line) for line in lines if line.isdigit()]
    unix_pids.append(int(lines[0].split()[1]))
    assert len(unix_pids) == 4
    process.process.kill()
    for unix_pid in unix_pids:
        wait_for_exit(unix_pid)


def test_without_its_keeper_a_pct_kills_what_is_left(build: Build, pct: Callable[..., Pct]) -> None:
    process = pct("subreaper", build("daemon"))
    lines = process.read_until(b"ready\n")
    unix_pids = [int(line) for line in lines if line.isdigit()]
    os.kill(int(lines[0].split()[1]), signal.SIGKILL)
    rest = process.read_until(b"over\n")
    assert "KeeperLost(reason='the keeper failed: killed by SIGKILL')" in rest
    for unix_pid in unix_pids:
        assert not os.path.exists(f"/proc/{unix_pid}")


def test_64_ranks_start_hold_go_and_end() -> None:
    spec = make_spec(
        ("/bin/sh", "-c", "echo $YOD_RANK; exit $YOD_RANK"),
        ranks=64,
        own=lambda rank: (b"YOD_RANK=%d" % rank,),
        wants_stdin=True,
        wants_pmi=True,
    )
    with Job(spec) as job:
        job.run()
        assert [job.text(rank) for rank in range(64)] == [f"{rank}\n" for rank in range(64)]
        assert {event.rank: event.wait_status >> 8 for event in job.wait_ended()} == {
            rank: rank for rank in range(64)
        }


def test_a_pct_that_does_not_listen_stops_nobody_else_and_loses_nothing() -> None:
    with Job(make_spec(("/bin/true",), ranks=1000)) as job:
        # The socket fills up before the keeper can report all.
        job.wait_held()
        job.keeper.go()
        job.wait_ended()
        assert len({event.rank for event in job.wait_ended()}) == 1000
