"""Processes that make a checkpoint by CRIU are killed: the job goes on, and a later one is made."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from native.waitstatus import SIGNAL_BASE
from tests.support.criu import needs_criu
from tests.support.partition import Done, finish
from tests.support.processes import command_line, descendants
from tests.support.wait import wait_until
from tests.system.test_checkpoint_files import KNOWS_NOTHING, Study

pytestmark = pytest.mark.usefixtures("needs_root")

# Enough memory that it takes a while to write it down.
LARGE = f"kept = bytearray(200 << 20)\nkept[::4096] = b'x' * (len(kept) // 4096)\n{KNOWS_NOTHING}"


def below(pid: int, words: str) -> list[int]:
    return [each for each in descendants(pid) if words in command_line(each)]


def killed(asked: subprocess.Popen[bytes], victim: str) -> Done:
    """What a command says whose processes are killed while they write a rank down."""

    def begun() -> bool:
        for pid in below(os.getpid(), victim):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return asked.poll() is not None

    wait_until(begun, what="the end of the command")
    return finish(asked)


@pytest.mark.parametrize("victim", ["criu dump", "saver collect"])
def test_a_dump_whose_processes_are_killed_is_none_and_the_job_goes_on(
    embedded, tmp_path: Path, victim: str
):
    """Or its rank dies, if criu was about to put its code into it or to take it out."""
    study = Study(embedded, tmp_path)
    study.count = 1
    study.env["YOD_CRIU"] = needs_criu()
    words = ("--checkpoint-by", "criu", "-o", str(tmp_path / "out.%t"), "-sz", "1")
    yod = study.start(*words, *study.program(LARGE))
    done = Done(0, "", "")
    while done.status == 0:  # a dump may be over before it can be killed
        before = list(study.kept.glob("checkpoint.*"))
        done = killed(study.ask(yod), victim)
    assert done.status == 1, done
    assert list(study.kept.glob("checkpoint.*")) == before
    size = study.file(0).stat().st_size
    wait_until(lambda: study.file(0).stat().st_size > size or yod.poll() is not None)
    if yod.poll() is not None:
        ended = finish(yod)
        assert victim == "criu dump" and ended.status > SIGNAL_BASE, ended
        assert ended.err.startswith("yod: rank 0 "), ended
        assert "no checkpoint: " in done.err, done  # by criu's end, or by that of the job
        return
    if victim == "criu dump":
        assert "rank 0: criu cannot write it down: criu was ended by SIGKILL" in done.err
    again = study.checkpoint(yod)
    assert (again.status, again.err) == (0, "")
    yod.kill()
    finish(yod)
    study.settled()
    assert study.restart().status == 0
    study.demand_each_line_once()


def test_a_restart_whose_criu_is_killed_leaves_nothing_and_a_later_one_goes_on(
    embedded, tmp_path: Path
):
    study = Study(embedded, tmp_path)
    study.count = 1
    study.env["YOD_CRIU"] = needs_criu()
    words = ("--checkpoint-by", "criu", "-o", str(tmp_path / "out.%t"), "-sz", "1")
    study.killed_behind_one(*words, *study.program(LARGE))
    yod = embedded.start_yod("--restart", str(study.kept), env=study.env)
    for pid in wait_until(lambda: below(os.getpid(), "criu restore"), what="the restore"):
        with suppress(ProcessLookupError):  # the first may take the others with it
            os.kill(pid, signal.SIGKILL)
    done = finish(yod)
    assert done.status not in (0, -signal.SIGKILL), done
    study.settled()
    assert study.restart().status == 0
    study.demand_each_line_once()
