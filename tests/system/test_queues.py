"""Queues of a site with real processes: as docs/queues.md sets them up, and under a new bebopd."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from datetime import datetime, timedelta

import pytest

from native.host import userdirs
from tests.support.batch import Jobs
from tests.support.partition import BIN, ROOT, finish
from tests.support.wait import wait_until

ME = userdirs.user_name(os.getuid())
PAGE = (ROOT / "docs" / "queues.md").read_text().replace("alice", ME)
RULES = re.search(r"```\n(.*?)```\n", PAGE, re.S)[1]


@pytest.fixture
def queues(start_local, tmp_path):
    """Two nodes of two slots, whose site has the queues of the page."""
    file = tmp_path / "queues.toml"
    file.write_text(RULES)
    jobs = Jobs(start_local(2, slots=2, bebopd_options=("--queues", file)), tmp_path)
    yield jobs
    jobs.close()


def session(text: str) -> list[tuple[list[str], list[str]]]:
    """Commands of the page, each with what it prints."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((shlex.split(line[6:]), []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line.strip())
    return found


def told(lines: list[str]) -> list[str]:
    """Without what differs from time to time, and from user to user."""
    times = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\(in [\d:]+\)|\d:\d\d(?= )"
    points = r"priority \d{4}|fair share \d+( \([\d.]+\))?|age \d+ \([\d.]+\)"
    known = [re.sub(f"{times}|{points}", "#", line) for line in lines]
    return [re.sub(" +", " ", line.strip()) for line in known]


def test_the_page_is_as_it_happens(queues):
    page = session(PAGE[: PAGE.index("## Queues\n")])
    assert len(page) == 9
    for (name, *words), printed in page:
        done = finish(queues.partition.start_command(BIN / name, *words, cwd=queues.directory))
        assert told((done.out + done.err).splitlines()) == told(printed), words
        assert done.status == (1 if done.err else 0)
    finish(queues.partition.start_command(BIN / "yodctl", "unreserve", "1"))
    queues.yodjob("cancel", "1", "2", "3")
    for job_id in ("1", "2", "3"):
        queues.wait(job_id)


def test_what_a_queue_says_holds_for_allocations_and_launches(queues):
    done = queues.yodjob("alloc", "-queue", "short", "-sz", "3", "true")
    assert (done.status, done.err) == (
        *(125, "yodjob: queue short: per_job.slots is 2, 3 asked for\n"),
    )
    done = queues.yodjob("alloc", "-queue", "long", "true")
    assert "it takes batch jobs only" in done.err
    done = queues.yodjob("alloc", "-queue", "short", "-licenses", "matlab:2", "yod", "true")
    assert (done.status, "holds 1 slot on node 0" in done.err) == (0, True)
    script = "#SBATCH -p short\n#SBATCH -L matlab\n#SBATCH -A physics\ntrue"
    job_id = queues.submit(text=script)
    assert queues.wait(job_id) == 0
    row = queues.row(job_id)
    assert (row["queue"], row["account"], row["time_s"]) == ("short", "physics", 600.0)


def test_a_file_with_a_mistake_changes_nothing_and_one_without_is_in_force(queues):
    file = queues.directory / "queues.toml"
    partition = queues.partition

    def reload(text: str, says: str) -> None:
        file.write_text(text)
        os.kill(partition.bebopd.unix_pid, signal.SIGHUP)
        wait_until(lambda: says in partition.bebopd.text())

    reload(RULES.replace('"30:00"', "30"), "[[queue]] 2 (short): max_time must be a time in quot")
    assert queues.yodjob("submit", "-queue", "short", "-time", "31", "--wrap", "true").status == 1
    reload(RULES.replace('"30:00"', '"40:00"'), "is in force")
    assert queues.wait(queues.submit("-queue", "short", "-time", "31", "--wrap", "true")) == 0
    done = partition.start_command(BIN / "bebopd", "--queues", "/none", "--state-dir", "/none")
    assert finish(done).err == "bebopd: file of queues /none: No such file or directory\n"


def test_no_job_begins_that_would_run_into_a_reservation(queues):
    partition, file = queues.partition, queues.directory / "queues.toml"
    begins = (datetime.now() + timedelta(hours=1)).isoformat(timespec="seconds")
    kept = f'[[reservation]]\nname = "repair"\nnodes = "1"\nstart = {begins}\n'
    file.write_text(f'{RULES}\n{kept}duration = "30:00"\n')
    os.kill(partition.bebopd.unix_pid, signal.SIGHUP)
    wait_until(lambda: "is in force" in partition.bebopd.text())
    long = queues.submit("-sz", "4", "-time", "2:00:00", "--wrap", "true")
    says = r"node 1 is reserved for nobody, begins in (0:59:\d\d|1:00:00)"
    assert re.search(says, queues.row(long)["reason"])
    short = queues.submit("-sz", "4", "-time", "50", "--wrap", "true")
    assert queues.wait(short) == 0  # it passes
    file.write_text(RULES)
    os.kill(partition.bebopd.unix_pid, signal.SIGHUP)
    assert queues.wait(long) == 0

    words = ("-user", "nobody", "-start", "now+1:00:00", "-duration", "30:00", "-reason", "demo")
    done = finish(partition.start_command(BIN / "yodctl", "reserve", "0..1", *words))
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(r"nodes 0\.\.1 reserved from [\d-]+ [\d:]+ on\n", done.out)
    assert " reserved for nobody by " in finish(partition.start_command(BIN / "pingd")).out
    done = queues.yodjob("submit", "-time", "2:00:00", "--wrap", "true")
    assert "it waits: nodes 0..1 are reserved for nobody, begins in " in done.out
    assert finish(partition.start_command(BIN / "yod", "true")).status == 125
    finish(partition.start_command(BIN / "yodctl", "unreserve", "0..1"))
    assert queues.wait("3") == 0


def test_the_order_and_what_was_used_outlive_bebopd(queues):
    running = queues.submit("-sz", "4", "--wrap", "read line <go")
    waiting = [queues.submit("--wrap", "true") for _ in range(2)]
    short = queues.submit("-queue", "short", "--wrap", "true")
    assert queues.yodjob("update", "-nice", "500", waiting[0]).status == 0

    def places() -> list[str]:
        ids = (*waiting, short)
        return [queues.row(job_id)["reason"].partition(";")[0] for job_id in ids]

    before = places()
    assert before == ["place 3 of 3", "place 2 of 3", "place 1 of 3"]
    queues.partition.bebopd.kill()
    queues.partition.replace_bebopd()
    wait_until(lambda: queues.state(running) == "RUNNING")
    assert places() == before
    queues.go.say()
    assert queues.wait(running, *waiting, short) == 0


def test_habits_of_slurm_run_where_there_are_no_queues(jobs):
    script = jobs.script("#SBATCH -p debug\n#SBATCH -A physics\ntrue")
    done = jobs.yodjob("submit", "-quiet", script)
    assert (done.status, done.err) == (
        *(0, "".join(f"yodjob: #SBATCH {x}: ignored, there are no queues\n" for x in ("-p", "-A"))),
    )
    assert jobs.wait(done.out.strip()) == 0
    done = jobs.yodjob("submit", "-queue", "debug", "--wrap", "true")
    assert done.err == "yodjob: no queue debug: this partition has no queues (bebopd --queues)\n"


PREEMPTING = """
[[queue]]
name = "free"
preempt_mode = "{}"
{}

[[queue]]
name = "paid"
priority = 1
preempts = ["free"]

[priority]
queue = 1000
"""


@pytest.fixture
def preempting(start_local, tmp_path):
    """Starts two nodes of two slots whose queue `paid` takes the slots of `free`."""
    begun = []

    def start(mode: str, more: str = "", **limits: str) -> Jobs:
        file = tmp_path / "queues.toml"
        file.write_text(PREEMPTING.format(mode, more))
        options = {"bebopd_options": ("--queues", file), "env": limits}
        begun.append(Jobs(start_local(2, slots=2, **options), tmp_path))
        return begun[0]

    yield start
    for jobs in begun:
        jobs.close()


def test_a_job_and_its_steps_end_for_one_of_another_queue(preempting):
    jobs = preempting("cancel")
    text = "#YOD -queue free\nyod -sz 4 sh -c 'echo step $PPID >said; exec sleep 1000'"
    free = jobs.submit("-sz", "4", text=text)
    jobs.said.until("step")
    paid = jobs.submit("-queue", "paid", "-sz", "3", "--wrap", "true")
    assert jobs.wait(paid) == 0
    assert jobs.wait(free) == 143
    row = jobs.row(free)
    reason = f"preempted for job {paid} of {ME} (queue paid)"
    assert (row["state"], row["reason"]) == ("PREEMPTED", reason)
    shown = jobs.yodjob("show", "--events", paid).out
    assert f"preempts 1 job: {free}" in shown
    assert " PREEMPTED " in jobs.yodjob("history", free).out


def test_a_job_whose_queue_is_not_preempted_keeps_its_slots(preempting):
    jobs = preempting("cancel", '\n[[queue]]\nname = "kept"\n')
    kept = jobs.submit("-queue", "kept", "-sz", "4", "--wrap", "echo up >said; read line <go")
    jobs.said.until("up\n")
    paid = jobs.submit("-queue", "paid", "-sz", "3", "--wrap", "true")
    assert (jobs.state(kept), jobs.state(paid)) == ("RUNNING", "PENDING")
    jobs.go.say()
    assert [jobs.wait(kept), jobs.wait(paid)] == [0, 0]


def test_a_job_waits_again_and_goes_on_when_the_other_has_ended(preempting):
    jobs = preempting("requeue", 'preempt_grace = "1:00"')
    script = """#YOD -queue free
trap 'echo ends >said; exit 0' TERM
echo $YOD_RESTART_COUNT >>counts
echo runs >said
while [ ! -e done ]; do sleep 0.05; done"""
    free = jobs.submit("-sz", "4", text=script)
    jobs.said.until("runs")
    paid = jobs.submit("-queue", "paid", "-sz", "4", "--wrap", "read line <go")
    jobs.said.until("ends")
    wait_until(lambda: jobs.state(paid) == "RUNNING")
    assert jobs.state(free) == "PENDING"
    (jobs.directory / "done").touch()
    jobs.go.say()
    assert jobs.wait(paid, free) == 0
    assert "runs" in jobs.said.until("runs")
    said = jobs.yodjob("show", "--events", free).out
    assert f"waits again (1): preempted for job {paid} of {ME} (queue paid)" in said


def test_a_broker_that_its_owner_has_stopped_is_killed_for_another(preempting):
    jobs = preempting("cancel", YOD_KILL_WAIT_S="0.5", YOD_END_S="1")
    free = jobs.submit(
        "-queue", "free", "-sz", "4", "--wrap", "kill -STOP $PPID; echo up >said; read line <go"
    )
    jobs.said.until("up")
    paid = jobs.submit("-queue", "paid", "--wrap", "true")
    assert jobs.wait(paid) == 0
    assert jobs.wait(free) == 143


def test_a_launch_without_a_time_limit_ends_with_that_of_its_queue(queues):
    partition, file = queues.partition, queues.directory / "queues.toml"
    file.write_text(RULES.replace('default_time = "1:00:00"', 'default_time = "0:01"', 1))
    os.kill(partition.bebopd.unix_pid, signal.SIGHUP)
    wait_until(lambda: "is in force" in partition.bebopd.text())
    done = partition.yod("sleep", "600")
    assert (done.status, "its queue's limit of 0:00:01 is over" in done.err) == (124, True), done
    done = partition.yod("-time", "2-0", "true")
    assert "queue day: max_time is 1-0:00:00, 2-0:00:00 asked for" in done.err, done


def test_bebopd_keeps_to_the_limit_that_an_allocation_was_given(queues):
    script = "yodjob update -time 29 $YOD_ALLOCATION; yodjob show --events $YOD_ALLOCATION"
    done = queues.yodjob("alloc", "-queue", "short", "sh", "-c", script)
    assert done.status == 0 and "the time limit is 0:29:00 now" in done.err, done
    assert f"time limit 0:29:00, set by {ME}" in done.out
    row = json.loads(queues.yodjob("history", "--json", "-n", "1").out)["jobs"][0]
    assert (row["queue"], row["time_s"]) == ("short", 29 * 60)


def test_a_launch_is_in_the_queue_that_it_names_and_so_is_one_of_srun(queues):
    partition = queues.partition
    assert partition.yod("-queue", "short", "-account", "physics", "true").status == 0
    done = queues.yodjob("slurm", "srun", "-p", "short", "-n", "2", "true")
    assert (done.status, done.err) == (0, "")
    rows = json.loads(queues.yodjob("history", "--json", "-n", "2").out)["jobs"]
    assert [(row["queue"], row["account"], row["time_s"]) for row in rows] == [
        ("short", "physics", 600.0),
        ("short", "physics", 600.0),
    ]
    done = partition.yod("-queue", "short", "-sz", "3", "true")
    assert "queue short: per_job.slots is 2, 3 asked for" in done.err
    done = partition.yod("-queue", "none", "true")
    assert "no queue none here; there are day, short, long" in done.err
    done = partition.yod("-account", "x" * 300, "true")
    assert done.status != 0 and "no name" in done.err
