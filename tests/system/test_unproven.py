"""Connections that never prove who they are cost only those who hold them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from native.limits import Limits
from tests.support.daemons import Daemon, Daemons
from tests.support.nobody import as_nobody, yod_as_nobody
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.usefixtures("needs_root")

SHARE = Limits().unproven_each_count
SILENT = 467  # connections at each listener
# Opens connections, says so, and once told says how many have been refused, and how.
HOLD = """
import socket, sys
held = []
for door in sys.argv[2:]:
    for _ in range(int(sys.argv[1])):
        host, _, port = door.rpartition(":")
        if host:
            held.append(socket.create_connection((host, int(port))))
        else:
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(door)
print("up", flush=True)
sys.stdin.read()
verdicts = []
for one in held:
    one.setblocking(False)
    try:
        verdicts.append(one.recv(100)[:6].hex())
    except BlockingIOError:
        pass
late = verdicts.count("")  # closed without a word: for 5 s they have proven nothing
print(len(verdicts) - late, late, *set(filter(None, verdicts)))
"""
IS_SHARE = (b"YODT\4\x0a").hex()  # m4, too many of yours: native/wire/FRAMES.md


@contextmanager
def holding(started: subprocess.Popen[bytes]) -> Iterator[list[str]]:
    """The words that who holds connections says of them, filled in at the end."""
    words: list[str] = []
    with started:
        read_until(started.stdout.fileno(), b"up\n")
        yield words
        out, err = started.communicate(b"", timeout=LIMIT_S)
        assert (started.returncode, err) == (0, b"")
        words += out.decode().split()


def tcp_listener(daemon: Daemon) -> str:
    """Where a daemon of this network listens."""
    process = Path(f"/proc/{daemon.unix_pid}")
    links = {os.readlink(fd) for fd in (process / "fd").iterdir()}
    for line in (process / "net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
            return f"127.0.0.1:{int(fields[1].partition(':')[2], 16)}"
    raise AssertionError(f"{daemon.log.name} does not listen")


def test_a_users_silent_connections_deny_nobody_else(start_local, theirs: Path) -> None:
    local: Daemons = start_local(2, slots=1)
    doors = [str(local.socket), local.address, *map(tcp_listener, local.pcts)]
    command = [sys.executable, "-c", HOLD, str(SILENT), *doors]
    with holding(as_nobody(local, theirs, *command)) as words:
        assert local.yod("-sz", "2", "true") == (0, "", "")
        # Nor that user: the oldest of theirs gives way.
        assert yod_as_nobody(local, theirs, "-sz", "2", "true") == (0, "", "")
    # A share is of a daemon, not of each of its listeners.
    least = len(doors) * SILENT - 3 * SHARE
    refused, late = map(int, words[:2])
    assert least - late <= refused <= least + 6
    assert words[2:] == [IS_SHARE]


@pytest.mark.hosts
def test_an_addresss_silent_connections_deny_no_other_address(start_hosts) -> None:
    hosts = start_hosts(2, slots=1)
    command = [sys.executable, "-c", HOLD, str(SILENT), hosts.address]
    pipe = subprocess.PIPE
    started = hosts.hosts[0].popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    with holding(started) as words:
        assert hosts.yod("-sz", "2", "true") == (0, "", "")
    refused, late = map(int, words[:2])
    assert SILENT - SHARE - late <= refused <= SILENT - SHARE
    assert words[2:] == [IS_SHARE]
