"""What CRIU cannot write down is named, from real processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from partition.checkpoint import obstacles

NETWORK = """
import socket
s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname())
a, _ = s.accept()
s6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
c6 = socket.create_connection(s6.getsockname()[:2])
name = "TCP connection to 127.0.0.1:%d" % s.getsockname()[1]
"""
URING = """
import ctypes
assert ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120)) >= 0
name = "uses io_uring"
"""
TERMINAL = """
import pty
_, slave = pty.openpty()
name = "open: a terminal cannot be saved"
"""
DEVICE = """
import os
fd = os.open("/dev/net/tun", os.O_RDWR)
name = "/dev/net/tun open: a device cannot be saved"
"""
NOTHING = """
import os, socket
s = socket.create_server(("127.0.0.1", 0)); r, w = os.pipe()
n = open("/dev/null"); z = open("/dev/zero")
a, b = socket.socketpair()
name = ""
"""


@contextmanager
def rank(text: str):
    """A rank whose child runs the text; gives its process, and what the text says of itself."""
    words = [sys.executable, "-c", text + "\nprint(name, flush=True)\ninput()"]
    starter = "import subprocess, sys; subprocess.call(sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", starter, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.pid, process.stdout.readline().strip()
        process.stdin.write("\n")
        process.stdin.close()


@pytest.mark.parametrize("text", [NETWORK, URING, TERMINAL, DEVICE])
def test_what_stands_in_the_way_is_named_with_its_rank_and_process(text):
    with rank(text) as (root, name):
        found = obstacles.of_ranks({7: root})
    assert found.startswith("rank 7: criu cannot write it down: process ")
    assert name in found


def test_connections_by_ipv6_are_named():
    with rank(NETWORK) as (root, _):
        assert "TCP connection to [::1]:" in obstacles.of_ranks({0: root})


def test_of_what_can_be_written_down_nothing_is_said():
    with rank(NOTHING) as (root, _):
        assert obstacles.of_ranks({0: root}) == ""


def test_a_rank_that_has_ended_stands_in_nobody_s_way():
    with rank(NETWORK) as (root, _):
        pass
    assert obstacles.of_ranks({0: root}) == ""


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/dev/nvidia0", "GPUs"),
        ("/dev/nvidiactl", "GPUs"),
        ("/dev/dri/renderD128", "GPUs"),
        ("/dev/kfd", "GPUs"),
        ("/dev/infiniband/uverbs0", "RDMA"),
        ("/dev/pts/3", "terminal"),
        ("/dev/vfio/7", "device"),
    ],
)
def test_a_device_is_named_by_what_it_is_for(path, what):
    assert what in obstacles.why_device(path)
