"""Hosts whose name server takes every question and answers none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.daemons import HostDaemons
from tests.support.hosts import Host
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.hosts

# It says how many questions it has had when its input ends.
SILENT = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("127.0.0.1", 53))
    print("up", flush=True)
    sys.stdin.read()
    server.setblocking(False)
    count = 0
    try:
        while server.recv(512):
            count += 1
    except BlockingIOError:
        print(count)
"""
ASK_IT = """printf 'nameserver 127.0.0.1\\noptions timeout:1 attempts:1\\n' > /run/resolv.conf &&
mount --bind /run/resolv.conf /etc/resolv.conf"""


def silent_server(host: Host) -> subprocess.Popen[bytes]:
    """The only name server that a host asks."""
    words = [sys.executable, "-c", SILENT]
    server = host.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert server.stdout is not None
    read_until(server.stdout.fileno(), b"up\n")
    host.run(["sh", "-c", ASK_IT], check=True)
    return server


def test_launches_ask_no_name_server_and_an_unknown_name_is_one_line(start_hosts):
    partition: HostDaemons = start_hosts(2, env={"YOD_HEARTBEAT_S": "0.5"})
    servers = [silent_server(host) for host in partition.hosts]
    done = partition.yod("-N", "2", "sh", "-c", "echo $YOD_NODE")
    assert (done.status, sorted(done.out.split()), done.err) == (0, ["0", "1"], "")
    assert partition.states() == ["free"] * 2
    shown = finish(partition.start_command(BIN / "pingd"))
    assert shown.status == 0 and "2 free" in shown.out
    front = servers.pop()
    for server in servers:
        assert server.communicate(timeout=LIMIT_S)[0] == b"0\n"

    lost = partition.yod("--partition", "nowhere.example:7117", "true")
    assert lost.status == 125 and lost.err.count("\n") == 1 and "nowhere.example" in lost.err
    assert int(front.communicate(timeout=LIMIT_S)[0]) > 0  # for that name
