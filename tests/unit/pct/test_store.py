"""Where a node keeps files of jobs."""

import os

from native.reactor import Reactor
from pct.store import Store


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
