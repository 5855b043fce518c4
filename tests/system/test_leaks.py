"""The check for things left behind finds each kind of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import leaks
from tests.support.leaks import Watch
from tests.support.place import Place
from tests.support.wait import read_until

ROOT = Path(__file__).parents[2]


def is_found(watch: Watch, what: str) -> None:
    """Something is left, and is there after a while that need not be long here."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=what):
        patch.setattr(leaks, "SETTLE_S", 0.05)
        watch.check()


@pytest.fixture
def watch(place: Place) -> Watch:
    return Watch(place)


# Speaks after its last exec: while a process changes its program its environment,
# by which it is found, is empty.
ORPHAN = """
import os, signal
print(os.getpid(), flush=True)
os.dup2(os.open(os.devnull, os.O_RDWR), 1)
os.dup2(1, 2)
signal.pause()
"""


@pytest.fixture
def orphan() -> Iterator[int]:
    """A process that has left its parent and its session."""
    script = 'setsid "$0" -c "$1" </dev/null &'
    command = ["sh", "-c", script, sys.executable, ORPHAN]
    unix_pid = int(subprocess.run(command, capture_output=True, check=True).stdout)
    yield unix_pid
    os.kill(unix_pid, signal.SIGKILL)


def test_nothing_is_found_after_nothing(watch):
    watch.check()


def test_a_child_is_found(watch):
    with subprocess.Popen(["sleep", "60"]) as child:
        is_found(watch, rf"process {child.pid} \(sleep 60\)")
        child.kill()
    watch.check()


def test_an_orphan_in_a_session_of_its_own_is_found(watch, orphan):
    is_found(watch, f"process {orphan} ")


def test_a_file_in_the_run_time_directory_is_found(watch, place):
    path = place.runtime / "yod-1-0.image"
    path.touch()
    is_found(watch, str(path))
    path.unlink()
    watch.check()


def test_a_shared_memory_file_is_found_once_nobody_has_it_open(watch):
    fd, path = tempfile.mkstemp(dir="/dev/shm", prefix="of-a-test-")
    assert f"file {path}" not in watch._left()
    os.close(fd)
    assert f"file {path}" in watch._left()
    os.unlink(path)
    watch.check()


def test_a_daemons_new_descriptor_and_changed_nodes_are_found(place):
    script = "print(flush=True); input(); f = open('/dev/null'); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as daemon:
        assert daemon.stdin is not None and daemon.stdout is not None
        nodes = ["0 free\n"]
        read_until(daemon.stdout.fileno(), b"\n")  # it has all that it starts with
        watch = Watch(place)
        watch.partition(place, [daemon.pid], lambda: nodes[0])
        watch.check()
        daemon.stdin.write(b"\n")
        daemon.stdin.flush()
        read_until(daemon.stdout.fileno(), b"\n")
        nodes[0] = "0 busy\n"
        is_found(watch, r"1 descriptors more .*busy")
        daemon.stdin.write(b"\n")


def test_a_skip_is_a_failure_in_ci_only(tmp_path, monkeypatch):
    """Of a whole module, and of a test that finds out by itself."""
    marked = "pytestmark = pytest.mark.skip('no tool')"
    (tmp_path / "test_marked.py").write_text(f"import pytest\n{marked}\ndef test_it():\n    pass\n")
    (tmp_path / "test_asks.py").write_text(
        "import pytest\ndef test_it():\n    pytest.skip('no tool')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]
    monkeypatch.delenv("CI", raising=False)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "2 skipped" in done.stdout) == (0, True), done.stdout
    monkeypatch.setenv("CI", "true")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 error" in done.stdout, done.stdout
    assert "in CI nothing may be skipped" in done.stdout, done.stdout
