"""yodjob alloc: slots that are held while a command runs, and the steps in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.partition import BIN, Done, Partition, finish
from tests.support.processes import command_line, descendants
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

LIBC_KEEPS = 3 << 31  # signals 32 and 33: glibc's posix_spawn leaves them ignored
HOLDS = ("sh", "-c", "echo up; read line")  # until the end of input
STAYS = ("sh", "-c", "echo up; exec sleep 600")  # until it is told to end


def start(partition: Partition, *words: str, **options) -> subprocess.Popen[bytes]:
    return partition.start_command(BIN / "yodjob", "alloc", *words, **options)


def alloc(partition: Partition, *words: str) -> Done:
    return finish(start(partition, *words))


def steps(partition: Partition, size: int, script: str) -> Done:
    """Run a shell script in an allocation."""
    return alloc(partition, "-quiet", "-sz", str(size), "sh", "-c", script)


@pytest.fixture
def four(start_local) -> Partition:
    """Two nodes of two slots."""
    return start_local(2, slots=2)


def start_held(partition: Partition, *words: str, command=HOLDS) -> subprocess.Popen[bytes]:
    """An allocation whose command has said that it runs."""
    process = start(partition, *words, *command)
    read_until(process.stdout.fileno(), b"up\n")
    return process


def pcts_of() -> list[int]:
    """The PCTs of allocations, wherever they are below this process."""
    return [pid for pid in descendants(os.getpid()) if "--in-job" in command_line(pid)]


def test_the_command_has_the_slots_and_its_exit_status_is_the_commands(anywhere):
    done = alloc(anywhere, "-sz", "2", "sh", "-c", "yod -sz 2 echo in $YOD_SLOTS; exit 7")
    assert (done.status, done.out) == (7, "in 2\n" * 2)
    (line,) = done.err.splitlines()
    assert "holds 2 slots on node" in line


def test_the_command_inherits_what_a_command_of_the_users_would(anywhere):
    script = 'ulimit -Sn 77; ulimit -Sf 5000000; umask 027; exec "$@"'
    looks = "ulimit -Sn; ulimit -Sf; umask; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    held = (BIN / "yodjob", "alloc", "-quiet", "sh", "-c", looks)

    def inherited(*words: str) -> tuple[list[str], int]:
        done = finish(anywhere.start_command("sh", "-c", script, "sh", *words))
        *rows, ignored = done.out.split()
        return rows, int(ignored, 16) & ~LIBC_KEEPS

    plain = inherited("sh", "-c", looks)
    assert inherited(*held) == plain
    assert plain[0][:3] == ["77", "5000000", "0027"]


def test_a_step_has_the_allocations_id_and_its_own_number(anywhere):
    script = "echo $YOD_ALLOCATION; for i in 1 2; do yod sh -c 'echo $YOD_JOB_ID'; done"
    done = steps(anywhere, 1, script)
    allocation, *ids = done.out.split()
    assert (done.status, ids, done.err) == (0, [f"{allocation}.1", f"{allocation}.2"], "")


def test_a_step_may_start_a_step_from_any_node(anywhere):
    inner = "[ $YOD_RANK = 1 ] && yod sh -c 'echo $YOD_JOB_ID' || true"
    done = steps(anywhere, 3, f'yod -sz 2 sh -c "{inner.replace("$", chr(92) + "$")}"')
    assert (done.status, done.out[-3:], done.err) == (0, ".2\n", "")


def test_steps_share_the_slots_and_wait_in_the_order_of_their_requests(four):
    script = """
        mkfifo first go; : > told
        yod -sz 3 sh -c '[ $YOD_RANK != 0 ] || { echo up > first; read line < go; echo a; }' &
        read line < first
        yod -sz 4 echo b 2> told & waiting=$!
        yod --immediate -sz 2 true; echo immediate $?
        tail -f --pid=$waiting told | { read line; echo "$line"; }
        yod -sz 1 echo c & last=$!
        echo > go
        wait
    """
    with tempfile.TemporaryDirectory() as directory:
        done = finish(start(four, "-quiet", "-sz", "4", "sh", "-c", script, cwd=directory))
    first, second, *rest = done.out.splitlines()
    assert first == "immediate 125"
    assert "waits for nodes, place 1 in the line: 4 ranks requested" in second
    assert (done.status, rest) == (0, ["a", *"bbbb", "c"])


def test_yodjob_finds_an_allocation_and_each_of_its_steps(anywhere):
    script = """
        mkfifo up
        yod sh -c 'echo > up; exec sleep 600' & step=$!
        read line < up
        yodjob list | sort | cut -c1-10
        yodjob cancel $YOD_ALLOCATION.1
        wait $step; echo $?
        yod echo goes on
    """
    with tempfile.TemporaryDirectory() as directory:
        held = start(anywhere, "-quiet", "-sz", "1", "sh", "-c", script, cwd=directory)
        done = finish(held)
    *listed, status, last = done.out.splitlines()
    ids = [row.split()[0] for row in listed if not row.strip().startswith("JOBID")]
    assert len(ids) == 2 and f"{min(ids, key=len)}.1" == max(ids, key=len)
    assert (done.status, status, last) == (0, str(128 + signal.SIGTERM), "goes on")


def test_a_step_that_waits_for_the_step_that_waits_for_it_is_refused(four):
    done = steps(four, 4, "yod -sz 4 sh -c '[ $YOD_RANK != 0 ] || yod -sz 1 true'")
    assert done.status == 125
    assert ", which asks, could make room" in done.err


def test_a_step_that_overlaps_runs_beside_the_one_that_has_the_slots(anywhere):
    script = """
        export INNER="yod --overlap -sz 3 sh -c 'echo \\$YOD_JOB_ID'"
        yod -sz 3 sh -c '[ $YOD_RANK != 2 ] || eval "$INNER"'
    """
    done = steps(anywhere, 3, script)
    assert (done.status, {line[-2:] for line in done.out.split()}, done.err) == (0, {".2"}, "")


def test_outside_of_an_allocation_nothing_overlaps(four):
    said = "yod: only steps of an allocation can overlap\n"
    assert four.yod("--overlap", "true") == (125, "", said)


def test_what_can_never_be_met_is_refused_with_the_number_in_its_way(four):
    done = alloc(four, "-sz", "5", "true")
    said = "yodjob: 5 ranks requested, partition `local` has 4 slots on 2 nodes\n"
    assert done == (125, "", said)
    done = steps(four, 3, "yod -sz 4 true")
    assert done.status == 125
    assert "4 ranks requested" in done.err and "has 3 slots on 2 nodes" in done.err


def test_an_allocation_waits_for_its_turn(four):
    first = start_held(four, "-sz", "4")
    second = start(four, "-sz", "4", "echo", "second")
    told = read_until(second.stderr.fileno(), b"\n").decode()
    assert told.startswith("yodjob: waits for nodes, place 1 in the line: 4 ranks requested")
    third = start(four, "-sz", "1", "echo", "third")
    read_until(third.stderr.fileno(), b"\n")
    second.send_signal(signal.SIGINT)
    assert finish(second).status == -signal.SIGINT
    assert finish(first).status == 1  # `read` at the end of input
    assert finish(third).out == "third\n"


def test_one_that_gets_no_nodes_in_time_says_who_has_them(four):
    first = start_held(four, "-sz", "4")
    done = alloc(four, "-wait", "0.2", "-sz", "1", "true")
    assert done.status == 125
    assert done.err.splitlines()[-1].startswith("yodjob: no nodes in 0.2 s: 1 rank requested, 0 of")
    finish(first)


def test_the_command_knows_when_its_time_will_be_over(embedded):
    now = time.time()
    done = alloc(embedded, "-quiet", "-time", "10", "printenv", "YOD_END_TIME")
    assert now + 599 <= int(done.out) <= time.time() + 600
    assert alloc(embedded, "-quiet", "printenv", "YOD_END_TIME").status == 1


@pytest.mark.parametrize(
    "command",
    [
        "exec sleep 600",
        pytest.param("trap '' HUP TERM; while :; do sleep 1; done", marks=pytest.mark.long),
    ],
)
def test_the_time_limit_ends_the_command_and_its_steps(four, command):
    done = alloc(four, "-time", "0:01", "-sz", "1", "sh", "-c", f"yod sleep 600 & {command}")
    assert done.status == 124
    assert "the time limit of 1 s is over" in done.err


def test_the_time_limit_is_changed_from_within_and_ends_the_command(anywhere):
    update = f"{BIN}/yodjob update -time"
    shows = "s/^  limit *//p; s/^  ends .*, in 1[45]:[0-9]*$/ends/p"
    script = (
        f"id=$YOD_ALLOCATION; {update} +10 $id && {BIN}/yodjob show $id | sed -n '{shows}';"
        f" {update} -1:00:00 $id; echo $?; {update} 0:01 $id; exec sleep 30"
    )
    done = alloc(anywhere, "-time", "5", "sh", "-c", script)
    assert (done.status, done.out) == (124, "0:15:00\nends\n2\n")
    assert "the time limit is 0:15:00 now\n" in done.err
    assert "nothing is left of a time limit of 0:15:00\n" in done.err
    assert "the time limit of 1 s is over\n" in done.err


def test_steps_in_the_background_end_with_the_allocation(anywhere):
    script = "yod sh -c 'echo up; exec sleep 600' & read line"
    process = start(anywhere, "sh", "-c", script)
    read_until(process.stdout.fileno(), b"up\n")
    assert finish(process, b"\n").status == 0


@pytest.mark.parametrize("how", ["signal", "time", "cancel", "command"])
def test_the_ranks_of_steps_have_time_to_end_whatever_ends_the_allocation(anywhere, how, tmp_path):
    # A signal before `read` would be seen behind it; `wait` looks whether one has come.
    rank = "trap 'echo told; sleep 0.3; echo done >> $OUT; exit 0' TERM; echo up; sleep 600 & wait"
    ends = "read line" if how == "command" else "wait"
    script = f'yod -sz 2 sh -c "$RANK" & {ends}'
    time_words = ("-time", "10") if how == "time" else ()
    env = {"RANK": rank, "OUT": str(tmp_path / "out")}
    process = start(anywhere, *time_words, "-sz", "2", "sh", "-c", script, env=env)
    job_id = read_until(process.stderr.fileno(), b"\n").decode().split()[2].rstrip(":")
    read_until(process.stdout.fileno(), b"up\nup\n")
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    elif how in ("cancel", "time"):
        words = ("cancel",) if how == "cancel" else ("update", "-time", "0:01")
        assert finish(anywhere.start_command(BIN / "yodjob", *words, job_id)).status == 0
    done = finish(process, b"\n")
    status = {"signal": -signal.SIGTERM, "time": 124, "cancel": 125, "command": 0}[how]
    assert done.status == status
    assert (tmp_path / "out").read_text() == "done\n" * 2


def test_a_signal_warns_the_ranks_of_steps_before_the_time_is_over(anywhere):
    rank = "trap 'echo warned; exit 0' USR1; echo up; while :; do sleep 0.1; done"
    words = ("-time", "10", "-signal", "USR1@60", "-sz", "2", "sh", "-c")
    held = start(anywhere, *words, 'yod -sz 2 sh -c "$RANK"', env={"RANK": rank})
    read_until(held.stdout.fileno(), b"up\n", times=2)
    warn(anywhere, held)
    done = finish(held)
    assert (done.status, done.out) == (0, "warned\n" * 2)


def test_a_signal_for_the_command_is_not_sent_to_steps(embedded):
    script = "trap 'echo warned; exit 0' USR1; echo up; while :; do sleep 0.1; done"
    held = start(embedded, "-time", "10", "-signal", "B:USR1@60", "sh", "-c", script)
    read_until(held.stdout.fileno(), b"up\n")
    warn(embedded, held)
    done = finish(held)
    assert (done.status, done.out) == (0, "warned\n")


def warn(partition: Partition, held: subprocess.Popen[bytes]) -> None:
    """Make the time limit of an allocation a minute, in which it is warned at once."""
    job_id = read_until(held.stderr.fileno(), b"\n").decode().split()[2].rstrip(":")
    words = (BIN / "yodjob", "update", "-time", "1:00", job_id)
    assert finish(partition.start_command(*words)) == (0, "", "")


def test_ranks_that_ignore_the_end_are_killed_when_their_time_is_over(four):
    rank = "trap '' TERM; echo up; while :; do sleep 1; done"
    env = {"RANK": rank, "YOD_KILL_WAIT_S": "0.2"}
    process = start(four, "-quiet", "sh", "-c", 'yod sh -c "$RANK" & read line', env=env)
    read_until(process.stdout.fileno(), b"up\n")
    assert finish(process, b"\n").status == 0
    assert four.yod("-sz", "4", "true").status == 0


def test_a_cancelled_allocation_tells_its_command_to_end(four):
    process = start_held(four, "-sz", "4", command=STAYS)
    job_id = read_until(process.stderr.fileno(), b"\n").decode().split()[2].rstrip(":")
    cancelled = finish(four.start_command(BIN / "yodjob", "cancel", job_id))
    assert cancelled == (0, "", "")
    done = finish(process, b"")
    assert done == (125, "", f"yodjob: job {job_id}: cancelled\n")


def test_a_pct_that_is_killed_ends_the_steps_on_its_node_and_no_others(four):
    process = start(four, "-quiet", "-sz", "4", "sh", "-c", "echo up; read line; yod -sz 2 echo on")
    read_until(process.stdout.fileno(), b"up\n")
    os.kill(pcts_of()[0], signal.SIGKILL)
    said = read_until(process.stderr.fileno(), b"\n").decode()
    assert said.endswith(": a node was lost; 1 of 2 are left\n")
    done = finish(process, b"\n")
    assert (done.status, done.out) == (0, "on\non\n")


QUICK = {"YOD_LIVENESS_S": "5", "YOD_END_S": "2", "YOD_ORPHAN_S": "2"}
ENDLESS = "yod -sz 3 sh -c 'echo up; exec sleep 600'"


@pytest.mark.hosts
@pytest.mark.parametrize("how", ["power", pytest.param("cable", marks=pytest.mark.long)])
def test_a_lost_host_ends_the_steps_on_it_and_new_ones_run_on_the_others(start_hosts, how):
    partition = start_hosts(3, slots=1, env=QUICK)
    script = f"{ENDLESS}; echo step $?; yod -sz 2 echo on; yod --immediate -sz 3 true; echo $?"
    process = start(partition, "-quiet", "-sz", "3", "sh", "-c", script, env=QUICK)
    read_until(process.stdout.fileno(), b"up\nup\nup\n")
    if how == "power":
        partition.power_off(1)
    else:
        partition.hosts[1].cut()
    done = finish(process)
    assert (done.status, done.out) == (0, "step 125\non\non\n125\n")
    assert "a node was lost; 2 of 3 are left" in done.err
    if how == "cable":
        partition.hosts[1].heal()


@pytest.mark.hosts
def test_the_loss_of_the_first_host_ends_the_allocation(start_hosts):
    partition = start_hosts(3, slots=1, env=QUICK)
    process = start(partition, "-sz", "3", "sh", "-c", ENDLESS, env=QUICK)
    read_until(process.stdout.fileno(), b"up\nup\nup\n")
    partition.power_off(0)
    done = finish(process)
    assert done.status == 125
    assert "node 0 (node0) was lost" in done.err


def test_when_no_pct_is_left_the_allocation_ends_and_says_what_they_said(four):
    process = start_held(four, "-sz", "4", command=STAYS)
    for unix_pid in pcts_of():
        os.kill(unix_pid, signal.SIGKILL)
    done = finish(process)
    assert done.status == 125
    assert "killed by SIGKILL" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_the_steps_and_the_allocation(four, number):
    process = start_held(four, "-sz", "4", command=STAYS)
    process.send_signal(number)
    assert finish(process).status == -number
    assert four.yod("-sz", "4", "true").status == 0


def test_a_killed_broker_leaves_no_pct_and_no_slot_behind(four):
    process = start_held(four, "-sz", "4")
    pcts = pcts_of()
    assert len(pcts) == 2
    process.kill()
    for unix_pid in pcts:
        wait_for_exit(unix_pid)
    process.communicate(b"", timeout=LIMIT_S)  # the command ends with its input
    wait_until(lambda: "free 4" in four.pingd() or "busy" not in four.pingd())
    assert four.yod("--wait", "-sz", "4", "true").status == 0
    assert alloc(four, "true").status == 0  # removes the key that was left


def test_only_the_owner_can_read_the_key_and_it_goes_with_the_allocation(four):
    done = steps(four, 1, "stat -c %a $YOD_KEY_FILE; echo $YOD_KEY_FILE")
    mode, path = done.out.split()
    assert mode == "600"
    assert not Path(path).exists()


def test_another_key_than_the_allocations_opens_nothing(four, tmp_path):
    key = tmp_path / "key"
    key.write_text(f"user {os.geteuid()} {'0' * 64}\n")
    key.chmod(0o600)
    done = steps(four, 1, f"YOD_KEY_FILE={key} yod true")
    assert done.status == 125
    assert "bebopd at" in done.err


def test_a_late_step_of_an_allocation_that_has_ended_finds_nobody(four):
    variables = "YOD_ALLOCATION YOD_PARTITION YOD_KEY_FILE"
    done = steps(four, 1, f"for each in {variables}; do printenv $each; done")
    found = dict(zip(variables.split(), done.out.split(), strict=True))
    late = four.yod("true", env=found)
    assert late.status == 125


def test_an_allocation_in_an_allocation_is_refused(four):
    done = steps(four, 2, "yodjob alloc true")
    assert done.status == 125
    assert "yod runs steps" in done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("no-such-program",), 127, "yodjob: no-such-program: no such program"),
        (("/",), 126, "yodjob: /: Permission denied"),
        (("-time", "soon", "true"), 2, "yodjob: -time soon: no time above 0; use minutes,"),
        (("-sz", "0", "true"), 2, "yodjob: Invalid value for '-sz'"),
    ],
)
def test_wrong_words_get_one_line(embedded, words, status, said):
    done = alloc(embedded, "-quiet", *words)
    assert (done.status, done.out, done.err.count("\n")) == (status, "", 1)
    assert done.err.startswith(said)


def test_a_python_program_launches_steps_by_itself(four):
    script = f"{sys.executable} -c 'import yod.api as a; print(a.run([\"true\"]).exit_status)'"
    assert steps(four, 1, script).out == "0\n"


def test_for_a_program_the_slots_are_held_until_the_end_of_its_output(anywhere):
    process = start(anywhere, "--json", "-sz", "2")
    said = json.loads(read_until(process.stdout.fileno(), b"\n"))
    done = anywhere.yod("-sz", "2", "sh", "-c", "echo $YOD_JOB_ID", env=said["environment"])
    assert done == (0, f"{said['id']}.1\n" * 2, "")
    assert finish(process).status == 0
