"""PMI_PORT: a listener that only the job's user and root can talk to."""

from __future__ import annotations

import os
import resource
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import pytest

from native.loop import accepting
from native.loop.reactor import Reactor
from pct.host import pmi_port
from pct.host.pmi_port import CONNECTIONS_PER_RANK, REPORTS_MAX, PmiPort, owner
from pct.wireup.pmi.conversation import Conversation
from tests.support.pmi_client import identity
from tests.support.wait import LIMIT_S

NOBODY = 65534
ANOTHER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# Bash: a program that every user can execute, and that can connect.
CLIENT = """
exec 3<>/dev/tcp/${0%:*}/${0#*:}
echo cmd=initack pmiid=2 >&3
read -r told <&3 || told="hung up"
echo $UID $told
"""


class Server:
    """A port in a loop, and the connections that it accepted and refused."""

    def __init__(self, uid: int, ranks: int = 4) -> None:
        self.reactor = Reactor()
        self.fds: list[int] = []
        self.refusals: list[str] = []
        self.port = PmiPort(
            self.reactor, uid, ranks * CONNECTIONS_PER_RANK, self.fds.append, self.refusals.append
        )

    def serve(self, count: int) -> None:
        """Run the loop until this many connections have been accepted or refused in all."""
        until = time.monotonic() + LIMIT_S
        while len(self.fds) + len(self.refusals) < count:
            left = until - time.monotonic()
            assert left > 0, (self.fds, self.refusals)
            self.reactor.run_once(left)

    def client(self) -> socket.socket:
        host, _, port = self.port.address.partition(":")
        return connection((host, int(port)))

    def close(self) -> None:
        self.port.close()
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()
        self.reactor.close()


def connection(address: pmi_port.Address) -> socket.socket:
    client = socket.socket()
    try:
        client.connect(address)
    except OSError:
        client.close()
        raise
    return client


@contextmanager
def serving(uid: int, ranks: int = 4) -> Iterator[Server]:
    server = Server(uid, ranks)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def being(uid: int) -> Iterator[None]:
    """Sockets that are opened inside the block belong to this user."""
    own = os.geteuid()
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.fixture(params=["by netlink", "by /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to find the user of a connection."""
    if request.param == "by /proc":

        def refused(peer: pmi_port.Address, own: pmi_port.Address) -> None:
            raise PermissionError(1, "netlink is not for us")

        monkeypatch.setattr(pmi_port, "_ask_kernel", refused)


def test_the_address_is_on_loopback_and_each_port_has_its_own() -> None:
    with serving(os.getuid()) as one, serving(os.getuid()) as other:
        assert one.port.address.startswith("127.0.0.1:") and one.port.address != other.port.address


@pytest.mark.usefixtures("way")
def test_the_jobs_user_is_let_in_and_can_speak() -> None:
    with serving(os.getuid()) as server, server.client() as client:
        client.sendall(b"cmd=initack pmiid=2\n")
        server.serve(1)
        (fd,) = server.fds
        assert not os.get_blocking(fd) and not os.get_inheritable(fd)
        with socket.socket(fileno=os.dup(fd)) as taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        conversation = Conversation(identity)
        conversation.receive(os.read(fd, 4096))
        os.write(fd, conversation.take())
        assert client.recv(4096).startswith(b"cmd=initack\ncmd=set size=4\n")
        assert server.refusals == []


@needs_root
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_another_users_client_is_hung_up_on_before_a_byte_is_read(uid: int) -> None:
    with serving(uid) as server, being(ANOTHER), server.client() as client:
        client.sendall(b"cmd=initack pmiid=2\n")
        server.serve(1)
        assert server.fds == []
        (refusal,) = server.refusals
        end = f"of user {ANOTHER}; the job is of user {uid}"
        assert refusal.startswith("a connection to PMI was refused: 127.0.0.1:")
        assert refusal.endswith(end)
        with pytest.raises(ConnectionResetError):  # what it had sent is still unread
            client.recv(1)


@needs_root
@pytest.mark.usefixtures("way")
def test_root_serves_a_user_and_lets_root_in_as_well() -> None:
    with serving(NOBODY) as server:
        with being(NOBODY):
            user = server.client()
        with user, server.client():
            server.serve(2)
            assert len(server.fds) == 2 and server.refusals == []


@needs_root
def test_processes_of_three_users_meet_one_port() -> None:
    with serving(NOBODY) as server:
        command = ["bash", "-c", CLIENT, server.port.address]
        clients = [
            subprocess.Popen(
                command, user=uid, group=uid, extra_groups=[], cwd="/", stdout=subprocess.PIPE
            )
            for uid in (NOBODY, ANOTHER, 0)
        ]
        answered = 0
        server.serve(len(clients))
        for fd in server.fds:
            os.set_blocking(fd, True)
            answered += os.read(fd, 100) == b"cmd=initack pmiid=2\n"
            os.write(fd, b"cmd=initack\n")
        told = [client.communicate(timeout=LIMIT_S)[0] for client in clients]
        assert told == [b"65534 cmd=initack\n", b"12345 hung up\n", b"0 cmd=initack\n"]
        assert answered == 2 and len(server.refusals) == 1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("uid", [pytest.param(ANOTHER, marks=needs_root), os.geteuid()])
def test_a_client_that_is_gone_before_it_is_looked_at_is_not_taken_for_root(uid: int) -> None:
    """The kernel shows a closed socket as root's; its bytes must not be read."""
    with serving(os.getuid()) as server:
        with being(uid) if uid != os.geteuid() else nullcontext():
            client = server.client()
            client.sendall(b"cmd=initack pmiid=2\ncmd=abort exitcode=1\n")
            client.close()
        server.serve(1)
        assert server.fds == []
        assert server.refusals[0].endswith("nobody is known to have it")


@needs_root
def test_another_users_flood_keeps_nobody_out_and_is_told_a_few_times_only() -> None:
    with serving(NOBODY, ranks=1) as server:
        with being(ANOTHER):
            flood = [server.client() for _ in range(200)]
        with being(NOBODY):
            user = server.client()
        server.serve(REPORTS_MAX + 1)
        assert len(server.refusals) == REPORTS_MAX
        assert server.refusals[-1].endswith("; more are not told")
        for client in [*flood, user]:
            client.close()


def test_connections_at_once_are_limited_and_one_that_has_ended_makes_room() -> None:
    with serving(os.getuid(), ranks=2) as server:
        clients = [server.client() for _ in range(2 * CONNECTIONS_PER_RANK + 1)]
        server.serve(len(clients))
        assert len(server.fds) == 2 * CONNECTIONS_PER_RANK
        assert server.refusals[0].endswith("too many connections at once")
        server.port.ended()
        clients.append(server.client())
        server.serve(len(clients))
        assert len(server.fds) == 2 * CONNECTIONS_PER_RANK + 1
        for client in clients:
            client.close()


def test_a_client_for_which_no_descriptor_is_left_is_hung_up_on() -> None:
    with serving(os.getuid()) as server:
        client = server.client()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        next_fd = os.dup(0)
        os.close(next_fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_fd, hard))
        try:
            server.serve(1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert server.fds == [] and server.refusals[0].endswith("no descriptor is left")
        assert client.recv(1) == b""
        client.close()
        with server.client():
            server.serve(2)
            assert len(server.fds) == 1


def test_a_port_that_has_no_descriptor_at_all_waits_and_does_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[int] = []

    def others_were_faster() -> int:
        with suppress(OSError):
            held.append(os.dup(0))
        return -1

    with serving(os.getuid()) as server:
        monkeypatch.setattr(accepting, "_open_spare", others_were_faster)
        clients = [server.client() for _ in range(2)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        next_fd = os.dup(0)
        os.close(next_fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_fd, hard))
        try:
            server.serve(1)  # by the descriptor that was kept, and then there is none
            for _ in range(5):
                server.reactor.run_once(0.0)
            assert not select.select([server.reactor], [], [], 0)[0]  # it waits for the time alone
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(server.refusals) == 1
        until = time.monotonic() + LIMIT_S
        while not server.fds and time.monotonic() < until:
            server.reactor.run_once(accepting.PAUSE_S)
        assert len(server.fds) == 1
        for fd in held:
            os.close(fd)
        for client in clients:
            client.close()


def test_a_closed_port_is_closed_though_one_that_it_called_has_closed_it() -> None:
    with serving(os.getuid()) as server:
        server.port._on_connection = lambda fd: (server.fds.append(fd), server.port.close())
        clients = [server.client() for _ in range(3)]
        server.serve(1)
        assert len(server.fds) == 1
        with pytest.raises(ConnectionRefusedError):
            server.client()
        server.port.close()
        for client in clients:
            client.close()


@pytest.mark.usefixtures("way")
def test_whose_a_connection_is_that_is_not_there_is_not_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()
        assert owner(("127.0.0.1", 1), own) is None
        assert owner(own, ("127.0.0.1", 1)) is None  # a listener is at that end, no connection
        with connection(own) as client:
            peer = client.getsockname()
            assert owner(peer, own) == os.geteuid()
            assert owner(peer, ("127.0.0.1", 1)) is None
            client.shutdown(socket.SHUT_WR)
            assert owner(peer, own) is None
