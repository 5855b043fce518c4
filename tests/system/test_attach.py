"""yod --detach and yodjob attach: jobs without a terminal, and terminals that come and go."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess

import pytest

from tests.support.limits import PATIENT
from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import LIMIT_S, read_until

FOLLOWS = "echo begins; while read line; do echo got $line; done; echo ends"


@pytest.fixture
def kept(start_local) -> Partition:
    """Two nodes of two slots, whose bebopd keeps jobs."""
    return start_local(2, slots=2)


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": None}


def detach(partition: Partition, env, *words: str) -> str:
    done = partition.yod("--detach", "-quiet", *words, env=env)
    assert (done.status, done.err) == (0, ""), done
    return done.out.strip()


def start(partition: Partition, env, job_id: str, **options) -> subprocess.Popen[bytes]:
    return partition.start_command(BIN / "yodjob", "attach", job_id, env=env, **options)


def attach(partition: Partition, env, job_id: str, input: bytes = b"") -> Done:
    return finish(start(partition, env, job_id), input)


def yodjob(partition: Partition, env, *words: str) -> Done:
    return finish(partition.start_command(BIN / "yodjob", *words, env=env))


def test_the_job_goes_on_and_its_output_is_there_with_its_streams_and_status(kept, env):
    job_id = detach(
        kept, {**env, **PATIENT}, "-sz", "2", "sh", "-c", "echo out; echo err >&2; exit 5"
    )
    assert yodjob(kept, env, "wait", job_id).status == 5
    done = attach(kept, env, job_id)
    assert (done.status, done.out) == (5, "out\n" * 2)
    assert done.err.splitlines().count("err") == 2
    assert attach(kept, env, job_id) == done  # again


def test_a_terminal_follows_and_the_first_has_the_input(kept, env):
    job_id = detach(kept, env, "sh", "-c", FOLLOWS)
    with start(kept, env, job_id) as first:
        read_until(first.stdout.fileno(), b"begins\n")
        first.stdin.write(b"one\n")
        read_until(first.stdout.fileno(), b"got one\n")
        with start(kept, env, job_id) as second:
            read_until(second.stdout.fileno(), b"begins\ngot one\n")
            second.stdin.write(b"never\n")
            second.stdin.close()
            first.stdin.write(b"two\n")
            first.stdin.close()
            rest = second.stdout.read()
            assert second.wait(timeout=LIMIT_S) == 0
        assert first.stdout.read() == rest == b"got two\nends\n"
        assert first.wait(timeout=LIMIT_S) == 0


def test_the_next_terminal_has_the_input_when_the_first_has_gone(kept, env):
    job_id = detach(kept, env, "sh", "-c", FOLLOWS)
    with start(kept, env, job_id) as first:
        read_until(first.stdout.fileno(), b"begins\n")
        first.send_signal(signal.SIGHUP)
        assert first.wait(timeout=LIMIT_S) == 0
        assert b"goes on" in first.stderr.read()
    assert attach(kept, env, job_id, b"mine\n").out == "begins\ngot mine\nends\n"


def test_ctrl_c_interrupts_the_job_as_it_does_yod(kept, env):
    trap = "trap 'echo caught; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    job_id = detach(kept, env, "sh", "-c", trap)
    with start(kept, env, job_id) as terminal:
        read_until(terminal.stdout.fileno(), b"up\n")
        terminal.send_signal(signal.SIGINT)
        assert terminal.stdout.read() == b"caught\n"
        assert terminal.wait(timeout=LIMIT_S) == 128 + signal.SIGINT
        assert b"SIGTERM sent to all ranks" in terminal.stderr.read()


def test_ctrl_backslash_at_a_terminal_leaves_and_the_job_goes_on(kept, env):
    job_id = detach(kept, env, "sh", "-c", "echo up; read line")
    ours, theirs = pty.openpty()
    words = ("setsid", "--ctty", "--wait", BIN / "yodjob", "attach", job_id)
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with kept.start_command(*words, env=env, **streams):
        os.close(theirs)
        read_until(ours, b"up\r\n")
        os.write(ours, b"\x1c")
        read_until(ours, b"goes on")
    os.close(ours)
    row = yodjob(kept, env, "list").out
    assert f"{job_id}  sh" in row
    assert yodjob(kept, env, "cancel", job_id).status == 0
    assert yodjob(kept, env, "wait", job_id).status == 143


def test_a_terminal_that_does_not_read_holds_up_nobody(kept, env):
    write = "yes 0123456789012345678901234567890123456789 | head -c 4000000; echo; echo end"
    job_id = detach(kept, env, "sh", "-c", f"read line; {write}")
    with start(kept, env, job_id) as stopped:
        stopped.stdin.write(b"go\n")
        read_until(stopped.stdout.fileno(), b"0123")
        stopped.send_signal(signal.SIGSTOP)
        assert yodjob(kept, env, "wait", job_id).status == 0
        stopped.send_signal(signal.SIGCONT)
        stopped.stdin.close()
        stopped.stdout.read()
        stopped.wait(timeout=LIMIT_S)
    replayed = attach(kept, env, job_id)
    assert replayed.out.endswith("\nend\n") and len(replayed.out) == 4000005


def test_what_a_full_spool_drops_is_told_in_its_place(kept, env):
    env = {**env, "YOD_SPOOL_BYTES": "1000000"}
    job_id = detach(kept, env, "sh", "-c", "yes | head -c 8000000; echo end")
    assert yodjob(kept, env, "wait", job_id).status == 0
    done = attach(kept, env, job_id)
    assert done.out.endswith("y\nend\n")
    assert len(done.out) < 1100000
    (line,) = [line for line in done.err.splitlines() if "dropped" in line]
    dropped = int(line.split()[1])
    assert dropped + len(done.out) == 8000004


def test_one_attaches_before_the_job_has_its_slots(kept, env):
    first = detach(kept, env, "-sz", "4", "sh", "-c", "read line; true")
    second = detach(kept, env, "-sz", "4", "echo", "hi")
    with start(kept, env, second) as waiting:
        assert attach(kept, env, first, b"\n").status == 0
        assert waiting.stdout.read() == b"hi\n" * 4
        assert waiting.wait(timeout=LIMIT_S) == 0


def test_the_end_of_the_time_and_a_cancelled_job_are_told(kept, env):
    job_id = detach(kept, env, "sh", "-c", "echo up; sleep 600")
    with start(kept, env, job_id) as terminal:
        read_until(terminal.stdout.fileno(), b"up\n")
        assert yodjob(kept, env, "cancel", job_id).status == 0
        assert terminal.wait(timeout=LIMIT_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("99",), "no batch job with this id"),
        (("local.99",), "no detached job with this id on this host"),
    ],
)
def test_what_cannot_be_attached_to_is_refused_with_a_line(kept, env, words, text):
    done = yodjob(kept, env, "attach", *words)
    assert done.status == 1
    assert done.err == f"yodjob: {words[0]}: {text}\n"


def test_without_a_partition_the_process_that_holds_the_job_stays_behind(env):
    here = Partition()
    job_id = detach(here, env, "-sz", "2", "sh", "-c", "echo $YOD_RANK; read line; exit 6")
    assert job_id.startswith("local.")
    assert job_id in yodjob(here, env, "list").out
    done = attach(here, env, job_id, b"\n")
    assert (done.status, sorted(done.out.split())) == (6, ["0", "1"])
    assert yodjob(here, env, "wait", job_id).status == 6
    assert attach(here, env, job_id) == done


def test_without_a_partition_a_detached_job_can_be_cancelled(env):
    here = Partition()
    trap = "trap 'echo told; exit 1' TERM; echo up; sleep 600 & wait"
    job_id = detach(here, env, "sh", "-c", trap)
    with start(here, env, job_id) as terminal:
        read_until(terminal.stdout.fileno(), b"up\n")
        assert yodjob(here, env, "cancel", job_id).status == 0
        assert b"told\n" in terminal.stdout.read()
        terminal.wait(timeout=LIMIT_S)


def test_what_is_said_of_its_nodes_and_its_time_is_said_of_the_job(start_local, tmp_path, env):
    nodes = tmp_path / "nodes"
    nodes.write_text("node0\nnode1 features=big\n")
    queues = tmp_path / "queues.toml"
    queues.write_text('[[queue]]\nname = "day"\n[[queue]]\nname = "night"\n')
    where = ("--nodes-file", nodes, "--queues", queues)
    partition = start_local(2, slots=2, bebopd_options=where)
    say = ("printenv", "YOD_NODE")

    def row(*words: str, **more: str) -> dict:
        job_id = detach(partition, {**env, **more}, *words, *say)
        assert yodjob(partition, env, "wait", job_id).status == 0
        shown = yodjob(partition, env, "show", "--json", job_id).out
        return json.loads(shown)["jobs"][0]

    big = row("--constraint", "big", "-time", "30", "-queue", "night")
    assert (big["nodes"], big["time_s"], big["queue"]) == ([1], 1800.0, "night")
    alone = row("--exclusive", "--switches", "1", YODJOB_QUEUE="night")
    assert (alone["slots"], alone["node_count"], alone["queue"]) == (2, 1, "night")
    short = detach(partition, env, "-time", "0:01", "sleep", "600")
    assert yodjob(partition, env, "wait", short).status == 124
    refused = partition.yod("--detach", "--constraint", "none", "true", env=env)
    assert refused.status != 0 and "no node" in refused.err
    nice = partition.yod("--detach", "-nice", "true", env=env)
    assert "--detach and -nice exclude each other" in nice.err


def test_what_cannot_be_detached_says_why_at_once(env):
    done = Partition().yod("--detach", "-sz", "70000", "true", env=env)
    assert (done.status, done.out) == (125, "")
    assert "70000 ranks requested" in done.err
