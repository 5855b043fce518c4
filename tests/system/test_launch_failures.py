"""Whatever is killed, nothing is left, and yod says which node it was.

In a tree of seven nodes 0 is the root, 1 an inner node, 6 a leaf.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.leaks import command_line, descendants
from tests.support.partition import finish
from tests.support.programs import Stopped
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until
from tests.support.warm import Warm

pytestmark = pytest.mark.warm

# A rank whose grandchild has left its session and process group.
RANK = "setsid sleep 1000 & echo up; wait"
NO_SERVER = ["--mpi=pmi1"]  # of PMIx: it would have a keeper of its own
PLACES = {"root": 0, "inner": 1, "leaf": 6}


def count_up(yod: subprocess.Popen[bytes], times: int) -> None:
    """Return when so many ranks have said that they are up."""
    read_until(yod.stdout.fileno(), b"up\n", times=times)


@pytest.fixture
def seven(start_local) -> Daemons:
    """Seven nodes of one slot."""
    return start_local(7, slots=1)


def is_usable(partition: Daemons) -> None:
    """A launch on every node ends well."""
    done = partition.yod("-sz", str(len(partition.node_names)), "sh", "-c", "echo $YOD_NODE")
    assert (done.status, done.err) == (0, "")


# -- yod ------------------------------------------------------------------


def test_yod_killed_while_its_job_runs(anywhere):
    with anywhere.start_yod("-sz", "8", "sh", "-c", RANK) as yod:
        count_up(yod, 8)
        yod.kill()
    assert yod.returncode == -signal.SIGKILL  # the fixture sees that nothing is left


def test_yod_killed_while_ranks_are_being_started(here, programs, tmp_path):
    stopped = Stopped(programs, tmp_path)
    with here.start_yod("-sz", "4", stopped.program) as yod:
        stopped.wait()
        yod.kill()


def test_yod_killed_while_it_ends_the_job(here):
    text = "trap '' TERM; echo up; while :; do sleep 1000 & wait; done"
    with here.start_yod("-sz", "4", "sh", "-c", text) as yod:
        count_up(yod, 4)
        yod.terminate()
        read_until(yod.stderr.fileno(), b"SIGTERM sent")
        yod.kill()


def test_yod_killed_at_any_moment(start_local):
    """Wherever it is in a launch that takes some 50 ms."""
    local = start_local(3)
    for step in range(12):
        with local.start_yod("-sz", "9", "-D", "-D", "true") as yod:
            for _ in range(step):
                yod.stderr.readline()
            yod.kill()
    wait_until(lambda: set(local.states()) == {"free"})
    is_usable(local)


def test_yod_stopped_and_continued_loses_nothing(here):
    text = "echo up; [ $YOD_RANK = 1 ] && exec cat; cat; echo over; echo over"
    with here.start_yod("-sz", "2", "sh", "-c", text) as yod:
        count_up(yod, 2)
        yod.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, yod.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yod.stdin.write(b"word\n")
        yod.stdin.close()
        yod.send_signal(signal.SIGCONT)
        out = yod.stdout.read()
        assert yod.wait(timeout=LIMIT_S) == 0
    assert b"word\n" in out and out.count(b"over\n") == 2


# -- pct ------------------------------------------------------------------


@pytest.mark.parametrize("level", PLACES)
def test_a_pct_killed_while_its_job_runs(seven, level):
    node = PLACES[level]
    with seven.start_yod("-sz", "7", "sh", "-c", RANK) as yod:
        count_up(yod, 7)
        below = descendants(seven.pcts[node].unix_pid)
        seven.pcts[node].kill()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    first = err.decode().splitlines()[0]
    assert f"node {node} (node{node}) was lost (run" in first
    for unix_pid in below:
        wait_for_exit(unix_pid)
    others = [state for number, state in enumerate(seven.states()) if number != node]
    assert set(others) == {"free"}
    seven.replace_pct(node)
    is_usable(seven)


@pytest.mark.parametrize("level", PLACES)
def test_a_pct_killed_while_ranks_are_being_started(seven, programs, tmp_path, level):
    node = PLACES[level]
    stopped = Stopped(programs, tmp_path)
    with seven.start_yod("-sz", "7", stopped.program) as yod:
        stopped.wait()
        below = descendants(seven.pcts[node].unix_pid)
        seven.pcts[node].kill()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert f"node {node} (node{node}) was lost" in err.decode().splitlines()[0]
    for unix_pid in below:
        wait_for_exit(unix_pid)
    seven.replace_pct(node)
    is_usable(seven)


def test_a_pct_that_is_told_to_end_takes_its_ranks_with_it(seven):
    with seven.start_yod("-sz", "7", "sh", "-c", RANK) as yod:
        count_up(yod, 7)
        below = descendants(seven.pcts[3].unix_pid)
        seven.pcts[3].stop()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"node 3 (node3) was lost" in err
    for unix_pid in below:
        wait_for_exit(unix_pid)
    seven.replace_pct(3)


def test_a_pct_killed_between_jobs_is_not_given_out(seven):
    seven.pcts[2].kill()
    wait_until(lambda: seven.states()[2] != "free")
    done = seven.yod("-sz", "7", "true")
    assert done.status == 125
    assert "6 of 7 slots free now" in done.err and "node2" in done.err and "down" in done.err
    assert seven.yod("-sz", "6", "true").status == 0
    seven.replace_pct(2)
    is_usable(seven)


def test_two_pcts_killed_at_once(seven):
    """A parent and its child: what was below them ends all the same."""
    with seven.start_yod("-sz", "7", "sh", "-c", RANK) as yod:
        count_up(yod, 7)
        for node in (1, 3):
            seven.pcts[node].kill()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"was lost" in err.splitlines()[0]
    for node in (1, 3):
        seven.replace_pct(node)
    is_usable(seven)


def test_another_job_goes_on_when_a_pct_is_lost(start_local):
    local = start_local(4, slots=1)
    with local.start_yod("-list", "0,1", "sh", "-c", "echo up; cat") as other:
        count_up(other, 2)
        with local.start_yod("-list", "2,3", "sh", "-c", RANK) as yod:
            count_up(yod, 2)
            local.pcts[3].kill()
            yod.communicate(timeout=LIMIT_S)
        assert yod.returncode == 125
        out, err = other.communicate(b"word\n", timeout=LIMIT_S)
    assert (other.returncode, out, err) == (0, b"word\n", b"")
    local.replace_pct(3)


# -- keeper ---------------------------------------------------------------


@pytest.mark.parametrize("node", [0, 2])
def test_a_keeper_killed_while_its_job_runs(start_local, node):
    local = start_local(3, slots=2)
    with local.start_yod("-sz", "6", *NO_SERVER, "sh", "-c", RANK) as yod:
        count_up(yod, 6)
        below = descendants(local.pcts[node].unix_pid)
        (keeper,) = local.keepers(node)
        os.kill(keeper, signal.SIGKILL)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    first = err.decode().splitlines()[0]
    assert f"node {node} (node{node})" in first and "keeper" in first
    for unix_pid in below:
        wait_for_exit(unix_pid)
    is_usable(local)


def test_the_keepers_of_two_jobs_killed_at_once(start_local):
    """Their orphans come to the PCT together, and both jobs wait for the end of all."""
    local = start_local(1, slots=4)
    command = ("-sz", "2", *NO_SERVER, "sh", "-c", RANK)
    pct = local.pcts[0].unix_pid
    with local.start_yod(*command) as one, local.start_yod(*command) as other:
        count_up(one, 2)
        count_up(other, 2)
        below = descendants(pct)
        os.kill(pct, signal.SIGSTOP)  # it hears of both in one turn
        try:
            for keeper in local.keepers(0):
                os.kill(keeper, signal.SIGKILL)
        finally:
            os.kill(pct, signal.SIGCONT)
        for yod in (one, other):
            _, err = yod.communicate(timeout=LIMIT_S)
            assert yod.returncode == 125
            assert b"keeper" in err.splitlines()[0]
    for unix_pid in below:
        wait_for_exit(unix_pid)
    is_usable(local)


def test_a_keeper_killed_in_the_embedded_partition(embedded):
    with embedded.start_yod("-sz", "3", *NO_SERVER, "sh", "-c", RANK) as yod:
        count_up(yod, 3)
        children = Path(f"/proc/{yod.pid}/task/{yod.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"keeper" in err.splitlines()[0]


def test_a_keeper_killed_while_ranks_are_being_started(here, programs, tmp_path):
    stopped = Stopped(programs, tmp_path)
    with here.start_yod("-sz", "3", *NO_SERVER, stopped.program) as yod:
        stopped.wait()
        of = here.pcts[0].unix_pid if isinstance(here, Daemons) else yod.pid
        (keeper,) = Path(f"/proc/{of}/task/{of}/children").read_text().split()
        os.kill(int(keeper), signal.SIGKILL)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"keeper" in err.splitlines()[0]


@pytest.mark.parametrize("victim", ["server", "keeper"])
def test_a_pmix_server_killed_while_its_job_runs(here, victim):
    with here.start_yod("-sz", "3", "--mpi=pmix", "sh", "-c", RANK) as yod:
        count_up(yod, 3)
        of = yod.pid
        if isinstance(here, Daemons):
            of = here.pcts[0].unix_pid
        elif isinstance(here, Warm):
            of = here.launch_server.daemon.unix_pid
        (server,) = (
            pid for pid in descendants(of) if "pct.pmix_server.server" in command_line(pid)
        )
        parent = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(server if victim == "server" else int(parent), signal.SIGKILL)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"the PMIx server has ended" in err.splitlines()[0]
    wait_for_exit(server)


# -- bebopd ---------------------------------------------------------------


def test_a_running_job_goes_on_without_bebopd_and_ends_with_the_next(local):
    first = int(local.yod("sh", "-c", "echo $YOD_JOB_ID").out)
    with local.start_yod("-sz", "4", "sh", "-c", "echo up; cat; echo $YOD_JOB_ID") as yod:
        count_up(yod, 4)
        local.bebopd.kill()
        yod.stdin.write(b"word\n")
        read_until(yod.stdout.fileno(), b"word\n")
        local.replace_bebopd()
        # The PCTs have told the new one what they host.
        assert "busy" in local.states()
        out, err = yod.communicate(b"", timeout=LIMIT_S)
        assert (yod.returncode, err) == (0, b"")
        assert f"{first + 1}\n".encode() in out
    wait_until(lambda: set(local.states()) == {"free"})
    assert int(local.yod("sh", "-c", "echo $YOD_JOB_ID").out) > first + 1


def test_a_job_that_ends_while_bebopd_is_away_says_what_it_could_not_confirm(local):
    with local.start_yod("-sz", "4", "sh", "-c", "echo up; cat") as yod:
        count_up(yod, 4)
        local.bebopd.kill()
        _, err = yod.communicate(b"", timeout=LIMIT_S)
    assert yod.returncode == 0
    assert b"bebopd" in err
    local.replace_bebopd()
    wait_until(lambda: set(local.states()) == {"free"})
    is_usable(local)


def test_bebopd_that_is_told_to_end_leaves_running_jobs_alone(local):
    with local.start_yod("-sz", "4", "sh", "-c", "echo up; cat") as yod:
        count_up(yod, 4)
        local.bebopd.stop()
        local.replace_bebopd()
        out, err = yod.communicate(b"more\n", timeout=LIMIT_S)
    assert (yod.returncode, out, err) == (0, b"more\n", b"")


# -- many -----------------------------------------------------------------


def test_many_launches_leave_descriptors_as_they_were(start_local):
    """The fixture compares; the first launch opens what stays open among daemons."""
    local = start_local(3)
    for _ in range(15):
        assert local.yod("-sz", "7", "true").status == 0


def test_many_failing_launches_leave_descriptors_as_they_were(start_local, tmp_path):
    local = start_local(3)
    path = tmp_path / "job"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    for _ in range(8):
        assert local.yod("-sz", "7", path).status == 127
        assert local.yod("-sz", "5", "sh", "-c", "kill -KILL $$").status == 137


# yod with a fault of its own, when it hears of its job what is named.
FAULTY_YOD = """
import sys
from yod.launch.machine import Launch
message = sys.argv[1]
whole = Launch.handle
def handle(self, event, now):
    if type(getattr(event, "message", None)).__name__ == message:
        raise ValueError("broken")
    return whole(self, event, now)
Launch.handle = handle
from yod.cli import main
sys.argv = ["yod", *sys.argv[2:]]
sys.exit(main())
"""


@pytest.mark.parametrize("message", ["Grant", "Held", "Completions"])
def test_a_fault_of_yod_itself_is_one_line_and_its_job_ends(start_local, message):
    partition = start_local(2)
    words = (sys.executable, "-c", FAULTY_YOD, message, "-sz", "2", "sh", "-c", RANK)
    words = words if message == "Held" else (*words[:-3], "true")
    done = finish(partition.start_command(*words))
    assert done.status == 125
    assert done.err == "yod: internal error, please report: ValueError: broken\n"
    wait_until(lambda: set(partition.states()) == {"free"}, what="free nodes")
    is_usable(partition)
