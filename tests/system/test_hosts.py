"""The hosts made of namespaces are what the multi-host tests take them for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.host.process import leave_subreaper, need_subreaper
from pct.host.spawn.orphans import children_of
from tests.support.hosts import Host, Hosts
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

pytestmark = pytest.mark.hosts

SERVE = """
import socket, sys
server = socket.create_server(("", 7000))
print("listening", flush=True)
peer, _ = server.accept()
total = 0
while data := peer.recv(1 << 16):
    total += len(data)
print(total, flush=True)
"""
SEND = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[3]))
peer.sendall(bytes(int(sys.argv[2])))
"""


@pytest.fixture
def hosts(needs_root: None) -> Iterator[Hosts]:
    with Hosts(3) as hosts:
        yield hosts


def serve(host: Host) -> subprocess.Popen[bytes]:
    server = host.popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE)
    assert server.stdout is not None
    read_until(server.stdout.fileno(), b"listening\n")
    return server


def test_each_host_has_its_name(needs_root):
    with Hosts(4) as hosts:
        assert [host.run(["hostname"]).stdout for host in hosts] == [
            "node0\n",
            "node1\n",
            "node2\n",
            "node3\n",
        ]


def test_hosts_reach_each_other_by_name_and_the_bytes_are_counted(hosts):
    size = 3_000_000
    server = serve(hosts[2])
    before = [host.tx_bytes() for host in hosts]
    hosts[0].run([sys.executable, "-c", SEND, "node2", str(size), str(LIMIT_S)], check=True)
    with server:
        assert read_until(server.stdout.fileno(), b"\n") == f"{size}\n".encode()
    sent = [host.tx_bytes() - old for host, old in zip(hosts, before, strict=True)]
    assert size <= sent[0] < 1.05 * size
    assert sent[1] < 1000  # a bridge, not a hub
    assert sent[2] < 0.05 * size


def test_a_cut_host_is_reached_again_after_heal(hosts):
    hosts[1].cut()
    with serve(hosts[1]) as server:
        probe = [sys.executable, "-c", SEND, hosts[1].address, "1", "0.3"]
        assert hosts[0].run(probe).returncode != 0
        hosts[1].heal()
        assert hosts[0].run([*probe[:-1], str(LIMIT_S)]).returncode == 0
        assert read_until(server.stdout.fileno(), b"\n") == b"1\n"


def test_a_process_on_a_host_is_signalled_by_its_pid_and_seen_on_that_host_only(hosts):
    with hosts[0].popen(["sleep", "60"]) as sleeper:
        wait_until(lambda: hosts[0].processes() == {sleeper.pid: "sleep 60"})
        assert hosts[1].processes() == {}
        assert "sleep 60" in hosts[0].run(["sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '"]).stdout
        sleeper.terminate()
        assert sleeper.wait(timeout=LIMIT_S) == -signal.SIGTERM


def test_a_child_of_a_host_is_not_counted_as_one_here(hosts):
    """Entering a host leaves the test process's own namespaces as they were."""
    here = subprocess.run(["readlink", "/proc/self/ns/pid"], capture_output=True, text=True)
    there = hosts[0].run(["readlink", "/proc/self/ns/pid"])
    assert here.stdout.strip() == os.readlink("/proc/self/ns/pid") != there.stdout.strip()


def test_power_off_kills_even_what_called_setsid_and_frees_its_address(hosts):
    with hosts[0].popen(["sh", "-c", "setsid sleep 60 & wait"]):
        pids = wait_until(lambda: [p for p, c in hosts[0].processes().items() if c == "sleep 60"])
        hosts[0].kill()
    wait_for_exit(pids[0])
    assert hosts[1].run(["hostname"]).stdout == "node1\n"


def test_an_orphan_on_a_host_is_reaped_by_it(hosts):
    hosts[0].run(["sh", "-c", "(sleep 0.05 &)"])
    wait_until(lambda: hosts[0].processes() == {})


def test_a_ram_disk_has_the_size_and_the_mode_asked_for(needs_root):
    with Hosts(2, ram_bytes=1 << 20, noexec=True) as (host, other):
        for directory in ("/dev/shm", "/run/yod-ram"):
            done = host.run(["dd", "if=/dev/zero", f"of={directory}/full", "bs=64k", "count=17"])
            assert "No space left" in done.stderr
            host.run(["cp", "/bin/true", f"{directory}/true"])
        host.run(["sh", "-c", "rm /dev/shm/* && cp /bin/true /dev/shm"], check=True)
        assert "ermission denied" in host.run(["/dev/shm/true"]).stderr
        assert other.run(["ls", "-A", "/dev/shm"]).stdout == ""
        host.resize_ram(2 << 20)
        assert host.run(["/dev/shm/true"]).returncode == 0
        assert (host.path("/dev/shm") / "true").exists()


def test_hosts_of_two_runs_do_not_meet(hosts):
    with Hosts(2) as others, serve(others[1]) as server:
        probe = [sys.executable, "-c", SEND, others[1].address, "1", "0.3"]
        assert hosts[0].run(probe).returncode != 0
        server.kill()


@pytest.fixture
def adopted() -> Iterator[Callable[[], set[int]]]:
    """Gives the orphans that have come to this process since: not every init reaps them."""
    before = set(children_of(os.getpid()))
    need_subreaper()
    yield lambda: set(children_of(os.getpid())) - before
    leave_subreaper()


def test_nothing_is_left_when_the_test_process_is_killed(needs_root, adopted):
    script = """
from tests.support.hosts import Hosts
hosts = Hosts(2)
sleeper = hosts[0].popen(["sleep", "60"])
print(sleeper.pid, hosts[0].unix_pid, hosts._switch.pid, flush=True)
input()
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as tester:
        assert tester.stdout is not None
        words = read_until(tester.stdout.fileno(), b"\n").split()
        tester.kill()
    sleeper, *others = map(int, words)
    wait_for_exit(sleeper)
    os.waitpid(sleeper, 0)  # the kernel keeps its namespace, and that one's init, until then
    for unix_pid in others:
        wait_for_exit(unix_pid)
    for unix_pid in adopted():
        wait_for_exit(unix_pid)
        os.waitpid(unix_pid, 0)
