"""yodctl up --ssh as a tree: hosts that are up reach the others, by a real sshd on each."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.support import sshd
from tests.support.place import Place
from tests.support.sshd import start
from tests.support.wait import LIMIT_S, read_until, wait_until
from tests.system.test_up_ssh import BIN, PATIENT, Site, hiding

pytestmark = pytest.mark.hosts

ENDS = "end-pcts [0-9a-f]+$"
QUICK = {"YOD_SSH_SILENT_S": "5", **PATIENT}
WAITS = (
    "yodctl: ends what has begun on node[1-7], and waits up to {} s for each host that does not"
    " answer; interrupt again to leave at once"
)
ALL = {f"node{number}" for number in range(1, 8)}


class Tree(Site):
    """A head and seven hosts, of which each reaches two at a time: 1 to 2 and 4, 2 to 3, 5 to 6."""

    def __init__(self, hosts, ssh, directory):
        super().__init__(hosts, ssh)
        self._noted = directory / "noted"
        self._held = directory / "held"
        # Each ssh notes from where it goes where; the last word is for the shell there.
        wrapper = directory / "ssh-noted"
        wrapper.write_text(
            "#!/bin/bash\n"
            f'[ "$1" = -G ] || echo "$(hostname) ${{@: -2:1}} ${{@: -1}}" >> {self._noted}\n'
            f'exec {ssh.command} "$@"\n'
        )
        wrapper.chmod(0o755)
        self.wrapper = wrapper
        self.env |= {"YOD_SSH": str(wrapper), "YOD_SSH_FANOUT_COUNT": "2"}

    def each_ssh(self, *lines):
        """Have each ssh do something before; its arguments are those of ssh."""
        first, rest = self.wrapper.read_text().split("\n", 1)
        self.wrapper.write_text("\n".join([first, *lines, rest]))

    def hold(self, host, other):
        """What one host says to another gets nowhere, until it has nothing more to say."""
        said = "$(hostname) ${@: -2:1}"
        then = f"{{ touch {self._held}; exec cat >/dev/null; }}"
        self.each_ssh(f'[ "{said}" != "{host} {other}" ] || {then}')

    def hold_no_more(self):
        """What is held is; all that is said from now on gets through."""
        wait_until(self._held.exists)
        lines = self.wrapper.read_text().splitlines(keepends=True)
        new = self.wrapper.with_suffix(".new")
        new.write_text("".join(line for line in lines if str(self._held) not in line))
        new.chmod(0o755)
        new.replace(self.wrapper)

    def begin_up(self, **env):
        return start(self.head, "yodctl", "up", "--ssh", "node[1-7]", env={**self.env, **env})

    def edges(self, what="--starter-fd"):
        """From which host to which something was started."""
        lines = self._noted.read_text().splitlines()
        return sorted(tuple(line.split()[:2]) for line in lines if re.search(what, line))

    def relays(self):
        """The hosts on which a relay runs, with its process."""
        return {
            host.name: unix_pid
            for host in self.hosts
            for unix_pid, words in host.processes().items()
            if "yodctl spread" in words and "sh -c" not in words
        }


@pytest.fixture
def tree(needs_root: None, place: Place, tmp_path) -> Iterator[Tree]:
    with sshd.hosts_of(place, 8) as (hosts, ssh):
        yield Tree(hosts, ssh, tmp_path)


TREE = [
    *(("node0", "node1"), ("node0", "node5"), ("node1", "node2"), ("node1", "node4")),
    *(("node2", "node3"), ("node5", "node6"), ("node5", "node7")),
]


def test_hosts_that_are_up_start_the_next_ones(tree):
    done = tree.yodctl("up", "--ssh", "node[1-7]", "--slots", "1")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("7 hosts up at unix:/run/yod-ram/yod/bebopd.sock: node[1-7] (")
    assert tree.edges() == TREE
    said = tree.yod("-sz", "7", "sh", "-c", "echo $YOD_RANK $(hostname)")
    assert sorted(said.out.splitlines()) == [f"{rank} node{rank + 1}" for rank in range(7)]
    assert tree.relays() == {}
    done = tree.yodctl("down")
    assert (done.status, done.err) == (0, "")
    assert "ended the pcts on node[1-7]\n" in done.out
    assert tree.edges(ENDS) == TREE
    assert tree.daemons() == []


def test_hosts_that_are_dead_at_the_end_are_named_and_those_behind_them_are_ended(tree):
    assert tree.yodctl("up", "--ssh", "node[1-7]").status == 0
    tree.ssh.stop(tree.hosts[5])
    tree.hold("node1", "node4")
    yodctl = start(tree.head, "yodctl", "down", env=tree.env)
    wait_until(lambda: set(tree.pcts()) == {"node4", "node5"})
    os.kill(wait_until(lambda: tree.relays().get("node1")), signal.SIGKILL)
    _, err = yodctl.communicate(timeout=LIMIT_S)
    assert (yodctl.returncode, err.decode().splitlines()) == (
        1,
        [
            "yodctl: node1 has reached no further host (its ssh has ended):"
            " node4 was reached otherwise",
            "yodctl: a pct may be left on node5; `yodctl down --force` tries again",
            "node5: Connection refused",
        ],
    )
    assert {("node0", f"node{number}") for number in (4, 6, 7)} <= set(tree.edges(ENDS))
    assert set(tree.pcts()) == {"node5"}
    tree.ssh.start(tree.hosts[5])
    assert tree.yodctl("down", "--force").status == 0
    assert tree.daemons() == []


def test_errors_of_hosts_behind_others_are_folded_and_found_from_here(tree):
    for number in (3, 6):
        tree.ssh.stop(tree.hosts[number])
    done = tree.yodctl("up", "--ssh", "node[1-7],nowhere")
    assert done.status == 4
    first, *reasons = done.err.splitlines()
    assert first.startswith("yodctl: node[3,6],nowhere are not up;")
    assert "node[3,6]: Connection refused" in reasons and len(reasons) == 2
    assert {("node0", "node3"), ("node0", "node6")} <= set(tree.edges())
    assert set(tree.pcts()) == ALL - {"node3", "node6"}
    assert tree.yodctl("down").status == 0
    assert tree.daemons() == []


@pytest.mark.long
def test_hosts_behind_one_that_does_not_come_are_started_from_here(tree):
    tree.hosts[1].run(["mount", "-t", "tmpfs", "tmpfs", str(BIN)], check=True)
    done = tree.yodctl("up", "--ssh", "node[1-7]")
    assert done.status == 4
    assert done.err.splitlines()[1:] == [f"node1: no yod: neither {BIN}/pct nor pct in PATH"]
    assert {("node0", f"node{number}") for number in (2, 3, 4)} <= set(tree.edges())
    assert set(tree.pcts()) == ALL - {"node1"}
    assert tree.yodctl("down").status == 0


@pytest.mark.long
def test_hosts_that_have_no_keys_for_one_another_are_all_started_from_here(tree):
    refuses = 'if [ "$(hostname)" != node0 ]; then echo "a@b: Permission denied." >&2; exit 255; fi'
    tree.each_ssh(refuses)
    done = tree.yodctl("up", "--ssh", "node[1-7]")
    assert (done.status, done.err) == (0, "")
    assert set(tree.edges()) == {("node0", name) for name in ALL}
    assert tree.yodctl("down").status == 0


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        pytest.param(signal.SIGKILL, "its ssh has ended", id="dies"),
        pytest.param(signal.SIGSTOP, "no word in 5 s", id="hangs", marks=pytest.mark.long),
    ],
)
def test_a_host_that_stops_to_start_others_is_named_and_they_are_started(tree, number, reason):
    tree.hold("node1", "node4")
    yodctl = tree.begin_up(**(QUICK if number == signal.SIGSTOP else PATIENT))
    wait_until(lambda: set(tree.pcts()) == ALL - {"node4"})
    unix_pid = wait_until(lambda: tree.relays().get("node1"))
    os.kill(unix_pid, number)
    out, err = yodctl.communicate(timeout=LIMIT_S)
    # What it has not told of others yet is not known here.
    said = f"yodctl: node1 has reached no further host ({reason}): "
    assert (yodctl.returncode, err.count(b"\n")) == (0, 1), err
    assert err.decode().startswith(said) and b"4" in err.rpartition(b":")[2]
    assert out.startswith(b"7 hosts up at ")
    assert ("node0", "node4") in tree.edges()
    if number == signal.SIGSTOP:
        os.kill(unix_pid, signal.SIGCONT)
        wait_until(lambda: tree.relays() == {})  # it finds that nobody waits for it
    assert tree.yod("-sz", "7", "true").status == 0
    assert tree.yodctl("down").status == 0
    wait_until(lambda: tree.daemons() == [])


def test_an_interrupt_leaves_nothing_on_hosts_behind_others(tree):
    tree.hold("node2", "node3")
    yodctl = tree.begin_up(**PATIENT, YOD_HOST_DOWN_S="60")
    wait_until(lambda: set(tree.pcts()) == ALL - {"node3"})
    tree.hold_no_more()
    yodctl.send_signal(signal.SIGINT)
    _, err = yodctl.communicate(timeout=LIMIT_S)
    said = [line for line in err.decode().splitlines() if line]
    assert (yodctl.returncode, said) == (1, [WAITS.format("60"), "yodctl: interrupted"])
    wait_until(lambda: tree.daemons() == [])


def test_a_second_interrupt_leaves_hosts_that_do_not_answer_and_names_them(tree):
    hangs = '[[ ! "${@: -2:1} ${@: -1}" =~ ^node4.*end-pcts.[0-9a-f]+$ ]] || exec sleep 600'
    tree.each_ssh(hangs)
    tree.hold("node2", "node3")
    yodctl = tree.begin_up(**PATIENT, YOD_HOST_DOWN_S="600")
    wait_until(lambda: set(tree.pcts()) == ALL - {"node3"})
    yodctl.send_signal(signal.SIGINT)
    assert read_until(yodctl.stderr.fileno(), b"\n").decode() == WAITS.format("600") + "\n"
    wait_until(lambda: set(tree.pcts()) <= {"node4"})  # one that was not ready has ended itself
    yodctl.send_signal(signal.SIGINT)
    _, err = yodctl.communicate(timeout=LIMIT_S)
    assert yodctl.returncode == 1
    assert err.startswith(b"yodctl: interrupted; a pct may be left on ") and b"4" in err
    left = {host["name"] for host in tree.state()["hosts"] if host["is_started"]}
    assert "node4" in left
    tree.wrapper.write_text(tree.wrapper.read_text().replace(hangs, ""))
    done = tree.yodctl("down", "--force")
    assert done.status == 0, done.err
    wait_until(lambda: tree.daemons() == [])


@pytest.mark.long
def test_yod_is_shipped_by_hosts_that_have_it(tree, place):
    for host in list(tree.hosts)[1:]:
        tree.ssh.stop(host)
        tree.ssh.start(host, before=hiding())
    done = tree.yodctl("up", "--ssh", "node[1-7]", "--ship", env={"YOD_HOST_UP_S": "60"})
    assert (done.status, done.err) == (0, "")
    assert tree.edges("tar -xzo") == TREE
    assert set(tree.pcts()) == ALL
    store = place.directory / "cache" / "yod" / "ship"
    assert len(list(store.iterdir())) == 1  # no archive is left
    assert tree.yodctl("down").status == 0
    assert tree.daemons() == []
