"""Keepers that are children of a client: what ranks inherit, and that nothing of them is left."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from native.wire import client as wire
from native.wire import keeper
from pct.host.keeper import HOLD_LIBRARY
from tests.support.keeper_job import make_spec
from tests.support.launch_server import (
    Conversation,
    Installed,
    Server,
    client,
    ended,
    lost_line,
    server,
)
from tests.support.nobody import NOBODY, theirs
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until

__all__ = ["client", "server", "theirs"]


@pytest.fixture(autouse=True)
def is_waited_for(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """A server that is slow to say HELLO is waited for."""
    monkeypatch.setenv("YOD_COLD", "never")


class Rank(NamedTuple):
    """A rank whose process exists, and the PCT's ends of its output."""

    unix_pid: int
    stdout: int
    stderr: int

    def text(self) -> str:
        """All that it writes to standard output."""
        os.set_blocking(self.stdout, True)
        with open(self.stdout, closefd=False) as file:
            return file.read()


class Kept:
    """A keeper below a client, with the PCT's end of its control socket.

    Attributes:
        unix_pid: of the keeper.
    """

    def __init__(
        self,
        conversation: Conversation,
        parent: int,
        spec: keeper.KeeperSpec,
        number: int = 1,
        portals: int = -1,
    ) -> None:
        self._conversation = conversation
        self._number = number
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(LIMIT_S)
        file = os.memfd_create("spec")
        os.write(file, keeper.encode_spec(spec, parent, os.fsencode(HOLD_LIBRARY)))
        fds = [theirs.fileno(), file] + [portals] * (portals >= 0)
        conversation.send(wire.Start(number, portals >= 0), *fds)
        theirs.close()
        os.close(file)
        started = conversation.expect(wire.Started)
        assert (started.keeper, started.errno) == (number, 0)
        self.unix_pid = started.unix_pid
        self._reports: list[object] = []
        self._fds: list[int] = []

    def next(self, kind: type) -> object:
        """The next report of a kind; those before it are passed over."""
        while True:
            while self._reports:
                if isinstance(report := self._reports.pop(0), kind):
                    return report
            packet, fds, _, _ = socket.recv_fds(self.control, 32 * 256, 128)
            assert packet, f"the keeper has ended before {kind}"
            self._reports += keeper.decode_reports(packet)
            self._fds += fds

    def rank(self) -> Rank:
        """The next rank that is held."""
        started = self.next(keeper.RankStarted)
        assert isinstance(started, keeper.RankStarted)
        self.next(keeper.RankHeld)
        stdout, stderr = self._fds[:2]
        return Rank(started.unix_pid, stdout, stderr)

    def go(self) -> None:
        self.control.send(keeper.encode_go())

    def wait_end(self) -> int:
        """The wait status that the client reports."""
        end = self._conversation.expect(wire.Ended)
        assert end.keeper == self._number
        return end.wait_status

    def close(self) -> None:
        self.control.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


@pytest.fixture
def kept() -> Iterator[list[Kept]]:
    """Keepers that are closed at the end."""
    all_kept: list[Kept] = []
    yield all_kept
    for each in all_kept:
        each.close()


Running = tuple[subprocess.Popen[bytes], Conversation]


def run_to_the_end(running: Running, one: Kept) -> str:
    """Let a rank go, and the client with it; gives the rank's output."""
    process, conversation = running
    rank = one.rank()
    one.go()
    text = rank.text()
    one.next(keeper.KeeperEmpty)
    assert one.wait_end() == 0
    conversation.send(wire.Exit(0))
    assert ended(process) == 0
    return text


def test_a_keeper_is_a_child_with_the_name_and_the_group_of_one(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    process = client.start("x")
    conversation = server.begin()
    one = Kept(conversation, process.pid, make_spec(("/bin/echo", "hello")))
    kept.append(one)
    comm = Path(f"/proc/{one.unix_pid}/comm")
    wait_until(lambda: comm.read_text() == "yod-keeper\n")
    assert os.getpgid(one.unix_pid) == one.unix_pid
    numbers = sorted(os.listdir(f"/proc/{one.unix_pid}/fd"), key=int)
    targets = {os.readlink(f"/proc/{one.unix_pid}/fd/{number}") for number in numbers[:2]}
    assert targets == {"/dev/null"}
    assert run_to_the_end((process, conversation), one) == "hello\n"


def test_ranks_inherit_what_a_command_of_the_users_would(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    cpu = min(os.sched_getaffinity(0))

    def prepare() -> None:
        os.sched_setaffinity(0, {cpu})
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(3)
        if os.geteuid() == 0:
            os.setgroups([7, 8])
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    process = client.start("x", preexec_fn=prepare)
    conversation = server.begin()
    look = "cat /proc/self/status /proc/self/limits; nice; ls /proc/self/fd; echo $SHOWN"
    spec = make_spec(
        ("/bin/sh", "-c", look),
        environment=(b"PATH=/usr/bin:/bin", b"SHOWN=yes"),
        limits=((resource.RLIMIT_NOFILE, 64),),
        groups=(7, 8) if os.geteuid() == 0 else (),
    )
    kept.append(Kept(conversation, process.pid, spec))
    text = run_to_the_end((process, conversation), kept[0])
    rows = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
    assert rows["Cpus_allowed_list"] == str(cpu)
    assert int(rows["SigBlk"], 16) == int(rows["SigIgn"], 16) == 0
    if os.geteuid() == 0:
        assert rows["Groups"].split() == ["7", "8"]
    (files,) = [line.split() for line in text.splitlines() if line.startswith("Max open files")]
    assert files[3:5] == ["64", "128"]
    assert text.splitlines()[-6:] == ["3", "0", "1", "2", "3", "yes"]


def test_the_limits_of_files_do_not_bind_the_keeper(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    process = client.start(
        "x", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 4096))
    )
    conversation = server.begin()
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/true",), ranks=20)))
    for _ in range(20):
        kept[0].next(keeper.RankHeld)
    kept[0].go()
    kept[0].next(keeper.KeeperEmpty)
    conversation.expect(wire.Ended)
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_a_client_with_few_descriptors_takes_those_of_a_keeper(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    process = client.start(
        "x", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (7, 50))
    )
    conversation = server.begin()
    conversation.send(wire.Output(1, b"x\n"))
    conversation.send(wire.Output(2, b"y\n"))
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/echo", "hello"))))
    assert run_to_the_end((process, conversation), kept[0]) == "hello\n"


def test_without_any_it_says_so(client: Installed, server: Server) -> None:
    process = client.start(
        "x", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))
    )
    conversation = server.begin()
    conversation.send(wire.Output(1, b"x\n"))
    conversation.send(wire.Output(2, b"y\n"))
    conversation.send(wire.Start(1), 0, 1)
    said = lost_line("sent descriptors, and none are left (ulimit -n)")
    assert process.communicate() == (b"x\n", b"y\n" + said)
    assert process.returncode == 125


def test_a_keeper_that_is_stopped_is_continued(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    process = client.start("x")
    conversation = server.begin()
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/sleep", "600"))))
    kept[0].rank()
    os.kill(kept[0].unix_pid, signal.SIGSTOP)
    kept[0].control.send(keeper.encode_end())
    conversation.send(wire.Continue(1))
    assert kept[0].wait_end() == 0
    conversation.send(wire.Continue(1))  # it has ended
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_several_keepers_are_told_apart(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    process = client.start("x")
    conversation = server.begin()
    for number in (1, 2, 3):
        spec = make_spec(("/bin/sleep", "600"))
        kept.append(Kept(conversation, process.pid, spec, number))
        kept[-1].rank()
    os.kill(kept[1].unix_pid, signal.SIGKILL)
    assert kept[1].wait_end() == signal.SIGKILL
    for each in (kept[0], kept[2]):
        each.control.send(keeper.encode_end())
        assert each.wait_end() == 0
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


DAEMON = "(setsid sleep 600 & echo $!) ; sleep 600"


def start_daemon(client: Installed, server: Server, kept: list[Kept]) -> tuple[Running, int]:
    """A rank that has left a process with a session of its own; gives that process."""
    process = client.start("x")
    conversation = server.begin()
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/sh", "-c", DAEMON))))
    rank = kept[0].rank()
    kept[0].go()
    os.set_blocking(rank.stdout, True)
    return (process, conversation), int(os.read(rank.stdout, 100))


def test_what_a_lost_keeper_leaves_is_killed_when_the_server_asks(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    (process, conversation), daemon = start_daemon(client, server, kept)
    other = Kept(conversation, process.pid, make_spec(("/bin/sleep", "600")), 2)
    kept.append(other)
    other.rank()
    os.kill(kept[0].unix_pid, signal.SIGKILL)
    assert kept[0].wait_end() == signal.SIGKILL
    conversation.send(wire.KillOrphans(77))
    conversation.send(wire.KillOrphans(78))
    assert conversation.expect(wire.OrphansKilled).token == 77
    assert conversation.expect(wire.OrphansKilled).token == 78
    wait_for_exit(daemon)
    assert process.poll() is None
    os.kill(other.unix_pid, 0)  # another keeper and what is below it live on
    other.control.send(keeper.encode_end())
    assert other.wait_end() == 0
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_children_from_before_are_not_the_clients_to_kill(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    command = 'sleep 600 & echo $!; exec "$0" x'
    process = client.start_command("sh", "-c", command, client.yod)
    conversation = server.begin()
    assert process.stdout is not None
    child = int(process.stdout.readline())
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/sleep", "600"))))
    kept[0].rank()
    os.kill(kept[0].unix_pid, signal.SIGKILL)
    assert kept[0].wait_end() == signal.SIGKILL
    conversation.send(wire.KillOrphans(1))
    conversation.expect(wire.OrphansKilled)
    os.kill(child, 0)
    conversation.close()
    assert ended(process) == 125
    os.kill(child, signal.SIGKILL)
    wait_for_exit(child)


@pytest.mark.parametrize("phase", ["held", "running", "keeper-killed", "keeper-stopped"])
def test_a_server_that_ends_leaves_no_process(
    client: Installed, server: Server, kept: list[Kept], phase: str
) -> None:
    if phase == "held":
        process = client.start("x")
        conversation = server.begin()
        kept.append(Kept(conversation, process.pid, make_spec(("/bin/sleep", "600"))))
        left = kept[0].rank().unix_pid
    else:
        (process, conversation), left = start_daemon(client, server, kept)
    if phase == "keeper-killed":
        os.kill(kept[0].unix_pid, signal.SIGKILL)
        assert kept[0].wait_end() == signal.SIGKILL
    elif phase == "keeper-stopped":
        os.kill(kept[0].unix_pid, signal.SIGSTOP)
    kept[0].control.close()
    conversation.close()
    assert process.communicate() == (b"", lost_line("has ended"))
    assert process.returncode == 125
    wait_for_exit(left)  # it was told to before the client has ended


def test_a_stopped_server_holds_no_process(
    client: Installed, server: Server, kept: list[Kept]
) -> None:
    """Its ends of all sockets are open."""
    process = client.start("x")
    conversation = server.begin()
    kept.append(Kept(conversation, process.pid, make_spec(("/bin/sleep", "600"))))
    rank = kept[0].rank()
    conversation.send(wire.Times(press_ms=1000, liveness_ms=500))
    assert process.communicate() == (b"", lost_line("has not answered for 0.5 s"))
    assert process.returncode == 125
    wait_for_exit(rank.unix_pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_is_killed_or_leaves_takes_its_job_along(
    client: Installed, server: Server, kept: list[Kept], number: int
) -> None:
    (process, conversation), daemon = start_daemon(client, server, kept)
    if number == signal.SIGINT:
        conversation.send(wire.Times(0, 20_000))
        conversation.send(wire.Append(1, b"/dev/null", b""))
        conversation.expect(wire.Appended)
        for _ in range(3):
            process.send_signal(number)
            conversation.expect(wire.Signal)
    else:
        process.kill()
    assert ended(process) == -number
    wait_for_exit(kept[0].unix_pid)
    wait_for_exit(daemon)


def test_a_keeper_that_cannot_start_is_told(theirs: Path, needs_root: None) -> None:
    def prepare() -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    client, server = Installed(theirs / "bin"), Server(theirs / "run" / "yod")
    os.chown(theirs / "run", NOBODY, NOBODY)
    os.chown(server.path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        server.listen()
    finally:
        os.seteuid(0)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(theirs / "run"), "YOD_LAUNCH_SERVER": ""}
    process = client.start("x", preexec_fn=prepare, env=env, cwd="/")
    conversation = server.begin()
    ours, other = socket.socketpair()
    conversation.send(wire.Start(1), other.fileno(), other.fileno())
    started = conversation.expect(wire.Started)
    assert (started.unix_pid, started.errno) == (0, errno.EAGAIN)
    for each in (ours, other):
        each.close()
    conversation.send(wire.Exit(1))
    assert ended(process) == 1
    client.close()
    server.close()


@pytest.mark.parametrize("wrong", ["same", "zero", "few", "many", "elsewhere"])
def test_a_start_that_breaks_a_rule_ends_the_client(
    client: Installed, server: Server, wrong: str
) -> None:
    process = client.start("x")
    conversation = server.begin()
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    packets = {
        "same": [(wire.Start(4), 2), (wire.Start(4), 2)],
        "few": [(wire.Start(1), 1)],
        "many": [(wire.Start(1, True), 4)],
        "elsewhere": [(wire.Read(1), 1)],
    }
    if wrong == "zero":
        conversation.send_raw(b"\x05\0\0\0" + b"\0" * 8, fd, fd)
    for message, count in packets.get(wrong, []):
        conversation.send(message, *[fd] * count)
    ours.close()
    theirs.close()
    conversation.wait_end()
    err = process.communicate()[1]
    assert process.returncode == 125
    assert err.endswith(lost_line("broke the protocol"))
    wait_until(lambda: process.poll() is not None)
