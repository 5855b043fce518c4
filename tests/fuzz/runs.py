"""What the trials by random numbers share as programs: a seed, a place, lines of progress."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.place import Place

ROUNDS = 10  # to a line of progress


@contextmanager
def own_place() -> Iterator[tuple[Place, int]]:
    """A place for one trial, where this process's commands look; and its seed, which is told.

    The seed is the program's second argument, or any.
    """
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(3), "little")
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory) / "place", uuid.uuid4().hex)
        os.environ.update(place.environment())
        try:
            yield place, seed
        finally:
            place.remove()


def in_tens(count: int, seed: int, trial: Callable[[int, int], list[str]]) -> None:
    """So many rounds, ten in a trial, each trial with a seed of its own.

    Args:
        trial: takes a seed and how many rounds; gives what each did.
    """
    for number in range(0, count, ROUNDS):
        done = trial(seed + number, min(ROUNDS, count - number))
        print(f"{number + len(done)}: {done[-1]}", flush=True)
