"""yodctl: a partition of daemons on this host, up and down."""

import json
import os
import re
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.partition import BIN, finish
from tests.support.topology import write_tree
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until


def run(*words, env=None):
    process = subprocess.Popen(
        [BIN / words[0], *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    return finish(process)


def of_partition(done):
    """What was said, but for the lines about the launch server."""
    lines = done.out.splitlines(keepends=True)
    return "".join(line for line in lines if "launch" not in line)


def state_file(place):
    return place.runtime / "yod" / "partition.json"


def unix_pids(place):
    return [each["unix_pid"] for each in json.loads(state_file(place).read_text())["daemons"]]


@pytest.fixture(autouse=True)
def as_users_do(place, monkeypatch):
    """yod looks for a launch server; in other tests it does not."""
    monkeypatch.delenv("YOD_LAUNCH_SERVER")


@pytest.fixture
def down():
    """Takes down whatever the test left up."""
    yield
    run("yodctl", "down", "--force")


@pytest.fixture
def four(place, down):
    done = run("yodctl", "up", "--local", "4")
    assert done.status == 0, done.err
    return done


def test_up_status_and_down(place, four):
    assert four.out.startswith("4 nodes are up at unix:")
    assert run("yod", "-sz", "4", "echo", "hello").out == "hello\n" * 4
    status = run("yodctl", "status")
    assert status.status == 0
    assert "pcts       4 of 4 alive" in status.out
    assert "4 nodes: 4 free, 0 pending, 0 busy, 0 down" in status.out
    daemons = unix_pids(place)
    done = run("yodctl", "down")
    assert (done.status, of_partition(done)) == (0, "ended 5 daemons of 5\n")
    for unix_pid in daemons:
        wait_for_exit(unix_pid)
    status = run("yodctl", "status")
    assert (status.status, of_partition(status)) == (1, "no partition is up\n")
    assert run("yodctl", "down")[:2] == (0, "nothing is up\n")


def test_the_nodes_of_a_host_share_its_cores_out(down, tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    rows = [(cpu, 0, str(cpu)) for cpu in cpus]
    root = write_tree(tmp_path, rows, online=",".join(map(str, cpus)))
    env = {"YOD_FSROOT": str(root)}
    assert run("yodctl", "up", "--local", str(len(cpus)), "--slots", "4", env=env).status == 0
    words = ("--ranks-per-core", "1", "grep", "Cpus_allowed_list", "/proc/self/status")
    done = run("yod", "-N", str(len(cpus)), *words)
    assert sorted(map(str.split, done.out.splitlines())) == [
        ["Cpus_allowed_list:", str(cpu)] for cpu in cpus
    ]


def launch_server(done):
    """The process that runs launches, by the words of `up` or `status`."""
    (line,) = (line for line in done.out.splitlines() if " are warm: process " in line)
    return int(line.split()[7])


def test_launches_are_warm_from_up_to_down(place, down):
    up = run("yodctl", "up")
    assert up.out.startswith("launches on this host are warm: process ")
    server = launch_server(up)
    status = run("yodctl", "status")
    assert (status.status, launch_server(status)) == (0, server)
    text = "read -r _ _ _ parent _ < /proc/$PPID/stat; readlink /proc/$parent/exe"
    assert run("yod", "sh", "-c", text).out == f"{os.path.realpath(BIN / 'yod')}\n"
    cold = {"YOD_LAUNCH_SERVER": "cold"}
    assert "python3" in run("yod", "sh", "-c", text, env=cold).out
    said = "launches on this host are cold: YOD_LAUNCH_SERVER=cold is set\n"
    assert run("yodctl", "status", env=cold).out.startswith(said)
    again = run("yodctl", "up")
    text = f"yodctl: a launch server is up already (process {server})\n"
    assert (again.status, again.err) == (1, text)
    ended = run("yodctl", "down")
    assert (ended.status, ended.out) == (0, f"ended the launch server (process {server})\n")
    wait_for_exit(server)
    assert os.listdir(place.runtime / "yod") in ([], ["jobs"])
    status = run("yodctl", "status")
    said = "launches on this host are cold: no launch server; `yodctl up` starts one\n"
    assert (status.status, status.out) == (1, said + "no partition is up\n")


def test_a_launch_server_is_where_a_variable_says(place, tmp_path):
    env = {"YOD_LAUNCH_SERVER": str(tmp_path)}
    server = launch_server(run("yodctl", "up", env=env))
    assert run("yodctl", "status").out.startswith("launches on this host are cold: ")
    assert launch_server(run("yodctl", "status", env=env)) == server
    assert run("yodctl", "down", env=env).out == f"ended the launch server (process {server})\n"
    wait_for_exit(server)
    assert list(tmp_path.glob("launch*")) == []


def test_everything_of_it_is_the_owners_only(place, four):
    directory = place.runtime / "yod"
    for path in (directory, *directory.rglob("*")):
        if not path.is_socket():  # who connects to it is asked who they are
            assert path.stat().st_mode & 0o077 == 0, path


def test_nodes_have_the_slots_that_they_are_given(place, down):
    assert run("yodctl", "up", "--local", "8", "--slots", "2").status == 0
    assert "16 slots: 0 in use" in run("yodctl", "status").out


def test_nodes_of_one_host_share_out_its_memory(place, four):
    (total,) = re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    done = run("yod", "-sz", "1", "--mem", "100000T", "true")
    assert done.status == 125
    (most,) = re.findall(r"the largest node has ([\d.]+) GiB", done.err)
    assert 0 < float(most) <= int(total) / 1024**2 / 4 + 0.01


def test_a_second_partition_is_refused(place, four):
    done = run("yodctl", "up", "--local", "2")
    assert done.status == 1
    assert done.err.startswith("yodctl: a partition of 4 nodes is up already, at unix:")
    assert done.err.endswith("`yodctl down` takes it down\n")
    assert "4 of 4 alive" in run("yodctl", "status").out


def test_job_numbers_go_on_from_one_partition_to_the_next(place, down):
    numbers = []
    for _ in range(2):
        run("yodctl", "up", "--local", "1")
        numbers.append(int(run("yod", "printenv", "YOD_JOB_ID").out))
        run("yodctl", "down")
    assert numbers == [1, 2]


def test_a_partition_whose_daemons_are_gone_is_cleaned_up(place, four):
    for unix_pid in unix_pids(place):
        os.kill(unix_pid, signal.SIGKILL)
        wait_for_exit(unix_pid)
    status = run("yodctl", "status")
    assert (status.status, of_partition(status)) == (
        1,
        "no partition is up (its daemons are gone; `yodctl up` cleans up)\n",
    )
    done = run("yodctl", "up", "--local", "1")
    assert done.status == 0
    assert done.err == "yodctl: the daemons of an earlier partition are gone; cleaned up\n"


def test_a_lost_node_is_seen(place, four):
    _, first, *_ = unix_pids(place)
    os.kill(first, signal.SIGKILL)
    wait_for_exit(first)
    wait_until(lambda: ":down:" in run("pingd", "-parse").out)
    status = run("yodctl", "status")
    assert status.status == 1
    assert "pcts       3 of 4 alive" in status.out
    assert "4 nodes: 3 free, 0 pending, 0 busy, 1 down" in status.out
    assert status.err == (
        f"yodctl: gone: pct of node 0 (process {first});"
        " `yodctl up --local 4` starts again what is gone\n"
    )
    assert of_partition(run("yodctl", "down")) == "ended 4 daemons of 5 (1 were gone)\n"


def test_a_lost_bebopd_is_seen(place, four):
    bebopd, *_ = unix_pids(place)
    os.kill(bebopd, signal.SIGKILL)
    wait_for_exit(bebopd)
    status = run("yodctl", "status")
    assert status.status == 1
    way_back = "`yodctl up --local 4` starts again what is gone"
    assert f"yodctl: bebopd is gone; {way_back}, `yodctl down` clears what is left\n" in status.err
    assert of_partition(run("yodctl", "down")) == "ended 4 daemons of 5 (1 were gone)\n"


def test_a_partition_that_yod_will_not_use_is_told_of(place, down):
    other = {"YOD_PARTITION": "host:1"}
    said = "YOD_PARTITION is set: yod and pingd use host:1"
    status = run("yodctl", "status", env=other)
    assert (status.status, of_partition(status)) == (
        1,
        f"no partition is up; {said}, which pingd shows\n",
    )
    done = run("yodctl", "up", "--local", "1", env=other)
    assert done.out.splitlines()[1] == f"{said}; `yodctl down` takes it down"
    status = run("yodctl", "status", env=other)
    assert (status.status, status.out.splitlines()[-1]) == (0, said)
    own = done.out.split()[5]
    assert "YOD_PARTITION" not in run("yodctl", "status", env={"YOD_PARTITION": own}).out


def test_a_home_that_is_missing_is_not_made(place, down, tmp_path):
    home = tmp_path / "none"
    done = run("yodctl", "up", "--local", "1", env={"HOME": str(home), "XDG_STATE_HOME": ""})
    assert (done.status, done.err) == (
        1,
        f"yodctl: no place for records: {home}: No such file or directory;"
        " XDG_STATE_HOME names a directory for them\n",
    )
    assert not home.exists() and not (place.runtime / "yod").exists()


def test_a_daemon_that_is_stopped_is_killed_in_the_end(place, four):
    _, first, *_ = unix_pids(place)
    os.kill(first, signal.SIGSTOP)
    assert of_partition(run("yodctl", "down")) == "ended 5 daemons of 5 (1 had to be killed)\n"


@contextmanager
def started(ranks):
    """A launch that does not end by itself."""
    with subprocess.Popen(
        [BIN / "yod", "-sz", str(ranks), "sh", "-c", "echo up; exec sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as yod:
        try:
            read_until(yod.stdout.fileno(), b"up\n" * ranks)
            yield yod
        finally:
            yod.kill()


def refused(names):
    text = f"yodctl: {names} would end: to end jobs say `yodctl down --force`\n"
    return 3, "", text


def test_down_names_the_jobs_that_it_would_end_and_ends_them_by_force(
    place, four, nothing_left_behind
):
    with started(4) as yod:
        assert run("yodctl", "down") == refused("job 1 (root)")
        os.kill(unix_pids(place)[0], signal.SIGKILL)
        wait_until(lambda: run("yodctl", "status").status == 1)
        # Warm, it is known by its socket as well.
        names = "job 1 (root) and jobs on nodes 0..3 (bebopd does not answer)"
        assert run("yodctl", "down") == refused(names)
        assert yod.poll() is None
        assert run("yodctl", "down", "--force").status == 0
        assert yod.wait(LIMIT_S) != 0


def test_down_names_the_jobs_of_the_launch_server(place, down, nothing_left_behind):
    run("yodctl", "up")
    with started(2) as yod:
        (path,) = wait_until(lambda: list((place.runtime / "yod" / "jobs").glob("local.*")))
        assert run("yodctl", "down") == refused(f"job {path.name.partition('@')[0]} (root)")
        assert launch_server(run("yodctl", "status"))
        assert run("yodctl", "down", "--force").status == 0
        assert yod.wait(LIMIT_S) != 0


@contextmanager
def taken_port():
    """A port that is in use amid four that are not, nor given to who asks for any."""
    first_of_any = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for base in range(first_of_any - 4, 1024, -4):
        with ExitStack() as opened:
            try:
                ports = [
                    opened.enter_context(socket.create_server(("127.0.0.1", base + number)))
                    for number in range(4)
                ]
            except OSError:
                continue
            for number in (0, 1, 3):
                ports[number].close()
            yield base + 2
            return


def test_what_fails_is_shown_and_nothing_is_left(place, down):
    with taken_port() as port:
        done = run("yodctl", "up", "--local", "3", "--base-port", str(port - 2))
    assert done.status == 1
    assert "yodctl: the partition did not come up: pct of node 1 (process" in done.err
    assert "ended with exit code 1" in done.err
    assert "Address already in use" in done.err  # the end of its log
    assert not (place.runtime / "yod").exists()


def test_an_interrupted_start_leaves_nothing(place, down):
    for _ in range(5):
        process = subprocess.Popen(
            [BIN / "yodctl", "up", "--local", "16"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: state_file(place).exists())
        process.send_signal(signal.SIGINT)
        done = finish(process)
        if done.status:
            break
        run("yodctl", "down")  # it was up before
    assert (done.status, done.err) == (
        1,
        "yodctl: the partition did not come up: interrupted\n",
    )
    assert not (place.runtime / "yod").exists()


def test_a_start_that_was_killed_is_taken_down(place, down):
    process = subprocess.Popen([BIN / "yodctl", "up", "--local", "16"])
    wait_until(lambda: state_file(place).exists() and len(unix_pids(place)) > 16)
    process.kill()
    process.wait()
    assert of_partition(run("yodctl", "down")) == "ended 17 daemons of 17\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["up", "--base-port", "7000"], "--base-port is for --local"),
        (["up", "--local", "0"], "Invalid value for '--local'"),
        (["up", "--local", "x"], "Invalid value for '--local'"),
        (["up", "--local", "2", "--slots", "0"], "Invalid value for '--slots'"),
        (["up", "--local", "9", "--base-port", "65530"], "10 ports do not fit above it"),
        (["sideways"], "No such command 'sideways'"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(place, words, error):
    done = run("yodctl", *words)
    assert done.status == 2
    assert done.err.startswith("yodctl: ") and error in done.err
    assert done.err.count("\n") == 1


def test_a_limit_that_is_no_number_is_said_before_anything_starts(place):
    done = run("yodctl", "up", "--local", "1", env={"YOD_PENDING_S": "soon"})
    assert (done.status, done.err) == (2, "yodctl: YOD_PENDING_S=soon: not a number\n")


def test_limits_are_printed_with_what_sets_them(place):
    done = run("yodctl", "limits", env={"YOD_PENDING_S": "7.5"})
    (line,) = [line for line in done.out.splitlines() if line.startswith("pending_s")]
    assert line.split(maxsplit=3) == [
        "pending_s",
        "7.5",
        "YOD_PENDING_S",
        "a grant lapses after this unless its PCTs report the job",
    ]


def test_a_users_python_path_does_not_reach_the_daemons(place, down, tmp_path):
    (tmp_path / "allocator.py").write_text("raise SystemExit('not ours')")
    done = run("yodctl", "up", "--local", "1", env={"PYTHONPATH": str(tmp_path)})
    assert done.status == 0, done.err


def test_it_works_where_there_is_no_run_time_directory(place, down):
    env = {"XDG_RUNTIME_DIR": ""}
    state_home = Path(os.environ["XDG_STATE_HOME"], "yod")
    state_home.mkdir(exist_ok=True)
    (state_home / "userlog").write_text("what is logged\n")
    (state_home / "notes").write_text("of the user\n")
    try:
        assert run("yodctl", "up", "--local", "1", env=env).status == 0
        assert run("yod", "echo", "hi", env=env).out == "hi\n"
    finally:
        assert of_partition(run("yodctl", "down", env=env)) == "ended 2 daemons of 2\n"
    assert sorted(os.listdir(state_home)) == ["jobs", "notes", "records", "userlog"]
    assert (state_home / "userlog").read_text().startswith("what is logged\n")


def test_a_users_key_opens_the_partition_over_tcp(place, four, tmp_path):
    address = json.loads(state_file(place).read_text())["address"]
    made = run("yodctl", "key", str(os.getuid()))
    assert made.status == 0, made.err
    key = tmp_path / "key"
    damaged = made.out[:-2] + ("0" if made.out[-2] != "0" else "1") + "\n"
    for text, status in ((made.out, 0), (damaged, 125)):
        key.write_text(text)
        key.chmod(0o600)
        done = run("yod", "--partition", address, "true", env={"YOD_KEY_FILE": str(key)})
        assert done.status == status, done.err
    assert "does not hold the same key" in done.err


def test_a_key_for_nobody_is_refused(place, four):
    done = run("yodctl", "key", "no such user")
    assert (done.status, done.err) == (2, "yodctl: no user no such user here\n")
    done = run("yodctl", "key", "0", "--key-file=")
    assert (done.status, done.err) == (2, "yodctl: --key-file needs a value, got an empty one\n")


def test_the_doctor_names_a_node_that_is_down_and_what_to_do(start_local):
    partition = start_local(2)
    healthy = run("yodctl", "doctor", env=partition.environment())
    assert healthy.status == 0 and "2 of 2 nodes up" in healthy.out, healthy
    deep = run("yodctl", "doctor", "--nodes", env=partition.environment())
    assert deep.status == 0 and "no answer" not in deep.out, deep
    assert "the same on 2 nodes and here" in deep.out and "this host's on 2 nodes" in deep.out
    assert "all connections of a job over 2 nodes, both ways" in deep.out
    assert "libc.so.6" in deep.out and "within 1 s of bebopd's" in deep.out
    assert "none hides users or processes of this host" in deep.out
    partition.pcts[1].kill()
    wait_until(lambda: run("yodctl", "doctor", env=partition.environment()).status == 1)
    found = run("yodctl", "doctor", env=partition.environment())
    assert "problem  nodes" in found.out and "node 1 down" in found.out, found
    assert "1 problem" in found.out and "-> start its pct again" in found.out
    partition.replace_pct(1)
