"""Which jobs or steps one waits for, as users write it: the one form for both. Pure."""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown
from native.wire.base import AFTER_MAX, JOB_ID_MAX, After, AfterKind, Dependency

SINGLETON = "singleton"  # Slurm's word: after all earlier jobs of the same name and user


def parse(
    text: str, option: str = "--after", allocation: str = "", *, has_name: bool = False
) -> Dependency:
    """``afterok:17:18,afterany:19``; with ``?`` between them one is enough.

    Args:
        has_name: it is a batch job's, which may wait for those of its name: ``singleton``; and, as
            an array, by element.
        allocation: the id of the one whose steps may be named, as ``17.3``; empty: jobs are
            named, as ``17``.

    Raises:
        UsageError: it is something else.
    """
    is_any = "?" in text
    if is_any and "," in text:
        raise UsageError(f"{option} {shown(text)}: either `,`, all of them, or `?`, one is enough")
    example = f"{allocation}.3" if allocation else "17"
    found: list[After] = []
    parts = text.split("?" if is_any else ",")
    if is_singleton := SINGLETON in parts:
        if not has_name:
            raise UsageError(f"{option} {SINGLETON}: only batch jobs wait so (yodjob submit)")
        parts = [part for part in parts if part != SINGLETON]
    for part in parts:
        word, *ids = part.split(":")
        try:
            kind = AfterKind(word)
        except ValueError:
            own = (SINGLETON,) if has_name else ()
            known = [each for each in AfterKind if has_name or each is not AfterKind.CORRESPONDS]
            kinds = ", ".join((*(each.value for each in known), *own))
            raise UsageError(f"{option} {shown(text)}: no kind {shown(word)}; {kinds}") from None
        if kind is AfterKind.CORRESPONDS and not has_name:
            raise UsageError(f"{option} {word}: only arrays of batch jobs wait so (yodjob submit)")
        if not ids:
            raise UsageError(f"{option} {shown(text)}: {word} needs a job, as {word}:{example}")
        for each in ids:
            if not (number := _number(each, allocation)):
                raise UsageError(f"{option} {shown(text)}: {_why_not(each, allocation)}")
            found.append(After(kind, number))
    if len(found) > AFTER_MAX:
        raise UsageError(f"{option}: {len(found)} jobs, at most {AFTER_MAX}")
    return Dependency(tuple(found), is_any, is_singleton)


def _number(word: str, allocation: str) -> int:
    """The number of the job, or of the step in its allocation; 0: it is none."""
    if allocation:
        above, _, word = word.rpartition(".")
        if above != allocation:
            return 0
    is_id = word.isascii() and word.isdecimal() and len(word) <= len(str(JOB_ID_MAX))
    return int(word) if is_id and int(word) <= JOB_ID_MAX else 0


def _why_not(word: str, allocation: str) -> str:
    if allocation:
        return f"{shown(word)} is no step of this allocation, as {allocation}.3"
    above, dot, _ = word.rpartition(".")
    if dot and above != "local":
        return f"{shown(word)} is a step, which only steps of allocation {shown(above)} wait for"
    return f"{shown(word)} is no id of a job of a partition, as 17"
