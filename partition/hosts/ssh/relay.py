"""What ``yodctl`` does on a host that goes on to further ones: see :mod:`.spread`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from native.errors import PartitionError
from partition.hosts.ssh import spread
from partition.hosts.ssh.bringing import MARK
from partition.hosts.ssh.spreading import Alive, Said
from partition.up.own import own_directory

PLAN_MAX_BYTES = 1 << 26
WORDS_IN_SILENT = 3  # it is given up after so many that do not come


def main() -> None:
    """Carry out the plan of the standard input.

    Raises:
        PartitionError: it is none, or what it is about is not here.
    """
    plan = _plan()
    archive = Path(own_directory()).parents[1] / plan.archive
    try:
        if plan.archive and not archive.is_file():
            raise PartitionError(f"what is to be sent on is not in {archive}")
        going = spread.Spread(plan, False, str(archive) if plan.archive else "", _say)
        going.many.every(plan.silent_s / WORDS_IN_SILENT, lambda: _say(Alive()))
        going.many.until_closed(0)
        going.run()
    finally:
        if plan.archive:
            archive.unlink(missing_ok=True)


def _say(said: Said) -> None:
    """Write a line. If nobody reads it this process ends, and each ssh with it."""
    line = spread.encoded(said)
    try:
        while line:
            line = line[os.write(1, line) :]
    except OSError:
        sys.exit(1)


def _plan() -> spread.Plan:
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(0, 1 << 16)
        if not data or len(line) > PLAN_MAX_BYTES:
            raise PartitionError("spread: this is for yodctl itself, which says which hosts")
        line += data
    try:
        return msgspec.json.decode(line.removeprefix(MARK.encode()), type=spread.Plan)
    except msgspec.MsgspecError as error:
        raise PartitionError(f"spread: no plan of this release: {error}") from None
