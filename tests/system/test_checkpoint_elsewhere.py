"""A restart lands on another node when the first one is drained."""

from __future__ import annotations

import os

import pytest

from tests.support.criu import needs_criu
from tests.support.partition import BIN, drained, finish
from tests.support.wait import read_until, wait_until

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


@pytest.mark.usefixtures("needs_root")
def test_criu_writes_ranks_down_only_on_nodes_where_it_works(start_local, tmp_path):
    program = needs_criu()
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'Error (criu/kerndat.c:7): no such kernel' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = {-1: "", 0: str(broken), 1: program}
    local = start_local(2, env=lambda node: {"YOD_CRIU": found[node]})
    said = f"no feature criu: {broken} check: no such kernel"
    wait_until(lambda: said in local.pcts[0].log.read_text(), what="the end of the trial")
    env = {"PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}"}
    by_criu = ("--checkpoint-dir", "kept", "--checkpoint-by", "criu")
    say = ("sh", "-c", "echo $YOD_NODE")
    for options in (by_criu, ("--constraint", "criu")):
        done = local.yod(*options, *say, cwd=tmp_path, env=env)
        assert (done.status, done.out) == (0, "1\n"), done
    done = local.yod(*by_criu, "--constraint", "gpu", *say, cwd=tmp_path, env=env)
    assert done.status == 125
    assert "--constraint gpu&criu: no node has the feature gpu; there are criu" in done.err
    lacks_users = f"no feature criu-users: {broken}"
    wait_until(lambda: lacks_users in local.pcts[0].log.read_text(), what="that for users")
    found[1] = str(broken)
    local.pcts[1].stop()
    local.replace_pct(1)
    wait_until(lambda: said in local.pcts[1].log.read_text(), what="the end of the trial")
    done = local.yod(*by_criu, *say, cwd=tmp_path, env=env)
    assert (done.status, done.err) == (
        125,
        "yod: --constraint criu: no node has the feature criu; CRIU works on none, or its pct is"
        " not root's (`yodctl doctor` there)\n",
    )
