"""Slots that a Python program holds, and its steps in them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from native.errors import UsageError, YodError
from pct.host.spawn.orphans import children_of
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_for_exit
from yod import aio, api

ID = ["sh", "-c", "echo $YOD_JOB_ID"]
HERE = {"partition": "embedded"}


def test_a_step_of_a_program_runs_in_its_allocation(place):
    before = children_of(os.getpid())
    with api.allocate(2, **HERE) as held:
        assert sum(held.slots.values()) == 2
        done = api.run(ID, size=2, allocation=held, capture_output=True)
        assert done.stdout.decode() == f"{held.id}.1\n" * 2
    assert children_of(os.getpid()) == before


def test_steps_of_an_asyncio_program_wait_for_one_another(place):
    async def main() -> list[int]:
        async with api.allocate(2, **HERE) as held:
            steps = [aio.run(["true"], size=2, stdin=b"", allocation=held) for _ in range(4)]
            return [done.exit_status for done in await asyncio.gather(*steps)]

    assert asyncio.run(main()) == [0] * 4


def test_a_step_that_shall_not_wait_is_refused(place):
    async def launch(held: api.Allocation) -> tuple[int, int]:
        async with api.launch(["sleep", "600"], allocation=held) as first:
            async for event in first.events():
                if isinstance(event, api.Started):
                    break
            done = await aio.run(["true"], stdin=b"", allocation=held, wait_s=0.0)
            beside = await aio.run(["true"], stdin=b"", allocation=held, overlap=True)
            first.cancel()
            return done.exit_status, beside.exit_status

    async def main() -> tuple[int, int]:
        async with api.allocate(1, **HERE) as held:
            return await launch(held)

    assert asyncio.run(main()) == (125, 0)


def test_what_cannot_be_held_raises_with_the_reason(place):
    with pytest.raises(YodError, match="70000 ranks requested"), api.allocate(70000, **HERE):
        raise AssertionError("held")
    with pytest.raises(UsageError, match="time_s=0"):
        api.allocate(time_s=0)
    with api.allocate(**HERE) as held:
        with pytest.raises(UsageError, match="exclude each other"):
            api.run(["true"], partition="embedded", allocation=held)
        with pytest.raises(RuntimeError, match="once"):
            held.__enter__()
    with pytest.raises(RuntimeError, match="inside"):
        _ = held.id


def test_a_task_that_is_cancelled_leaves_the_line(start_local):
    address = start_local(1, slots=1).environment()
    where = {"partition": address["YOD_PARTITION"]}

    async def main() -> None:
        async with api.allocate(**where):
            async with asyncio.timeout(0.5):
                async with api.allocate(**where):
                    raise AssertionError("held")

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_an_allocation_ends_with_its_program_however_that_ends(place):
    script = """
from yod import api
with api.allocate(2, partition="embedded") as held:
    print(held._process.pid, flush=True)
    api.run(["sleep", "600"], size=2, allocation=held)
"""
    pipe = subprocess.PIPE
    program = subprocess.Popen([sys.executable, "-c", script], stdout=pipe, stdin=pipe)
    broker = int(read_until(program.stdout.fileno(), b"\n"))
    program.send_signal(signal.SIGKILL)
    wait_for_exit(broker)
    finish(program)


def test_a_program_sees_that_its_allocation_is_over(place):
    with api.allocate(1, time_s=600, **HERE) as held:
        rank = f"{BIN}/yodjob update -time 0:01 {held.id}; exec sleep 600"
        done = api.run(["sh", "-c", rank], allocation=held)
        assert done.exit_status != 0
        wait_for_exit(held._process.pid)
        assert held.is_lost
