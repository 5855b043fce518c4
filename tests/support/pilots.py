"""A session for tests of pilots, and what every session that a test has made is held to."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.place import Place
from tests.support.wait import wait_until
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


@pytest.fixture
def session(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[rp.Session]:
    """A session in a directory of its own, which leaves no thread."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with rp.Session() as session:
        yield session
    wait_until(lambda: not threading.enumerate()[1:], what="all threads have ended")
