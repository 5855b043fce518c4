"""An uncaught exception ends a Python job, also where the interpreter's exit would hang."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.mpi import Mpi
from tests.support.partition import Done, Partition
from tests.support.wait import wait_until

pytestmark = pytest.mark.warm

SOON = {"YOD_KILL_DELAY_S": "0.1", "YOD_UNCAUGHT_S": "0.1"}

RAISES_BESIDE_A_THREAD = """
import os, threading, time
if os.environ["YOD_RANK"] == "1":
    threading.Thread(target=time.sleep, args=(600,)).start()
    raise LookupError("no such mesh")
time.sleep(600)
"""
RAISES_BEFORE_A_BARRIER = """
import atexit
from mpi4py import MPI
atexit.register(print, "an exit function of the program", flush=True)
if MPI.COMM_WORLD.Get_rank() == 1:
    1 / 0
MPI.COMM_WORLD.Barrier()
"""


def run(partition: Partition, size: int, text: str, **variables: str) -> Done:
    words = ("-sz", str(size), sys.executable, "-c", text)
    return partition.yod(*words, env={**SOON, **variables})


def test_a_job_ends_when_a_rank_raises_whose_threads_go_on(anywhere):
    done = run(anywhere, 3, RAISES_BESIDE_A_THREAD)
    assert done.status == 1, done
    lines = done.err.splitlines()
    raised = lines.index("LookupError: no such mesh")
    ended = "yod: rank 1: ended 0.1 s after its uncaught LookupError: its exit waits for a thread"
    assert lines[raised + 1].startswith(ended)
    assert "yod: rank 1 on " in done.err and "ended with exit code 1" in done.err


@pytest.mark.mpi
def test_a_job_ends_when_a_rank_raises_while_the_others_are_in_a_barrier(
    embedded, mpi_or_intel: Mpi
):
    words = ("-sz", "3", str(mpi_or_intel.library.python), "-c", RAISES_BEFORE_A_BARRIER)
    # However long its exit functions take, they run before it is ended.
    env = {**mpi_or_intel.python_env, **SOON, "YOD_UNCAUGHT_S": "60"}
    done = embedded.yod(*words, env=env)
    assert done.status == 1, done
    assert "ZeroDivisionError: division by zero" in done.err
    assert "its uncaught ZeroDivisionError: MPI_Finalize would wait for other ranks" in done.err
    assert "an exit function of the program" in done.out


def test_threads_that_end_in_time_are_waited_for(embedded):
    text = """
import atexit, threading
go = threading.Event()
def work():
    go.wait()
    print("saved")
threading.Thread(target=work).start()
threading._register_atexit(go.set)
1 / 0
"""
    done = run(embedded, 1, text, YOD_UNCAUGHT_S="60")
    assert (done.status, done.out) == (1, "saved\n"), done
    assert "uncaught" not in done.err


def test_who_wants_no_hook_has_none(embedded, tmp_path):
    text = f"""
import sys, threading, time
def work():
    open({str(tmp_path / "raised")!r}, "w").close()
    time.sleep(600)
assert sys.excepthook is sys.__excepthook__
sys.excepthook = lambda *what: threading.Thread(target=work).start()
1 / 0
"""
    words = ("-sz", "1", sys.executable, "-c", text)
    with embedded.start_yod(*words, env={**SOON, "YOD_UNCAUGHT_S": "none"}) as yod:
        wait_until(lambda: (tmp_path / "raised").exists())
        yod.terminate()
    assert yod.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)  # nothing else ended it


@pytest.mark.cold
def test_a_limit_that_is_no_number_is_named_and_the_default_counts(embedded):
    text = "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); 1/0"
    done = run(embedded, 1, text, YOD_UNCAUGHT_S="soon")
    assert done.status == 1
    assert "yod: rank 0: YOD_UNCAUGHT_S=soon: seconds are wanted, or none; 2 s count" in done.err


def test_programs_see_the_path_and_the_site_module_that_the_user_has(embedded, tmp_path):
    Path(tmp_path, "sitecustomize.py").write_text("import builtins; builtins.is_mine = True\n")
    text = """
import os, subprocess, sys
here = [entry for entry in sys.path if "uncaught" in entry]
own = subprocess.run(["sh", "-c", "echo $PYTHONPATH"], capture_output=True, text=True).stdout
print(is_mine, here, os.environ["PYTHONPATH"], own.strip())
"""
    done = run(embedded, 1, text, PYTHONPATH=str(tmp_path))
    assert done.out == f"True [] {tmp_path} {tmp_path}\n", done
    done = run(embedded, 1, "import os; print(os.environ.get('PYTHONPATH'))")
    assert done.out == f"{os.environ.get('PYTHONPATH')}\n", done


def test_a_hook_that_the_program_calls_itself_ends_nothing(embedded):
    text = """
import sys, threading
over = threading.Event()
threading.Thread(target=over.wait).start()
try:
    1 / 0
except ZeroDivisionError:
    sys.excepthook(*sys.exc_info())
print(over.wait(0.5))
over.set()
"""
    done = run(embedded, 1, text, YOD_UNCAUGHT_S="0")
    assert (done.status, done.out) == (0, "False\n"), done
    assert "uncaught" not in done.err
