"""Makes a checkpoint whole whose job has lost nodes while they drained it.

What other nodes have drained of a lost one's share is beside what that had drained itself. It may
be cut off and still write there, so all is set aside first: it finds nothing by the old name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection

from msgspec import json

from native.errors import UsageError
from native.host import stdio
from partition.checkpoint import files, finding
from partition.checkpoint.committing import commit
from partition.checkpoint.files import BrokenError, NodeRecord, Recipe
from yod.plan.checkpoint import Checkpointing

_ASIDE = ".rescued"  # behind the name under which it was collected


def rescued(chosen: Checkpointing, attempt: int, ended: Collection[int]) -> tuple[str, str]:
    """The path of a checkpoint that was made whole, and why there is none; one of them is empty.

    Args:
        ended: ranks that may lack, since they have ended well.
    """
    assert chosen.where is not None
    recipe = json.decode(chosen.recipe, type=Recipe)
    where = (os.fsdecode(chosen.where.directory), chosen.where.collecting)
    try:
        return rescue(recipe, attempt, chosen.keep, *where, ended), ""
    except BrokenError as error:
        return "", str(error)
    except OSError as error:
        return "", stdio.blame(error)


def rescue(
    recipe: Recipe, attempt: int, keep: int, directory: str, collecting: str, ended: Collection[int]
) -> str:
    """Make it whole, if each rank is there.

    Args:
        ended: ranks that may lack, since they have ended well.

    Returns:
        Its path.

    Raises:
        BrokenError: a rank is not there.
        OSError: it cannot be written.
    """
    here = os.path.join(directory, collecting)
    aside = here + _ASIDE
    try:
        os.rename(here, aside)
    except FileNotFoundError:
        return _made(recipe, attempt, directory)
    for name in sorted(os.listdir(aside)):
        if name.startswith(files.RESCUED):
            _put_in(aside, name, attempt)
    try:
        return commit(recipe, attempt, keep, directory, collecting + _ASIDE, ended)[1]
    except BrokenError:
        shutil.rmtree(aside, ignore_errors=True)  # of no use to anybody
        raise


def _made(recipe: Recipe, attempt: int, directory: str) -> str:
    """The root had all votes, and has made it whole while the job ended.

    Raises:
        BrokenError: it has not.
    """
    try:
        path, manifest = finding.newest(directory, is_checked=False)
        names = list(manifest.nodes)
        record, _ = files.read(os.path.join(path, names[0]), NodeRecord)
    except (UsageError, IndexError):
        raise BrokenError("nothing has been copied") from None
    if manifest.recipe != recipe or record.attempt != attempt:
        raise BrokenError("nothing has been copied")
    return path


def _put_in(aside: str, name: str, attempt: int) -> None:
    """Put what was drained for a node into its place, if all of it is there."""
    other = os.path.join(aside, name)
    own = files.node_file(int(name.removeprefix(files.RESCUED)))
    try:
        record, _ = files.read(os.path.join(other, own), NodeRecord)
    except BrokenError:
        return
    if record.attempt != attempt:
        return
    for rank in record.ranks:
        path = os.path.join(aside, files.rank_directory(rank.rank))
        shutil.rmtree(path, ignore_errors=True)
        os.rename(os.path.join(other, files.rank_directory(rank.rank)), path)
    os.replace(os.path.join(other, own), os.path.join(aside, own))
