"""A node that is not well says so, and is given to no job."""

import os

import pytest

from native.hooks import Hook, Point
from native.limits import Limits
from native.machine import DeadlineReached, Log, Send
from native.wire import status
from pct.events import HealthChecked, HookResult
from pct.health import (
    CheckEnded,
    Health,
    HostSeen,
    KillCheck,
    LookAtHost,
    LookForRogues,
    RunCheck,
    Tell,
)
from pct.host.health.looks import looks
from tests.unit.allocator.partition_of import Partition, pct, spec
from tests.unit.allocator.test_operators import rows, states
from tests.unit.pct.node_of import ready

DISK = Hook("disk", "/etc/yod/disk", (Point.HEALTH,), 4.0)
FAN = Hook("fan", "/etc/yod/fan", (Point.HEALTH,), 5.0)
LIMITS = Limits(health_s=60.0)


def ended(status=0, errors=b"", output=b"", trouble=""):
    return CheckEnded(HookResult(-1, status, trouble, output, errors))


def looked(hooks=(DISK, FAN), trouble=""):
    """A machine that has looked at its host, and what it does next."""
    health = Health(hooks, LIMITS, 100.0)
    assert health.handle(DeadlineReached(), True, 160.0) == [LookAtHost()]
    return health, health.handle(HostSeen(trouble), True, 161.0)


def test_the_first_look_is_at_once_where_the_site_has_checks():
    assert Health((DISK,), LIMITS, 100.0).deadline() == 100.0
    assert Health((), LIMITS, 100.0).deadline() == 160.0
    assert Health((DISK,), Limits(health_s=0.0), 100.0).deadline() is None


def test_all_checks_run_one_after_another_and_the_node_is_well():
    health, actions = looked()
    assert actions == [RunCheck(DISK)] and health.deadline() == 165.0
    assert health.handle(ended(), True, 162.0) == [RunCheck(FAN)]
    assert health.deadline() == 167.0
    assert health.handle(ended(), True, 163.0) == [Tell("")]
    assert health.deadline() == 223.0


def test_what_is_wrong_first_is_the_trouble_and_nothing_else_runs():
    health, actions = looked(trouble="no memory")
    assert actions == [Tell("no memory")] and health.deadline() == 221.0
    health, _ = looked()
    failed = ended(256, b"first\nsda: too hot\n", b"output\n")
    assert health.handle(failed, True, 162.0) == [Tell("health check disk: sda: too hot")]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ended(256, b"", b"said\n"), "said"),
        (ended(9), "killed by SIGKILL"),
        (ended(768), "exit code 3"),
        (ended(-1, trouble="no such file"), "no such file"),
    ],
)
def test_a_check_that_fails_says_why_or_how(event, text):
    health, _ = looked()
    (told,) = health.handle(event, True, 162.0)
    assert text in told.trouble


def test_a_check_that_takes_too_long_is_killed_and_has_failed():
    health, _ = looked()
    assert health.handle(DeadlineReached(), True, 165.0) == [KillCheck()]
    assert health.deadline() is None
    (told,) = health.handle(ended(9), True, 166.0)
    assert told == Tell("health check disk took longer than 4 s")


def test_nothing_is_looked_at_while_a_job_is_there_and_what_was_seen_then_is_void():
    health = Health((DISK,), LIMITS, 100.0)
    assert health.handle(DeadlineReached(), False, 100.0) == []
    assert health.deadline() == 160.0
    health, _ = looked()
    assert health.handle(ended(256, b"busy"), False, 162.0) == []
    assert health.deadline() == 222.0


def test_for_rogues_the_host_is_looked_at_also_while_a_job_is_there():
    health = Health((), LIMITS, 100.0, has_rogues=True)
    assert health.handle(DeadlineReached(), False, 160.0) == [LookForRogues()]
    assert health.deadline() == 220.0
    assert health.handle(DeadlineReached(), True, 220.0) == [LookForRogues(), LookAtHost()]


# -- the host


def a_host(tmp_path, memory_kib=1 << 20, states="RSZZ"):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {memory_kib} kB\n")
    for number, state in enumerate(states, 1):
        (tmp_path / f"proc/{number}").mkdir()
        (tmp_path / f"proc/{number}/stat").write_text(f"{number} (a ) b) {state} 1 1 1")
    return tmp_path


def seen(root, **limits):
    return [text for text in looks([str(root)], Limits(**limits), str(root)) if text]


def test_a_host_is_well_within_its_limits(tmp_path):
    assert seen(a_host(tmp_path)) == []


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"health_memory_bytes": 2 << 30}, "1 GiB of memory left, at least 2 GiB are wanted"),
        ({"health_zombies_count": 1}, "2 zombies, at most 1 are well"),
        ({"health_store_bytes": 1 << 40}, " left, at least 1 TiB are wanted"),
    ],
)
def test_what_a_host_lacks_is_said_with_the_limit(tmp_path, limits, text):
    (found,) = seen(a_host(tmp_path), **limits)
    (name,) = limits
    assert text in found and f"(YOD_{name.upper()})" in found


def test_a_store_that_is_gone_is_trouble_and_a_kernel_that_says_nothing_is_none(tmp_path):
    root = a_host(tmp_path)
    (root / "proc/meminfo").unlink()
    assert list(filter(None, looks([str(root / "no")], Limits(), str(root)))) == [
        f"{root}/no: {os.strerror(2)}"
    ]


# -- PCT and bebopd


def test_a_pct_tells_bebopd_at_once_of_what_is_new():
    node = ready()
    (log, send) = node.handle(HealthChecked("no memory"), 5.0)
    assert isinstance(log, Log) and send.message.trouble == "no memory"
    assert node.handle(HealthChecked("no memory"), 6.0) == []
    assert "in trouble: no memory" in node.state(7.0)[0]
    (_, send) = node.handle(HealthChecked(""), 8.0)
    assert isinstance(send, Send) and send.message.trouble == ""


def announced(partition, number, trouble):
    address = pct(number)
    name = f"node{number}"
    said = status.Announce(number, name, 1, *address, 1, trouble=trouble)
    return partition.receive(address, said)


def test_a_node_in_trouble_is_given_to_no_job_until_it_is_well():
    partition = Partition(2)
    announced(partition, 1, "no memory")
    assert states(partition)[1] is status.NodeState.TROUBLE
    assert rows(partition)[1].why == "no memory"
    assert [each.node for each in partition.grant(spec(1)).nodes] == [0]
    refused = partition.request(spec(1))
    assert refused.text.endswith("(node 0 (node0) is in use, node 1 (node1) is in trouble)")
    announced(partition, 1, "no memory")
    announced(partition, 1, "")
    assert [each.node for each in partition.grant(spec(1)).nodes] == [1]
    told = [(each.kind.value, each.text) for each in partition.history[-9:] if hasattr(each, "by")]
    assert told[-2:] == [("trouble", "no memory"), ("well", "")]
