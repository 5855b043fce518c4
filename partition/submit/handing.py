"""`yodjob submit`: from its words to bebopd's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, msgpack
from msgspec.structs import replace

from native import limits as limits_module
from native import nodelist, pattern
from native.errors import PartitionError, Refusal, UsageError
from native.options import parse
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.batch import EarlySignal, Forecast, Submit, Submitted, Task
from partition.find import discover
from partition.submit import directives, moment
from partition.submit.array import parse as parse_array
from partition.submit.message import (
    NotTakenError,
    detached,
    hand_in,
    read_script,
    submission,
    wrapped,
)
from partition.submit.options import IN_QUEUE, IN_SCRIPT
from partition.submit.signals import early
from partition.submit.terms import terms as terms_of
from yod.plan.after import parse as parse_after
from yod.plan.shape import ANY, spec_of, with_option

_OF_THE_SHAPE = (
    "node_count",
    "per_node",
    "cores",
    "memory",
    "rank_memory",
    "node_gpus",
    "gpus",
    "distribution",
    "per_socket",
    "sockets",
    "per_numa",
    "per_core",
    "threads",
)

_TERMS = ("queue", "account", "licences", "nice", "requeue_on", "constraint", "switches", "exclude")


class Wanted(Struct, frozen=True):
    """What a detached job is to have.

    Attributes:
        time_s: for so long; 0: any time, or as its queue says.
        warning: to its ranks before its time is over; None: none.
        after, constraint, switches, exclude: as the user wrote them; empty: none.
        queue, account: empty: those of the variables that `yodjob submit` reads.
        is_exclusive: all slots of its nodes.
    """

    spec: NodeSpec
    time_s: float = 0.0
    warning: EarlySignal | None = None
    after: str = ""
    is_exclusive: bool = False
    constraint: str = ""
    switches: str = ""
    exclude: str = ""
    queue: str = ""
    account: str = ""


class Taken(Struct, frozen=True):
    """A job that bebopd has taken.

    Attributes:
        text: what it waits for; empty: for nothing.
        warnings: of lines in the script that have no effect.
    """

    job_id: int
    text: str
    warnings: tuple[str, ...]


def submit(
    words: Sequence[str],
    wrap: str | None,
    given: Mapping[str, Any],
    partition: str,
    environment: Mapping[str, str],
) -> Taken:
    """Hand a job in.

    Args:
        words: the script and its arguments.
        wrap: a command of the shell instead; None: there is a script.
        given: options of the command line, by the parameters' names; None: not given.

    Raises:
        UsageError: the script, an option or a line of the script is wrong.
        PartitionError: it is not taken.
    """
    message, read = _read(words, wrap, given, partition)
    return _taken(*_answer_to(message, read, partition, environment))


def test(
    words: Sequence[str],
    wrap: str | None,
    given: Mapping[str, Any],
    partition: str,
    environment: Mapping[str, str],
) -> tuple[Forecast, Sequence[str]]:
    """When and where such a job would begin; and warnings. The arguments are as for :func:`submit`.

    Raises:
        UsageError, PartitionError: as :func:`submit`.
    """
    message, read = _read(words, wrap, given, partition)
    asked = replace(message, is_test=True)
    answer, warnings = _answer_to(asked, read, partition, environment)
    if not isinstance(answer, Forecast):
        raise PartitionError("bebopd is of a release that does not know --test-only")
    return answer, warnings


def _read(
    words: Sequence[str], wrap: str | None, given: Mapping[str, Any], partition: str
) -> tuple[Submit, directives.Read]:
    """The message of a job, and what was found in its script."""
    script = wrapped(wrap) if wrap is not None else read_script(words)
    try:
        text = script.content.decode(errors="surrogateescape")
        read = directives.read(text, list(IN_SCRIPT.values()))
        said, _ = parse(read.words, list(IN_SCRIPT.values()))
        in_script = _size(_last(said.get(IN_SCRIPT["size"].spellings[0])))
    except UsageError as error:
        raise UsageError(f"{shown(script.name)}: {error}") from None
    chosen = {
        name: given[name] if given.get(name) is not None else _last(said.get(option.spellings[0]))
        for name, option in IN_SCRIPT.items()
    }
    array = None if chosen["array"] is None else parse_array(chosen["array"])
    output = chosen["output"] or (pattern.DEFAULT if array is None else pattern.DEFAULT_OF_ARRAY)
    pattern.check(output)
    nodes = tuple(nodelist.parse(chosen["nodes"])) if chosen["nodes"] is not None else None
    shape = ANY
    for name in _OF_THE_SHAPE:
        if (value := chosen[name]) is not None:
            shape = with_option(shape, IN_SCRIPT[name].spellings[0], value)
    is_exclusive = bool(given.get("is_exclusive")) or "--exclusive" in said
    is_held = bool(given.get("is_held")) or "-hold" in said
    requeue_lost = bool(given.get("requeue_lost")) or "--requeue" in said
    if chosen["checkpoints"] is not None:
        from partition.submit import saved  # few scripts are

        saved.prepare(chosen)
    time_text = chosen["time_text"]
    time_s = None if time_text is None else directives.time_s(time_text)
    now = datetime.now()
    begins, deadline = (
        0.0 if (when := chosen[name]) is None else moment.parse(when, f"-{name}", now)
        for name in ("begin", "deadline")
    )
    message = submission(
        script,
        spec_of(in_script if given.get("size") is None else given["size"], nodes, "", shape),
        chosen["name"] or "",
        time_s or 0.0,
        chosen["directory"] or "",
        output,
        early(chosen["warning"], time_s),
        partition,
        None if chosen["after"] is None else parse_after(chosen["after"], has_name=True),
        is_exclusive,
        is_held,
        terms_of(*(chosen[name] for name in _TERMS), requeue_lost=requeue_lost),
        chosen["systems"] or "",
        chosen["checkpoints"] or "",
    )
    if given.get("queue") or given.get("account"):
        read.habits = []
    return replace(message, array=array, begins=begins, deadline=deadline), read


def _answer_to(
    message: Submit,
    read: directives.Read,
    partition: str,
    environment: Mapping[str, str],
) -> tuple[Submitted | Forecast, Sequence[str]]:
    """bebopd's answer to a job, and warnings."""
    try:
        return _answer(message, partition, environment), read.warnings
    except NotTakenError as error:
        # Another system's queues mean nothing where there are none.
        if error.code is not Refusal.NO_QUEUES or not read.habits:
            raise
    message = replace(message, terms=replace(message.terms, queue="", account=""))
    ignored = [f"{habit}: ignored, there are no queues" for habit in read.habits]
    return _answer(message, partition, environment), [*read.warnings, *ignored]


def detach(
    words: Sequence[str],
    program: str,
    wanted: Wanted,
    partition: str,
    environment: Mapping[str, str],
) -> Taken:
    """Hand a command line of yod in, whose job runs without a terminal.

    Args:
        words: the command line, the name first.
        program: what it runs.

    Raises:
        UsageError, PartitionError: as :func:`submit`.
    """
    script = detached(words, program)
    message = submission(
        script,
        wanted.spec,
        "",
        wanted.time_s,
        "",
        "",
        wanted.warning,
        partition,
        parse_after(wanted.after, has_name=True) if wanted.after else None,
        wanted.is_exclusive,
        terms=terms_of(
            queue=wanted.queue or environment.get(IN_QUEUE["queue"].variable) or None,
            account=wanted.account or environment.get(IN_QUEUE["account"].variable) or None,
            constraint=wanted.constraint or None,
            switches=wanted.switches or None,
            exclude=wanted.exclude or None,
        ),
    )
    return _taken(_answer(message, partition, environment), [])


def has_bebopd(partition: str, environment: Mapping[str, str]) -> bool:
    """Whether a bebopd would keep a job.

    Raises:
        PartitionError: the address is malformed.
    """
    return not discover.find_outer(partition, environment).is_embedded


def task_of(words: Sequence[str], program: str) -> tuple[str, Task]:
    """The name and the task of a job that runs a command line of yod.

    Raises:
        UsageError: it is too large.
    """
    message = submission(detached(words, program), NodeSpec(1), "", 0.0, "", "")
    return message.name, msgpack.decode(message.task, type=Task)


def _taken(submitted: Submitted | Forecast, warnings: Sequence[str]) -> Taken:
    assert isinstance(submitted, Submitted)
    return Taken(submitted.job_id, submitted.text, tuple(warnings))


def _answer(
    message: Submit, partition: str, environment: Mapping[str, str]
) -> Submitted | Forecast:
    where = discover.find_outer(partition, environment)
    if where.is_embedded:
        raise PartitionError(
            "no partition is up here that would keep the job: `yodctl up --local N` brings one up"
        )
    return hand_in(where, limits_module.load(environment), message)


def _last(values: list[str] | None) -> str | None:
    return values[-1] if values else None


def _size(value: str | None) -> int | None:
    return None if value is None else directives.size(value)
