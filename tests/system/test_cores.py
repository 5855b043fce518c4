"""Core files of ranks: as many as the user's limit allows, and yod says which ranks left one."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

pytestmark = pytest.mark.warm

# Each in a directory of its own: files have the same name on many hosts.
DIES = "ulimit -Sc; mkdir rank$YOD_RANK; cd rank$YOD_RANK; kill -SEGV $$"
SIZE = 6


@pytest.mark.parametrize("limit", ["unlimited", "0"])
def test_a_rank_that_dies_leaves_a_core_file_where_the_users_limit_allows(
    anywhere, tmp_path, limit
):
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("the hard limit of core files keeps a rank from having any")
    tmp_path.chmod(0o777)
    words = ("-sz", str(SIZE), "--keep-going", "--chdir", tmp_path, "sh", "-c", DIES)
    done = anywhere.yod_under_shell(*words, before=f"ulimit -Sc {limit}")
    assert (done.status, done.out) == (128 + signal.SIGSEGV, f"{limit}\n" * SIZE), done
    assert f"yod: ranks 0..{SIZE - 1} on " in done.err
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith(("|", "/", "@")):  # a program, or one directory, has them
        return
    found = [len(list(tmp_path.glob(f"rank{rank}/*"))) for rank in range(SIZE)]
    assert found == [int(limit != "0")] * SIZE
    said = "killed by SIGSEGV" + (" (core dumped)" if limit != "0" else "")
    assert [line.partition(": ")[2].endswith(said) for line in done.err.splitlines()[1:]] == [True]
