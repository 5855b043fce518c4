"""pingd: what each node is doing, for people and for programs."""

import json
import os
import pty
import pwd
import subprocess
import sys

import pytest

from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_until


def pingd(partition, *words, env=None):
    process = subprocess.Popen(
        [BIN / "pingd", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=partition.environment(env),
    )
    return finish(process)


@pytest.fixture
def job(local):
    """Three ranks that run: two on node 0 of four slots... as placement has it."""
    yod = local.start_yod("-sz", "5", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\n" * 5)
    yield yod
    yod.terminate()
    finish(yod)


def test_a_job_is_seen_on_its_nodes(local, job):
    done = pingd(local)
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["Node", "Name", "State", "Job", "Ranks", "Owner", "Elapsed"]
    job_id = lines[1][3]
    assert lines[1][:5] == ["0", "node0", "busy", job_id, "0..3"]
    assert lines[2][:5] == ["1", "node1", "busy", job_id, "4"]
    assert lines[3] == ["2", "node2", "free"]
    assert done.out.endswith(
        "4 nodes: 2 free, 0 pending, 2 busy, 0 down\n16 slots: 5 in use by 1 job\n"
    )


def test_programs_read_a_line_for_each_node_and_job(local, job):
    header, first, second, *rest = pingd(local, "-parse").out.splitlines()
    assert header.startswith("nid:name:status:reserved:session:job-id:spid:rank:owner:")
    assert first.startswith("0:node0:busy:false:_:")
    assert first.split(":")[7] == "0..3"
    assert second.split(":")[7] == "4"
    assert rest == ["2:node2:free:false" + ":_" * 8, "3:node3:free:false" + ":_" * 8]


def test_programs_may_read_json(local, job):
    nodes = json.loads(pingd(local, "--json", "1..2").out)["nodes"]
    (found,) = nodes[0].pop("jobs")
    both = {
        "slots": 4,
        "drain": None,
        "is_restarting": False,
        "reservation": None,
        "portion": "any",
    }
    job_id, me = found["id"], pwd.getpwuid(os.getuid()).pw_name
    assert nodes == [
        {
            "node": 1,
            "name": "node1",
            "state": "busy",
            "slots_used": 1,
            **both,
            "why": f"busy with job {job_id} of {me}, 3 of 4 slots free",
        },
        {
            "node": 2,
            "name": "node2",
            "state": "free",
            "slots_used": 0,
            "jobs": [],
            **both,
            "why": None,
        },
    ]
    assert found["id"] == pingd(local, "-parse").out.splitlines()[1].split(":")[5]
    assert (found["ranks"], found["is_pending"]) == ("4", False)


def test_conditions_choose_the_lines(local, job):
    def nodes(*words):
        lines = pingd(local, "-parse", *words).out.splitlines()[1:]
        return [int(line.split(":")[0]) for line in lines]

    job_id = pingd(local, "-parse").out.splitlines()[1].split(":")[5]
    assert nodes("-list", "3,1") == [1, 3]
    assert nodes("-l", "3,1") == [1, 3]
    assert nodes("2..3") == [2, 3]
    assert nodes("-job", job_id) == [0, 1]
    assert nodes("-mine") == [0, 1]
    assert nodes("-mine", "-list", "1..3") == [1]
    assert nodes("-all") == [0, 1, 2, 3]


def test_the_summary_is_the_totals_alone(local):
    done = pingd(local, "-summary")
    assert done.out == "4 nodes: 4 free, 0 pending, 0 busy, 0 down\n16 slots: 0 in use by 0 jobs\n"


def test_a_terminal_gets_the_same_table(local):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [BIN / "pingd"],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        env=local.environment({"TERM": "xterm", "COLUMNS": "100"}),
    )
    os.close(follower)
    seen = read_until(leader, b"16 slots: 0 in use by 0 jobs")
    assert process.wait(LIMIT_S) == 0
    os.close(leader)
    assert b"node3" in seen


def test_a_node_that_is_down_is_shown_so(start_local, nothing_left_behind, place):
    partition = start_local(2)
    partition.pcts[1].kill()
    wait_until(lambda: "1:node1:down:" in pingd(partition, "-parse").out)
    partition.pcts[1] = partition.start_pct(1)
    wait_until(lambda: "1:node1:free:" in pingd(partition, "-parse").out)
    nothing_left_behind.partition(place, [partition.pcts[1].unix_pid], lambda: "")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-list", "x"], "node list `x`: 'x' is not allowed"),
        (["-list", "1,9"], "no node 9 in this partition"),
        (["-job", "999999"], "no job 999999 in this partition; it has ended, or"),
        (["-parse", "-job", "999999"], "no job 999999 in this partition"),
        (["--json", "-parse"], "-parse, --json and -summary exclude each other"),
        (["-list", "1", "2"], "one node list at a time"),
        (["-job", "0"], "Invalid value for '-job'"),
        (["-x"], "-x: no such option here"),
        (["-list"], "-list needs a value"),
        (["-list="], "-list needs a value"),
        ([""], "node list ``: an item is empty"),
        (["--partition", "nowhere"], "--partition nowhere: not an address"),
    ],
)
def test_wrong_usage_is_said_in_a_line(local, words, error):
    done = pingd(local, *words)
    assert done.status != 0 and done.out == ""
    assert done.err.startswith(f"pingd: {error}")


def test_nothing_up_is_said_with_what_to_do(embedded):
    done = pingd(embedded)
    assert done.status == 1
    assert done.err.startswith("pingd: no partition is up here;")
    assert "`yodctl up --local N`" in done.err


@pytest.mark.parametrize("address", ["127.0.0.1:9", "unix:/nonexistent/socket"])
def test_a_bebopd_that_is_not_there_is_named(local, address):
    done = pingd(local, "--partition", address, env={"YOD_KEY_FILE": str(local.key_file)})
    assert done.status == 1
    first, second = done.err.splitlines()
    assert first.startswith(f"pingd: bebopd at {address} (--partition) ")
    assert second.startswith("pingd: try `yodctl status`")


def test_a_wrong_key_is_refused(local, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    done = pingd(local, "--partition", local.address, env={"YOD_KEY_FILE": str(key)})
    assert done.status == 1
    assert "key" in done.err.splitlines()[0].partition(local.address)[2]


def test_help_shows_the_options(local):
    done = pingd(local, "-help")
    assert done.status == 0
    for option in ("-parse", "-summary", "-list", "-job", "-mine", "--partition"):
        assert option in done.out


def test_nobody_who_reads_is_no_error(local):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [BIN / "pingd"], stdout=writing, stderr=subprocess.PIPE, env=local.environment()
    )
    os.close(writing)
    assert finish(process).err == ""


def test_pingd_imports_nothing_heavy(local):
    script = (
        "import sys\nfrom partition.pingd import main\nsys.argv = ['pingd']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'sqlite3', 'rich', 'asyncio'} & sys.modules.keys()\n"
        "print('heavy:', sorted(heavy))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=BIN.parent.parent,
        env=local.environment(),
    )
    assert finish(process).out.endswith("heavy: []\n")
