"""`yod -bt`: the stacks of ranks that die by a signal."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.support.partition import Done, Partition
from tests.support.wait import LIMIT_S, wait_until

pytestmark = pytest.mark.warm

SOON = {"YOD_KILL_DELAY_S": "0.1", "YOD_LOOK_S": "120"}  # a busy machine is slow to look
FAULTS = """
import ctypes, os, time
def innermost():
    ctypes.string_at(0)
def work():
    innermost()
if os.environ["YOD_RANK"] == "1":
    work()
time.sleep(600)
"""


def run(partition: Partition, size: int, *words: str, **variables: str) -> Done:
    return partition.yod("-sz", str(size), *words, env={**SOON, **variables})


def test_a_rank_that_dies_by_a_signal_shows_its_frames_of_python_and_c(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    program = tmp_path / "solve.py"
    program.write_text(FAULTS)
    report = tmp_path / "report"
    words = ("-bt", "--chdir", str(tmp_path), "--report", str(report), sys.executable, str(program))
    done = run(anywhere, 3, *words)
    assert done.status == 128 + signal.SIGSEGV, done
    lines = [line.removeprefix("yod: ") for line in done.err.splitlines()]
    shown = lines[lines.index("rank 1 was here:") + 1 :]
    frames = ["    <module> (solve.py:8)", "    work (solve.py:6)", "    innermost (solve.py:4)"]
    assert shown[0].startswith("    python") and shown[1:4] == frames, done.err
    ranks = json.loads(report.read_text())["ranks"]
    assert [bool(rank["stack"]) for rank in ranks] == [False, True, False]
    assert ranks[1]["signal"] == signal.SIGSEGV
    assert any("string_at (_ctypes.c" in frame for frame in ranks[1]["stack"][4:]), ranks[1]


def test_the_stack_follows_its_rank_in_the_table_and_none_is_there_without_the_option(here):
    words = (sys.executable, "-c", "import os\ndef deep(): os.abort()\ndeep()")
    done = run(here, 2, "-bt", "--completions", *words, YOD_KILL_DELAY_S="20")
    assert done.status == 128 + signal.SIGABRT, done
    lines = done.err.splitlines()
    rows = [number for number, line in enumerate(lines) if line.endswith(" killed by SIGABRT")]
    assert len(rows) == 2, done.err
    for number in rows:
        assert lines[number + 1].startswith("yod:     python"), done.err
        assert lines[number + 3] == "yod:     deep (<string>:2)", done.err
    done = run(here, 2, "--completions", *words)
    assert done.status == 128 + signal.SIGABRT and "deep" not in done.err


def test_signals_that_a_program_handles_and_its_stops_are_as_ever(embedded):
    text = """
import os, signal, subprocess, threading
signal.signal(signal.SIGUSR1, lambda *_: print("handled", flush=True))
os.kill(os.getpid(), signal.SIGUSR1)
thread = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
thread.start(); thread.join()
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGHUP)
print(subprocess.run(["sh", "-c", "kill -SEGV $$"]).returncode, flush=True)
child = subprocess.Popen(["sh", "-c", "while kill -CONT $PPID; do sleep 0.1; done"])
os.kill(os.getpid(), signal.SIGSTOP)
child.kill()
child.wait()
print("continued", flush=True)
os.execv("/bin/sh", ["sh", "-c", "echo other; kill -TERM $$"])
"""
    done = run(embedded, 1, "-bt", sys.executable, "-c", text)
    assert done.out.split() == ["handled", "handled", "-11", "continued", "other"], done
    assert done.status == 128 + signal.SIGTERM
    assert "yod: rank 0 was here:\nyod:     sh (stopped)" in done.err


def test_ranks_that_yod_ends_are_not_looked_at(embedded, tmp_path):
    words = ("-sz", "2", "-bt", "sh", "-c", f"touch {tmp_path}/ran$YOD_RANK; exec sleep 600")
    with embedded.start_yod(*words, env=SOON) as yod:
        wait_until(lambda: len(list(tmp_path.glob("ran*"))) == 2)
        yod.terminate()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert b"was here" not in err and yod.returncode != 0
