"""bebopd as a process: its files, its port, and its own death."""

import os
import signal
import socket
import subprocess

import pytest

from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_until


def run(*words, env=None):
    process = subprocess.Popen(
        [BIN / "bebopd", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    return finish(process)


def start_again(partition, watch, place):
    """bebopd at its former address; returns when it has heard from every node."""
    partition.start_bebopd(len(partition.pcts), partition.address)
    partition.wait_for_nodes()
    watch.partition(place, [partition.bebopd.unix_pid], lambda: "")


def restart(partition, watch, place, *, kill):
    """End bebopd, and start it again."""
    if kill:
        partition.bebopd.kill()
    else:
        partition.bebopd.stop()
    start_again(partition, watch, place)


def job_number(text):
    return int(text.splitlines()[0])


def test_it_makes_its_key_and_serves_with_it(start_local):
    partition = start_local(1)
    assert partition.key_file.stat().st_mode & 0o777 == 0o600
    assert partition.key_file.stat().st_size == 32
    assert partition.yod("echo", "hi").out == "hi\n"


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_job_numbers_never_repeat_over_restarts(start_local, nothing_left_behind, place, kill):
    partition = start_local(2)
    seen = []
    for _ in range(3):
        for _ in range(2):
            seen.append(job_number(partition.yod("printenv", "YOD_JOB_ID").out))
        restart(partition, nothing_left_behind, place, kill=kill)
    assert seen == sorted(set(seen))
    if not kill:
        assert seen == list(range(seen[0], seen[0] + 6))


def test_running_jobs_go_on_over_a_restart(start_local, nothing_left_behind, place):
    partition = start_local(2, slots=1)
    yod = partition.start_yod("-sz", "2", "sh", "-c", "echo up; read line && echo $line; exec true")
    read_until(yod.stdout.fileno(), b"up\nup\n")
    before = partition.pingd().splitlines()[1].split(":")
    restart(partition, nothing_left_behind, place, kill=True)
    after = partition.pingd().splitlines()[1].split(":")
    assert (after[2], after[5], after[7]) == ("busy", before[5], "0")
    assert partition.yod("true").status == 125  # every slot is in use
    done = finish(yod, b"end\n")
    assert (done.status, done.err) == (0, "")
    wait_until(lambda: partition.pingd().count(":free:") == 2)
    assert job_number(partition.yod("printenv", "YOD_JOB_ID").out) > int(before[5])


def test_a_job_that_ends_without_a_bebopd_is_over(start_local, nothing_left_behind, place):
    partition = start_local(1)
    yod = partition.start_yod("sh", "-c", "echo up; read line")
    read_until(yod.stdout.fileno(), b"up\n")
    partition.bebopd.kill()
    yod.stdin.write(b"\n")
    assert yod.wait(LIMIT_S) == 0
    finish(yod)
    start_again(partition, nothing_left_behind, place)
    assert partition.pingd().count(":free:") == 1


def test_a_grant_that_nobody_uses_lapses(start_local):
    partition = start_local(1, slots=1, bebopd_options=["-D"], env={"YOD_PENDING_S": "0.3"})
    yod = partition.start_yod("true", stdin=subprocess.DEVNULL)
    yod.send_signal(signal.SIGSTOP)  # perhaps with a grant on its way
    wait_until(lambda: partition.pingd().count(":free:") == 1)
    yod.send_signal(signal.SIGCONT)
    finish(yod)


def test_a_yod_that_is_killed_gives_everything_back(start_local):
    partition = start_local(2)
    yod = partition.start_yod("-sz", "2", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\nup\n")
    yod.kill()
    finish(yod)
    wait_until(lambda: partition.pingd().count(":free:") == 2)


def test_a_busy_partition_says_so_with_numbers(start_local):
    partition = start_local(2, slots=1)
    yod = partition.start_yod("sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\n")
    done = partition.yod("-sz", "2", "true")
    assert done.status == 125
    assert "2 ranks requested, 1 of 2 slots free now (node 0 (node0) is in use)" in done.err
    done = partition.yod("-sz", "3", "true")
    assert "3 ranks requested, partition `local` has 2 slots on 2 nodes" in done.err
    done = partition.yod("-list", "7", "true")
    assert "no node 7 here; this partition has nodes 0..1" in done.err
    yod.terminate()
    finish(yod)


def test_the_socket_of_a_killed_bebopd_is_taken_over(start_local, nothing_left_behind, place):
    partition = start_local(1)
    restart(partition, nothing_left_behind, place, kill=True)
    assert partition.yod("echo", "hi").out == "hi\n"


def test_descriptors_do_not_grow_with_use(start_local):
    partition = start_local(2)
    for _ in range(5):
        assert partition.yod("-sz", "2", "true").status == 0
    assert partition.yod("-sz", "99", "true").status == 125
    # What is open before and after is compared for every test.


def test_a_port_that_is_in_use_is_named(place, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("--listen", address, "--state-dir", tmp_path / "records")
    assert done.status == 1
    assert done.err.startswith(f"bebopd: cannot listen at {address}")
    assert "in use" in done.err


def test_two_do_not_share_their_records(start_local):
    partition = start_local(1)
    done = run("--state-dir", partition.directory / "records")
    assert (done.status, done.err) == (
        1,
        f"bebopd: {partition.directory / 'records'}: another bebopd keeps its records here\n",
    )


def test_a_key_that_others_can_read_is_refused(place, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    done = run("--state-dir", tmp_path / "records", "--key-file", key)
    assert (done.status, done.err) == (
        1,
        f"bebopd: key file {key}: mode 0644 lets others use it: chmod 600 {key}\n",
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--listen", "nowhere"], "--listen nowhere: must be HOST:PORT"),
        (["--listen", "no.such.host.invalid:0"], "--listen no.such.host.invalid:0: no.such"),
        (["--nodes-file", "/nonexistent"], "nodes file /nonexistent: No such file"),
        (["--frob"], "--frob: no such option here"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(place, tmp_path, words, error):
    done = run("--state-dir", tmp_path / "records", *words)
    assert done.status == 2
    assert done.err.startswith(f"bebopd: {error}")
    assert done.err.count("\n") == 1


def test_the_nodes_file_gives_numbers_to_names(start_local, tmp_path):
    names = tmp_path / "nodes"
    names.write_text("3 node0\n5 node1\n")

    def anywhere(node):
        return ["--node", "-1"]

    partition = start_local(2, bebopd_options=["--nodes-file", names], pct_options=anywhere)
    assert [line.split(":")[:2] for line in partition.pingd().splitlines()[1:]] == [
        ["3", "node0"],
        ["5", "node1"],
    ]
    assert partition.yod("-list", "5,3", "printenv", "YOD_NODE").status == 0


def test_it_has_a_thread_for_its_loop_and_one_for_its_history(start_local):
    partition = start_local(1)
    assert len(os.listdir(f"/proc/{partition.bebopd.unix_pid}/task")) == 2


def test_those_who_wait_for_nodes_are_told_when_it_ends(start_local, nothing_left_behind, place):
    partition = start_local(1, slots=1)
    with partition.start_yod("sh", "-c", "echo up; read line") as job:
        read_until(job.stdout.fileno(), b"up\n")
        with partition.start_yod("--wait", "true") as waiting:
            read_until(waiting.stderr.fileno(), b"place 1 in the line")
            partition.bebopd.kill()
            assert "yod: bebopd at" in finish(waiting).err
            assert waiting.returncode == 125
        start_again(partition, nothing_left_behind, place)
        job.communicate(b"\n", timeout=LIMIT_S)
