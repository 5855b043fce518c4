"""How a command of ours is started beside the ranks of a job, as the job's owner."""

from __future__ import annotations

import os
from collections.abc import Sequence

from native.wire import keeper as wire
from pct.events import RunSaver
from pct.rare_events import RunLooker

_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE")


def command_spec(
    command: Sequence[str | bytes], action: RunSaver | RunLooker, *, wants_stdin: bool
) -> wire.KeeperSpec:
    """One process, which is alone under its keeper.

    Args:
        command: its words, those of the action among them.
    """
    words = tuple(map(os.fsencode, command))
    environment = (f"{each}={os.environ[each]}" for each in _INHERITED if each in os.environ)
    is_own = os.geteuid() != 0
    return wire.KeeperSpec(
        job_id=action.job_id,
        uid=os.geteuid() if is_own else action.uid,
        gid=os.getegid() if is_own else action.gid,
        groups=() if is_own else action.groups,
        umask=0o077,
        limits=(),
        environment=tuple(map(os.fsencode, environment)),
        programs=(wire.ProgramSpec(words[0], words, b"/", wire.Hold.BEFORE_EXEC),),
        ranks=(wire.RankSpec(0, 0, (), wants_stdin=wants_stdin, wants_pmi=False),),
        is_alone=True,
    )
