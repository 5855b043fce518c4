"""When a batch job would begin, when it may, and by when it must be over, with real daemons."""

from __future__ import annotations

import json
import time

from native.duration import written
from tests.support.batch import Jobs

STAY = "echo up > said; read line < go"


def fill(jobs: Jobs) -> str:
    """A job that has all slots until it is told to go on."""
    job_id = jobs.submit("-sz", "4", "-time", "1:00:00", "--wrap", STAY)
    jobs.said.until("up")
    return job_id


def test_a_trial_says_when_and_where_and_takes_nothing(jobs):
    trial = ("submit", "--test-only", "-sz", "3", "-time", "10", "--wrap", "true")
    assert jobs.yodjob(*trial).out == "the job would begin now, on nodes 0..1\n"
    job_id = fill(jobs)
    done = jobs.yodjob(*trial)
    assert done.status == 0 and done.out.startswith("the job would begin by "), done
    assert "on nodes 0..1" in done.out
    refused = jobs.yodjob("submit", "--test-only", "-sz", "5", "--wrap", "true")
    assert refused.err == "yodjob: 5 ranks requested, partition `local` has 4 slots on 2 nodes\n"
    listed = json.loads(jobs.yodjob("list", "--json").out)["jobs"]
    assert [row["id"] for row in listed] == [job_id]
    jobs.go.say()
    assert jobs.wait(job_id) == 0


def test_a_job_begins_at_its_time_and_not_before(jobs):
    asked = time.time()
    job_id = jobs.submit("-begin", "now+0:02", "--wrap", "true")
    assert jobs.wait(job_id) == 0
    assert jobs.row(job_id)["began"] >= asked + 2.0


def test_a_job_that_cannot_be_over_by_its_deadline_any_more_ends_without_having_begun(jobs):
    held = fill(jobs)
    for room_s in (2, 8, 30):  # the submission may take long
        words = ("-time", "0:01", "-deadline", f"now+{written(1 + room_s)}", "--wrap", "true")
        done = jobs.yodjob("submit", "-quiet", *words)
        if not done.status:
            break
    late = done.out.strip()
    assert jobs.wait(late) == 124
    row = jobs.row(late)
    assert (row["state"], row["began"]) == ("DEADLINE", None)
    jobs.go.say()
    assert jobs.wait(held) == 0
