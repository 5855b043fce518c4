"""What submit hooks make of batch jobs, and what becomes of those that they do not let pass."""

import json

import pytest

from allocator.batch.hooked import ANSWER_MAX_BYTES, CHANGED, Hooked
from allocator.batch.hooks import RunHook, TakeJob
from allocator.jobs.grants import Owner
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Log, Send
from native.wire.alloc import NodeSpec
from native.wire.base import After, AfterKind, Array, Dependency, Terms
from native.wire.batch import Submit
from tests.unit.allocator.partition_of import ALICE, BOB, NAMES

AT = PortalId(9, 1)
JOB = Submit(
    bytes(16),
    NodeSpec(4, (3, 4, 5), cores=2),
    "a",
    60.0,
    b"task",
    Dependency((After(AfterKind.OK, 17),)),
    terms=Terms("day", "physics", (("matlab", 2),), 5),
    array=Array(((0, 9, 1),), 2),
)


def hooked(*names, **limits):
    return Hooked(Limits(**limits), lambda uid: Owner(uid, NAMES[uid], uid), names)


def told(actions):
    return [action for action in actions if not isinstance(action, Log)]


def answered(answer=b"", error=""):
    """What one hook that says this makes of a job."""
    machine = hooked("site")
    (run,) = machine.submitted(AT, ALICE, JOB)
    (action,) = told(machine.ended(run.number, "site", error, answer))
    return action


def test_without_hooks_a_job_passes_at_once():
    assert hooked().submitted(AT, ALICE, JOB) == [TakeJob(AT, ALICE, JOB)]


def test_a_hook_sees_who_asks_for_what():
    (run,) = hooked("site").submitted(AT, ALICE, JOB)
    request = json.loads(run.request)
    assert request.keys() > set(CHANGED)
    assert (request["user"], request["uid"], request["queue"]) == ("alice", 1000, "day")
    assert (request["slots"], request["size"], request["list"]) == (8, 4, "3..5")
    assert (request["licences"], request["after"]) == ({"matlab": 2}, ["afterok:17"])
    assert (request["array"], request["time_s"]) == ("0-9%2", 60.0)


def test_hooks_run_in_their_order_and_each_sees_what_those_before_have_changed():
    machine = hooked("first", "second")
    (run,) = machine.submitted(AT, ALICE, JOB)
    assert run.hook == "first"
    change = b'{"change": {"queue": "long", "time_s": 120, "licences": {"lsf": 1}}}'
    (run,) = machine.ended(run.number, "first", "", change)
    assert (run.hook, json.loads(run.request)["queue"]) == ("second", "long")
    (taken,) = machine.ended(run.number, "second", "", b" \n")
    assert isinstance(taken, TakeJob)
    assert taken.message.terms == Terms("long", "physics", (("lsf", 1),), 5)
    assert (taken.message.time_s, taken.message.task) == (120.0, b"task")


def test_a_refusal_has_the_hooks_name_and_its_words_on_one_line():
    sent = answered(b'{"refuse": "say how\\nlong: -time"}')
    assert isinstance(sent, Send) and sent.target == AT
    assert sent.message.code is Refusal.NOT_PERMITTED
    assert sent.message.text == "site: say how long: -time"


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (b"", "exit status 3: no disk", "exit status 3: no disk"),
        (b"hello", "", "its answer is none"),
        (b"[]", "", "its answer is none"),
        (b'{"chagne": {}}', "", "its answer is none: Object contains unknown field `chagne`"),
        (b" " * (ANSWER_MAX_BYTES + 1), "", "it has said more than 65536 bytes"),
        (b'{"change": {"task": "x"}}', "", "it may not change task, only queue, "),
        (b'{"change": {"queue": 7}}', "", "what it changes cannot be: "),
        (b'{"change": {"queue": null}}', "", "what it changes cannot be: "),
        (b'{"change": {"time_s": -1}}', "", "what it changes cannot be: "),
        (b'{"change": {"time_s": "1"}}', "", "what it changes cannot be: "),
        (b'{"change": {"licences": [1]}}', "", "what it changes cannot be: "),
        (b'{"change": {"licences": {"a": {}}}}', "", "what it changes cannot be: "),
        (b'{"change": {"name": "\\u0000"}}', "", "what it changes cannot be: "),
        (b'{"change": {"nice": 1e30}}', "", "what it changes cannot be: "),
    ],
)
def test_one_that_fails_or_says_nonsense_refuses_with_its_name(answer, error, text):
    sent = answered(answer, error)
    assert isinstance(sent, Send)
    assert sent.message.code is Refusal.BUSY
    assert sent.message.text.startswith(f"submit hook site failed: {text}")


def test_so_many_jobs_are_looked_at_together_and_of_those_that_wait_no_user_has_too_many():
    machine = hooked("site", submit_hooks_count=2, waiting_each_count=1, waiting_count=2)
    runs = [machine.submitted(AT, ALICE, JOB)[0] for _ in range(2)]
    assert machine.submitted(AT, ALICE, JOB) == []
    (sent,) = machine.submitted(AT, ALICE, JOB)
    assert (sent.message.code, "submit hooks" in sent.message.text) == (Refusal.BUSY, True)
    assert machine.submitted(AT, BOB, JOB) == []
    taken, next_one = machine.ended(runs[0].number, "site", "", b"")
    assert isinstance(taken, TakeJob) and isinstance(next_one, RunHook)
    taken, last = machine.ended(runs[1].number, "site", "", b"")
    assert json.loads(last.request)["user"] == "bob"


def test_other_hooks_are_those_of_later_jobs():
    machine = hooked("site")
    (run,) = machine.submitted(AT, ALICE, JOB)
    machine.become(("other",))
    (taken,) = machine.ended(run.number, "site", "", b"")
    assert isinstance(taken, TakeJob)
    assert machine.submitted(AT, ALICE, JOB)[0].hook == "other"
