"""Where a node keeps files of jobs."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from native.reactor import Reactor
from pct import leftovers
from pct.store import PREFIX, Store, sweep


def test_owners_of_jobs_can_enter_a_pcts_directory_whatever_its_umask(tmp_path):
    reactor = Reactor()
    store = Store([str(tmp_path)], reactor)
    before = os.umask(0o077)
    try:
        directory = store.directory()
    finally:
        os.umask(before)
    assert os.stat(directory).st_mode & 0o777 == 0o755
    store.close()
    assert not os.path.exists(directory)
    reactor.close()


@pytest.fixture
def segment() -> Iterator[Path]:
    """Shared memory as a killed rank leaves it."""
    path = Path(leftovers.DIRECTORY) / f"{leftovers.PREFIXES[0]}{os.urandom(6).hex()}"
    path.touch(0o600)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("age_s", [-60, 60])
def test_what_the_ranks_of_a_killed_pct_have_left_goes_with_its_directory(tmp_path, segment, age_s):
    directory = tmp_path / f"{PREFIX}of-a-killed-pct"
    directory.mkdir()
    since = time.time() - age_s
    os.utime(directory, (since, since))
    sweep(str(tmp_path))
    assert not directory.exists()
    assert segment.exists() == (age_s < 0)  # before that PCT's last job: not its ranks'


def test_a_living_pcts_directory_and_what_its_ranks_have_stay(tmp_path, segment):
    reactor = Reactor()
    store = Store([str(tmp_path)], reactor)
    directory = store.directory()
    os.utime(directory, (0, 0))
    sweep(str(tmp_path))
    assert os.path.exists(directory)
    assert segment.exists()
    store.close()
    reactor.close()
