"""Launches that are handed in as jobs of their own, and run without a terminal (``--detach``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from native.errors import UsageError
from native.text import shown
from native.wire.alloc import NodeSpec
from yod.launching import NOBODY_KNOWS
from yod.plan.checkpoint_options import RESTART
from yod.plan.plan import Member

# Of the job, and not of the step that it consists of.
_OF_THE_JOB = (
    *("--detach", "--detach-on-hangup", "--partition", "--wait", "--immediate", "--after"),
    "--exclude",
)


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
    if option := next((each for each in ("--pty", "-attach") if each in given), ""):
        raise UsageError(f"--detach and {option} exclude each other")
    if not words:
        raise UsageError(f"--detach with {RESTART} DIR: name the program, too")
    members = find()
    spec = members[0].spec
    if len(members) > 1:
        nodes = dict.fromkeys(number for member in members for number in member.spec.nodes)
        is_anywhere = any(not member.spec.nodes for member in members)
        slots = sum(member.spec.slots for member in members)
        spec = NodeSpec(slots, () if is_anywhere else tuple(nodes))
    line = [
        f"{name}={value}" if value else name
        for name, values in given.items()
        if name not in _OF_THE_JOB
        for value in values
    ]
    job_id, awaited = _handed_in(given, ["yod", *line, "--", *words], words[0], spec)
    text = f"; it waits: {shown(awaited)}" if awaited else ""
    print(job_id if "-quiet" in given else f"job {job_id} submitted{text}; yodjob attach {job_id}")
    return 0


def _handed_in(
    given: Mapping[str, list[str]], line: Sequence[str], program: str, spec: NodeSpec
) -> tuple[str, str]:
    """The job's id, and what it waits for; empty: for nothing.

    Args:
        line: the command line of the step, the name first.
        program: what it runs.

    Raises:
        YodError: it is not taken.
    """
    from partition.submit import handing  # where nothing is handed in it is not needed

    partition, after, exclude = (
        given.get(name, [""])[-1] for name in ("--partition", "--after", "--exclude")
    )
    if not handing.has_bebopd(partition, os.environ):
        if after:
            raise UsageError(f"--after {shown(after)}: {NOBODY_KNOWS}")
        if exclude:
            raise UsageError(f"--exclude {shown(exclude)}: without a partition there is one node")
        from partition.submit import alone

        return alone.begin(spec, *handing.task_of(line, program)), ""
    taken = handing.detach(line, program, spec, partition, os.environ, after, exclude)
    return str(taken.job_id), taken.text
