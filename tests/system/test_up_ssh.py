"""yodctl up --ssh: a partition of hosts that a real sshd serves."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.support import sshd
from tests.support.hosts import Hosts
from tests.support.place import MARK, Place
from tests.support.sshd import Ssh, run, start
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.hosts


class Site:
    """A head, `node0`, and hosts with an sshd."""

    def __init__(self, hosts: Hosts, ssh: Ssh) -> None:
        self.hosts = hosts
        self.head = hosts[0]
        self.ssh = ssh
        self.env = {"YOD_SSH": ssh.command, "YOD_LAUNCH_SERVER": "cold"}

    def yodctl(self, *words, env=None):
        return run(self.head, "yodctl", *words, env={**self.env, **(env or {})})

    def yod(self, *words):
        return run(self.head, "yod", *words, env=self.env)

    def pcts(self):
        """The hosts on which a pct runs, with its process."""
        found = {}
        for host in self.hosts:
            for unix_pid, words in host.processes().items():
                if "/pct --bebopd" in words and " -c " not in words:
                    found[host.name] = unix_pid
        return found

    def daemons(self):
        """What runs on any host but its sshd."""
        commands = [c for host in self.hosts for c in host.processes().values()]
        return [command for command in commands if "sshd" not in command]

    def state(self):
        return json.loads(self.head.path("/run/yod-ram/yod/partition.json").read_text())


@pytest.fixture
def site(needs_root: None, place: Place, tmp_path) -> Iterator[Site]:
    sshd.need()
    directory = tmp_path / "ssh"
    directory.mkdir()
    variables = {
        MARK: place.mark,
        "XDG_STATE_HOME": str(place.directory / "state"),
        "YOD_LIVENESS_S": "3",
    }
    with Hosts(4) as hosts, sshd.serving(directory, list(hosts)[1:], variables) as ssh:
        yield Site(hosts, ssh)


def test_one_command_makes_a_partition_of_bare_hosts_and_one_takes_it_down(site):
    done = site.yodctl("up", "--ssh", "node[1-3]", "--slots", "2")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("3 hosts up at unix:/run/yod-ram/yod/bebopd.sock: node[1-3] (")
    said = site.yod("-sz", "6", "sh", "-c", "echo $(hostname) $YOD_RANK")
    assert sorted(said.out.split("\n")[:-1]) == [f"node{1 + n // 2} {n}" for n in range(6)]
    shown = site.yodctl("status")
    assert shown.status == 0
    assert "3 nodes: 3 free" in shown.out and "hosts up: node[1-3]\n" in shown.out
    done = site.yodctl("down")
    assert (done.status, done.err) == (0, "")
    assert done.out == "ended 1 daemons of 1\nended the pcts on node[1-3]\n"
    assert site.daemons() == []
    assert not site.head.path("/run/yod-ram/yod/partition.json").exists()
