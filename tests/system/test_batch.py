"""yodjob submit: a script that is handed in, and what becomes of it."""

from __future__ import annotations

import json
import os
import re

import pytest

from allocator.batch.questions import SLICE_ROWS
from native.host import userdirs
from native.limits import Limits
from native.wire import batch
from native.wire.alloc import NodeSpec
from native.wire.batch import TASK_MAX_BYTES
from partition.find import discover
from partition.find.talking import reached, talk
from partition.submit.message import submission, wrapped
from tests.support.nobody import as_nobody
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S

HOLD = "echo up > said; read line < go"  # until it is told to go on
STAY = "echo up > said; exec sleep 600"  # until it is told to end


def test_a_script_runs_as_it_was_handed_in_and_its_exit_status_is_the_jobs(jobs):
    script = jobs.script('echo "$@"; echo $COLOUR; pwd; umask; echo oops >&2; exit 3')
    handed = 'umask 027; exec "$0" submit "$@"'
    words = ("sh", "-c", handed, BIN / "yodjob", script, "a b", "c")
    process = jobs.partition.start_command(*words, cwd=jobs.directory, env={"COLOUR": "blue"})
    done = finish(process)
    job_id = done.out.split()[1]
    assert done == (0, f"job {job_id} submitted\n", "")
    script.unlink()
    assert jobs.wait(job_id) == 3
    assert jobs.output(job_id) == f"a b c\nblue\n{jobs.directory}\n0027\noops\n"
    assert (jobs.directory / f"yod-{job_id}.out").stat().st_mode & 0o777 == 0o640
    row = jobs.row(job_id)
    assert (row["state"], row["exit_status"], row["name"]) == ("FAILED", 3, "job.sh")


def test_a_list_that_is_longer_than_a_slice_has_every_job_once(jobs):
    hold = jobs.submit("-sz", "4", "--wrap", "exec sleep 600")
    where = discover.find("", jobs.partition.environment())
    ids = []
    with reached(where, Limits()) as opened:

        def tell(message):
            def take(answer):
                ids.append(answer.job_id)
                return True

            talk(*opened, where.name, LIMIT_S, message, take)

        for _ in range(SLICE_ROWS + 1):
            tell(submission(wrapped("true"), NodeSpec(1), "", 0.0, "", "/dev/null"))
        listed = json.loads(jobs.yodjob("list", "--json").out)["jobs"]
        assert [row["id"] for row in listed] == [hold, *map(str, ids)]
        for job_id in tuple(ids):
            tell(batch.Cancel(job_id))
    assert jobs.yodjob("cancel", hold).err == ""
    assert jobs.wait(hold) == 143


def test_it_has_the_slots_that_its_lines_ask_for_and_an_option_wins(jobs):
    text = "#YOD -sz 4 -name first\n#YOD -o %x-%3j.txt -time 5\necho $YOD_SLOTS $YOD_JOB_NAME"
    first = jobs.submit(text=text)
    second = jobs.submit("-sz", "1", "-J", "second", text=text)
    assert jobs.wait(first, second) == 0
    assert (jobs.directory / f"first-{int(first):03}.txt").read_text() == "4 first\n"
    assert (jobs.directory / f"second-{int(second):03}.txt").read_text() == "1 second\n"
    assert jobs.row(first)["time_s"] == 300.0


def test_a_command_of_the_shell_is_a_script_and_so_is_standard_input(jobs):
    done = jobs.yodjob("submit", "--wait", "-quiet", "--wrap", "echo a | cat; exit 5")
    assert (done.status, done.err) == (5, "")
    assert jobs.output(done.out.strip()) == "a\n"
    done = jobs.yodjob("submit", "-quiet", "-", "b", input=b"#!/bin/sh\necho $1\n")
    assert jobs.wait(done.out.strip()) == 0
    assert jobs.output(done.out.strip()) == "b\n"


def test_a_script_that_a_signal_ends_has_a_shells_status(jobs):
    job_id = jobs.submit("--wrap", "kill -KILL $$")
    assert jobs.wait(job_id) == 137
    assert (jobs.state(job_id), jobs.row(job_id)["signal"]) == ("FAILED", 9)


def test_the_status_of_a_script_that_ends_before_its_broker_is_there_is_not_lost(jobs):
    script = jobs.script("exit 3")
    job_ids = [jobs.submit(script) for _ in range(8)]
    assert {jobs.wait(job_id) for job_id in job_ids} == {3}


def test_nor_is_it_where_the_scripts_user_may_not_execute_our_interpreter(jobs, theirs, needs_root):
    """The broker has another one then, which lies below no directory that they cannot enter."""
    script = theirs / "job.sh"
    script.write_text("#!/bin/sh\nexit 3\n")

    def yodjob(*words):
        return finish(as_nobody(jobs.partition, theirs, BIN / "yodjob", *words))

    job_ids = [yodjob("submit", "-quiet", script).out.strip() for _ in range(8)]
    assert {yodjob("wait", job_id).status for job_id in job_ids} == {3}


def test_its_steps_have_its_slots(jobs):
    text = "echo $YOD_JOB_ID; yod -sz 4 sh -c 'echo $YOD_JOB_ID $YOD_RANK' | sort"
    job_id = jobs.submit("-sz", "4", text=text)
    assert jobs.wait(job_id) == 0
    ranks = "".join(f"{job_id}.1 {rank}\n" for rank in range(4))
    assert jobs.output(job_id) == f"{job_id}.0\n{ranks}"


def test_an_exclusive_job_has_whole_nodes(jobs):
    text = "#SBATCH --exclusive\necho $YOD_NODE_SLOTS"
    first = jobs.submit(text=text)
    second = jobs.submit("-N", "2", "--exclusive", "--wrap", "echo $YOD_NODE_SLOTS")
    assert jobs.wait(first, second) == 0
    assert (jobs.output(first), jobs.output(second)) == ("2\n", "2,2\n")


def test_slots_lie_on_the_nodes_as_the_distribution_says(jobs):
    text = "#SBATCH -m cyclic\necho $YOD_NODE_SLOTS"
    dealt = jobs.submit("-sz", "2", text=text)
    assert (jobs.wait(dealt), jobs.output(dealt)) == (0, "1,1\n")
    filled = jobs.submit("-sz", "2", "--distribution", "block", text=text)
    assert (jobs.wait(filled), jobs.output(filled)) == (0, "2\n")


def test_jobs_begin_in_the_order_of_their_submission(jobs):
    text = "echo $1 >> order; echo $1 > said"
    first = jobs.submit("-sz", "4", "--wrap", HOLD)
    jobs.said.until("up\n")
    script = jobs.script(text)
    done = jobs.yodjob("submit", "-sz", "4", script, "b")
    assert " submitted; it waits: 4 ranks requested, 0 of 4 slots free now" in done.out
    others = [done.out.split()[1], *(jobs.submit("-sz", "3", script, name) for name in "cd")]
    assert {jobs.state(job_id) for job_id in others} == {"PENDING"}
    jobs.go.say()
    assert jobs.wait(first, *others) == 0
    assert (jobs.directory / "order").read_text() == "b\nc\nd\n"


def test_a_job_that_is_over_before_goes_first_and_why_says_by_when_the_other_begins(jobs):
    holder = jobs.submit("-sz", "3", "-time", "60", "--wrap", HOLD)
    jobs.said.until("up\n")
    wide = jobs.submit("-sz", "4", "-time", "10", "--wrap", "true")
    assert jobs.wait(jobs.submit("-sz", "1", "-time", "5", "--wrap", "true")) == 0
    done = jobs.yodjob("why", wide)
    waits = r"pending: place 1 of 1; 4 ranks requested, .*; expected to begin by .* \(in 59:..\)\n"
    assert re.fullmatch(f"job {wide}: {waits}", done.out), done
    jobs.go.say()
    assert jobs.wait(holder, wide) == 0
    assert jobs.yodjob("why", wide).out.startswith(f"job {wide}: completed, ended ")
    done = jobs.yodjob("why", "9999")
    assert (done.status, done.err) == (1, "yodjob: 9999: no batch job of this id is known here\n")


def test_a_job_that_is_held_waits_until_it_is_released(jobs):
    held = jobs.submit("-hold", "--wrap", "echo ran")
    assert jobs.wait(jobs.submit("--wrap", "true")) == 0
    assert f"pending: held by {userdirs.user_name(os.getuid())}" in jobs.yodjob("why", held).out
    assert jobs.yodjob("release", held).status == 0
    assert (jobs.wait(held), jobs.output(held)) == (0, "ran\n")
    done = jobs.yodjob("hold", held)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"yodjob: {held}: the job has ended\n"


def test_the_time_limit_of_a_job_is_changed_while_it_waits_and_while_it_runs(jobs):
    job_id = jobs.submit("-time", "10", "--wrap", f"yod true; {STAY}")
    waiting = jobs.submit("-sz", "4", "-time", "1:00:00", "--wrap", "true")
    assert jobs.yodjob("update", "-time", "-10", waiting) == (0, "", "")
    assert jobs.yodjob("update", "-time", "+1:00", job_id) == (0, "", "")
    assert [jobs.row(each)["time_s"] for each in (job_id, waiting)] == [660.0, 3000.0]
    jobs.said.until("up\n")
    done = jobs.yodjob("update", "-time", "-20", job_id)
    assert (done.status, done.out) == (2, "")
    assert done.err == "yodjob: -time -20: nothing is left of a time limit of 0:11:00\n"
    assert jobs.yodjob("update", "-time", "0:01", job_id) == (0, "", "")
    assert jobs.wait(job_id) == 124
    assert jobs.row(job_id)["reason"] == "the time limit of 1 s is over"
    events = jobs.yodjob("show", "--events", job_id).out
    assert "time limit 0:11:00, set by root" in events
    done = jobs.yodjob("update", "-time", "5", job_id)
    assert (done.status, done.err) == (1, f"yodjob: {job_id}: the job has ended\n")
    done = jobs.yodjob("update", "-time", "5", "local.1")
    assert (done.status, done.err) == (
        1,
        "yodjob: local.1: there is no such job of yours on this host\n",
    )
    assert jobs.wait(waiting) == 0


def test_a_job_begins_when_others_have_ended_as_it_needs(jobs):
    first = jobs.submit("--wrap", f"yod true; {HOLD}; exit 3")  # its nodes are its broker's
    jobs.said.until("up\n")
    when_well, when_not, when_any = (
        jobs.submit("--after", f"{kind}:{first}", "--wrap", f"echo {kind} >> order")
        for kind in ("afterok", "afternotok", "afterany")
    )
    chained = jobs.submit("--after", f"afterok:{when_any}:{when_not}", "--wrap", "echo 2 >> order")
    at_once = jobs.submit("--after", f"after:{first}", "--wrap", "echo after > said")
    jobs.said.until("after\n")
    assert jobs.wait(at_once) == 0
    assert jobs.row(when_well)["reason"] == f"job {first} is to end well first"
    assert {jobs.state(each) for each in (when_well, when_not, when_any, chained)} == {"PENDING"}
    jobs.partition.bebopd.kill()
    jobs.partition.replace_bebopd()
    jobs.go.say()
    assert jobs.wait(first) == 3
    assert jobs.wait(when_not, when_any, chained) == 0
    assert jobs.wait(when_well) == 143
    reason = f"job {first} has ended and was to end well (afterok:{first})"
    assert (jobs.state(when_well), jobs.row(when_well)["reason"]) == ("CANCELLED", reason)
    *ones, last = (jobs.directory / "order").read_text().split()
    assert (sorted(ones), last) == (["afterany", "afternotok"], "2")
    done = jobs.yodjob("submit", "--after", f"afterok:{first}", "--wrap", "true")
    assert (done.status, done.err) == (1, f"yodjob: {reason}\n")
    done = jobs.yodjob("submit", "--after", "afterok:999999", "--wrap", "true")
    assert (done.status, done.out) == (1, "")
    assert done.err == "yodjob: afterok:999999: no batch job 999999 is here\n"


def test_a_job_that_waits_is_cancelled_and_leaves_nothing(jobs):
    first = jobs.submit("-sz", "4", "--wrap", HOLD)
    jobs.said.until("up\n")
    second = jobs.submit("-sz", "4", "--wrap", "echo b")
    third = jobs.submit("-sz", "4", "--wrap", "echo c")
    assert jobs.yodjob("cancel", second) == (0, "", "")
    assert jobs.wait(second) == 143
    jobs.go.say()
    assert jobs.wait(first, third) == 0
    assert not (jobs.directory / f"yod-{second}.out").exists()
    row = jobs.row(second)
    assert (row["state"], row["reason"], row["began"]) == ("CANCELLED", "by root", None)
    again = jobs.yodjob("cancel", second)
    assert (again.status, again.err) == (1, f"yodjob: {second}: the job has ended\n")


def test_a_job_that_starts_is_cancelled(jobs):
    job_id = jobs.submit("-sz", "4", "--wrap", "exec sleep 600")
    assert jobs.yodjob("cancel", job_id) == (0, "", "")
    assert jobs.wait(job_id) == 143
    assert jobs.row(job_id)["reason"] == "by root"


def test_a_script_that_ignores_its_cancellation_is_killed_by_the_second(jobs):
    text = "trap 'echo heard > said' TERM; echo up > said; while :; do read line < go; done"
    job_id = jobs.submit("-sz", "2", "--wrap", text)
    jobs.said.until("up\n")
    assert jobs.yodjob("cancel", job_id) == (0, "", "")
    jobs.said.until("heard\n")
    assert jobs.yodjob("cancel", job_id) == (0, "", "")
    assert jobs.wait(job_id) == 143
    assert jobs.state(job_id) == "CANCELLED"


def test_a_signal_goes_to_the_script(jobs):
    text = "trap 'echo usr1 > said; exit 4' USR1; echo up > said; while :; do read line < go; done"
    job_id = jobs.submit("--wrap", text)
    jobs.said.until("up\n")
    assert jobs.yodjob("signal", "USR1", job_id) == (0, "", "")
    jobs.said.until("usr1\n")
    assert jobs.wait(job_id) == 4


def test_a_job_whose_time_is_over_ends(jobs):
    job_id = jobs.submit("-time", "0:01", "--wrap", "exec sleep 600")
    assert jobs.wait(job_id) == 124
    row = jobs.row(job_id)
    assert (row["state"], row["reason"]) == ("TIMEOUT", "the time limit of 1 s is over")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-o", "none/out", "--wrap", "true"), "none/out: No such file or directory"),
        (("-o", "said/x", "--wrap", "true"), "said/x: Not a directory"),
    ],
)
def test_a_job_that_cannot_begin_says_why(jobs, words, reason):
    job_id = jobs.submit(*words)
    assert jobs.wait(job_id) == 125
    assert reason in jobs.row(job_id)["reason"]
    assert jobs.yodjob("show", job_id).out.count(reason) == 1


def test_a_script_whose_interpreter_is_not_there(jobs):
    path = jobs.directory / "bad.sh"
    path.write_text("#!/nowhere/sh\n")
    job_id = jobs.submit(path)
    assert jobs.wait(job_id) == 127
    row = jobs.row(job_id)
    assert (row["state"], row["reason"]) == (
        "FAILED",
        "bad.sh: its interpreter /nowhere/sh: No such file or directory",
    )


def test_what_is_too_large_is_refused_with_the_numbers(jobs):
    script = jobs.script("#" * TASK_MAX_BYTES)
    done = jobs.yodjob("submit", script)
    assert (done.status, done.out) == (2, "")
    assert f"at most {TASK_MAX_BYTES}" in done.err
    done = jobs.yodjob("submit", "-sz", "5", "--wrap", "true")
    assert (done.status, done.out) == (1, "")
    assert done.err == "yodjob: 5 ranks requested, partition `local` has 4 slots on 2 nodes\n"


def test_what_a_script_leaves_behind_ends_with_its_job(jobs):
    text = "sleep 600 & setsid sleep 600 & yod -sz 2 sleep 600 & echo up"
    job_id = jobs.submit("-sz", "2", "--wrap", text)
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id).startswith("up\n")


def test_a_job_that_an_allocation_or_a_job_hands_in_is_the_partitions(jobs):
    inner = jobs.script("echo $YOD_SLOTS $YOD_ALLOCATION; pwd", "inner.sh")
    held = ("alloc", "-quiet", "-sz", "2", BIN / "yodjob", "submit", "-quiet", "-sz", "4", inner)
    done = jobs.yodjob(*held)
    assert (done.status, done.err) == (0, "")
    by_alloc = done.out.strip()
    outer = jobs.submit("-sz", "3", "--wrap", f"yodjob submit -quiet -sz 4 {inner}")
    assert jobs.wait(by_alloc, outer) == 0
    by_job = jobs.output(outer).strip()
    assert jobs.wait(by_job) == 0
    for job_id in (by_alloc, by_job):
        assert jobs.output(job_id) == f"4 {job_id}\n{jobs.directory}\n"


def test_all_that_is_known_is_shown(jobs):
    first = jobs.submit("-sz", "4", "-J", "holder", "--wrap", HOLD)
    jobs.said.until("up\n")
    second = jobs.submit("--wrap", "true")
    lines = jobs.yodjob("list").out.splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        [first, "holder", "root", "R"],
        [second, "wrap", "root", "PD"],
    ]
    jobs.go.say()
    assert jobs.wait(first, second) == 0
    assert len(jobs.yodjob("list").out.splitlines()) == 1
    events = jobs.yodjob("show", "--events", first).out
    assert "submitted by root: 4 slots, holder" in events
    assert events.rstrip().endswith("COMPLETED")
    rows = jobs.yodjob("history", "-n", "2").out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == [first, second]


def test_more_jobs_are_asked_about_than_a_question_may_have(jobs):
    last = int(jobs.submit("--wrap", "exit 4"))
    others = [str(job_id) for job_id in range(last + 1, last + 300)]
    assert jobs.wait(str(last)) == 4
    done = jobs.yodjob("show", *others, str(last))
    assert (done.status, done.out.splitlines()[0]) == (1, f"job {last}")
    assert len(done.err.splitlines()) == len(others)


def test_a_singleton_begins_when_earlier_jobs_of_its_name_have_ended(jobs):
    first = jobs.submit("-name", "row", "--wrap", HOLD)
    jobs.said.until("up\n")
    second = jobs.submit("-name", "row", text="#SBATCH --dependency=singleton\ntrue")
    assert jobs.row(second)["reason"].startswith(f"job {first}, which has the same name, ")
    jobs.go.say()
    assert jobs.wait(first, second) == 0
    refused = jobs.partition.yod("--after", "singleton", "true")
    assert refused.err == "yod: --after singleton: only batch jobs wait so (yodjob submit)\n"


def test_a_job_that_is_requeued_runs_again_from_its_beginning_with_its_id(jobs):
    text = "echo ${YOD_RESTART_COUNT:-0}; yod -sz 1 true; if [ ! -e again ]; then " + STAY + "; fi"
    job_id = jobs.submit(text=text)
    jobs.said.until("up")
    (jobs.directory / "again").touch()
    assert jobs.yodjob("requeue", job_id) == (0, "", "")
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id) == "1\n"
    told = jobs.yodjob("show", "--events", job_id).out
    assert "waits again (1): requeued by " in told
    assert jobs.yodjob("history", job_id).out.count(f"{job_id}.1 ") == 1


def test_slurms_commands_do_what_they_say(jobs):
    directory = BIN.parent / "share" / "yod" / "slurm"

    def run(name, *words):
        return finish(jobs.partition.start_command(directory / name, *words, cwd=jobs.directory))

    script = jobs.script('echo "$YOD_SLOTS $1"; srun -n 2 echo hello')
    path = f"{directory}:{os.environ['PATH']}"
    words = (directory / "sbatch", "-n", "2", "-t", "5", "--mail-type=END", script, "word")
    done = finish(jobs.partition.start_command(*words, cwd=jobs.directory, env={"PATH": path}))
    (job_id,) = re.fullmatch(r"Submitted batch job (\d+)\n", done.out).groups()
    assert (done.status, done.err) == (0, "sbatch: --mail-type: ignored\n")
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id) == "2 word\nhello\nhello\n"
    assert f"job {job_id}" in run("scontrol", "show", "job", job_id).out
    assert f"\n{job_id} " in run("sacct", "-j", job_id).out
    refused = run("sbatch", "--reservation=mine", script)
    assert refused.status == 2
    assert "sbatch: --reservation is not there here" in refused.err
