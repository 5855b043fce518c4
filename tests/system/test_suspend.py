"""yodjob suspend and resume: jobs stand still as a whole, and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.batch import Jobs
from tests.support.partition import BIN, Done, Partition
from tests.support.processes import command_line, descendants
from tests.support.wait import read_until, wait_until

# A rank with a child in its group, and one that has left its session and lost its parent.
SCRIPT = "sleep 600 & (setsid sleep 600 &); echo ready; exec sleep 600"
RANK = ("sh", "-c", SCRIPT)


def yodjob(partition: Partition, *words: str, **options) -> Done:
    return partition.yodjob(*words, **options)


def jobs_of(partition: Partition, **options) -> dict[str, dict]:
    done = yodjob(partition, "list", "--json", **options)
    assert (done.status, done.err) == (0, "")
    return {found["id"]: found for found in json.loads(done.out)["jobs"]}


def state(unix_pid: int) -> str:
    try:
        return Path(f"/proc/{unix_pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def marked() -> list[int]:
    """The processes of ranks and scripts below this process that stay until they are ended."""
    return [pid for pid in descendants(os.getpid()) if command_line(pid).startswith("sleep 600")]


def all_are(letters: str) -> None:
    def probe() -> bool:
        found = [state(pid) for pid in marked()]
        return bool(found) and all(each in letters for each in found)

    wait_until(probe, what=f"every process of the ranks in a state of {letters}")


STOPPED, RUNS = "T", "SRD"


def start(partition: Partition, *options: str, size: int = 2) -> subprocess.Popen[bytes]:
    yod = partition.start_yod(*options, "-sz", str(size), *RANK)
    read_until(yod.stdout.fileno(), b"ready\n", times=size)
    return yod


@pytest.fixture
def running(anywhere) -> Iterator[tuple[Partition, subprocess.Popen[bytes], str]]:
    """A partition, a yod whose ranks are ready, on two nodes where there are, and its id."""
    with start(anywhere, size=6) as yod:
        try:
            (job_id,) = jobs_of(anywhere)
            yield anywhere, yod, job_id
        finally:
            if yod.returncode is None:
                yod.send_signal(signal.SIGTERM)
                yod.communicate()


@pytest.mark.warm
def test_every_process_of_a_job_stops_and_goes_on(running):
    partition, _, job_id = running
    all_are(RUNS)
    assert yodjob(partition, "suspend", job_id) == (0, "", "")
    all_are(STOPPED)
    row = jobs_of(partition)[job_id]
    assert (row["state"], row["code"]) == ("SUSPENDED", "S")
    assert "state      SUSPENDED (S)" in yodjob(partition, "show", job_id).out
    assert yodjob(partition, "suspend", job_id) == (0, "", "")
    all_are(STOPPED)
    for _ in range(2):
        assert yodjob(partition, "resume", job_id) == (0, "", "")
        all_are(RUNS)
    assert jobs_of(partition)[job_id]["state"] == "RUNNING"


@pytest.mark.warm
@pytest.mark.parametrize("end", ["cancel", "signal"])
def test_a_suspended_job_ends_as_one_that_runs(running, end):
    partition, yod, job_id = running
    yodjob(partition, "suspend", job_id)
    all_are(STOPPED)
    if end == "cancel":
        assert yodjob(partition, "cancel", job_id) == (0, "", "")
    else:
        yod.send_signal(signal.SIGTERM)
    yod.communicate()
    assert yod.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    wait_until(lambda: not marked(), what="the end of all processes of the ranks")


@pytest.mark.warm
def test_a_signal_that_continues_the_ranks_resumes_the_job(running):
    partition, _, job_id = running
    yodjob(partition, "signal", "STOP", job_id)
    all_are(STOPPED)
    assert jobs_of(partition)[job_id]["state"] == "SUSPENDED"
    yodjob(partition, "signal", "CONT", job_id)
    all_are(RUNS)
    assert jobs_of(partition)[job_id]["state"] == "RUNNING"


def test_what_is_not_there_is_not_suspended(here):
    done = yodjob(here, "suspend", "local.4711")
    text = "yodjob: local.4711: there is no such job of yours on this host\n"
    assert (done.status, done.err) == (1, text)


# -- allocations ---------------------------------------------------------------


@pytest.fixture
def allocation(start_local) -> Iterator[tuple[Partition, subprocess.Popen[bytes]]]:
    """Two nodes that a shell holds, which does what it reads."""
    partition = start_local(2, slots=2)
    words = ("alloc", "-quiet", "-sz", "4", "sh")
    with partition.start_command(BIN / "yodjob", *words) as shell:
        yield partition, shell
        shell.kill()


def tell(shell: subprocess.Popen[bytes], *lines: str, until: str) -> None:
    shell.stdin.write("".join(f"{line}\n" for line in lines).encode())
    read_until(shell.stdout.fileno(), until.encode())


STEP = f"yod sh -c '{SCRIPT}' </dev/null &"


def test_all_steps_of_an_allocation_stop_and_a_late_one_waits(allocation):
    partition, shell = allocation
    tell(shell, STEP, until="ready\n")
    (job_id,) = (key for key in jobs_of(partition) if "." not in key)
    assert yodjob(partition, "suspend", job_id) == (0, "", "")
    all_are(STOPPED)
    codes = {key: row["code"] for key, row in jobs_of(partition).items()}
    assert codes == {job_id: "S", f"{job_id}.1": "S"}
    shown = yodjob(partition, "show", f"{job_id}.1").out
    assert "state      SUSPENDED (S)" in shown
    tell(shell, "yod --immediate true; echo immediate $?", until="immediate 125\n")
    tell(shell, "yod echo late & echo asked", until="asked\n")
    read_until(shell.stderr.fileno(), b"the allocation is suspended; Ctrl-C leaves\n")
    assert yodjob(partition, "resume", f"{job_id}.1") == (0, "", "")
    all_are(STOPPED)
    assert yodjob(partition, "resume", job_id) == (0, "", "")
    read_until(shell.stdout.fileno(), b"late\n")
    all_are(RUNS)


def test_a_step_that_was_suspended_by_itself_stays_so_when_its_allocation_is_resumed(allocation):
    partition, shell = allocation
    tell(shell, STEP, until="ready\n")
    (job_id,) = (key for key in jobs_of(partition) if "." not in key)
    yodjob(partition, "suspend", f"{job_id}.1")
    all_are(STOPPED)
    yodjob(partition, "suspend", job_id)
    yodjob(partition, "resume", job_id)
    tell(shell, "yod echo runs", until="runs\n")
    all_are(STOPPED)
    assert jobs_of(partition)[f"{job_id}.1"]["code"] == "S"
    yodjob(partition, "resume", f"{job_id}.1")
    all_are(RUNS)


def test_a_suspended_allocation_and_a_step_of_it_are_cancelled(allocation):
    partition, shell = allocation
    tell(shell, STEP, until="ready\n")
    (job_id,) = (key for key in jobs_of(partition) if "." not in key)
    yodjob(partition, "suspend", job_id)
    all_are(STOPPED)
    assert yodjob(partition, "cancel", f"{job_id}.1") == (0, "", "")
    wait_until(lambda: not marked(), what="the end of the step")
    assert yodjob(partition, "cancel", job_id) == (0, "", "")
    shell.communicate()
    assert shell.returncode == 125


# -- batch jobs ----------------------------------------------------------------


@pytest.fixture
def own(start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of two slots, which are this test's alone."""
    jobs = Jobs(start_local(2, slots=2, env={"YOD_HEARTBEAT_S": "1"}), tmp_path)
    yield jobs
    jobs.close()


def begun(jobs: Jobs, *options: str) -> str:
    """A batch job with a script that has a child, and a step."""
    rank = "(setsid sleep 600 &); echo up > said; exec sleep 600"
    job_id = jobs.submit("-sz", "2", *options, text=f"sleep 600 &\nyod -sz 1 sh -c '{rank}'")
    jobs.said.until("up\n")
    return job_id


def happened(jobs: Jobs, job_id: str) -> list[str]:
    done = jobs.yodjob("show", "--events", "--json", job_id)
    return [each["text"] for each in json.loads(done.out)["events"][job_id]]


def test_a_batch_job_stops_with_its_script_and_goes_on(own):
    job_id = begun(own)
    assert own.yodjob("suspend", job_id) == (0, "", "")
    all_are(STOPPED)
    row = own.row(job_id)
    assert (row["state"], row["code"], row["reason"]) == ("SUSPENDED", "S", None)
    assert own.yodjob("suspend", job_id) == (0, "", "")
    for _ in range(2):
        assert own.yodjob("resume", job_id) == (0, "", "")
        all_are(RUNS)
    assert own.state(job_id) == "RUNNING"
    assert happened(own, job_id)[-2:] == ["suspended by root", "resumed by root"]
    own.yodjob("cancel", job_id)
    assert own.wait(job_id) == 143


def test_a_restarted_bebopd_knows_which_jobs_are_suspended(own):
    job_id = begun(own)
    own.yodjob("suspend", job_id)
    all_are(STOPPED)
    own.partition.bebopd.kill()
    own.partition.replace_bebopd()
    assert own.state(job_id) == "SUSPENDED"
    all_are(STOPPED)
    assert own.yodjob("resume", job_id) == (0, "", "")
    all_are(RUNS)
    own.yodjob("cancel", job_id)
    assert own.wait(job_id) == 143


def test_a_suspended_batch_job_ends_by_cancel(own):
    job_id = begun(own)
    own.yodjob("suspend", job_id)
    all_are(STOPPED)
    assert own.yodjob("cancel", job_id) == (0, "", "")
    assert own.wait(job_id) == 143
    assert own.state(job_id) == "CANCELLED"
    wait_until(lambda: not marked(), what="the end of all its processes")


def test_a_suspended_batch_job_ends_at_its_time_limit(own):
    job_id = begun(own, "-time", "1:00:00")
    own.yodjob("suspend", job_id)
    assert own.yodjob("update", "-time", "0:01", job_id) == (0, "", "")
    assert own.wait(job_id) == 124
    assert own.state(job_id) == "TIMEOUT"


def test_a_step_that_a_script_begins_in_a_suspended_job_runs_when_it_is_resumed(own):
    text = "echo up > said\nread line < go\nyod echo late"
    job_id = own.submit("-sz", "2", text=text)
    own.said.until("up\n")
    own.yodjob("suspend", job_id)
    own.go.say()
    own.yodjob("resume", job_id)
    assert own.wait(job_id) == 0
    assert own.output(job_id) == "late\n"


def test_a_job_that_waits_cannot_be_suspended(own):
    first = begun(own)
    second = own.submit("-sz", "4", "--wrap", "true")
    done = own.yodjob("suspend", second)
    assert done.status == 1
    assert done.err.startswith(f"yodjob: {second}: job {second} does not run: ")
    own.yodjob("cancel", first)
    assert own.wait(second) == 0


def test_a_detached_job_is_suspended_and_resumed(own):
    rank = "(setsid sleep 600 &); echo up > said; exec sleep 600"
    words = ("--detach", "-quiet", "sh", "-c", rank)
    job_id = own.partition.yod(*words, cwd=own.directory).out.strip()
    own.said.until("up\n")
    assert own.yodjob("suspend", job_id) == (0, "", "")
    all_are(STOPPED)
    assert own.state(job_id) == "SUSPENDED"
    assert own.yodjob("resume", job_id) == (0, "", "")
    all_are(RUNS)
    assert own.yodjob("suspend", job_id) == (0, "", "")
    assert own.yodjob("cancel", job_id) == (0, "", "")
    assert own.wait(job_id) == 143
