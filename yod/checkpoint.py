"""A rank that saves itself for checkpoints: docs/checkpoint.md. For application programs."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SAVED = "saved"  # the file that says so
HELD = ".held"  # whose lock is waited for: it is known then how much the rank had written


class Saver:
    """Hears that the rank is to save itself, and says when it has.

    Make one before the work begins, in the main thread. Where yod was started without
    ``--checkpoint-dir`` nobody asks.

    Attributes:
        restart: the directory with what this rank has saved in the checkpoint that the job goes
            on from; None: it begins.
        is_asked: the rank is to save itself, as soon as its state is whole.

    Raises:
        ValueError: outside of the main thread.
    """

    def __init__(self, number: int = signal.SIGUSR1) -> None:
        self.is_asked = False
        restart = Path(os.environ.get("YOD_RESTART_DIR", ""))
        self.restart = restart if restart.name and restart.is_dir() else None
        self._directory = os.environ.get("YOD_CHECKPOINT_DIR", "")
        signal.signal(number, self._asked)

    @contextmanager
    def saving(self) -> Iterator[Path]:
        """Gives the directory to write to; behind the block the rank has saved itself.

        What has been printed by then belongs to the checkpoint.
        """
        self.is_asked = False
        directory = Path(self._directory)
        yield directory
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        new = directory / f"{SAVED}.new"  # the name is given to a file that is complete
        new.write_text("".join(map(_written, (1, 2))))
        new.rename(directory / SAVED)
        with suppress(OSError), (directory / HELD).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = bool(self._directory)


def _written(fd: int) -> str:
    """A line that says how much a file has that is a standard stream; empty: it is none."""
    try:
        about = os.fstat(fd)
    except OSError:
        return ""
    return f"{fd} {about.st_size}\n" if stat.S_ISREG(about.st_mode) else ""
