"""Marks the files that yod writes output to, when all ranks are saved for a checkpoint.

Nothing from behind the checkpoint has come by then, and all from before has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from native.host import stdio
from native.host.marks import outputs
from yod.host.display import Display
from yod.host.front import Screen
from yod.host.tee import Copies


class Marker:
    """The files of one launch.

    Args:
        environment: of this process.
        screens: that write to its standard output and error.

    Attributes:
        copies: what ``--tee`` writes; None: nothing.
    """

    def __init__(self, environment: Mapping[str, str], screens: Sequence[Screen]) -> None:
        self.copies: Copies | None = None
        self._job_id = outputs.batch_job(environment)
        self._own: dict[int, int] = {}  # bytes in the file of a stream before we write to it
        self._found: tuple[outputs.Marks, list[str]] | None = None  # of a checkpoint to come
        self._screens = [each for each in screens if isinstance(each, Display)]
        for screen in self._screens if self._job_id else ():
            if outputs.appended(screen.number):
                self._own[screen.number] = outputs.size_of(screen.number)

    def mark(self, path: bytes) -> str:
        """Mark all files in a checkpoint; why that cannot be done, or nothing.

        Args:
            path: empty: the checkpoint is still to come, and has the marks of now.
        """
        try:
            if not path:
                self._found = self._marks()
                return ""
            found, shared = self._found or self._marks()
            self._found = None
            outputs.put_down(os.fsdecode(path), found, shared)
        except OSError as error:
            return stdio.blame(error)
        return ""

    def _marks(self) -> tuple[outputs.Marks, list[str]]:
        """The marks of now, and output of the job that others write to, too."""
        found: list[outputs.Mark] = []
        shared: list[str] = []
        for screen in self._screens:
            screen.finish()
            if screen.number in self._own:
                name = outputs.path_of(screen.number)
                before = self._own[screen.number]
                if outputs.size_of(screen.number) == before + screen.given_bytes:
                    found.append(outputs.mark(name, is_of_job=True))
                else:
                    shared.append(name)
        for name in self.copies.paths if self.copies is not None else ():
            found.append(outputs.mark(name, is_of_job=False))
        return outputs.Marks(self._job_id, tuple(found)), shared
