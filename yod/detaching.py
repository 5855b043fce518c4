"""Launches that are handed in as jobs of their own, and run without a terminal (``--detach``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from native.errors import UsageError
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.batch import EarlySignal
from yod.launching import NOBODY_KNOWS
from yod.plan.checkpoint_options import BY, ON, RESTART
from yod.plan.plan import Member

# They say how the job is handed in, or hold for a job that no partition keeps as well.
_OF_ANY_JOB = (
    *("--detach", "--detach-on-hangup", "--partition", "--wait", "--immediate", "--after"),
    "--exclude",
)
# Of the job, and not of the step that it consists of: its nodes, and its time.
_TERMS = ("--constraint", "--switches", "-queue", "-account")
_OF_THE_JOB = (*_OF_ANY_JOB, *_TERMS, "--exclusive")
_OF_ITS_TIME = ("-time", "-signal")


def detach(
    given: Mapping[str, list[str]], words: Sequence[str], find: Callable[[], Sequence[Member]]
) -> int:
    """Hand a launch in, and print its id.

    Args:
        given: the options of its command line.
        words: its program and arguments, or its load file.
        find: finds its members.

    Raises:
        YodError: it is not taken.
    """
    others = ("--pty", "-attach", "-alloc", "-sleep")
    if option := next((each for each in others if each in given), ""):
        raise UsageError(f"--detach and {option} exclude each other")
    if "-nice" in given:
        text = "--detach and -nice exclude each other: a queue with a preempt_mode has jobs that"
        raise UsageError(f"{text} give way (`yodjob submit -queue`)")
    if not words:
        raise UsageError(f"--detach with {RESTART} DIR: name the program, too")
    members = find()
    spec = members[0].spec
    if len(members) > 1:
        nodes = dict.fromkeys(number for member in members for number in member.spec.nodes)
        is_anywhere = any(not member.spec.nodes for member in members)
        slots = sum(member.spec.slots for member in members)
        spec = NodeSpec(slots, () if is_anywhere else tuple(nodes))
    job_id, awaited = _handed_in(given, words, spec)
    text = f"; it waits: {shown(awaited)}" if awaited else ""
    print(job_id if "-quiet" in given else f"job {job_id} submitted{text}; yodjob attach {job_id}")
    return 0


def _handed_in(
    given: Mapping[str, list[str]], words: Sequence[str], spec: NodeSpec
) -> tuple[str, str]:
    """The job's id, and what it waits for; empty: for nothing.

    Raises:
        YodError: it is not taken.
    """
    from partition.submit import handing  # where nothing is handed in it is not needed

    partition, after, exclude, constraint, switches, queue, account = (
        given.get(name, [""])[-1] for name in ("--partition", "--after", "--exclude", *_TERMS)
    )
    if not handing.has_bebopd(partition, os.environ):
        if after:
            raise UsageError(f"--after {shown(after)}: {NOBODY_KNOWS}")
        if exclude:
            raise UsageError(f"--exclude {shown(exclude)}: without a partition there is one node")
        from partition.submit import alone

        return alone.begin(spec, *handing.task_of(_line(given, words, _OF_ANY_JOB), words[0])), ""
    time_s, warning, is_ended = _time(given)
    wanted = handing.Wanted(
        spec,
        time_s,
        warning,
        after,
        "--exclusive" in given,
        constraint=_on_saveable(given, constraint),
        switches=switches,
        exclude=exclude,
        queue=queue,
        account=account,
    )
    of_the_job = (*_OF_THE_JOB, *(_OF_ITS_TIME if is_ended else ()))
    line = _line(given, words, of_the_job)
    taken = handing.detach(line, words[0], wanted, partition, os.environ)
    return str(taken.job_id), taken.text


def _line(
    given: Mapping[str, list[str]], words: Sequence[str], of_the_job: Sequence[str]
) -> list[str]:
    """The command line of the step, the name first."""
    options = [
        f"{name}={value}" if value else name
        for name, values in given.items()
        if name not in of_the_job
        for value in values
    ]
    return ["yod", *options, "--", *words]


def _time(given: Mapping[str, list[str]]) -> tuple[float, EarlySignal | None, bool]:
    """The job's time limit, the warning before it, and whether the step needs none of its own.

    A step that makes a checkpoint when its time is over has the time for that behind its own, and
    so has one that says how long its ranks have to end (``--grace``).
    """
    from yod.plan.timelimit import chosen as chosen_limit
    from yod.plan.timelimit import grace as chosen_grace

    if (limit := chosen_limit(dict(given))) is None:
        return 0.0, None, True
    grace_s = chosen_grace(given)
    if ON in given:
        from msgspec.structs import replace

        from native import limits
        from yod.plan.checkpoint import Occasion
        from yod.plan.checkpointing import chosen as chosen_checkpoints

        checkpoints = chosen_checkpoints(given)
        if checkpoints.local:
            drain_s = limits.load(os.environ).checkpoint_drain_s
            checkpoints = replace(checkpoints, drain_s=drain_s)
        if Occasion.TIMEOUT in checkpoints.on:
            return limit.time_s + checkpoints.most_s + (grace_s or 0.0), None, False
    if grace_s is not None:
        return limit.time_s + grace_s, None, False
    warns = limit.signal_number
    return limit.time_s, EarlySignal(warns, limit.before_s, False) if warns else None, True


def _on_saveable(given: Mapping[str, list[str]], constraint: str) -> str:
    """A constraint; where CRIU is to save the ranks, of nodes where it works."""
    from yod.plan.checkpoint import Backend

    if given.get(BY, [""])[-1] != Backend.CRIU.value:
        return constraint
    from partition.checkpoint.contained import constrained

    return constrained(constraint, os.environb)
