"""A script that CRIU writes down as a whole: what else its job is to have."""

from __future__ import annotations

import os
from typing import Any

from native.errors import UsageError
from partition.checkpoint.contained import constrained
from yod.plan.checkpoint_options import DIRECTORY

SAVED_STATUS = "75"  # the exit status of a script that has ended behind its checkpoint


def prepare(chosen: dict[str, Any]) -> None:
    """Complete the options of a job: nodes with criu, and it waits again behind a checkpoint.

    Raises:
        UsageError: its script cannot be written down.
    """
    if not chosen["checkpoints"]:
        raise UsageError(f"{DIRECTORY}: names no directory")
    if uid := os.geteuid():
        raise UsageError(
            f"{DIRECTORY}: only scripts of root are written down as a whole, and you are uid "
            f"{uid}; yod-cr has the steps of a script written down"
        )
    constraint = constrained(chosen["constraint"] or "", dict(os.environb))
    chosen["constraint"] = constraint or None
    chosen["requeue_on"] = chosen["requeue_on"] or SAVED_STATUS
