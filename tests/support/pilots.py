"""What every session that a test has made is held to."""

from __future__ import annotations

import os
from pathlib import Path

from yod.pilot.analysis.checker import check
from yod.pilot.client import journal
from yod.pilot.profile.reader import read


def check_profiles(directory: Path) -> int:
    """Hold the profiles of all sessions below a directory to the checker; how many there were."""
    count = 0
    for where, _, names in os.walk(directory):
        if journal.NAME in names and any(name.endswith(".prof") for name in names):
            wrong = check(read(where), os.path.basename(where))
            assert not wrong, "\n".join(wrong)
            count += 1
    return count
