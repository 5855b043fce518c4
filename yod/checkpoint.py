"""A rank that saves itself for checkpoints: docs/checkpoint.md. For application programs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SAVED = "saved"  # the file that says so


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
        """Gives the directory to write to; behind the block the rank has saved itself."""
        self.is_asked = False
        directory = Path(self._directory)
        yield directory
        with open(directory / SAVED, "wb"):
            pass

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = bool(self._directory)
