"""A restart lands on another node when the first one is drained."""

from __future__ import annotations

import pytest

from tests.support.criu import needs_criu
from tests.support.partition import BIN, drained, finish
from tests.support.wait import read_until

WRITES = """
import os, signal, sys
from yod.checkpoint import Saver
saver = Saver()
if saver.restart:
    print("came back", (saver.restart / "node").read_text(), os.environ["YOD_NODE_NAME"])
    sys.exit()
print(f"job {os.environ['YOD_JOB_ID']}.", flush=True)
while True:
    if saver.is_asked:
        with saver.saving() as directory:
            (directory / "node").write_text(os.environ["YOD_NODE_NAME"])
    signal.sigtimedwait([], 0.01)
"""
COUNTS = """
import os, signal
n = 7
print(f"job {os.environ['YOD_JOB_ID']}.", flush=True)
while not os.path.exists("go"):
    signal.sigtimedwait([], 0.01)
print("came back with", n)
"""


def test_ranks_that_save_themselves_come_back_on_another_node(start_local, tmp_path):
    (tmp_path / "program.py").write_text(WRITES)
    local = start_local(2)
    options = ("--checkpoint-dir", "kept", "-sz", "1")
    with local.start_yod(*options, "python", "program.py", cwd=tmp_path) as yod:
        text = read_until(yod.stdout.fileno(), b".\n").decode()
        job_id = text.partition("job ")[2].partition(".\n")[0]
        _written_down(local, job_id)
        assert finish(yod).status == 75
    with drained(local, 0):
        done = local.yod("--restart", "kept", cwd=tmp_path)
    assert (done.status, done.out) == (0, "came back node0 node1\n")


@pytest.mark.usefixtures("needs_root")
def test_a_program_that_criu_has_written_down_comes_back_on_another_node(start_local, tmp_path):
    (tmp_path / "program.py").write_text(COUNTS)
    local = start_local(2)
    env = {"YOD_CRIU": needs_criu()}
    options = ("--checkpoint-dir", "kept", "--checkpoint-by", "criu", "-sz", "1")
    with local.start_yod(*options, "python3", "program.py", cwd=tmp_path, env=env) as yod:
        text = read_until(yod.stdout.fileno(), b".\n").decode()
        job_id = text.partition("job ")[2].partition(".\n")[0]
        _written_down(local, job_id)
        assert finish(yod).status == 75
    (tmp_path / "go").touch()
    with drained(local, 0):
        done = local.yod("--restart", "kept", "--report", "report", cwd=tmp_path, env=env)
    assert (done.status, done.out) == (0, "came back with 7\n")
    assert "node1" in (tmp_path / "report").read_text()


def _written_down(local, job_id):
    done = finish(local.start_command(BIN / "yodjob", "checkpoint", "--kill", job_id))
    assert (done.status, done.err) == (0, "")
