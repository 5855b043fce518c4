"""A batch script is written down by CRIU as a whole, and goes on where it was."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from native.host import jobsockets
from native.wire import job
from tests.support.batch import Jobs, brokers
from tests.support.criu import needs_criu
from tests.support.partition import BIN, drained, finish
from tests.support.wait import LIMIT_S, wait_until
from tests.system.test_checkpoint import Study
from tests.system.test_checkpoint_moves import QUEUES
from tests.system.test_requeue_lost import SOON

pytestmark = pytest.mark.usefixtures("needs_root")

# A line for each step that the file `limit` allows, and a child at any time.
COUNT = """
i=0
while [ $i -lt 6 ]; do
    if [ $i -lt "$(cat limit)" ]; then i=$((i + 1)); echo "at $i"; else sleep 0.02; fi
done
"""


class Scripts:
    """Jobs whose scripts are written down, below `kept`."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.place = jobs.directory
        self.kept = self.place / "kept"
        self.env = {"YOD_CRIU": needs_criu()}
        self.let(3)

    def let(self, steps: int) -> None:
        other = self.place / "limit.new"
        other.write_text(str(steps))
        other.rename(self.place / "limit")

    def submit(self, text: str = COUNT, *words: str, env: dict[str, str] | None = None) -> str:
        words = ("--checkpoint-dir", "kept", *words)
        return self.jobs.submit(*words, text=text, env=self.env if env is None else env)

    def instead(self, what: str, command: str) -> dict[str, str]:
        """The variables of a job whose criu first runs a command of the shell, to do this."""
        path = self.place / "criu"
        path.write_text(
            f'#!/bin/sh\n[ $1 != {what} ] || {{ {command}; }}\nexec {needs_criu()} "$@"\n'
        )
        path.chmod(0o755)
        return {"YOD_CRIU": str(path)}

    def awaits(self, job_id: str, text: str) -> None:
        wait_until(lambda: self.jobs.says(job_id, text), what=f"{text!r} in the output")

    def checkpoint(self, job_id: str, *words: str) -> None:
        done = self.jobs.yodjob("checkpoint", *words, job_id)
        assert (done.status, done.err) == (0, ""), done

    def held_in_dump(self) -> tuple[str, subprocess.Popen[bytes]]:
        """A job that CRIU is about to write down, until `jobs.go` has a line; who has asked."""
        job_id = self.submit(env=self.instead("dump", "echo up > said; read line < go"))
        self.awaits(job_id, "at 3\n")
        asked = self.jobs.partition.start_command(BIN / "yodjob", "checkpoint", job_id)
        self.jobs.said.until("up\n")
        return job_id, asked

    def leaves(self, job_id: str) -> None:
        """Wait until it has left its node behind a checkpoint: that is drained."""
        wait_until(lambda: list((self.kept / f"{job_id}.0").glob("checkpoint.*")))
        wait_until(lambda: "waits again" in self.jobs.yodjob("show", "--events", job_id).out)

    @contextmanager
    def left_without_nodes(self, job_id: str) -> Iterator[None]:
        """It has left its node behind a checkpoint, and gets no other one meanwhile."""
        (node,) = self.jobs.row(job_id)["nodes"]
        with drained(self.jobs.partition, 1 - node), drained(self.jobs.partition, node):
            self.leaves(job_id)
            yield

    def newest(self, job_id: str) -> Path:
        return max((self.kept / f"{job_id}.0").glob("checkpoint.*"))

    def ends(self, job_id: str) -> tuple[int, str]:
        """Its status and its output."""
        status = self.jobs.wait(job_id)
        return status, self.jobs.output(job_id)


@pytest.fixture
def scripts(jobs: Jobs) -> Scripts:
    return Scripts(jobs)


def lines(first: int, last: int) -> str:
    return "".join(f"at {n}\n" for n in range(first, last + 1))


def test_a_script_goes_on_in_the_middle_with_each_line_once(scripts):
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    scripts.checkpoint(job_id, "--kill")
    scripts.let(6)
    assert scripts.ends(job_id) == (0, lines(1, 6))
    (kept,) = (scripts.kept / f"{job_id}.0").glob("checkpoint.*")
    assert kept.name == "checkpoint.1"
    shown = scripts.jobs.yodjob("show", "--events", job_id).out
    assert "waits again (1): its script ended with 75" in shown


def test_a_script_goes_on_behind_its_checkpoint(scripts):
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    assert scripts.jobs.yodjob("checkpoint", "--check", job_id).out.endswith(" can be made\n")
    assert not list((scripts.kept / f"{job_id}.0").glob("checkpoint.*"))
    scripts.checkpoint(job_id)
    scripts.let(6)
    status, output = scripts.ends(job_id)
    path = scripts.kept / f"{job_id}.0" / "checkpoint.1"
    assert (status, output) == (
        0,
        f"{lines(1, 3)}yodjob: job {job_id}: {path}\n{lines(4, 6)}",
    )


def test_a_script_leaves_a_node_that_is_drained_and_its_steps_find_the_allocation(scripts):
    jobs = scripts.jobs
    step = "yod -sz 1 sh -c 'echo step on $YOD_NODE_NAME'"
    job_id = scripts.submit(f"{COUNT}\n{step}")
    scripts.awaits(job_id, "at 3\n")
    (node,) = jobs.row(job_id)["nodes"]
    with drained(jobs.partition, node):
        scripts.leaves(job_id)
        scripts.let(6)
        status, output = scripts.ends(job_id)
        assert jobs.row(job_id)["nodes"] == [1 - node]
    assert (status, output[: len(lines(1, 6))]) == (0, lines(1, 6))
    assert output[len(lines(1, 6)) :].startswith("step on ")


def test_a_step_below_yod_cr_comes_back_with_its_script(scripts):
    study = Study(scripts.jobs.partition, scripts.place)
    step = f"yod-cr -sz 1 {shlex.join(study.words(4))}"
    job_id = scripts.submit(f"echo before\n{step}\necho after $?")
    says = partial(scripts.awaits, job_id)
    says("rank 0 at 2\n")
    scripts.checkpoint(job_id, "--kill")
    says("rank 0 begins at 2\n")
    study.let(4)
    status, output = scripts.ends(job_id)
    assert status == 0
    assert [output.count(f"rank 0 at {n}\n") for n in range(1, 5)] == [1] * 4
    assert (output.count("before\n"), output.count("after 0\n")) == (1, 1)


def test_a_script_and_its_step_by_criu_come_back_again_and_again(scripts):
    step = f"yod-cr --checkpoint-by criu -sz 1 sh -c {shlex.quote(COUNT)}"
    job_id = scripts.submit(f"echo before\n{step}\necho after $?")
    for last in (3, 4, 5):
        scripts.let(last)
        scripts.awaits(job_id, f"at {last}\n")
        scripts.checkpoint(job_id, "--kill")
    scripts.let(6)
    status, output = scripts.ends(job_id)
    assert status == 0
    assert [output.count(f"at {n}\n") for n in range(1, 7)] == [1] * 6
    assert (output.count("before\n"), output.count("after 0\n")) == (1, 1)
    names = sorted(each.name for each in (scripts.kept / f"{job_id}.0").glob("checkpoint.*"))
    assert names == ["checkpoint.2", "checkpoint.3"]


def test_a_step_below_yod_cr_goes_on_where_its_script_does(scripts):
    study = Study(scripts.jobs.partition, scripts.place)
    step = f"yod-cr -sz 1 {shlex.join(study.words(4))}"
    job_id = scripts.submit(f"{step}\necho after $?")
    scripts.awaits(job_id, "rank 0 at 2\n")
    scripts.checkpoint(job_id, "--check")
    scripts.checkpoint(job_id)
    scripts.awaits(job_id, "rank 0 begins at 2\n")
    study.let(4)
    status, output = scripts.ends(job_id)
    assert (status, output.count("after 0\n")) == (0, 1)
    assert [output.count(f"rank 0 at {n}\n") for n in (3, 4)] == [1, 1]


def test_what_cannot_be_written_down_is_named_and_the_script_runs_on(scripts):
    job_id = scripts.submit("yod -sz 1 sh -c 'echo ready; until [ -e over ]; do sleep 0.1; done'")
    scripts.awaits(job_id, "ready\n")
    for words in (("--check",), (), ("--kill",)):
        done = scripts.jobs.yodjob("checkpoint", *words, job_id)
        why = f"{job_id}.1: its yod is not below yod-cr, and has connections"
        assert (done.status, done.err) == (1, f"yodjob: {job_id}: no checkpoint: {why}\n")
    (scripts.place / "over").touch()
    assert scripts.ends(job_id)[0] == 0


def test_a_script_runs_on_when_criu_is_killed(scripts):
    job_id = scripts.submit(env=scripts.instead("dump", "kill -9 $$"))
    scripts.awaits(job_id, "at 3\n")
    done = scripts.jobs.yodjob("checkpoint", "--kill", job_id)
    why = "criu cannot write it down: criu was ended by SIGKILL"
    assert (done.status, done.err) == (1, f"yodjob: {job_id}: no checkpoint: {why}\n")
    scripts.let(6)
    status, output = scripts.ends(job_id)
    assert (status, output.count("at ")) == (0, 6)
    assert f"yodjob: job {job_id}: no checkpoint of the script: {why}\n" in output


def test_a_script_runs_on_when_its_saver_is_killed_and_criu_is_not(scripts):
    job_id = scripts.submit(env=scripts.instead("dump", "kill -9 $PPID"))
    scripts.awaits(job_id, "at 3\n")
    done = scripts.jobs.yodjob("checkpoint", job_id)
    why = "its saver ended with 137"
    assert (done.status, done.err) == (1, f"yodjob: {job_id}: no checkpoint: {why}\n")
    scripts.let(6)
    assert scripts.ends(job_id)[0] == 0


def test_a_broker_that_is_killed_leaves_no_half_checkpoint_and_nothing_that_runs(scripts):
    jobs = scripts.jobs
    job_id, asked = scripts.held_in_dump()
    (broker,) = brokers()
    os.kill(broker, signal.SIGKILL)
    done = finish(asked)
    assert (done.status, done.out) == (1, "")
    assert jobs.wait(job_id) != 0
    assert not list(scripts.kept.glob("*/checkpoint.*"))
    scripts.let(6)
    assert jobs.output(job_id) == lines(1, 3)


def test_a_script_that_criu_cannot_bring_back_ends_and_says_so(scripts):
    job_id = scripts.submit(env=scripts.instead("restore", "kill -9 $$"))
    scripts.awaits(job_id, "at 3\n")
    scripts.checkpoint(job_id, "--kill")
    status, output = scripts.ends(job_id)
    path = scripts.newest(job_id)
    why = f"criu cannot bring it back from {path}/rank.0/../rank.0: no reason is in the log"
    assert (status, output) == (127, f"{lines(1, 3)}yod-init: {why}\n")


def test_a_script_goes_on_from_its_checkpoint_whatever_its_job_runs_again_for(scripts):
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    scripts.checkpoint(job_id)
    scripts.let(5)
    scripts.awaits(job_id, "at 5\n")
    for last in (4, 6):
        scripts.let(last)
        assert scripts.jobs.yodjob("requeue", job_id).status == 0
        scripts.awaits(job_id, f"at {last}\n")
    assert scripts.ends(job_id) == (0, lines(1, 6))


def test_a_script_whose_node_is_lost_goes_on_elsewhere_from_its_checkpoint(start_local, tmp_path):
    jobs = Jobs(start_local(2, slots=1, env=SOON), tmp_path)
    try:
        scripts = Scripts(jobs)
        job_id = scripts.submit(COUNT, "--requeue")
        scripts.awaits(job_id, "at 3\n")
        scripts.checkpoint(job_id)
        (node,) = jobs.row(job_id)["nodes"]
        jobs.partition.pcts[node].kill()
        scripts.let(6)
        assert scripts.ends(job_id) == (0, lines(1, 6))
        assert jobs.row(job_id)["nodes"] == [1 - node]
        jobs.partition.replace_pct(node)
    finally:
        jobs.close()


def test_a_script_runs_on_when_the_disk_of_its_checkpoints_is_full(scripts):
    scripts.kept.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=128k", "none", scripts.kept]
    subprocess.run(small, check=True)
    try:
        job_id = scripts.submit()
        scripts.awaits(job_id, "at 3\n")
        done = scripts.jobs.yodjob("checkpoint", "--kill", job_id)
        assert done.status == 1
        assert f"yodjob: {job_id}: no checkpoint: " in done.err and "No space left" in done.err
        scripts.let(6)
        assert scripts.ends(job_id)[0] == 0
        assert not list(scripts.kept.glob("*/checkpoint.*"))
    finally:
        subprocess.run(["umount", "--lazy", scripts.kept], check=True)


def answer(end: socket.socket) -> job.Reply:
    return job.decode_reply(end.recv(job.REPLY_MAX_BYTES))


def asked(scripts: Scripts, job_id: str, request: job.Request) -> socket.socket:
    """A connection to a job that has been asked something."""
    directory = jobsockets.Directory(scripts.jobs.partition.environment())
    connection = directory.connect(job_id)
    directory.close()
    assert connection is not None
    end = socket.socket(fileno=connection.detach())
    end.settimeout(LIMIT_S)
    assert isinstance(answer(end), job.Hello)
    end.send(job.encode(request))
    return end


def test_who_asks_for_a_checkpoint_while_one_is_made_is_told_of_the_same(scripts):
    jobs = scripts.jobs
    job_id, first = scripts.held_in_dump()
    with asked(scripts, job_id, job.Checkpoint()) as second:
        with asked(scripts, job_id, job.Show()) as shown:  # the other one has been read by then
            assert isinstance(answer(shown), job.Shown)
        jobs.go.say()
        told = answer(second)
    (kept,) = (scripts.kept / f"{job_id}.0").glob("checkpoint.*")
    assert finish(first) == (0, f"{job_id}: {kept}\n", "")
    assert told == job.Checkpointed(str(kept))
    scripts.let(6)
    assert scripts.ends(job_id)[0] == 0


def test_a_script_that_is_suspended_is_written_down_when_it_goes_on(scripts):
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    assert scripts.jobs.yodjob("suspend", job_id).status == 0
    wait_until(lambda: scripts.jobs.state(job_id) == "SUSPENDED")
    done = scripts.jobs.yodjob("checkpoint", "--kill", job_id)
    assert (done.status, done.err) == (1, f"yodjob: {job_id}: no checkpoint: it is suspended\n")
    assert scripts.jobs.yodjob("resume", job_id).status == 0
    scripts.checkpoint(job_id, "--kill")
    scripts.let(6)
    assert scripts.ends(job_id) == (0, lines(1, 6))


def test_a_script_without_its_interpreter_ends_and_says_so(scripts):
    script = scripts.place / "job.sh"
    script.write_text("#!/no/interpreter\n")
    job_id = scripts.jobs.submit("--checkpoint-dir", "kept", script, env=scripts.env)
    assert scripts.ends(job_id) == (127, "yod-init: job.sh: No such file or directory\n")


def test_a_connection_of_a_script_is_named(scripts):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        inside = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo ready; read -u 3"
        job_id = scripts.submit(f"bash -c {shlex.quote(inside)}")
        scripts.awaits(job_id, "ready\n")
        done = scripts.jobs.yodjob("checkpoint", "--kill", job_id)
        assert done.status == 1
        assert done.err.startswith(f"yodjob: {job_id}: no checkpoint: criu cannot write it down: ")
        assert done.err.endswith(f" (bash) has a TCP connection to 127.0.0.1:{port}\n")
        server.accept()[0].close()
    assert scripts.jobs.wait(job_id) == 1


def test_steps_that_run_at_a_time_and_follow_each_other_come_back_with_their_script(scripts):
    step = f"yod-cr --checkpoint-by criu -sz 1 sh -c {shlex.quote(COUNT)}"
    turns = "for n in 1 2 3 4 5 6 7 8; do yod-cr --checkpoint-by criu -sz 1 echo turn $n; done"
    job_id = scripts.submit(f"{step} > first &\n{turns}\nwait\necho after", "-sz", "2")
    for turn in (1, 4):
        scripts.awaits(job_id, f"turn {turn}\n")
        done = scripts.jobs.yodjob("checkpoint", "--kill", job_id)
        assert done.status == 0, done
    scripts.let(6)
    status, output = scripts.ends(job_id)
    assert (status, output.count("after\n")) == (0, 1)
    assert [output.count(f"turn {n}\n") for n in range(1, 9)] == [1] * 8
    first = (scripts.place / "first").read_text()
    assert [first.count(f"at {n}\n") for n in range(1, 7)] == [1] * 6


def test_a_job_whose_checkpoint_was_changed_ends_and_says_so(scripts):
    jobs = scripts.jobs
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    with scripts.left_without_nodes(job_id):
        changed = scripts.newest(job_id) / "rank.0" / "inventory.img"
        changed.write_bytes(changed.read_bytes() + b"more")
    assert jobs.wait(job_id) == 125
    row = jobs.row(job_id)
    assert row["state"] == "FAILED"
    assert f"{changed}: changed since it was written" in json.dumps(row)


def test_a_job_whose_output_was_changed_ends_and_says_so(scripts):
    jobs = scripts.jobs
    job_id = scripts.submit()
    scripts.awaits(job_id, "at 3\n")
    output = scripts.place / f"yod-{job_id}.out"
    with scripts.left_without_nodes(job_id):
        output.write_text("else\n")
    assert jobs.wait(job_id) == 125
    assert f"{output} is not the output that the script had" in json.dumps(jobs.row(job_id))


def test_a_script_begins_on_no_node_without_criu(scripts):
    job_id = scripts.submit(env={"YOD_CRIU": "/no/criu"})
    assert scripts.jobs.wait(job_id) == 125
    assert "--checkpoint-dir: there is no criu here" in json.dumps(scripts.jobs.row(job_id))
    assert scripts.jobs.output(job_id).count("at ") == 0


def test_a_script_that_is_preempted_is_written_down_in_place_of_its_signal(start_local, tmp_path):
    (tmp_path / "queues.toml").write_text(QUEUES)
    options = ("--queues", tmp_path / "queues.toml")
    jobs = Jobs(start_local(1, slots=1, bebopd_options=options), tmp_path)
    try:
        scripts = Scripts(jobs)
        free = scripts.submit(COUNT, "-queue", "free")
        scripts.awaits(free, "at 3\n")
        assert jobs.wait(jobs.submit("-queue", "paid", "--wrap", "true")) == 0
        scripts.let(6)
        assert scripts.ends(free) == (0, lines(1, 6))
    finally:
        jobs.close()
