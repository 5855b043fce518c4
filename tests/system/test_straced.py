"""``yod -strace``: ranks under strace, each with a trace of its own on its node."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.partition import finish
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

PRINTS = ("import os, sys; rank = os.environ['YOD_RANK']; "
          "os.write(1, f'{rank} {os.getpid()}\\n'.encode())")  # fmt: skip
LISTENS = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.write(1, b"ready\\n")
signal.sigwait({signal.SIGUSR1})
os.write(1, b"usr1\\n")
signal.pause()
"""


def traces(directory: Path) -> dict[int, str]:
    """The trace of each rank that has one; all are of one job."""
    names = [path.name.split(".") for path in directory.iterdir()]
    assert all(name[0] == "strace" for name in names)
    return {int(path.name.rpartition(".")[2]): path.read_text() for path in directory.iterdir()}


@pytest.fixture
def directory(tmp_path):
    """In which ranks of any user can write."""
    found = tmp_path / "traces"
    found.mkdir()
    found.chmod(0o777)
    return found


def test_each_rank_that_is_named_has_a_trace_of_its_own_to_the_end(anywhere, directory):
    words = ("-strace", directory, "-straceoptions", "-e trace=write", "-stracenodes", "0,2")
    done = anywhere.yod(*words, "-sz", "3", sys.executable, "-c", PRINTS)
    assert done.status == 0, done.err
    found = traces(directory)
    assert sorted(found) == [0, 2]
    pids = dict(line.split() for line in done.out.splitlines())
    assert sorted(pids) == ["0", "1", "2"]
    for rank, text in found.items():
        assert f'write(1, "{rank} {pids[str(rank)]}\\n"' in text
        assert text.endswith("+++ exited with 0 +++\n")


def test_a_summary_is_whole_also_where_the_rank_fails(embedded, directory):
    for _ in range(3):
        done = embedded.yod("-strace", directory, "-straceoptions", "-c", "sh", "-c", "exit 3")
        assert done.status == 3
        (text,) = traces(directory).values()
        assert text.rstrip().endswith("total")
        for path in directory.iterdir():
            path.unlink()


def test_signals_are_the_ranks_own(here, directory):
    words = ("-strace", directory, "-straceoptions", "-e trace=none")
    with here.start_yod(*words, sys.executable, "-c", LISTENS) as yod:
        read_until(yod.stdout.fileno(), b"ready\n")
        os.kill(yod.pid, signal.SIGUSR1)
        read_until(yod.stdout.fileno(), b"usr1\n")
        os.kill(yod.pid, signal.SIGTERM)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGTERM
    (text,) = traces(directory).values()
    assert text.endswith("+++ killed by SIGTERM +++\n")


def test_a_node_without_strace_says_so(embedded, directory, tmp_path):
    with embedded.start_yod("-strace", directory, "/bin/true", env={"PATH": str(tmp_path)}) as yod:
        done = finish(yod)
    assert done.status == 127
    assert "env: " in done.err
    assert "strace" in done.err
    assert "No such file or directory" in done.err
    assert traces(directory) == {}
