"""What the doctor has found: a line each, with its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from native.text import plural


class Level(Enum):
    """How much it matters. The value is shown."""

    OK = "ok"
    WARNING = "warning"  # jobs run, and something is slower or less than it could be
    PROBLEM = "problem"  # jobs do not run, or some do not


class Finding(Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
        subject: what it is about.
        text: what is so.
        remedy: what to do; empty where nothing is to be done.
    """

    level: Level
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> Finding:
    """Nothing is to be done."""
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """Something could be better."""
    return Finding(Level.WARNING, subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    """Something stands in the way of jobs."""
    return Finding(Level.PROBLEM, subject, text, remedy)


def lines(findings: Iterable[Finding]) -> list[str]:
    """As the user sees them, with a last line that counts."""
    findings = tuple(findings)
    width = max((len(each.subject) for each in findings), default=0)
    shown = []
    for each in findings:
        shown.append(f"{each.level.value:<8} {each.subject:<{width}}  {each.text}")
        if each.remedy:
            shown.append(f"{'':<8} {'':<{width}}  -> {each.remedy}")
    counts = [sum(each.level is level for each in findings) for level in Level]
    _, warnings, problems = counts
    return [*shown, f"{plural(problems, 'problem')}, {plural(warnings, 'warning')}"]


def has_problem(findings: Iterable[Finding]) -> bool:
    """Whether anything stands in the way of jobs."""
    return any(each.level is Level.PROBLEM for each in findings)
