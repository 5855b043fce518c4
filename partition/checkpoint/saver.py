"""The process ``yodjob saver``: the first word says what it does."""

from __future__ import annotations

import os
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
        case ["collect", place, number, ranks, unix_pids, directory, collecting]:
            who = nodelist.parse(ranks), [int(each) for each in unix_pids.split(",")]
            if not int(number):
                from partition.checkpoint.dumping import dump  # few jobs are written down so

                return f"{dump(int(place), *who, directory, collecting)} \n"
            return f"{collect(int(place), int(number), *who, directory, collecting)} \n"
        case ["inspect", _, number, ranks, unix_pids, _, _]:
            from partition.checkpoint.trial import demand_possible  # likewise

            own = zip(nodelist.parse(ranks), map(int, unix_pids.split(",")), strict=True)
            demand_possible(int(number), dict(own))
            return "0 \n"
        case ["try", program]:
            from partition.checkpoint import criu  # once for each PCT

            if why := criu.why_not(program):
                raise NotSavedError(why)
            return "0 \n"
        case ["commit", keep, directory, collecting]:
            try:
                recipe = json.decode(given(), type=files.Recipe)
            except DecodeError as error:
                raise NotSavedError(f"no recipe: {error}") from None
            size, path = commit(recipe, int(keep), directory, collecting)
            return f"{size} {os.fsencode(path).decode(errors='surrogateescape')}\n"
    raise NotSavedError(f"a saver cannot {' '.join(words)!r}")
