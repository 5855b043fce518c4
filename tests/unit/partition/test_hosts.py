"""Lists of hosts, the folding of their errors, and one host on its way to a PCT."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from native.errors import PartitionError, UsageError
from partition.find.state import Host
from partition.hosts import address, hostfile, names
from partition.hosts.ssh import scripts
from partition.hosts.ssh.bringing import (
    SSH_FAILED,
    STARTS,
    UP,
    Bringing,
    Complained,
    Ended,
    Ending,
    Phase,
    TimedOut,
    Wrote,
    why,
)
from partition.hosts.up import _numbers


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", "n1"),
        ("n[1-3],gpu1", "n1 n2 n3 gpu1"),
        ("z1,a1", "z1 a1"),
        ("n[08-10]", "n08 n09 n10"),
        ("n[1-5/2]", "n1 n3 n5"),
        ("n[1,3],n3,n1", "n1 n3"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("n[1-4]!n2", "n1 n3 n4"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
        ("a.example.org", "a.example.org"),
    ],
)
def test_a_folded_list_names_its_hosts_in_its_order(text, hosts):
    assert names.parse(text) == tuple(hosts.split())


@pytest.mark.parametrize(
    "text", ["", ",", "n[", "n[1-", "n[a-b]", "-oProxyCommand=x", "a b", "a;b", "n[1-99999]", "a/b"]
)
def test_what_is_no_list_of_hosts_gets_one_line(text):
    with pytest.raises(UsageError) as caught:
        names.parse(text)
    assert "hosts" in str(caught.value) and "\n" not in str(caught.value)


def test_hosts_with_one_reason_are_one_line():
    texts = [("n3", "refused"), ("n1", "no answer"), ("n4", "refused"), ("n5", "refused")]
    assert names.folded(texts) == ["n[3-5]: refused", "n1: no answer"]


@pytest.mark.parametrize(
    ("status", "line", "said"),
    [
        (255, "ssh: connect to host n3 port 22: Connection refused", "Connection refused"),
        (
            255,
            "ssh: Could not resolve hostname n3: Name or service not known",
            "Name or service not known",
        ),
        (255, "root@n3: Permission denied (publickey).", "Permission denied (publickey)"),
        (255, "Host key verification failed.", "Host key verification failed"),
        (255, "", "ssh failed and gave no reason"),
        (
            127,
            "yod: no yod: neither /x/pct nor pct in PATH",
            "no yod: neither /x/pct nor pct in PATH",
        ),
        (1, "", "exit status 1"),
        (1, "disk of n3 is full", "disk of HOST is full"),
        (1, "disk of n30 is full", "disk of n30 is full"),
        (1, "yod: pct has ended: 2026-11-25 12:00:01 n3: too late", "pct has ended: too late"),
        (1, "bell\a", "$'bell\\007'"),
    ],
)
def test_a_reason_is_the_same_for_all_hosts_that_have_it(status, line, said):
    assert why("n3", status, line) == said


def brought(*events):
    machine = Bringing("n3", 20, "10.0.0.1:7")
    for event in events:
        machine.handle(event)
    return machine.phase, machine.is_reached, machine.reason


STARTED = (Wrote("Welcome to n3"), Wrote(STARTS))
REFUSED = (Complained("Connection refused"), Ended(SSH_FAILED))


@pytest.mark.parametrize(
    ("events", "phase", "is_reached", "reason"),
    [
        ((), Phase.REACHING, False, ""),
        ((Wrote(UP),), Phase.REACHING, False, ""),
        (STARTED, Phase.STARTING, True, ""),
        ((*STARTED, Wrote(UP)), Phase.UP, True, ""),
        ((*STARTED, Wrote(UP), Ended(0)), Phase.UP, True, ""),
        ((*STARTED, Wrote(UP), TimedOut()), Phase.UP, True, ""),
        (REFUSED, Phase.FAILED, False, "Connection refused"),
        ((*REFUSED, *STARTED), Phase.FAILED, False, "Connection refused"),
        ((Complained("x"), Complained(" "), Ended(1)), Phase.FAILED, False, "x"),
        ((TimedOut(),), Phase.FAILED, False, "no answer in 20 s"),
        (
            (*STARTED, TimedOut()),
            Phase.FAILED,
            True,
            "its pct has not reached bebopd at 10.0.0.1:7 in 20 s",
        ),
    ],
)
def test_a_host_goes_its_way(events, phase, is_reached, reason):
    assert brought(*events) == (phase, is_reached, reason)


@pytest.mark.parametrize(
    ("events", "phase", "is_reached", "reason"),
    [
        ((Wrote("ended 1"),), Phase.REACHING, False, ""),
        ((Wrote("ended 1"), Ended(0)), Phase.ENDED, True, ""),
        ((Ended(0), TimedOut(), Ended(1)), Phase.ENDED, True, ""),
        (REFUSED, Phase.FAILED, False, "Connection refused"),
        ((*REFUSED, Ended(0)), Phase.FAILED, False, "Connection refused"),
        ((Complained("x"), Complained(" "), Ended(1)), Phase.FAILED, True, "x"),
        ((TimedOut(),), Phase.FAILED, False, "no answer in 20 s"),
    ],
)
def test_a_host_whose_pcts_are_ended_goes_its_way(events, phase, is_reached, reason):
    machine = Ending("n1", 20.0)
    for event in events:
        machine.handle(event)
    assert (machine.phase, machine.is_reached, machine.reason) == (phase, is_reached, reason)


def test_a_host_keeps_its_number_and_a_new_one_gets_the_next():
    known = (Host("a", 0, True), Host("c", 5, False))
    assert _numbers(known, ("c", "b", "d")) == {"a": 0, "c": 5, "b": 6, "d": 7}


@pytest.mark.parametrize("line", [scripts.start("/d", "n1", "", ["--x"]), scripts.end("/d", "t")])
def test_the_line_for_a_host_is_one_that_every_shell_reads_the_same(line):
    assert not set("\n\\!") & set(line)
    words = shlex.split(line)
    assert words[:3] == ["exec", "sh", "-c"] and words[4] == "yod"
    assert subprocess.run(["sh", "-n", "-c", words[3]], capture_output=True).returncode == 0


def test_a_host_file_says_slots_by_repeating_a_host():
    text = "n1\nn1\n\n# all others\nn[2-3] slots=9\nn1\n"
    assert hostfile.parse(text, "f") == {"n1": 3, "n2": 0, "n3": 0}


@pytest.mark.parametrize(
    ("text", "said"), [("n1\n-x\n", "f:2: hosts -x: "), ("# none\n", "f: names no host")]
)
def test_a_host_file_that_is_wrong_gets_its_line(text, said):
    with pytest.raises(UsageError, match=said):
        hostfile.parse(text, "f")


def test_a_name_server_that_answers_nothing_is_waited_for_once(monkeypatch):
    """Four names were looked up one after another, for ten seconds each."""
    now, asked = [0.0], []

    def silent(name):
        asked.append(name)
        now[0] += 10.0
        raise OSError("Temporary failure in name resolution")

    monkeypatch.setattr(address.socket, "gethostbyname", silent)
    monkeypatch.setattr(address, "monotonic", lambda: now[0])
    with pytest.raises(PartitionError, match=r"the address of n0 and of n1 .* is not known here"):
        address.towards(["n0", "n1", "n2", "n3"])
    assert asked == ["n0"]
