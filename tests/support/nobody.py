"""Another user, whom tests that run as root start commands as."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.partitions import Partition, Word

NOBODY = 65534
# The project may lie below a directory that others cannot search.
_AS_NOBODY = [
    *("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
]


def as_nobody(
    partition: Partition, home: Path, *words: Word, env: Mapping[str, str | None] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command of the other user's.

    Args:
        home: a directory of theirs, their home and working directory.
        env: added to their environment; ``None`` as a value takes a name out.
    """
    more = {"HOME": str(home), "XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None, **(env or {})}
    return partition.start_command(*_AS_NOBODY, *words, env=more, cwd=home)
