"""yodctl up --ssh: a partition of hosts that a real sshd serves."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import native
from tests.support import sshd
from tests.support.hosts import Hosts
from tests.support.partition import BIN
from tests.support.place import Place
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
    with sshd.hosts_of(place, 4) as (hosts, ssh):
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
    assert done.out.endswith("\nended 1 daemons of 1\nended the pcts on node[1-3]\n")
    assert site.daemons() == []
    assert not site.head.path("/run/yod-ram/yod/partition.json").exists()


@pytest.fixture
def up(site):
    done = site.yodctl("up", "--ssh", "node[1-3]")
    assert (done.status, done.err) == (0, "")
    yield site
    site.yodctl("down", "--force")
    assert site.daemons() == []


def test_a_host_file_names_hosts_and_their_slots(site, tmp_path):
    (tmp_path / "hosts").write_text("node2\nnode1\nnode2\nnode2\n")
    done = site.yodctl("up", "--hosts", str(tmp_path / "hosts"), "--slots", "2")
    assert (done.status, done.err) == (0, "")
    said = site.yod("-sz", "5", "hostname").out.split()
    assert sorted(said) == ["node1"] * 2 + ["node2"] * 3
    assert site.yodctl("down").status == 0


def test_the_key_of_the_partition_is_in_nobodys_arguments(site, tmp_path):
    (tmp_path / "ssh-noted").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/said\nexec {site.ssh.command} "$@"\n'
    )
    (tmp_path / "ssh-noted").chmod(0o755)
    done = site.yodctl("up", "--ssh", "node1", "--ssh-command", str(tmp_path / "ssh-noted"))
    assert done.status == 0, done.err
    key = site.head.path("/run/yod-ram/yod/key").read_bytes().hex()
    words = [c for host in site.hosts for c in host.processes().values()]
    assert not [each for each in (*words, (tmp_path / "said").read_text()) if key in each]
    assert site.yodctl("down").status == 0


def test_errors_of_many_hosts_are_one_line_and_the_others_are_up(site):
    for number in (2, 3):
        site.ssh.stop(site.hosts[number])
    done = site.yodctl("up", "--ssh", "node[1-3],nowhere[1-2]")
    assert done.status == 4
    assert done.out.startswith("1 host up at unix:/run/yod-ram/yod/bebopd.sock: node1 (")
    first, *reasons = done.err.splitlines()
    assert first == (
        "yodctl: node[2-3],nowhere[1-2] are not up;"
        " `yodctl up --ssh node[2-3],nowhere[1-2]` tries again"
    )
    assert "node[2-3]: Connection refused" in reasons
    assert len(reasons) == 2 and reasons[1].startswith("nowhere[1-2]: ")
    for number in (2, 3):
        site.ssh.start(site.hosts[number])
    status = site.yodctl("status")
    assert status.status == 1
    assert "node[2-3],nowhere[1-2]: did not come up" in status.err
    done = site.yodctl("up", "--ssh", "node[2-3]")
    assert done.status == 0 and done.out.startswith("2 hosts up at ")
    assert site.yod("-list", "2", "hostname").out == "node3\n"
    assert site.yodctl("down").status == 0
    assert site.daemons() == []


def test_where_no_host_comes_up_nothing_is_left(site):
    done = site.yodctl("up", "--ssh", "nowhere[1-2]", "--address", "10.77.0.1")
    assert done.status == 1
    lines = done.err.splitlines()
    assert lines[0] == "yodctl: no host came up"
    assert len(lines) == 2 and lines[1].startswith("nowhere[1-2]: ")
    assert site.daemons() == []
    assert site.yodctl("status").out.endswith("no partition is up\n")


def test_a_host_without_yod_is_named(site):
    site.hosts[2].run(["mount", "-t", "tmpfs", "tmpfs", str(sshd.BIN)], check=True)
    done = site.yodctl("up", "--ssh", "node[1-2]")
    assert done.status == 4
    said = f"node2: no yod: neither {sshd.BIN}/pct nor pct in PATH"
    assert done.err.splitlines()[-1] == said
    assert site.yodctl("down").status == 0


def hiding():
    """Commands that hide yod and its Python on a host."""
    # Where all of the system is below Python's prefix it is the library alone that is hidden.
    python = Path(sysconfig.get_path("stdlib") if sys.base_prefix == "/usr" else sys.base_prefix)
    yods_and_pythons = {BIN.parent, Path(native.__file__).parents[1], python}
    hidden = [each for each in yods_and_pythons if yods_and_pythons.isdisjoint(each.parents)]
    return [["mount", "-t", "tmpfs", "tmpfs", str(each)] for each in hidden]


def test_a_host_without_yod_gets_it_with_its_python(site, place):
    store = place.directory / "cache"
    bare = site.hosts[2]
    site.ssh.stop(bare)
    site.ssh.start(bare, before=hiding())
    # What ssh replaces is for ssh.
    command = f"{site.ssh.command} -o ControlPath=/nonexistent/%h:%p"
    env = {"YOD_HOST_UP_S": "60", "YOD_SSH": command}
    done = site.yodctl("up", "--ssh", "node[1-2]", "--ship", "--slots", "2", env=env)
    assert (done.status, done.err) == (0, "")
    said = site.yod("-sz", "4", "sh", "-c", "echo $YOD_NODE_NAME; ls -d " + str(BIN / "yod"))
    assert sorted(said.out.split()) == [*[str(BIN / "yod")] * 2, *["node1"] * 2, *["node2"] * 2]
    pct = bare.processes()[site.pcts()["node2"]]
    assert f"{store}/yod/ship/" in pct
    assert site.yodctl("down").status == 0
    assert site.daemons() == []
    # It is there now.
    done = site.yodctl("up", "--ssh", "node2", env=env)
    assert (done.status, done.err) == (0, "")
    assert site.yodctl("down").status == 0


def test_what_does_not_run_on_a_host_is_not_left_there(site, place, tmp_path):
    site.hosts[2].run(["mount", "-t", "tmpfs", "tmpfs", str(sshd.BIN)], check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uname").write_text("#!/bin/sh\necho vax\n")
    (tmp_path / "bin" / "uname").chmod(0o755)
    site.hosts[2].run(["mount", "--bind", str(tmp_path / "bin" / "uname"), "/usr/bin/uname"])
    done = site.yodctl("up", "--ssh", "node[1-2]", "--ship")
    assert done.status == 4
    machine = os.uname().machine
    assert done.err.splitlines()[-1] == f"node2: what is shipped is for {machine}, and this is vax"
    assert site.yodctl("down").status == 0


def test_a_host_that_does_not_answer_is_left_out_in_time(site):
    site.hosts[2].cut()
    for limit_s in (10, 40):  # the other hosts come within it, but on a slow machine
        done = site.yodctl("up", "--ssh", "node[1-3]", env={"YOD_HOST_UP_S": str(limit_s)})
        if set(site.pcts()) == {"node1", "node3"}:
            break
        site.yodctl("down", "--force")
    assert done.status == 4
    reasons = f"no answer in {limit_s} s|Connection timed out|No route to host"
    assert re.search(f"^node2: ({reasons})$", done.err, re.M)
    assert set(site.pcts()) == {"node1", "node3"}
    site.hosts[2].heal()
    assert site.yodctl("down").status == 0
    assert site.daemons() == []


# It waits for a host until the test ends it.
PATIENT = {"YOD_HOST_UP_S": "300", "YOD_CONNECT_S": "300"}


def test_an_interrupt_leaves_nothing(site):
    site.ssh.hold(site.hosts[2])  # so that it waits
    env = {**site.env, **PATIENT}
    yodctl = start(site.head, "yodctl", "up", "--ssh", "node[1-3]", env=env)
    wait_until(lambda: set(site.pcts()) == {"node1", "node3"})
    yodctl.send_signal(signal.SIGINT)
    site.ssh.release(site.hosts[2])
    _, err = yodctl.communicate(timeout=LIMIT_S)
    said = err.decode().split("\n")[:-1]
    assert (yodctl.returncode, said[-1:]) == (1, ["yodctl: interrupted"]), err
    wait_until(lambda: site.daemons() == [])
    assert not site.head.path("/run/yod-ram/yod/partition.json").exists()


def test_a_killed_yodctl_leaves_what_down_ends(site):
    site.ssh.hold(site.hosts[2])
    env = {**site.env, **PATIENT}
    yodctl = start(site.head, "yodctl", "up", "--ssh", "node[1-3]", env=env)
    wait_until(lambda: set(site.pcts()) == {"node1", "node3"})
    yodctl.kill()
    site.ssh.release(site.hosts[2])
    yodctl.communicate(timeout=LIMIT_S)
    assert site.yodctl("down").status == 0
    wait_until(lambda: site.daemons() == [])


def test_a_lost_node_comes_back_by_the_same_command(up):
    os.kill(up.pcts()["node2"], signal.SIGKILL)
    wait_until(lambda: "1 down" in up.yodctl("status").out)
    status = up.yodctl("status")
    assert status.status == 1
    assert status.err == "yodctl: node2: lost; `yodctl up --ssh node2` brings back\n"
    before = up.pcts()
    done = up.yodctl("up", "--ssh", "node[1-3]")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("1 host up at ")
    assert {name: up.pcts()[name] for name in before} == before
    assert up.yod("-list", "1", "hostname").out == "node2\n"


@pytest.mark.long
def test_a_pct_that_hangs_is_replaced(up):
    unix_pid = up.pcts()["node2"]
    os.kill(unix_pid, signal.SIGSTOP)
    wait_until(lambda: "1 down" in up.yodctl("status").out)
    assert up.yodctl("up", "--ssh", "node[1-3]").status == 0
    assert up.pcts()["node2"] != unix_pid
    assert up.yod("-list", "0..2", "true").status == 0


def test_a_dead_bebopd_is_started_again_in_place_and_jobs_go_on(up):
    job = start(up.head, "yod", "-list", "1", "sh", "-c", "echo up; exec sleep 600", env=up.env)
    read_until(job.stdout.fileno(), b"up\n")
    before = up.pcts()
    os.kill(*[p for p, c in up.head.processes().items() if "bebopd" in c], signal.SIGKILL)
    wait_until(lambda: up.yodctl("status").status == 1)
    assert "`yodctl up --ssh` starts it again" in up.yodctl("status").err
    done = up.yodctl("up", "--ssh", "node[1-3]")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("bebopd had died and is started again\nall are up already at ")
    assert up.pcts() == before
    job.terminate()
    job.communicate(timeout=LIMIT_S)
    assert up.yod("-list", "0..2", "true").status == 0


def test_down_names_the_jobs_and_ends_them_when_forced(up):
    job = start(up.head, "yod", "-list", "0", "sh", "-c", "echo up; exec sleep 600", env=up.env)
    read_until(job.stdout.fileno(), b"up\n")
    done = up.yodctl("down")
    assert done.status == 3
    assert "(root) would end: to end jobs say `yodctl down --force`" in done.err
    assert set(up.pcts()) == {"node1", "node2", "node3"}
    assert up.yodctl("down", "--force").status == 0
    job.communicate(timeout=LIMIT_S)


def test_a_host_that_does_not_answer_is_ended_by_a_later_down(up):
    up.ssh.stop(up.hosts[2])
    done = up.yodctl("down")
    assert done.status == 1
    assert done.err.splitlines() == [
        "yodctl: a pct may be left on node2; `yodctl down --force` tries again",
        "node2: Connection refused",
    ]
    assert set(up.pcts()) == {"node2"}
    up.ssh.start(up.hosts[2])
    assert up.yodctl("down", "--force").status == 0


def test_a_node_restarts_with_its_key(up):
    before = up.pcts()["node2"]
    assert up.yodctl("restart", "1").status == 0
    wait_until(lambda: "restarted" in up.yodctl("events", "1").out)
    assert up.pcts()["node2"] == before
    assert up.yod("-list", "1", "hostname").out == "node2\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ssh", "n[1-"], "hosts n[1-: "),
        (["--ssh", ""], "no host"),
        (["--ssh=-oProxyCommand=x"], "is no name of a host"),
        (["--ssh", "n1", "--local", "2"], "--local and --ssh"),
        (["--ssh", "n1", "--hosts", "f"], "--ssh and --hosts"),
        (["--hosts", "/nowhere"], "--hosts /nowhere: No such file"),
        (["--address", "n1"], "--address is for --ssh"),
        (["--ssh", "n1", "--address", "no.where.invalid"], "--address no.where.invalid: no IPv4"),
    ],
)
def test_bad_input_gets_a_line(place, words, said):
    done = sshd.here("yodctl", "up", *words)
    assert done.status == 2
    assert said in done.err and done.err.count("\n") == 1


def session(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, and what each prints there."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line.strip())
    return found


def told(lines: list[str]) -> list[str]:
    """Lines without times and process ids, those of ranks in any order."""
    known = [re.sub(r"\d+\.\d\d s|process \d+", "#", line.strip()) for line in lines]
    return sorted(known) if all(line.startswith("node") for line in known) else known


def test_the_page_is_as_it_happens(site):
    text = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
    page = session(text[: text.index("### When hosts do not come up")])
    assert len(page) == 6
    for command, printed in page:
        done = run(site.head, *shlex.split(command), env={**site.env, "YOD_LAUNCH_SERVER": ""})
        assert (done.status, done.err) == (0, ""), command
        assert told(done.out.splitlines()) == told(printed), command
    assert site.daemons() == []
