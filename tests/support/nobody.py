"""Another user, whom tests that run as root start commands as."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.partition import BIN, Done, Partition, Word, finish

NOBODY = 65534
# The project may lie below a directory that others cannot search.
AS_NOBODY = [
    *("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
]


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of the other user's, below none that they cannot search."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def as_nobody(
    partition: Partition, home: Path, *words: Word, env: Mapping[str, str | None] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command of the other user's.

    Args:
        home: a directory of theirs, their home and working directory.
        env: added to their environment; ``None`` as a value takes a name out.
    """
    more = {"HOME": str(home), "XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None, **(env or {})}
    return partition.start_command(*AS_NOBODY, *words, env=more, cwd=home)


def yod_as_nobody(partition: Partition, home: Path, *words: Any, **options: Any) -> Done:
    """Run their yod to its end."""
    return finish(as_nobody(partition, home, BIN / "yod", *words, **options))
