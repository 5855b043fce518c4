"""yod on a terminal, and under a shell that has one."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.daemons import HostDaemons
from tests.support.partition import BIN, finish
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_Z, command_on_a_terminal, on_a_terminal
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

pytestmark = pytest.mark.warm

AT_ONCE = {"YOD_PRESS_S": "0"}  # every signal is a press
STUBBORN = "trap '' INT TERM; echo ready; while :; do sleep 60 & wait; done"
POLITE = "trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 60 & wait $!; done"


def test_three_presses_of_ctrl_c_on_a_terminal(here):
    words = ("-sz", "2", "sh", "-c", STUBBORN)
    with on_a_terminal(here, *words, env=AT_ONCE) as (yod, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, CTRL_C)
        read_until(terminal, b"interrupt again to send SIGKILL\n")
        os.write(terminal, CTRL_C)
        read_until(terminal, b"interrupt again to reset the nodes and leave\n")
        os.write(terminal, CTRL_C)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGINT


def test_ctrl_c_reaches_yod_only(here):
    """A rank that would die of SIGINT gets the SIGTERM that it can catch."""
    with on_a_terminal(here, "-sz", "2", "sh", "-c", POLITE) as (yod, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, CTRL_C)
        read_until(terminal, b"term\n")
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGINT


def test_what_is_typed_reaches_rank_0_and_ctrl_d_ends_it(here):
    with on_a_terminal(here, "-sz", "2", "cat") as (yod, terminal):
        os.write(terminal, b"typed\n")
        read_until(terminal, b"typed\n")
        os.write(terminal, CTRL_D)
        assert yod.wait(timeout=LIMIT_S) == 0


def test_a_job_in_the_background_is_not_stopped_by_typing(here, tmp_path):
    """yod reads the terminal only in the foreground: in the background SIGTTIN would stop it."""
    fifo = tmp_path / "fifo"
    for rank in range(2):
        os.mkfifo(f"{fifo}{rank}")
    shell = f"""
        set -m
        {BIN}/yod -sz 2 sh -c 'echo up; read line < {fifo}$YOD_RANK; echo $line' &
        read word
        echo went on with $word
        echo go > {fifo}0
        echo go > {fifo}1
        wait
        echo over
    """
    with command_on_a_terminal(here, "bash", "-c", shell) as (process, terminal):
        seen = b""
        while seen.count(b"up\n") < 2:
            seen += read_until(terminal, b"\n")
        os.write(terminal, b"typed\n")
        text = read_until(terminal, b"over\n")
        process.wait(timeout=LIMIT_S)
    assert b"went on with typed" in text
    assert text.count(b"go\n") == 2


@pytest.mark.parametrize("shell", [("bash", "--norc", "-i"), ("zsh", "-f", "-i"), ("dash", "-i")])
def test_a_job_that_fg_has_fetched_reads_what_is_typed(here, shell):
    """To a job that runs, bash and zsh send no SIGCONT: nothing tells it that it may read."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    env = {"PS1": "% ", "TERM": "dumb"}
    reads = 'echo u""p; while read word rest; do echo got $word; done; echo o""ver'
    with command_on_a_terminal(here, *shell, env=env) as (process, terminal):
        os.write(terminal, f"{BIN}/yod sh -c '{reads}' &\n".encode())
        read_until(terminal, b"up\n")
        os.write(terminal, b"echo the $((6 * 7)) shell reads\n")
        read_until(terminal, b"the 42 shell reads")
        at_first = os.tcgetpgrp(terminal)
        if shell[0] == "zsh":  # else it takes the next line as well
            os.write(terminal, b"fg\n")
            wait_until(lambda: os.tcgetpgrp(terminal) != at_first, what="another foreground")
            os.write(terminal, b"1 to yod\n")
        else:
            os.write(terminal, b"fg\n1 to yod\n")
        read_until(terminal, b"got 1")
        os.write(terminal, b"2 to yod\n" + CTRL_D)
        assert b"got 2" in read_until(terminal, b"over")
        wait_until(lambda: os.tcgetpgrp(terminal) == at_first, what="the shell")
        os.write(terminal, b"exit 7\n")
        assert process.wait(timeout=LIMIT_S) == 7


def test_an_interactive_shell_as_a_rank_reads_its_input_and_does_not_wait_for_a_terminal(here):
    with on_a_terminal(here, "-sz", "1", "bash", "--norc", "-i") as (yod, terminal):
        os.write(terminal, b"echo $((6 * 7)) > /dev/tty || echo $((6 * 7))\n")
        read_until(terminal, b"42\n")
        os.write(terminal, b"exit 7\n")
        assert yod.wait(timeout=LIMIT_S) == 7


def test_a_rank_that_asks_for_a_password_reads_it_from_its_input(here):
    code = "import getpass; print('got', getpass.getpass(''))"
    with on_a_terminal(here, "-sz", "1", sys.executable, "-c", code) as (yod, terminal):
        os.write(terminal, b"secret\n")
        read_until(terminal, b"got secret\n")
        assert yod.wait(timeout=LIMIT_S) == 0


@pytest.mark.parametrize("rank", ["echo ready; exec sleep 60", POLITE.replace("exit 0", "exit 3")])
def test_ctrl_c_stops_a_shells_loop(here, rank):
    """bash goes on when its command has exited, and stops when it has died of SIGINT."""
    shell = f'for i in 1 2 3; do {BIN}/yod -sz 2 sh -c "$0"; done'
    with command_on_a_terminal(here, "bash", "-c", shell, rank) as (bash, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, CTRL_C)
        assert bash.wait(timeout=LIMIT_S) == -signal.SIGINT


def test_a_terminal_that_closes_is_one_press(here, tmp_path):
    """The ranks get SIGTERM and have their time to end; nothing is left without a second press."""
    rank = f"trap 'sleep 0.2; : > {tmp_path}/$YOD_RANK; exit 0' TERM; echo ready; "
    rank += "while :; do echo more; sleep 0.01; done"
    shell = f'{BIN}/yod -sz 2 sh -c "$0"; exit 0'
    with command_on_a_terminal(here, "bash", "-c", shell, rank) as (bash, terminal):
        seen = b""
        while seen.count(b"ready\n") < 2:
            seen += read_until(terminal, b"\n")
        os.close(terminal)
        bash.wait(timeout=LIMIT_S)
        wait_until(lambda: {"0", "1"} <= set(os.listdir(tmp_path)), what="the ranks' ends")


@pytest.mark.parametrize("is_writing", [False, True], ids=["silent", "writing"])
def test_a_terminal_that_closes_ends_a_yod_without_a_shell(here, tmp_path, is_writing):
    """A window that runs yod and nothing else; the ranks learn it by SIGTERM."""
    rank = f"trap ': > {tmp_path}/$YOD_RANK; exit 0' TERM; echo ready; "
    rank += "while :; do echo more; done" if is_writing else "sleep 1000 & wait"
    with on_a_terminal(here, "-sz", "2", "sh", "-c", rank) as (yod, terminal):
        seen = b""
        while seen.count(b"ready\n") < 2:
            seen += read_until(terminal, b"\n")
        os.close(terminal)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGHUP
    assert {"0", "1"} <= set(os.listdir(tmp_path))


def test_output_to_a_terminal_that_has_gone_without_a_signal_is_a_press(here):
    """It is not yod's controlling terminal, so no SIGHUP comes: the failed write is as one."""
    ours, theirs = pty.openpty()
    words = ("-sz", "2", "sh", "-c", "echo ready; while :; do echo more; done")
    yod = here.start_yod(*words, stdout=theirs, start_new_session=True)
    os.close(theirs)
    read_until(ours, b"ready")
    os.close(ours)
    done = finish(yod)
    assert (done.status, done.out) == (-signal.SIGHUP, ""), done
    assert done.err.startswith("yod: SIGTERM sent to all ranks; "), done


# As a user sees it: the shell has the terminal back, and nothing of the job runs.
CONTROL = """
set -m
{yod} {options} -sz 4 {python} -S -c "$0"
echo stopped $?
pid=$(jobs -p %1)
read word
$word %1
while kill -0 $pid; do wait $pid; done 2>/dev/null  # it may still be stopped
echo over
"""
WAITS = """
import os, select
print("rank", os.getpid(), flush=True)
while not os.path.exists({go!r}):
    select.select([], [], [], 0.01)
open({go!r} + os.environ["YOD_RANK"], "w").close()
print("done")
"""


def state(unix_pid: int) -> str:
    with open(f"/proc/{unix_pid}/stat") as stat:
        return stat.read().rpartition(") ")[2][0]


@contextmanager
def stopped_by_ctrl_z(
    partition, go, options: str = "--stop-ranks", **env
) -> Iterator[tuple[int, list[int]]]:
    """The terminal, and the ranks."""
    script = CONTROL.format(yod=BIN / "yod", python=sys.executable, options=options)
    command = ("bash", "-c", script)
    rank = WAITS.format(go=str(go))
    with command_on_a_terminal(partition, *command, rank, env=env) as (bash, terminal):
        seen = b""
        while seen.count(b"rank") < 4 or not seen.endswith(b"\n"):
            seen += read_until(terminal, b"\n")
        ranks = [int(line.split()[1]) for line in seen.splitlines() if line.startswith(b"rank")]
        os.write(terminal, CTRL_Z)
        read_until(terminal, b"stopped 148\n")  # 128 + SIGTSTP
        for rank in ranks if options else ():
            wait_until(lambda rank=rank: state(rank) == "T", what="the ranks stopped")
        yield terminal, ranks
        bash.wait(timeout=LIMIT_S)


def test_ctrl_z_stops_yod_alone_and_the_job_goes_on(anywhere, tmp_path):
    """Also for longer than a process may be silent: a stopped yod is not a lost one."""
    env = {"YOD_SILENT_S": "0.4", "YOD_HEARTBEAT_S": "0.1", "YOD_END_S": "0.4"}
    go = tmp_path / "go"
    with stopped_by_ctrl_z(anywhere, go, options="", **env) as (terminal, _):
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 1.0)
        go.touch()
        for rank in range(4):
            wait_until((tmp_path / f"go{rank}").exists, what="the work of the ranks")
        os.write(terminal, b"fg\n")
        assert read_until(terminal, b"over\n").count(b"done\n") == 4


@pytest.mark.hosts
def test_ctrl_z_stops_the_ranks_of_other_hosts_too_when_asked(start_hosts, tmp_path):
    env = {"YOD_SILENT_S": "0.4", "YOD_HEARTBEAT_S": "0.1", "YOD_END_S": "0.4"}
    hosts = start_hosts(2)
    rank = WAITS.format(go=str(tmp_path / "go"))
    command = CONTROL.format(yod=BIN / "yod", python=sys.executable, options="--stop-ranks")
    with command_on_a_terminal(hosts, "bash", "-c", command, rank, env=env) as (bash, terminal):
        seen = b""
        while seen.count(b"rank") < 4 or not seen.endswith(b"\n"):
            seen += read_until(terminal, b"\n")
        os.write(terminal, CTRL_Z)
        read_until(terminal, b"stopped 148\n")
        wait_until(lambda: _states(hosts) == {"T"}, what="the ranks stopped")
        (tmp_path / "go").touch()
        os.write(terminal, b"fg\n")
        assert read_until(terminal, b"over\n").count(b"done\n") == 4
        bash.wait(timeout=LIMIT_S)


def _states(hosts: HostDaemons) -> set[str]:
    """Of the ranks on all hosts."""
    ranks = [
        unix_pid
        for host in hosts.hosts
        for unix_pid, command in host.processes().items()
        if command.startswith(f"{sys.executable} -S -c")
    ]
    return {state(unix_pid) for unix_pid in ranks}


def test_ctrl_z_stops_the_whole_job_when_asked_and_fg_continues_it(here, tmp_path):
    with stopped_by_ctrl_z(here, tmp_path / "go") as (terminal, ranks):
        (tmp_path / "go").touch()
        assert {state(rank) for rank in ranks} == {"T"}
        os.write(terminal, b"fg\n")
        assert read_until(terminal, b"over\n").count(b"done\n") == 4


def test_bg_continues_a_stopped_job_too(here, tmp_path):
    with stopped_by_ctrl_z(here, tmp_path / "go") as (terminal, _):
        os.write(terminal, b"bg\n")
        (tmp_path / "go").touch()
        assert read_until(terminal, b"over\n").count(b"done\n") == 4


def test_a_stopped_job_that_is_killed_ends(here, tmp_path):
    """A shell sends SIGTERM and SIGCONT."""
    with stopped_by_ctrl_z(here, tmp_path / "go") as (terminal, ranks):
        os.write(terminal, b"kill\n")
        text = read_until(terminal, b"over\n")
        assert b"ranks 0..3 on" in text and b"killed by yod (SIGTERM)" in text
        for rank in ranks:
            wait_for_exit(rank)


def test_a_job_may_stand_still_for_longer_than_its_limits(here, tmp_path):
    """Limits do not run on while the job is stopped."""
    env = {"YOD_SILENT_S": "0.4", "YOD_HEARTBEAT_S": "0.1", "YOD_END_S": "0.4"}
    with stopped_by_ctrl_z(here, tmp_path / "go", **env) as (terminal, _):
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 1.0)
        os.write(terminal, b"fg\n")
        (tmp_path / "go").touch()
        assert read_until(terminal, b"over\n").count(b"done\n") == 4


def test_where_no_shell_could_continue_it_ctrl_z_stops_nothing(here, tmp_path):
    """The kernel discards SIGTSTP of an orphaned group: its ranks go on, too."""
    text = f"echo up; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo done"
    with here.start_yod("-sz", "2", "sh", "-c", text, start_new_session=True) as yod:
        seen = b""
        while seen.count(b"up\n") < 2:
            seen += read_until(yod.stdout.fileno(), b"\n")
        yod.send_signal(signal.SIGTSTP)
        (tmp_path / "go").touch()
        out, _ = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out) == (0, b"done\ndone\n")


def test_a_launch_that_takes_long_shows_how_far_it_is_and_nothing_is_left_of_it(local):
    env = {"YOD_PROGRESS_S": "0.05", "YOD_NOTICE_S": "60"}
    os.kill(local.pcts[0].unix_pid, signal.SIGSTOP)
    try:
        with on_a_terminal(local, "-list", "0", "echo", "out", env=env) as (yod, terminal):
            shown = read_until(terminal, b"s: votes from node0")
            # A slow bebopd has been waited for before.
            assert re.search(rb"\ryod: form \(2 of 4\), \d+ s: votes from node0$", shown), shown
            os.kill(local.pcts[0].unix_pid, signal.SIGCONT)
            shown = read_until(terminal, b"out\n")
            assert shown.endswith(b" \rout\n"), shown
            assert yod.wait(timeout=LIMIT_S) == 0
    finally:
        os.kill(local.pcts[0].unix_pid, signal.SIGCONT)
    wait_until(lambda: set(local.states()) == {"free"})
