"""Tries a launch again that failed before its ranks were let go, without the node that failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from native.errors import UsageError
from native.host import stdio
from native.text import shown
from native.wire.load import Failure, FailureKind
from yod import launching
from yod.driver import Result
from yod.plan.invocation import Invocation
from yod.plan.prepared import Prepared

RETRIES_MAX = 100
VARIABLE = b"YODRETRYCOUNT"  # as Cplant's yod has it

# What a node or the network is to blame for; another node may do better.
_OF_THE_NODE = frozenset(
    (
        FailureKind.NODE_LOST,
        FailureKind.REFUSED,
        FailureKind.TIMED_OUT,
        FailureKind.NO_ROOM,
        FailureKind.OBJECT,
        FailureKind.UNFIT,
        FailureKind.KEEPER_LOST,
        FailureKind.NO_WIREUP,
        FailureKind.FAULT,
    )
)


def chosen(option: str | None, environment: Mapping[bytes, bytes]) -> int:
    """How often a launch is tried again at most.

    Args:
        option: its value; None: it was not given, and the environment counts.

    Raises:
        UsageError: it is no such number.
    """
    name, text = "--retries", option
    if text is None:
        name, text = VARIABLE.decode(), environment.get(VARIABLE, b"0").decode(errors="replace")
    is_number = text.isascii() and text.isdecimal() and len(text) <= 9
    if not (is_number and int(text) <= RETRIES_MAX):
        raise UsageError(f"{name} {shown(text)}: a number from 0 to {RETRIES_MAX}")
    return int(text)


def may_help(failure: Failure, nodes: int) -> bool:
    """Whether a launch that failed before go, on so many nodes, may do better without this one.

    The only node of a job lets the ranks go by itself: when it is lost they may have run.
    """
    is_lost_alone = failure.kind is FailureKind.NODE_LOST and nodes == 1
    return failure.kind in _OF_THE_NODE and not is_lost_alone


def next_try(prepared: Prepared, ended: Result, tried: int) -> Prepared | None:
    """The launch to try when one has ended; None: no other one is tried.

    Args:
        ended: how the last one did.
        tried: how many there were.
    """
    plan, failure = prepared.plan, ended.failure
    options = plan.options
    if failure is None or tried > options.retries or prepared.reach is None:
        return None
    if not may_help(failure, len(ended.report.nodes)):
        return None
    said = _said(tried + 1, options.retries + 1, failure, ended.report.reason)
    return replace(
        prepared,
        plan=replace(
            plan,
            options=replace(options, exclude=without(options.exclude, failure)),
            warnings=() if options.is_quiet else (said,),
        ),
    )


def _said(number: int, tries: int, failure: Failure, reason: str) -> str:
    node = f"node {failure.node} ({failure.name})"
    return f"try {number} of {tries}, without {node}: {reason}"


def without(exclude: str, failure: Failure) -> str:
    """The nodes to exclude from now on, as ``--exclude`` has them."""
    return f"{exclude},{failure.node}" if exclude else str(failure.node)


def again(
    result: Result,
    prepared: Prepared,
    invocation: Invocation,
    prepare: Callable[[str], Prepared],
) -> Result:
    """How the last try ended: the first one that need not, or cannot, be followed by another.

    Each try is a launch of its own, for bebopd, the user log and the reports.

    Args:
        result: of the first.
        prepare: prepares a launch anew, which gets none of these nodes (``--exclude``).

    Raises:
        YodError: a launch could not begin.
    """
    tries, exclude = prepared.plan.options.retries + 1, prepared.plan.options.exclude
    for number in range(2, tries + 1):
        failure, report = result.failure, result.report
        if failure is None or not may_help(failure, len(report.nodes)) or prepared.reach is None:
            break
        exclude = without(exclude, failure)
        if not prepared.plan.options.is_quiet:
            stdio.say(f"yod: {_said(number, tries, failure, report.reason)}")
        prepared = prepare(exclude)
        result = launching.run(prepared, invocation)
    return result
