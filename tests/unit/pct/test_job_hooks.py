"""A site's hooks around a job on a node: which run when, and what follows from their ends."""

from __future__ import annotations

import pytest

from native.hooks import Hook, Hooks, Point, SiteOption
from native.machine import DeadlineReached, Log
from native.wire import alloc, io, keeper, load
from pct.events import (
    HookEnded,
    HookResult,
    KeeperEnd,
    KeeperReported,
    KillHook,
    OutputRead,
    RunHook,
    StartKeeper,
    TellBebopd,
)
from pct.job.hooks import Site
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.job.rules.hooklines import Changes
from tests.unit.pct.job_of import (
    ALL_DONE,
    BEGIN,
    EMPTY,
    GO,
    JOB_ID,
    NOW,
    OPENED,
    PRESENT,
    YOD,
    credential,
    ended,
    failure,
    held,
    keeper_spec,
    load_message,
    started,
    to_yod,
)

GONE = KeeperReported(JOB_ID, keeper.KeeperEmpty())
UNKILLABLE_S = 60.0
BEFORE = (Point.PROLOG, Point.STEP_NETWORK, Point.STEP_PROLOG, Point.RANK_PROLOG)
AFTER = (Point.STEP_EPILOG, Point.STEP_NETWORK_END, Point.EPILOG)
ALL = Hook("h", "/bin/h", (*BEFORE, *AFTER), 5.0)
EVERY = Site(Hooks("/h.toml", (ALL,), (SiteOption("size", "N"),)))


def site(*points: Point, **fields: object) -> Site:
    return Site(Hooks("/h.toml", (Hook("h", "/bin/h", points, 5.0),)), **fields)


def a_job(site: Site | None, *events, ranks_each: int = 1, **fields) -> Job:
    """A job of a node with these hooks, whose file is here."""
    message = load_message(1, 0, ranks_each, **fields)
    owner = credential(1, ranks_each)
    job = Job(message, owner, YOD, BEGIN, unkillable_s=UNKILLABLE_S, site=site)
    job.begin(BEGIN)
    for event in (OPENED, PRESENT, *events):
        job.handle(event, BEGIN)
        job.check()
    return job


def hook_ended(*outputs: bytes, wait_status: int = 0, errors: bytes = b"", first: int = -1):
    """The hook that runs has ended; with several outputs, one for each rank."""
    given = outputs or (b"",)
    ranks = range(len(given)) if len(given) > 1 else (first,)
    results = tuple(
        HookResult(rank, wait_status, "", output, errors)
        for rank, output in zip(ranks, given, strict=True)
    )
    return HookEnded(JOB_ID, results)


def run_of(actions) -> RunHook:
    (run,) = (action for action in actions if isinstance(action, RunHook))
    return run


def point_of(actions) -> str:
    return told(run_of(actions))["YOD_HOOK"]


def told(run: RunHook) -> dict[str, str]:
    return dict(each.decode().split("=", 1) for each in run.environment)


def messages(actions) -> list:
    return [action.message for action in actions if hasattr(action, "message")]


def ready(job: Job, now: float = NOW):
    """The actions behind the last hook that comes before the start."""
    actions = job.handle(hook_ended(), now)
    while any(isinstance(action, RunHook) for action in actions):
        actions = job.handle(hook_ended(), now)
    return actions


def finish(job: Job, now: float = NOW) -> list:
    """A job whose ranks run ends; the actions behind its last process."""
    closed = (OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b""))
    for event in (started(0), held(0), GO, ended(0), ALL_DONE, *closed, GONE):
        job.handle(event, now)
    return job.handle(EMPTY, now)


def test_the_points_run_one_after_another_before_the_keeper_starts():
    job = Job(load_message(), credential(), YOD, BEGIN, site=EVERY)
    actions = job.begin(BEGIN)
    actions = job.handle(PRESENT, BEGIN)
    seen = [point_of(actions)]
    job.handle(OPENED, BEGIN)
    for _ in range(3):
        actions = job.handle(hook_ended(), NOW)
        seen.append(point_of(actions))
    assert seen == [point.value for point in BEFORE]
    actions = job.handle(hook_ended(), NOW)
    assert [type(action) for action in actions] == [StartKeeper]


def test_what_undoes_them_runs_when_no_process_is_left_and_before_the_slots_are_free():
    job = a_job(EVERY)
    ready(job)
    actions = finish(job)
    seen = []
    while job.state is not JobState.RELEASED:
        seen.append(point_of(actions))
        actions = job.handle(hook_ended(), NOW)
    assert seen == [point.value for point in AFTER]
    assert TellBebopd(alloc.Freed.of(JOB_ID, (20,))) in actions


def test_a_hook_of_the_node_has_the_pcts_rights_and_only_what_it_is_told():
    environment = (b"LD_PRELOAD=/evil.so", b"YOD_OPTION_SIZE=3", b"YOD_OPTION_OTHER=1")
    member = load.MemberLoad(2, 0, (b"a.out",), b"/home")
    arguments = load.Arguments((member,), environment)
    run = run_of(a_job_begun(arguments))
    assert run.is_roots
    assert told(run) == {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "YOD_OPTION_SIZE": "3",
        "YOD_HOOK": "prolog",
        "YOD_JOB_ID": "7",
        "YOD_JOB_UID": "1000",
        "YOD_JOB_GID": "100",
        "YOD_NODE": "20",
        "YOD_NODE_NAME": "n20",
        "YOD_NODE_COUNT": "1",
        "YOD_NODE_RANKS": "0,1",
        "YOD_NODE_SLOTS": "2",
    }


def a_job_begun(arguments):
    """The actions with which a job of two ranks begins."""
    message = load_message(1, 0, 2, arguments=arguments)
    job = Job(message, credential(1, 2), YOD, BEGIN, site=EVERY)
    job.begin(BEGIN)
    return job.handle(PRESENT, BEGIN)


def test_a_hook_of_the_step_is_the_owners_and_has_the_jobs_environment():
    job = Job(load_message(), credential(), YOD, BEGIN, site=site(Point.STEP_PROLOG))
    job.begin(BEGIN)
    run = run_of(job.handle(PRESENT, BEGIN))
    assert (run.is_roots, run.uid, run.gid, run.groups) == (False, 1000, 100, (100, 27))
    assert run.ranks == (-1,)
    assert told(run)["A"] == "1"


def test_a_hook_of_the_owners_finds_what_earlier_hooks_have_changed_and_one_of_roots_does_not():
    job = a_job(EVERY)
    network = run_of(job.handle(hook_ended(b"export S=1\nunset A\n"), NOW))
    step = run_of(job.handle(hook_ended(), NOW))
    assert "S" not in told(network)
    assert told(step)["S"] == "1" and "A" not in told(step)


def test_a_rank_prolog_runs_for_each_rank_and_changes_that_rank_alone():
    job = Job(load_message(1, 0, 2), credential(1, 2), YOD, BEGIN, site=site(Point.RANK_PROLOG))
    job.begin(BEGIN)
    assert run_of(job.handle(OPENED, BEGIN)).ranks == (0, 1)
    job.handle(PRESENT, BEGIN)
    actions = job.handle(hook_ended(b"export B=zero\n", b"unset A\nprint hi\n"), NOW)
    first, second = keeper_spec(actions).ranks
    assert b"B=zero" in first.environment and b"A=1" in first.environment
    assert not {b"B=zero", b"A=1"} & {*second.environment, *keeper_spec(actions).environment}
    for event in (started(0), started(1), held(0)):
        job.handle(event, NOW)
    actions = [*job.handle(held(1), NOW), *job.handle(GO, NOW)]
    (said,) = (each for each in messages(actions) if isinstance(each, io.Output))
    assert (said.rank, said.data) == (1, b"hi\n")


def test_what_a_prolog_exports_reaches_all_ranks():
    job = a_job(site(Point.PROLOG))
    actions = job.handle(hook_ended(b"export SCRATCH=/s\nunset A\nprint no\n"), NOW)
    spec = keeper_spec(actions)
    assert b"SCRATCH=/s" in spec.environment and b"A=1" not in spec.environment


@pytest.mark.parametrize("is_allocation", [True, False])
def test_an_allocation_has_the_hooks_of_nodes_and_its_steps_those_of_steps(is_allocation):
    of_node, of_step = BEFORE[:2], BEFORE[2:]
    assert EVERY.points(is_allocation) == (of_node if is_allocation else BEFORE)
    assert Site(EVERY.hooks, is_in_job=True).points(is_allocation) == of_step


def test_a_script_waits_only_where_hooks_prepare_an_allocation():
    assert EVERY.prepares_allocations
    assert not site(Point.EPILOG, Point.STEP_PROLOG).prepares_allocations


def test_steps_start_with_what_the_hooks_of_their_allocation_have_changed():
    job = a_job(site(Point.PROLOG), is_allocation=True)
    environment = keeper_spec(job.handle(hook_ended(b"export S=1\nunset A\n"), NOW)).environment
    assert {b"S=1", b"YOD_HOOKS=/h.toml", b"YOD_HOOKS_INHERITED=S A"} <= {*environment}
    inherited = Changes({b"S": b"1", b"A": None})
    of_step = Site(Hooks("/h.toml"), is_in_job=True, inherited=inherited)
    step = Job(load_message(), credential(), YOD, BEGIN, site=of_step)
    step.begin(BEGIN)
    step.handle(OPENED, BEGIN)
    environment = keeper_spec(step.handle(PRESENT, BEGIN)).environment
    assert b"S=1" in environment and b"A=1" not in environment


FAILED = "prolog h failed: ended with exit code 3: no disk"


def test_a_prolog_that_fails_fails_the_job_and_has_the_node_drained():
    job = a_job(site(Point.PROLOG, Point.STEP_PROLOG, Point.EPILOG))
    actions = job.handle(hook_ended(wait_status=3 << 8, errors=b"one\nno disk\n"), NOW)
    assert [each for each in actions if not isinstance(each, Log)] == [
        to_yod(failure(load.FailureKind.UNFIT, "starting", FAILED)),
        TellBebopd(alloc.Unfit(JOB_ID, 20, FAILED)),
    ]
    assert point_of(job.handle(ALL_DONE, NOW)) == "epilog"
    job.handle(hook_ended(), NOW)
    assert job.state is JobState.RELEASED


def test_a_prolog_that_refuses_the_job_does_not_blame_the_node():
    job = a_job(site(Point.PROLOG))
    actions = job.handle(hook_ended(b"refuse no project\n", wait_status=1 << 8), NOW)
    text = "prolog h refuses the job: no project"
    assert [each for each in actions if not isinstance(each, Log)] == [
        to_yod(failure(load.FailureKind.HOOK, "starting", text))
    ]


def test_a_hook_of_the_owners_that_fails_fails_the_job_and_not_the_node():
    job = a_job(site(Point.STEP_PROLOG))
    actions = job.handle(hook_ended(wait_status=9), NOW)
    text = "step_prolog h failed: killed by SIGKILL"
    assert [each for each in actions if not isinstance(each, Log)] == [
        to_yod(failure(load.FailureKind.HOOK, "starting", text))
    ]


def test_an_epilog_that_fails_has_the_node_drained_and_fails_no_job():
    job = a_job(site(Point.EPILOG))
    finish_ready(job)
    text = "epilog h failed: ended with exit code 1"
    actions = job.handle(hook_ended(wait_status=1 << 8), NOW)
    assert TellBebopd(alloc.Unfit(JOB_ID, 20, text)) in actions
    assert job.state is JobState.RELEASED
    assert not any(isinstance(each, load.Failure) for each in messages(actions))


def finish_ready(job: Job) -> None:
    assert point_of(finish(job)) == "epilog"


def test_a_hook_that_takes_too_long_is_killed_and_has_failed():
    job = a_job(site(Point.PROLOG))
    assert job.deadline() == BEGIN + 5.0
    assert job.handle(DeadlineReached(), BEGIN + 5.0) == [KillHook(JOB_ID)]
    actions = job.handle(hook_ended(b"refuse me\n", wait_status=9), BEGIN + 5.1)
    text = "prolog h failed: it did not end in 5 s"
    assert TellBebopd(alloc.Unfit(JOB_ID, 20, text)) in actions


def test_a_hook_that_cannot_be_killed_has_the_node_drained_and_holds_the_slots():
    job = a_job(site(Point.PROLOG))
    job.handle(DeadlineReached(), BEGIN + 5.0)
    actions = job.handle(DeadlineReached(), BEGIN + 5.0 + UNKILLABLE_S)
    text = "prolog h cannot be killed"
    assert TellBebopd(alloc.Unfit(JOB_ID, 20, text)) in actions
    job.handle(ALL_DONE, BEGIN + 70.0)
    assert job.state is JobState.ENDING


def test_a_job_that_ends_meanwhile_has_its_hook_killed_and_undone_without_blame():
    job = a_job(EVERY)
    assert KillHook(JOB_ID) in job.handle(ALL_DONE, NOW)
    actions = job.handle(hook_ended(wait_status=9), NOW)
    assert [type(each) for each in actions] == [RunHook]
    assert point_of(actions) == "epilog"  # the prolog had begun, the others had not
    job.handle(hook_ended(), NOW)
    assert job.state is JobState.RELEASED


def test_a_job_that_ends_before_its_hooks_begin_has_none_to_undo():
    job = Job(load_message(), credential(), YOD, BEGIN, site=EVERY)
    job.begin(BEGIN)
    actions = job.handle(ALL_DONE, NOW)
    assert not any(isinstance(each, RunHook | KillHook | KeeperEnd) for each in actions)
    assert job.state is JobState.RELEASED


def test_the_node_says_that_it_waits_for_hooks():
    job = Job(load_message(), credential(), YOD, BEGIN, 2.0, site=site(Point.PROLOG))
    job.begin(BEGIN)
    job.handle(OPENED, BEGIN)
    job.handle(PRESENT, BEGIN)
    (late,) = messages(job.handle(DeadlineReached(), BEGIN + 2.0))
    assert late.nodes[0].text == "the site's hooks have not ended"


def test_a_hook_that_cannot_be_started_has_failed():
    job = a_job(site(Point.PROLOG))
    lost = HookResult(-1, -1, "it cannot be started: no such file", b"", b"")
    actions = job.handle(HookEnded(JOB_ID, (lost,)), NOW)
    text = "prolog h failed: it cannot be started: no such file"
    assert TellBebopd(alloc.Unfit(JOB_ID, 20, text)) in actions
