"""The file of queues: what it says, and what is said of its mistakes."""

import pytest

from allocator.queue import file
from allocator.queue.rules import PreemptMode, QueueState
from native.errors import UsageError
from tests.unit.allocator.queue_world import RULES

QUEUE = '[[queue]]\nname = "day"\n'
KEPT = QUEUE + '[[reservation]]\nname = "r"\n'
OF_X = '[[account]]\nname = "a"\nusers = ["x"]\n'


def parse(text):
    return file.parse(text, "queues.toml")


def test_all_that_a_file_can_say():
    rules = parse(RULES)
    assert rules.default == "day"
    day, long, corner, urgent = rules.queues.values()
    assert urgent.preempts == {"day", "long"}
    assert (day.preempt_mode, day.preempt_grace_s) == (PreemptMode.REQUEUE, 20.0)
    assert (long.preempt_mode, long.preempt_grace_s) == (PreemptMode.CANCEL, 0.0)
    assert (day.most_s, day.default_s, day.priority) == (86400.0, 86400.0, 10)
    assert (day.per_user.jobs, day.per_user.slots, day.per_user.nodes) == (2, 6, None)
    assert long.accounts == ("maths", "theory")
    assert corner.nodes == (0, 1)
    assert rules.accounts["theory"].parent == "physics"
    assert rules.accounts["maths"].members.groups == ("staff",)
    assert (rules.weights.age, rules.weights.most_age_s, rules.weights.half_life_s) == (
        *(100, 600.0, 300.0),
    )
    assert rules.licences == {"matlab": 2}
    course, repair = rules.reserved
    assert (course.name, course.nodes, course.members.users) == ("course", (2,), ("bob",))
    assert (course.start, course.end) == (6960.0, 7560.0)
    assert (repair.nodes, repair.members.is_empty) == ((), True)


def test_the_first_queue_is_the_default_and_open_to_all():
    rules = parse(QUEUE + '[[queue]]\nname = "night"\nstate = "closed"\nlaunches = false\n')
    assert rules.default == "day"
    assert rules.queues["day"].members.is_empty
    assert rules.queues["night"].state is QueueState.CLOSED
    assert not rules.queues["night"].takes_launches
    assert rules.weights.are_none


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no [[queue]]"),
        ("[[queue]\n", "Expected ']]' at the end of an array declaration (at line 1, column 8)"),
        ("[[queue]]\n", "[[queue]] 1: name must be letters"),
        (QUEUE + "slots = 4\n", "[[queue]] 1 (day): no slots here; known are name, state,"),
        (QUEUE + QUEUE, "[[queue]] 2 (day): there are two of this name"),
        (KEPT, "[[reservation]] 1 (r): start must be a time, as 2026-12-24T08:00:00"),
        (KEPT + "start = 2026-12-24\n", "(r): start must be a time, as 2026-12-24T08:00:00"),
        (
            KEPT + "start = 2026-12-24T08:00:00\n",
            '(r): duration must be a time in quotes, as "1:30:00"',
        ),
        (QUEUE + 'state = "up"\n', "(day): state must be one of open, closed, drained, not up"),
        (QUEUE + "max_time = 60\n", '(day): max_time must be a time in quotes, as "1:30:00"'),
        (QUEUE + 'max_time = "soon"\n', "(day): max_time soon: no time above 0"),
        (
            QUEUE + 'max_time = "10"\ndefault_time = "20"\n',
            "(day): default_time is longer than max_time, 0:10:00",
        ),
        (
            QUEUE + 'preempts = ["night"]\n',
            "[[queue]] day: preempts: there is no [[queue]] night",
        ),
        (
            QUEUE + 'preempts = ["day"]\n',
            "day: preempts: queue day must have a preempt_mode, of cancel, requeue, suspend",
        ),
        (
            QUEUE + 'preempts = ["day"]\npreempt_mode = "cancel"\n',
            "[[queue]] day: preempts: it would preempt itself",
        ),
        (
            QUEUE + 'preempt_mode = "freeze"\n',
            "(day): preempt_mode must be one of off, cancel, requeue, suspend, not freeze",
        ),
        (
            QUEUE + 'preempt_mode = "suspend"\npreempt_grace = "1:00"\n',
            "(day): preempt_grace: a job that is suspended does not end",
        ),
        (QUEUE + "priority = 5\n", "(day): priority has no effect: [priority] queue is 0"),
        (QUEUE + "priority = true\n", "(day): priority must be a whole number from 0"),
        (QUEUE + 'nodes = "x"\n', "(day): nodes: "),
        (QUEUE + "launches = 1\n", "(day): launches must be true or false"),
        (QUEUE + "users = []\n", '(day): users must be a list of names, as in ["alice"]'),
        (QUEUE + 'accounts = ["a"]\n', "(day): accounts: there is no [[account]] a"),
        (QUEUE + "per_job = 4\n", "(day): per_job must be a table, as in { slots = 64 }"),
        (QUEUE + "per_job = { jobs = 4 }\n", "(day): per_job: no jobs here; known are slots,"),
        (QUEUE + "total = { jobs = 0 }\n", "(day): total: jobs must be a whole number from 1"),
        ('default = "night"\n' + QUEUE, "default: there is no [[queue]] night"),
        (QUEUE + '[[account]]\nname = "a"\nparent = "b"\n', "parent: there is no [[account]] b"),
        (
            QUEUE + '[[account]]\nname = "a"\nparent = "a"\n',
            "[[account]] 1 (a): parent: it would be a part of itself",
        ),
        (
            QUEUE
            + '[[account]]\nname = "a"\nusers = ["x"]\n[[account]]\nname = "b"\nparent = "a"\n',
            "[[account]] 2 (b): its parent a has users or groups",
        ),
        (QUEUE + "[priority]\nage = -1\n", "[priority]: age must be a whole number from 0"),
        (QUEUE + '[priority]\nsize_favors = "all"\n', "[priority]: size_favors must be large or"),
        (QUEUE + "[priority]\nweight = 1\n", "[priority]: no weight here; known are age,"),
        (QUEUE + "[[priority]]\nage = 1\n", "priority must be written as [priority]"),
        (QUEUE + '[licences]\nmatlab = "two"\n', "[licences]: matlab must be a whole number"),
        (QUEUE + "[license]\nmatlab = 2\n", "the file: no license here; known are default,"),
    ],
)
def test_a_mistake_is_told_with_file_place_and_reason(text, says):
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert str(raised.value).startswith("queues.toml: ")
    assert says in str(raised.value)
