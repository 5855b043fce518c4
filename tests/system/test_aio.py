"""Launches in an asyncio program: events, cancellation, many at once, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from native.errors import ProgramNotFoundError, YodError
from native.limits import Limits
from pct.host.spawn.orphans import children_of
from tests.support.leaks import command_line, descendants
from tests.support.wait import LIMIT_S, wait_for_exit
from yod import aio, api

QUICK = Limits(kill_delay_s=0.2, press_s=0.1, notice_s=3600.0)
PATIENT = Limits(kill_delay_s=120.0, notice_s=3600.0)
SLEEP = ["sleep", "1000"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 60 & wait; done"]
HERE = {"partition": "embedded"}


@pytest.fixture(autouse=True)
def as_it_was(request: pytest.FixtureRequest, place: object) -> Iterator[None]:
    """No child or descriptor of this process is another than before, and no signal taken."""

    def state() -> object:
        handlers = (signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT))
        return children_of(os.getpid()), sorted(os.listdir("/proc/self/fd")), handlers

    before = state()
    yield
    if "start_local" not in request.fixturenames:  # daemons that serve further tests
        assert state() == before


def play(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test; nothing is left of its jobs while asyncio's loop still is."""

    before = descendants(os.getpid())

    async def timed() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()
        assert descendants(os.getpid()) == before

    asyncio.run(timed())


async def first(job: api.Job, kind: type) -> api.Event:
    async for event in job.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind}")


def test_a_job_is_events_up_to_its_end():
    async def main() -> None:
        text = 'echo out $YOD_RANK; echo err >&2; test "$YOD_RANK" = 0'
        async with api.launch(["sh", "-c", text], size=2, limits=PATIENT, **HERE) as job:
            assert job.result is None
            events = [event async for event in job.events()]
        started, *between, ended = events
        assert isinstance(started, api.Started) and sorted(started.unix_pids) == [0, 1]
        assert started.job_id == job.id != ""
        assert isinstance(ended, api.Ended) and ended.result is job.result
        outputs = [each for each in between if isinstance(each, api.Output)]
        both = {(each.rank, each.stream): each.data for each in outputs}
        assert both == {(0, 1): b"out 0\n", (1, 1): b"out 1\n", (0, 2): b"err\n", (1, 2): b"err\n"}
        ends = [each.rank for each in between if isinstance(each, api.RankEnded)]
        assert sorted((rank.rank, rank.exit_code) for rank in ends) == [(0, 0), (1, 1)]
        assert sorted(ends, key=lambda rank: rank.rank) == list(ended.result.ranks)
        assert [event async for event in job.events()] == []

    play(main)


def test_run_gives_the_result_that_the_other_run_gives():
    async def main() -> None:
        text = "cat; echo err >&2; exit 3"
        done = await aio.run(["sh", "-c", text], stdin=b"in", capture_output=True, **HERE)
        assert (done.exit_status, done.stdout, done.stderr) == (3, b"in", b"err\n")
        with pytest.raises(api.JobFailedError, match="ended with exit code 3"):
            await aio.run(["sh", "-c", "exit 3"], stdin=b"", check=True, quiet=True, **HERE)
        with pytest.raises(TimeoutError, match=r"did not end in 0\.2 s"):
            options = {"stdin": b"", "timeout": 0.2, "capture_output": True, "limits": QUICK}
            await aio.run(STUBBORN, size=2, **options, **HERE)

    play(main)


def test_input_is_written_bit_by_bit():
    async def main() -> None:
        async with api.launch(["sh", "-c", "cat; wc -c </dev/null"], stdin=None, **HERE) as job:
            await job.write(b"a\n")
            output = await first(job, api.Output)
            assert output.data == b"a\n"
            await job.write(b"")
            result = await job.wait() if await first(job, api.Ended) else None
            with pytest.raises(BrokenPipeError):
                await job.write(b"more")
        assert result is job.result and result.exit_status == 0
        async with api.launch(["true"], **HERE) as job:
            with pytest.raises(YodError, match="stdin=None"):
                await job.write(b"a")

    play(main)


def test_a_writer_waits_for_room():
    async def main() -> None:
        async with api.launch(SLEEP, stdin=None, limits=QUICK, **HERE) as job:
            writer = asyncio.create_task(job.write(b"x" * 10_000_000))
            await first(job, api.Started)
            done, _ = await asyncio.wait([writer], timeout=0.3)
            assert not done
            job.cancel()
            with pytest.raises(BrokenPipeError):
                await writer

    play(main)


def test_output_that_is_not_read_holds_up_its_rank_and_nothing_grows(tmp_path):
    count = tmp_path / "count"
    text = f'i=0; while echo "{"x" * 999}"; do i=$((i+1)); echo $i >"{count}"; done'

    def lines() -> int:
        return int((Path(count).read_text() if count.exists() else "").strip() or 0)

    async def main() -> None:
        limits = Limits(output_window_bytes=65536, kill_delay_s=0.2, press_s=0.1)
        async with api.launch(["sh", "-c", text], limits=limits, **HERE) as job:
            await first(job, api.Started)
            before = -1
            while lines() != before or before < 1:
                before = lines()
                await asyncio.sleep(0.3)
            # The window, the pipe, and what the PCT has read beyond.
            assert before < 400
            # Another job is not held up, and this one goes on when it is read.
            assert (await aio.run(["true"], stdin=b"", **HERE)).exit_status == 0
            size = 0
            async for event in job.events():
                if isinstance(event, api.Output):
                    size += len(event.data)
                    if size > 2000 * before:
                        break
            job.cancel()
            assert (await job.wait()).signal == signal.SIGTERM

    play(main)


def test_a_signal_is_for_all_ranks():
    async def main() -> None:
        text = "trap 'echo usr1; exit 0' USR1; echo up; while :; do sleep 60 & wait; done"
        async with api.launch(["sh", "-c", text], size=2, **HERE) as job:
            ups = 0
            async for event in job.events():
                if isinstance(event, api.Output):
                    ups += event.data.count(b"up\n")
                    if ups == 2:
                        job.signal(signal.SIGUSR1)
                        ups = 0
        assert job.result is not None and job.result.exit_status == 0
        with pytest.raises(YodError, match="do not run"):
            job.signal(signal.SIGUSR1)

    play(main)


@pytest.mark.parametrize(("command", "number"), [(SLEEP, 15), (STUBBORN, 9)])
def test_a_cancelled_task_raises_when_nothing_is_left_of_its_job(command, number):
    async def main() -> None:
        job = api.launch(command, size=2, limits=QUICK, **HERE)
        started = asyncio.Event()
        said: set[int] = set()

        async def launch() -> None:
            async with job:
                async for event in job.events():
                    if isinstance(event, api.Output):
                        said.add(event.rank)
                    if len(said) == 2 or command is SLEEP:
                        started.set()

        task = asyncio.create_task(launch())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert job.result is not None
        assert {rank.signal for rank in job.result.ranks} == {number}
        for rank in job.result.ranks:
            assert not Path(f"/proc/{rank.unix_pid}").exists()

    play(main)


def is_stubborn(unix_pid: int) -> bool:
    """Whether a process is a rank that ignores SIGTERM by now."""
    if not command_line(unix_pid).startswith("sh -c trap"):
        return False
    try:
        status = Path(f"/proc/{unix_pid}/status").read_text()
    except OSError:
        return False
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return bool(ignored >> signal.SIGTERM - 1 & 1)


def test_a_second_cancellation_kills_at_once():
    async def main() -> None:
        limits = Limits(kill_delay_s=3600.0, press_s=0.0)
        is_over = True
        while is_over:  # the first is enough where the launch has not heard yet that it runs
            task = asyncio.create_task(aio.run(STUBBORN, stdin=b"", limits=limits, **HERE))
            while not (ranks := [pid for pid in descendants(os.getpid()) if is_stubborn(pid)]):
                await asyncio.sleep(0.02)
            (rank,) = ranks
            task.cancel()
            is_over = bool((await asyncio.wait([task], timeout=0.1))[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wait_for_exit(rank)

    play(main)


def test_an_error_in_the_block_ends_the_job():
    async def main() -> None:
        with pytest.raises(ValueError, match="mine"):
            async with api.launch(SLEEP, size=2, limits=QUICK, **HERE) as job:
                raise ValueError("mine")
        assert job.result is not None and job.result.signal == signal.SIGTERM

    play(main)


def test_a_block_that_is_left_waits_for_the_end():
    async def main() -> None:
        async with api.launch(["sh", "-c", "yes | head -c 3000000"], **HERE) as job:
            pass
        assert job.result is not None and job.result.exit_status == 0

    play(main)


def test_what_cannot_begin_is_an_error_of_the_block():
    async def main() -> None:
        with pytest.raises(ProgramNotFoundError):
            async with api.launch("no-such-program", **HERE):
                pass

    play(main)


def test_fifty_jobs_at_once():
    async def main() -> None:
        async def echo(number: int) -> bytes:
            done = await aio.run(["echo", str(number)], stdin=b"", capture_output=True, **HERE)
            return done.stdout or b""

        assert await asyncio.gather(*map(echo, range(50))) == [b"%d\n" % n for n in range(50)]

    play(main)


def test_children_of_the_program_live_beside_its_jobs():
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "1000")
        job = asyncio.create_task(aio.run(["sleep", "0.2"], stdin=b"", **HERE))
        other = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
        assert await other.wait() == 7
        assert (await job).exit_status == 0
        process.kill()
        assert await process.wait() == -signal.SIGKILL

    play(main)


def test_jobs_of_daemons_and_of_this_process_at_once(start_local):
    local = start_local(2, slots=4)
    address = local.environment()["YOD_PARTITION"]

    async def main() -> None:
        text = ["sh", "-c", "echo $YOD_NODE_NAME"]
        both = await asyncio.gather(
            aio.run(text, size=2, stdin=b"", capture_output=True, partition=address),
            aio.run(text, size=2, stdin=b"", capture_output=True, **HERE),
        )
        assert [done.exit_status for done in both] == [0, 0]
        assert b"node0" in (both[0].stdout or b"")

    asyncio.run(main())


def test_a_job_that_stands_still_is_told_in_messages_and_goes_on():
    async def main() -> None:
        words = ["sleep", "600"]
        async with api.launch(words, size=2, stall_s=1, merge=True, partition="embedded") as job:
            said = []
            while not (said and said[-1].startswith("[0..1] sleep")):
                event = await first(job, api.Message)
                said.append(event.text)
            told = [text for text in said if "the job stands still: for " in text]
            assert told and len(set(told)) == len(told)  # again after twice the time
            assert job.result is None
            job.cancel()

    play(main)
