"""A launch's socket: who is answered, what, and that nobody holds up the launch."""

from __future__ import annotations

import os
import select
import signal
import socket
import time

import pytest

from native.host.jobsockets import Directory
from native.limits import Limits
from native.loop.reactor import Reactor
from native.wire import job
from native.wire.base import State
from tests.support.wait import LIMIT_S
from tests.unit.yod.launch_of import Yod, completions, leave, signal_all
from yod.host.register import Registration
from yod.launch.phases import Phase

LIMITS = Limits(job_clients_count=3)


class Launched:
    """A launch of two ranks that runs, and its registration."""

    def __init__(self, environment, job_id: int = 0) -> None:
        self.yod = Yod(2).to(Phase.RUNNING)
        self.done = []  # actions of the launch
        self.reactor = Reactor()
        self._ends = []
        self.environment = environment
        self.registration = Registration(
            self.yod.machine, self._handle, "a.out", "embedded", self.reactor, LIMITS, environment
        )
        self.registration.open(job_id)

    def _handle(self, event) -> None:
        self.done += self.yod.handle(event)

    def connect(self) -> Client:
        directory = Directory(self.environment)
        end = directory.connect(self.registration.id)
        directory.close()
        assert end is not None
        self._ends.append(end)
        return Client(self, end)

    def turn(self) -> None:
        """Let it do what there is to do."""
        for _ in range(10):
            self.reactor.run_once(0.0)

    def end(self) -> None:
        """The job ends well, and the launch with it."""
        self.yod.receive(completions(0, 1))
        leave(self.yod)
        self.registration.close()

    def close(self) -> None:
        self.registration.close()
        self.reactor.close()
        for end in self._ends:
            end.close()


class Client:
    """A command's end of a connection."""

    def __init__(self, launched: Launched, end) -> None:
        self.launched = launched
        self.end = end

    def send(self, data: bytes | job.Request) -> None:
        self.end.send(data if isinstance(data, bytes) else job.encode(data))

    def read(self) -> job.Reply | None:
        """The next packet; None: the connection has ended."""
        self.launched.turn()
        assert select.select([self.end], [], [], LIMIT_S)[0], "no packet"
        data = self.end.recv(job.REPLY_MAX_BYTES)
        return job.decode_reply(data) if data else None

    def ask(self, request: bytes | job.Request) -> job.Reply | None:
        self.send(request)
        return self.read()

    def hears_nothing(self) -> bool:
        self.launched.turn()
        return not select.select([self.end], [], [], 0)[0]


@pytest.fixture
def environment(tmp_path):
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


@pytest.fixture
def launched(environment):
    launched = Launched(environment)
    yield launched
    launched.close()


@pytest.fixture
def client(launched):
    client = launched.connect()
    assert client.read() == job.Hello(1, "local.1")
    yield client
    client.end.close()


def test_a_job_shows_what_it_does(client):
    shown = client.ask(job.Show())
    assert (shown.id, shown.state, shown.ranks) == ("local.1", State.RUNNING, 2)
    assert (shown.uid, shown.unix_pid) == (os.getuid(), os.getpid())


def test_a_job_of_a_partition_has_its_number(environment):
    launched = Launched(environment, 17)
    assert launched.connect().read() == job.Hello(1, "17")
    launched.close()


def test_a_signal_reaches_the_ranks(launched, client):
    assert client.ask(job.Signal(signal.SIGUSR1)) == job.Accepted()
    assert launched.done == [signal_all(signal.SIGUSR1)]


def test_who_waits_is_told_how_the_job_has_ended(launched, client):
    client.send(job.Wait())
    assert client.hears_nothing()
    launched.end()
    assert client.read() == job.Ended(State.COMPLETED, 0)
    assert client.read() is None


def test_whose_request_comes_too_late_is_told_so_too(launched, client):
    late = launched.connect()
    client.send(job.Cancel())
    launched.end()
    with pytest.raises(ConnectionResetError):  # its request was not read
        client.read()
    assert client.read() == job.Ended(State.COMPLETED, 0)
    assert late.read() == job.Hello(1, "local.1")
    assert late.read() == job.Ended(State.COMPLETED, 0)
    assert launched.done == []


def test_a_launch_that_breaks_off_gives_no_status(launched, client):
    client.send(job.Wait())
    launched.turn()
    launched.registration.close()
    assert client.read() is None


def test_the_answer_comes_before_a_cancelled_launch_ends(launched, client):
    def handle(event):
        launched.registration.close()

    launched.registration.handle = handle
    assert client.ask(job.Cancel()) == job.Accepted()
    assert client.read() is None


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1", b'{"request":"signal","number":0}', b"a" * 5000]
)
def test_nonsense_is_refused_and_the_connection_closed(client, data):
    assert isinstance(client.ask(data), job.Refused)
    assert client.read() is None


def test_a_command_that_leaves_is_forgotten(launched, client):
    client.send(job.Wait())
    launched.turn()
    client.end.close()
    launched.turn()
    launched.end()


def test_more_commands_than_the_limit_are_told_so(launched, client):
    others = [launched.connect() for _ in range(2)]
    for other in others:
        assert other.read() == job.Hello(1, "local.1")
    late = launched.connect()
    said = "3 commands ask it already (job_clients_count)"
    assert late.read() == job.Refused(said)
    assert late.read() is None
    others[0].end.close()
    launched.turn()
    assert launched.connect().read() == job.Hello(1, "local.1")


def test_a_command_that_does_not_read_is_forgotten(launched, client):
    """Its answers fill its socket, and no memory of the launch."""
    client.end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(100_000):
        try:
            client.send(job.Show())
        except BlockingIOError:
            launched.turn()
        except (BrokenPipeError, ConnectionResetError):
            break
    else:
        raise AssertionError("it is still answered")
    assert launched.connect().read() == job.Hello(1, "local.1")


def test_the_name_goes_with_the_launch(launched, environment, tmp_path):
    launched.end()
    assert os.listdir(tmp_path / "yod/jobs") == ["count"]
    directory = Directory(environment)
    assert directory.connect("local.1") is None
    directory.close()
    launched.registration.close()  # twice is harmless


@pytest.mark.parametrize("environment", [{"HOME": "/nonexistent"}, {"HOME": "/proc"}])
def test_a_launch_that_can_have_no_id_runs_without(environment):
    launched = Launched(environment)
    assert launched.registration.id == ""
    launched.turn()
    launched.close()


def test_a_directory_that_is_removed_meanwhile_harms_nobody(launched, client, tmp_path):
    for path in (tmp_path / "yod/jobs").iterdir():
        path.unlink()
    (tmp_path / "yod/jobs").rmdir()
    assert isinstance(client.ask(job.Show()), job.Shown)
    launched.end()


def test_without_a_descriptor_for_a_command_the_loop_rests(launched, monkeypatch):
    """Instead of being told of the connection for ever."""
    import resource

    waiting = launched.connect()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        launched.reactor.run_once(0.0)
        assert not select.select([launched.reactor], [], [], 0)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    due = launched.reactor.deadline()
    launched.reactor.run_once(due - launched.reactor.monotonic())
    assert waiting.read() == job.Hello(1, "local.1")


def soon(environment, way="open_soon") -> Launched:
    """A launch that has an id soon, or late."""
    launched = Launched(environment)
    launched.registration.close()
    launched.registration = Registration(
        launched.yod.machine,
        launched._handle,
        "a.out",
        "embedded",
        launched.reactor,
        LIMITS,
        environment,
    )
    getattr(launched.registration, way)(0)
    return launched


def test_an_id_that_is_taken_soon_is_taken_when_the_loop_waits(environment):
    launched = soon(environment)
    assert launched.registration.id == ""
    launched.turn()
    assert launched.connect().read() == job.Hello(job.VERSION, launched.registration.id)
    launched.close()


def test_a_loop_that_never_waits_takes_it_within_a_time(environment):
    launched = soon(environment)

    def again() -> None:
        launched.reactor.call_soon(again)

    again()
    deadline = time.monotonic() + LIMIT_S
    while launched.registration.id == "" and time.monotonic() < deadline:
        launched.reactor.run_once(0.0)
    assert launched.registration.id != ""
    launched.close()


def test_an_id_that_is_taken_late_is_not_taken_when_the_loop_waits(environment):
    launched = soon(environment, "open_late")
    launched.turn()
    assert launched.registration.id == ""
    deadline = time.monotonic() + LIMIT_S
    while launched.registration.id == "" and time.monotonic() < deadline:
        launched.reactor.run_once(0.01)
    assert launched.connect().read() == job.Hello(job.VERSION, launched.registration.id)
    launched.close()


@pytest.mark.parametrize("way", ["open_soon", "open_late"])
def test_a_launch_that_is_over_before_takes_none(environment, way):
    launched = soon(environment, way)
    launched.registration.close()
    launched.turn()
    assert launched.registration.id == ""
    launched.close()
