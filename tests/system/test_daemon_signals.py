"""Signals that a daemon takes without ending: its jobs do not notice."""

import os
import signal

from tests.support.daemons import wait_for_log
from tests.support.partition import finish
from tests.support.wait import read_until

REOPEN_TEXT = "SIGHUP: there is no log file to open again"


def test_a_daemon_shows_its_state_and_goes_on(start_local):
    partition = start_local(1)
    yod = partition.start_yod("sh", "-c", "read line; echo $YOD_JOB_ID; read line")
    yod.stdin.write(b"begin\n")  # input comes to ranks that every node knows to run
    yod.stdin.flush()
    job_id = int(read_until(yod.stdout.fileno(), b"\n"))
    owner = f"job {job_id}: uid {os.getuid()}, running, ranks 0, for "
    for daemon, text in ((partition.pcts[0], owner), (partition.bebopd, f"job {job_id} of ")):
        os.kill(daemon.unix_pid, signal.SIGUSR1)
        wait_for_log(daemon, text)
        os.kill(daemon.unix_pid, signal.SIGHUP)
        wait_for_log(daemon, REOPEN_TEXT)
        before = daemon.text().count(text)
        os.kill(daemon.unix_pid, signal.SIGUSR2)
        wait_for_log(daemon, REOPEN_TEXT)
        assert daemon.is_alive and before == 1
    assert finish(yod, b"on\n").status == 0
    assert "1 of 4 slots in use, 1 jobs" in partition.pcts[0].text()
    assert "node 0 (node0): up, 1 of 4 slots in use" in partition.bebopd.text()
