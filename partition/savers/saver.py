"""The process ``yodjob saver``: the first word says what it does."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from msgspec import DecodeError, json

from native import nodelist
from native.errors import YodError
from native.host import stdio
from partition.checkpoint import files
from partition.checkpoint.collecting import NotSavedError, collect, given
from partition.checkpoint.committing import commit

FAILED = 1
_NICE = 19  # of what goes on behind the ranks


def run(words: Sequence[str]) -> int:
    """Do what the PCT asks for; the exit status."""
    try:
        sys.stdout.write(_done(words))
        sys.stdout.flush()
    except (NotSavedError, YodError) as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    except OSError as error:
        sys.stderr.write(f"{stdio.blame(error)}\n")
        return FAILED
    return 0


def _done(words: Sequence[str]) -> str:
    match words:
        case ["collect" | "collect-held", *_, most_kept]:
            if not int(most_kept):
                return f"{_collected(words)} \n"
            from partition.savers.keeping import Share  # few jobs keep anything on nodes

            *_, directory, collecting, _ = words
            with Share(directory, collecting, int(most_kept)) as share:
                size = _collected(words)
                share.demand_room(size)
            return f"{size} \n"
        case ["drain", place, local, kept, directory, collecting]:
            from partition.savers.draining import drain  # likewise

            os.nice(_NICE)
            return f"{drain(int(place), local, kept, directory, collecting)} \n"
        case ["drain-copied", place, *where, has_kept, ward, held, most]:
            from partition.savers.copied import drain_copied  # likewise

            local, kept, directory, collecting = where
            size = drain_copied(
                int(place),
                *(local, kept, directory, collecting),
                has_kept=has_kept == "1",
                ward_place=int(ward),
                held=held,
                most_bytes=int(most),
            )
            return f"{size} \n"
        case ["drop", local, *kept]:
            for each in kept:
                shutil.rmtree(os.path.join(local, each), ignore_errors=True)
            return "0 \n"
        case ["inspect", _, _, number, ranks, unix_pids, *_]:
            from partition.checkpoint.trial import demand_possible  # likewise

            own = zip(nodelist.parse(ranks), map(int, unix_pids.split(",")), strict=True)
            demand_possible(int(number), dict(own))
            return "0 \n"
        case ["try", program, feature]:
            from native.wire.status import Feature  # a few times for each PCT
            from partition.checkpoint import criu

            if why := criu.why_not(program, for_users=feature == Feature.CRIU_USERS.value):
                raise NotSavedError(why)
            return "0 \n"
        case ["look-script", unix_pid, job_id, directory]:
            from partition.savers import script  # likewise

            script.look(int(unix_pid), job_id, directory)
            return "0 \n"
        case ["script", unix_pid, job_id, directory]:
            from partition.savers import script  # likewise

            size, path = script.save(int(unix_pid), job_id, directory, _recipe())
            return f"{size} {os.fsencode(path).decode(errors='surrogateescape')}\n"
        case ["commit", attempt, keep, directory, collecting]:
            size, path = commit(_recipe(), int(attempt), int(keep), directory, collecting)
            return f"{size} {os.fsencode(path).decode(errors='surrogateescape')}\n"
    raise NotSavedError(f"a saver cannot {' '.join(words)!r}")


def _recipe() -> files.Recipe:
    try:
        return json.decode(given(), type=files.Recipe)
    except DecodeError as error:
        raise NotSavedError(f"no recipe: {error}") from None


def _collected(words: Sequence[str]) -> int:
    """Have the ranks of this node saved; the bytes."""
    what, place, attempt, number, ranks, unix_pids, directory, collecting, _ = words
    which = int(place), int(attempt)
    who = nodelist.parse(ranks), [int(each) for each in unix_pids.split(",")]
    holds = what == "collect-held"
    if int(number):
        return collect(*which, int(number), *who, directory, collecting, holds=holds)
    from partition.checkpoint.dumping import dump  # few jobs are written down so

    return dump(*which, *who, directory, collecting, holds=holds)
