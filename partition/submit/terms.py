"""The queue of a job, and what goes with it, as users write it. Pure."""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown
from native.wire.base import (
    CONSTRAINT_MAX,
    LICENCE_MAX,
    LICENCES_MAX,
    NAME_MAX,
    NICE_MAX,
    PRIORITY_MAX,
    Licences,
    Terms,
)
from native.wire.batch import BY_FACTORS
from yod.plan.excluded import checked
from yod.plan.switches import parse as parse_switches

STATUS_MAX = 255


def terms(
    queue: str | None = None,
    account: str | None = None,
    licences: str | None = None,
    nice: str | None = None,
    requeue_on: str | None = None,
    constraint: str | None = None,
    switches: str | None = None,
    exclude: str | None = None,
    *,
    requeue_lost: bool = False,
) -> Terms:
    """What a user wants; None: it was not said.

    Raises:
        UsageError: one of them cannot be.
    """
    for option, name in (("-queue", queue), ("-account", account)):
        if name is not None and not (name and name.isprintable() and len(name) <= NAME_MAX):
            raise UsageError(f"{option} {shown(name)}: no name")
    counted = () if licences is None else _licences(licences)
    given_up = 0 if nice is None else points(nice)
    again = 0 if requeue_on is None else _status(requeue_on)
    if constraint is not None and not (constraint and constraint.isprintable()):
        raise UsageError(f"--constraint {shown(constraint)}: an expression of features")
    if constraint is not None and len(constraint) > CONSTRAINT_MAX:
        raise UsageError(f"--constraint: at most {CONSTRAINT_MAX} characters")
    count, wait_s = (0, 0.0) if switches is None else parse_switches(switches)
    whose = (queue or "", account or "", counted, given_up, again, constraint or "")
    return Terms(
        *whose,
        requeue_lost=requeue_lost,
        switches=count,
        switches_s=wait_s,
        exclude="" if exclude is None else checked(exclude),
    )


def points(text: str) -> int:
    """Points of a priority that are given up.

    Raises:
        UsageError: no number, or out of range.
    """
    if not (text.isascii() and text.isdecimal() and int(text) <= NICE_MAX):
        raise UsageError(f"-nice {shown(text)}: must be from 0 to {NICE_MAX}")
    return int(text)


def _status(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:4]) <= STATUS_MAX):
        raise UsageError(f"--requeue-on {shown(text)}: an exit status from 1 to {STATUS_MAX}")
    return int(text)


def priority_of(text: str | None) -> int | None:
    """An operator's priority; ``auto``: that of its factors.

    Raises:
        UsageError: no number, or out of range.
    """
    if text is None or text == "auto":
        return None if text is None else BY_FACTORS
    if not (text.isascii() and text.isdecimal() and int(text) <= PRIORITY_MAX):
        raise UsageError(f"-prio {shown(text)}: must be from 0 to {PRIORITY_MAX}, or auto")
    return int(text)


def _licences(text: str) -> Licences:
    """``matlab:2,ansys``: of the second one."""
    found: dict[str, int] = {}
    for item in text.split(","):
        name, colon, count = item.partition(":")
        number = count if colon else "1"
        is_number = number.isascii() and number.isdecimal() and 1 <= int(number) <= LICENCE_MAX
        if not (name and name.isprintable() and len(name) <= NAME_MAX and is_number):
            raise UsageError(f"-licenses {shown(text)}: write NAME or NAME:COUNT, with commas")
        found[name] = found.get(name, 0) + int(number)
    if len(found) > LICENCES_MAX:
        raise UsageError(f"-licenses {shown(text)}: at most {LICENCES_MAX} kinds")
    return tuple(found.items())
