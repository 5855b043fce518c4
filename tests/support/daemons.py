"""Partitions of daemons: on this host, or one on each of several hosts.

Daemons are ended by process id, and it is an error when one does not end by itself.

On hosts made of namespaces node ``n`` is on host ``n``. bebopd and yod have one
more host of their own, so that what leaves it is what yod sends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from native.errors import PartitionError
from native.limits import Limits
from native.loop.reactor import Reactor
from partition.find.discover import Where
from partition.find.remote import RemotePartition, reach
from partition.status import query, show
from tests.support.hosts import Host, Hosts
from tests.support.leaks import Watch, descendants
from tests.support.partition import BIN, Partition, Word
from tests.support.place import Place, below, of_jobs
from tests.support.wait import LIMIT_S, read_until, wait_until

SLOTS = 4  # of a node, where a test does not say
FAULT = "internal error, please report"  # what a daemon's log has where it contained a bug
STATE_S = 5.0  # a daemon has to say its state


class Daemon:
    """A bebopd or PCT that runs.

    Attributes:
        unix_pid: as the test process sees it.
        log: the file with what it says.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.unix_pid = process.pid
        self.log = log
        self._process = process
        self._read_bytes = 0

    def kill(self) -> None:
        """SIGKILL it, and wait until it is gone."""
        self._process.kill()
        self._process.wait(timeout=LIMIT_S)

    def stop(self) -> None:
        """SIGTERM; it must end by itself."""
        self._process.terminate()
        try:
            self._process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=LIMIT_S)
            raise AssertionError(f"{self.log.name} had to be killed:\n{self.text()}") from None

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def text(self) -> str:
        """What it has said so far in this test."""
        return self.log.read_bytes()[self._read_bytes :].decode(errors="replace")

    def show_state(self) -> None:
        """Have it write its state to its log, for the message of a failure."""
        said_bytes = self.log.stat().st_size
        if self.is_alive:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: self.log.stat().st_size > said_bytes, STATE_S)

    def begin_test(self) -> None:
        """A test begins: ignore what the log contains so far."""
        self._read_bytes = self.log.stat().st_size


class Daemons(Partition):
    """A bebopd and N PCTs on this host.

    Args:
        place: of the test.
        count: of nodes.
        slots: of each node.
        env: added to the daemons' environment, or a function of the node's number (-1: bebopd).
        pct_options: words for every PCT, or a function of the node's number.
        bebopd_options: words for bebopd.
        uses_default_store: PCTs find their stores by themselves.
        base: the daemons' environment; None: that of the test process.

    Attributes:
        address: host:port of bebopd.
        key_file: the partition's key.
        bebopd: the daemon.
        pcts: the daemons, by node number.
    """

    kind = "local"

    def __init__(
        self,
        place: Place,
        count: int,
        *,
        slots: int = SLOTS,
        env: Callable[[int], Mapping[str, str]] | Mapping[str, str] | None = None,
        pct_options: Callable[[int], Sequence[Word]] | Sequence[Word] = (),
        bebopd_options: Sequence[Word] = (),
        uses_default_store: bool = False,
        base: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.node_names = [f"node{number}" for number in range(count)]
        self.directory = self._make_directory(place)
        self.key_file = self.directory / "key"
        self.socket = self.directory / "bebopd.sock"
        self.stores = self.directory / "stores"
        self.stores.mkdir()
        self.mark = place.mark
        self.watch: Watch | None = None
        self._first_rows: list[str] = []
        self._off: set[int] = set()
        self.pcts: list[Daemon] = []
        self._slots = slots
        self._base = base
        self._env = env or {}
        self._pct_options = pct_options
        self._bebopd_options = bebopd_options
        self._uses_default_store = uses_default_store
        self._last_pingd = ""
        self._is_up = False

    def start(self) -> None:
        """Bring it up; returns when every node is known to bebopd."""
        self.start_bebopd(len(self.node_names))
        try:
            self.pcts = [self.start_pct(node) for node in range(len(self.node_names))]
            self.wait_for_nodes()
        except BaseException:
            for daemon in (*self.pcts, self.bebopd):
                daemon.kill()
            raise
        self._is_up = True
        self._first = [daemon.unix_pid for daemon in (*self.pcts, self.bebopd)]

    @property
    def is_as_started(self) -> bool:
        """Every daemon runs, and none has taken another's place."""
        daemons = (*self.pcts, self.bebopd)
        return (
            not self._off
            and [daemon.unix_pid for daemon in daemons] == self._first
            and all(daemon.is_alive for daemon in daemons)
        )

    def begin_test(self, watch: Watch) -> None:
        """A test begins: its end compares the partition with its present state."""
        for daemon in (*self.pcts, self.bebopd):
            daemon.begin_test()
        self.launch_server = None
        self._first_rows = []
        self.watch = watch
        # What holds hosts up is there to stay as well.
        watch.partition(self, sorted(descendants(os.getpid())), self.lasting_pingd)

    def start_bebopd(self, expected: int, listen: str = "") -> None:
        """Start bebopd; returns when it listens, ``address`` then says where."""
        reading, writing = os.pipe()
        try:
            self.bebopd = self._daemon(
                [
                    *(BIN / "bebopd", "--listen", listen or self._listen(-1)),
                    *("--unix", self.socket, "--key-file", self.key_file),
                    *("--state-dir", self.directory / "records"),
                    *("--ready-fd", str(writing), "--expect", str(expected)),
                    *self._bebopd_options,
                ],
                -1,
                (writing,),
            )
        finally:
            os.close(writing)
        self._ready = reading
        try:
            line = read_until(reading, b"\n")
        except AssertionError as error:
            self.bebopd.kill()
            raise AssertionError(f"{error}\n{self.bebopd.text()}") from None
        self.address = line.split(b"\n")[0].decode()
        self._said = line.partition(b"\n")[2]

    def wait_for_nodes(self) -> None:
        """Return when bebopd knows as many nodes as it was told to expect."""
        if b"\n" not in self._said:
            read_until(self._ready, b"\n")
        os.close(self._ready)

    def start_pct(self, node: int, *more: Word) -> Daemon:
        """Start a PCT; it announces itself by and by."""
        options = self._pct_options
        given = options(node) if callable(options) else options
        is_told = "--store" in given or self._uses_default_store
        store: list[Word] = [] if is_told else ["--store", self._store(node)]
        command: list[Word] = [
            *(BIN / "pct", "--bebopd", self.address, "--key-file", self.key_file),
            *("--listen", self._listen(node), "--node", str(node)),
            *("--name", self.node_names[node], "--slots", str(self._slots), "-D"),
            *(*store, *given, *more),
        ]
        return self._daemon(command, node, ())

    def replace_pct(self, node: int, state: str = "free") -> None:
        """Start another PCT for a node whose own has ended; returns when it is up."""
        self.pcts[node] = self.start_pct(node)
        wait_until(lambda: self.states()[node] == state, what=f"node {node} up again")
        self._is_replaced(self.pcts[node])

    def replace_bebopd(self, expected: int | None = None) -> None:
        """Start another bebopd at the address of the last; returns when nodes are back.

        Args:
            expected: how many nodes come back; None: all.
        """
        count = len(self.node_names) if expected is None else expected
        self.start_bebopd(count, listen=self.address)
        self.wait_for_nodes()
        self._is_replaced(self.bebopd)

    def states(self) -> list[str]:
        """What pingd says of each node."""
        return [line.split(":")[2] for line in self.pingd().splitlines()[1:]]

    def _is_replaced(self, daemon: Daemon) -> None:
        if self.watch is not None:
            self.watch.partition(self, [daemon.unix_pid], str)

    def stop(self) -> None:
        """End every daemon, nodes first, in order."""
        self._is_up = False
        errors = []
        for daemon in (*self.pcts, self.bebopd):
            if daemon.is_alive:
                try:
                    daemon.stop()
                except AssertionError as error:
                    errors.append(str(error))
        shutil.rmtree(self.directory)
        assert not errors, "\n".join(errors)

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        return super().environment({"YOD_PARTITION": f"unix:{self.socket}", **(more or {})})

    def pingd(self) -> str:
        """What ``pingd -parse`` says; after :meth:`stop`, what it said last.

        It is asked from this process: a Python program takes ten times as long to start
        as bebopd to answer.
        """
        if self._is_up:
            self._last_pingd = _ask(self.socket)
        return self._last_pingd

    def lasting_pingd(self) -> str:
        """The same, but for nodes that a test has taken away: those are as they were."""
        rows = self.pingd().splitlines()
        self._first_rows = self._first_rows or rows
        gone = {str(node) for node in self._off}
        return "\n".join(
            first if first.split(":")[0] in gone else row
            for first, row in zip(self._first_rows, rows, strict=True)
        )

    def log(self) -> str:
        """What all daemons have said, for messages."""
        return "".join(f"--- {d.log.name}\n{d.text()}" for d in (self.bebopd, *self.pcts))

    def files(self) -> set[str]:
        """Everything in the stores but the directory that each living PCT keeps there."""
        found = {
            str(path)
            for store in self._all_stores()
            for path in below(store)
            if not of_jobs(store, path)  # it may be yod's run-time directory as well
        }
        kept = {
            str(path)
            for store in self._all_stores()
            for path in store.glob("yod-store-*")
            if any(daemon.is_alive for daemon in self.pcts)
        }
        return found - kept

    def keepers(self, node: int) -> list[int]:
        """Keepers of a node's jobs: children of its PCT."""
        pid = self.pcts[node].unix_pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]

    def _all_stores(self) -> list[Path]:
        return [self.stores]

    def _make_directory(self, place: Place) -> Path:
        # Beside the test's own, where launches may leave nothing; a short path.
        return Path(tempfile.mkdtemp(prefix="test-of-yod-", dir=place.runtime.parent))

    def _listen(self, node: int) -> str:
        return "127.0.0.1:0"

    def _store(self, node: int) -> Path:
        store = self.stores / str(node)
        store.mkdir(exist_ok=True)
        return store

    def _daemon(self, command: Sequence[Word], node: int, fds: tuple[int, ...]) -> Daemon:
        log = self.directory / ("bebopd.log" if node < 0 else f"pct-{node}.log")
        base = os.environ if self._base is None else self._base
        env = {name: value for name, value in base.items() if name != "YOD_PARTITION"}
        with open(log, "ab") as file:
            process = self._popen_at(
                node,
                command,
                env={**env, **(self._env(node) if callable(self._env) else self._env)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=fds,
                cwd="/",
            )
        return Daemon(process, log)

    def _popen_at(
        self, node: int, command: Sequence[Word], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start on a node; -1: where bebopd and yod are."""
        return subprocess.Popen(command, start_new_session=True, **options)


class HostDaemons(Daemons):
    """A PCT on each of N hosts, and bebopd on one more.

    Attributes:
        hosts: N + 1 of them; the last is bebopd's and yod's.
    """

    kind = "hosts"

    def __init__(self, place: Place, hosts: Hosts, **options: Any) -> None:
        super().__init__(place, len(hosts) - 1, **options)
        self.hosts = hosts

    @property
    def front(self) -> Host:
        """The host of bebopd and yod."""
        return self.hosts[len(self.hosts) - 1]

    def power_off(self, node: int) -> None:
        """Everything on a node's host ends at once, unseen by the others."""
        self._off.add(node)
        self.hosts[node].kill()

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        front = self.front.environment()
        own = {
            **{name: front[name] for name in ("XDG_RUNTIME_DIR", "UCX_TLS")},
            "YOD_PARTITION": self.address,
            "YOD_KEY_FILE": str(self.key_file),
        }
        return Partition.environment(self, {**own, **(more or {})})

    def _popen(self, command: Sequence[Word], **options: Any) -> subprocess.Popen[bytes]:
        return self.front.popen([os.fsdecode(word) for word in command], **options)

    def _popen_at(
        self, node: int, command: Sequence[Word], **options: Any
    ) -> subprocess.Popen[bytes]:
        host = self.front if node < 0 else self.hosts[node]
        options["env"] = {**host.environment(), **options["env"]}
        options["env"]["XDG_RUNTIME_DIR"] = host.environment()["XDG_RUNTIME_DIR"]
        return host.popen([os.fsdecode(word) for word in command], **options)

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.hosts.close()

    def _make_directory(self, place: Place) -> Path:
        return Path(tempfile.mkdtemp(prefix="p", dir=place.directory))  # all hosts see it

    def _listen(self, node: int) -> str:
        return f"{(self.front if node < 0 else self.hosts[node]).address}:0"

    def _store(self, node: int) -> Path:
        return Path("/run/yod-ram")

    def _all_stores(self) -> list[Path]:
        places = ("/run/yod-ram", "/dev/shm")
        hosts = [host for number, host in enumerate(self.hosts) if number not in self._off]
        return [host.path(place) for host in hosts for place in places]


def _ask(socket: Path) -> str:
    limits = Limits()
    where = Where(str(socket), f"unix:{socket}")
    reactor = Reactor()
    try:
        opened = RemotePartition(reach(where), limits)
        try:
            rows, _ = query.ask(opened.port, opened.bebopd, reactor, where.name, limits.allocate_s)
        finally:
            opened.close()
    except PartitionError as error:
        return f"1: pingd: {error}\n"
    finally:
        reactor.close()
    return "".join(line + "\n" for line in show.parse_lines(show.merge(rows)))


def wait_for_log(daemon: Daemon, text: str) -> str:
    """Return what a daemon has said once ``text`` is in it."""
    said = wait_until(lambda: text in daemon.text() and daemon.text(), what=f"{text!r} in its log")
    return str(said)
