"""Which jobs a batch job waits for, as users write it. Pure."""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown
from native.wire.base import JOB_ID_MAX
from native.wire.batch import AFTER_MAX, After, AfterKind, Dependency


def parse(text: str, option: str = "--after") -> Dependency:
    """``afterok:17:18,afterany:19``; with ``?`` between them one is enough.

    Raises:
        UsageError: it is something else.
    """
    is_any = "?" in text
    if is_any and "," in text:
        raise UsageError(f"{option} {shown(text)}: either `,`, all of them, or `?`, one is enough")
    found: list[After] = []
    for part in text.split("?" if is_any else ","):
        word, *job_ids = part.split(":")
        try:
            kind = AfterKind(word)
        except ValueError:
            kinds = ", ".join(each.value for each in AfterKind)
            raise UsageError(f"{option} {shown(text)}: no kind {shown(word)}; {kinds}") from None
        if not job_ids:
            raise UsageError(f"{option} {shown(text)}: {word} needs a job, as {word}:17")
        found += [After(kind, _job_id(each, text, option)) for each in job_ids]
    if len(found) > AFTER_MAX:
        raise UsageError(f"{option}: {len(found)} jobs, at most {AFTER_MAX}")
    return Dependency(tuple(found), is_any)


def _job_id(word: str, text: str, option: str) -> int:
    if word.isascii() and word.isdecimal() and 0 < int(word) <= JOB_ID_MAX:
        return int(word)
    raise UsageError(f"{option} {shown(text)}: {shown(word)} is no id of a batch job, as 17")
