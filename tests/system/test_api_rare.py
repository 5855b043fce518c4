"""What only few programs ask of ``yod.api``: tries, holding, strace, copies, checkpoints."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from native.errors import UsageError, YodError
from tests.support.processes import stopped
from tests.support.wait import wait_until
from yod import aio, api

QUICK = {"YOD_PHASE_S": "1", "YOD_END_S": "1", "YOD_LIVENESS_S": "3"}
NODE = ["printenv", "YOD_NODE"]
SAVES = """
import os, signal, sys
from yod.checkpoint import Saver
saver = Saver()
n = int((saver.restart / "n").read_text()) if saver.restart else 0
os.write(1, b"begins at %d\\n" % n)
while n < 1 or all(name.startswith(".") for name in os.listdir(sys.argv[1])):
    if saver.is_asked:
        n += 1
        with saver.saving() as directory:
            (directory / "n").write_text(str(n))
    signal.sigtimedwait([], 0.01)
"""


@pytest.fixture
def three(start_local, monkeypatch):
    """Nodes of one slot, of which this process's launches are."""
    local = start_local(3, slots=1, env=QUICK)
    for name, value in local.environment(QUICK).items():
        monkeypatch.setenv(name, value)
    yield local
    wait_until(lambda: set(local.states()) == {"free"})


def test_a_program_launches_again_without_the_node_that_did_not_answer(three):
    with stopped(three.pcts[1].unix_pid):
        done = api.run(NODE, size=2, retries=2, capture_output=True, stdin=b"")
        assert (done.exit_status, sorted(done.stdout.split())) == (0, [b"0", b"2"])
        tries = [text for text in done.messages if text.startswith("try ")]
        assert [text.partition(":")[0] for text in tries] == ["try 2 of 3, without node 1 (node1)"]


def test_a_job_of_a_loop_is_tried_again_and_its_events_are_those_of_the_last_try(three):
    async def main() -> list[api.Event]:
        text = "read line; echo $line from $YOD_NODE"
        job = api.launch(["sh", "-c", text], size=2, retries=2, stdin=None, stdin_ranks="all")
        async with job:
            writing = asyncio.create_task(job.write(b"a line\n"))
            seen = [event async for event in job.events()]
            await writing
        return seen

    with stopped(three.pcts[1].unix_pid):
        seen = asyncio.run(main())
    kinds = [type(event) for event in seen if not isinstance(event, api.Message)]
    assert (kinds[0], kinds[-1]) == (api.Started, api.Ended)
    assert kinds.count(api.RankEnded) == 2
    said = b"".join(sorted(event.data for event in seen if isinstance(event, api.Output)))
    assert said == b"a line from 0\na line from 2\n"
    assert seen[-1].result.exit_status == 0


def test_a_time_out_is_that_of_all_tries(three):
    with stopped(three.pcts[1].unix_pid), pytest.raises(TimeoutError):
        api.run(["sleep", "600"], size=2, retries=2, timeout=3.0, capture_output=True, stdin=b"")


def test_ranks_of_a_loop_are_held_until_they_are_told_to_go(place):
    async def main() -> list[str]:
        seen = []
        async with api.launch(["echo", "ran"], size=2, partition="embedded", attach=True) as job:
            async for event in job.events():
                match event:
                    case api.Held(job_id, unix_pids):
                        assert job_id == job.id
                        assert sorted(unix_pids) == [0, 1]
                        job.go()
                        with pytest.raises(YodError, match="not held"):
                            job.go()
                    case api.Message():
                        continue
                seen.append(type(event).__name__)
        return seen

    first, *seen = asyncio.run(main())
    assert (first, seen[0], seen.count("Output")) == ("Held", "Started", 2)


def test_ranks_of_a_program_run_under_strace(place, tmp_path):
    choices = {"strace": tmp_path, "strace_options": "-e trace=exit_group", "strace_ranks": [1]}
    done = api.run("true", size=2, partition="embedded", stdin=b"", **choices)
    assert done.exit_status == 0
    (path,) = tmp_path.glob("strace.*.1")
    assert path.read_text().startswith("exit_group(0)")
    with pytest.raises(UsageError, match="-straceoptions: only with -strace DIR"):
        api.run("true", strace_options="-f")
    with pytest.raises(UsageError, match="-strace and -bt exclude each other"):
        api.run("true", strace=tmp_path, stacks=True)


def test_output_is_captured_and_written_to_files_that_this_process_writes(place, tmp_path):
    text = "echo out $YOD_RANK; echo err >&2"
    how = {"size": 2, "partition": "embedded", "stdin": b"", "cwd": tmp_path}
    done = api.run(["sh", "-c", text], capture_output=True, output="o.%t", tee=True, **how)
    assert sorted(done.stdout.splitlines()) == [b"out 0", b"out 1"]
    assert done.stderr == b"err\nerr\n"
    found = {path.name: sorted(path.read_text().split("\n")) for path in tmp_path.glob("o.*")}
    assert found == {f"o.{rank}": ["", "err", f"out {rank}"] for rank in range(2)}
    with pytest.raises(UsageError, match="--tee: name the files, too"):
        api.run("true", tee=True)


def test_events_bring_what_is_written_to_files_too(place, tmp_path):
    async def main() -> bytes:
        how = {"size": 2, "partition": "embedded", "cwd": tmp_path}
        async with api.launch(["echo", "said"], output="o.%t", tee=True, **how) as job:
            events = [event async for event in job.events()]
        return b"".join(event.data for event in events if isinstance(event, api.Output))

    assert asyncio.run(main()) == b"said\n" * 2
    assert [path.read_text() for path in tmp_path.glob("o.*")] == ["said\n"] * 2


def test_a_report_is_added_to_a_file_for_each_job(place, tmp_path):
    report = tmp_path / "ledger"
    for code in (0, 3):
        api.run(["sh", "-c", f"exit {code}"], partition="embedded", stdin=b"", report=report)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["exit_status"] for line in lines] == [0, 3]


def test_a_program_goes_on_from_a_checkpoint_that_an_earlier_launch_of_it_has_made(place, tmp_path):
    kept = tmp_path / "kept"
    command = [sys.executable, "-c", SAVES, str(kept)]
    how = {"partition": "embedded", "stdin": b"", "capture_output": True, "restart": kept}
    first = api.run(command, checkpoint_every="0:01", checkpoint_keep=1, **how)
    assert (first.exit_status, first.stdout) == (0, b"begins at 0\n")
    again = api.run(command, **how)
    assert (again.exit_status, again.stdout) == (0, b"begins at 1\n")
    assert any(text.startswith("goes on from ") for text in again.messages)
    with pytest.raises(UsageError, match="is of 1 ranks, not of 2"):
        api.run(command, size=2, **how)


def test_checkpoints_of_a_program_are_refused_like_those_of_the_command(place, tmp_path):
    with pytest.raises(UsageError, match="--checkpoint-every: only with --checkpoint-dir DIR"):
        api.run("true", checkpoint_every="30:00")
    with pytest.raises(UsageError, match="remote_io: ranks with such files cannot be written"):
        asyncio.run(aio.run("true", checkpoint_dir=tmp_path, remote_io=tmp_path))
