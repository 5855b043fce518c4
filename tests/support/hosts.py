"""Hosts made of namespaces, for tests that need several machines.

Each host has its own network stack with one address on a common bridge, its
own process ids, mounts, host name, and RAM disks. They share the file system,
as hosts with a network file system do. Needs root.

The first process of a host is a ``cat`` that reads from a pipe of the test process. While
the pipe is open the host is up. When the test process ends, in whatever way, ``cat`` ends, and
the kernel kills everything in its process namespace; the network devices go with the
namespaces. So nothing needs a name outside, two runs cannot collide, and nothing can be left
behind. The bridge has a network namespace of its own ("the switch") for the same reason.

``cat`` starts with SIGCHLD ignored: the kernel then reaps the orphans that it
inherits, as an init process would.

A command is a child of the test process in the host's namespaces: its ``pid``
is one that the test can signal, and its parent as seen on the host is 0.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.wait import LIMIT_S

CLONE_NEWPID = 0x20000000
RAM_BYTES = 64 << 20
PREFIX = "10.77.0"  # the project's own test range

_libc = ctypes.CDLL(None, use_errno=True)

# Runs as the first process of a host, in all its namespaces but not yet connected.
_BOOT = """
set -e
hostname "$1"
mount -t tmpfs -o mode=755,size=16m tmpfs /run
mkdir /run/yod-ram
mount -t tmpfs -o "$2,mode=1777" tmpfs /dev/shm
mount -t tmpfs -o "$2,mode=700" tmpfs /run/yod-ram
printf %s "$3" > /run/hosts
mount --bind /run/hosts /etc/hosts
ip link set lo up
echo up
exec env --ignore-signal=CHLD cat
"""


class Host:
    """One host; made by :class:`Hosts`.

    Attributes:
        name: its host name.
        address: its IPv4 address on the bridge.
        unix_pid: its first process, as the test process sees it.
    """

    def __init__(
        self, switch: subprocess.Popen[bytes], number: int, holder: subprocess.Popen[bytes]
    ):
        self.name = f"node{number}"
        self.address = f"{PREFIX}.{number + 1}"
        self._switch = switch
        self._holder = holder
        self._commands: list[subprocess.Popen[Any]] = []
        assert holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            raise RuntimeError(f"{self.name} did not start (is this root?)")
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
        self.unix_pid = int(children.split()[0])

    def popen(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command here.

        Args:
            command: the program and its arguments.
            env: its whole environment; by default the caller's with this host's
                XDG_RUNTIME_DIR, and with the UCX transports that do not take the
                hosts for one machine.
            cwd: by default the caller's.
            options: as for :class:`subprocess.Popen`.
        """
        target = str(self.unix_pid)
        enter = ["nsenter", "-t", target, "-m", "-u", "-i", "-n"]
        with _children_in(self.unix_pid):
            process = subprocess.Popen(
                [*enter, "env", "-C", os.fspath(cwd or Path.cwd()), *map(os.fspath, command)],
                env=self.environment() if env is None else dict(env),
                **options,
            )
        self._commands.append(process)
        return process

    def run(
        self, command: Sequence[str | os.PathLike[str]], *, timeout: float = LIMIT_S, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command here to its end; gives its output as text.

        Raises:
            subprocess.TimeoutExpired: it did not end in time; it is killed.
            subprocess.CalledProcessError: with ``check=True``, a status other than 0.
        """
        check = options.pop("check", False)
        given = options.pop("input", None)
        options.setdefault("stdin", subprocess.DEVNULL if given is None else subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        with self.popen(command, text=True, **options) as process:
            try:
                output, errors = process.communicate(given, timeout=timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
        if check:
            done.check_returncode()
        return done

    def environment(self) -> dict[str, str]:
        """What a command here gets unless told."""
        return {**os.environ, "XDG_RUNTIME_DIR": "/run/yod-ram", "UCX_TLS": "tcp,self"}

    def path(self, path: str) -> Path:
        """A path of this host, as the test process can reach it."""
        return Path(f"/proc/{self.unix_pid}/root{path}")

    def tx_bytes(self) -> int:
        """Bytes that have left this host over the bridge."""
        return self._counters()[8]

    def rx_bytes(self) -> int:
        """Bytes that have come to this host over the bridge."""
        return self._counters()[0]

    def _counters(self) -> list[int]:
        # Through /proc, which shows the namespace of the process asked for.
        for line in Path(f"/proc/{self.unix_pid}/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == "eth0":
                return [int(word) for word in counters.split()]
        raise RuntimeError(f"{self.name} has no eth0")

    def processes(self) -> dict[int, str]:
        """Everything that runs here but its first process: pid outside -> command line."""
        own = os.readlink(f"/proc/{self.unix_pid}/ns/pid")
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.unix_pid:
                continue
            try:
                if os.readlink(entry / "ns/pid") == own:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode(errors="replace").strip()
            except OSError:  # it has ended
                continue
        return found

    def resize_ram(self, size_bytes: int, *, noexec: bool = False) -> None:
        """Change the RAM disks: their size, and whether programs may be run from them."""
        exec_option = "noexec" if noexec else "exec"
        for place in ("/dev/shm", "/run/yod-ram"):
            options = f"remount,size={size_bytes},{exec_option}"
            self.run(["mount", "-o", options, place], check=True)

    def cut(self) -> None:
        """Pull the cable: nothing arrives or leaves, and nobody is told."""
        _in_network(self._switch.pid, f"link set {self.name} down\n")

    def heal(self) -> None:
        """Plug the cable in again."""
        _in_network(self._switch.pid, f"link set {self.name} up\n")

    def kill(self) -> None:
        """Power off: every process here ends at once, unseen by the others."""
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        # Before the first process: its end waits until all others are reaped,
        # and these are our children.
        for command in self._commands:
            command.wait(timeout=LIMIT_S)
        self._holder.wait(timeout=LIMIT_S)


class Hosts:
    """Several hosts on one bridge; a context manager and a sequence.

    Args:
        count: how many, at most 200.
        ram_bytes: size of /dev/shm and of /run/yod-ram on each.
        noexec: mount them so that programs cannot be run from them.
    """

    def __init__(self, count: int, *, ram_bytes: int = RAM_BYTES, noexec: bool = False) -> None:
        if not 1 <= count <= 200:
            raise ValueError(f"{count} hosts: 1 to 200 can be made")
        self._hosts: list[Host] = []
        names = "".join(f"{PREFIX}.{n + 1} node{n}\n" for n in range(count))
        options = f"size={ram_bytes}" + (",noexec" if noexec else "")
        self._switch = _hold(["--net"], "echo up; exec cat")
        holders: list[subprocess.Popen[bytes]] = []
        try:
            # All start at once; each is waited for after that.
            for number in range(count):
                spaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"]
                boot = [f"node{number}", options, "127.0.0.1 localhost\n" + names]
                holders.append(_hold(spaces, _BOOT, *boot))
            for number, holder in enumerate(holders):
                self._hosts.append(Host(self._switch, number, holder))
            self._connect()
        except BaseException:
            for holder in holders:
                holder.kill()
            self.close()
            raise

    def _connect(self) -> None:
        lines = ["link add bridge type bridge", "link set bridge up"]
        for host in self._hosts:
            lines += [
                f"link add {host.name} type veth peer name eth0 netns {host.unix_pid}",
                f"link set {host.name} master bridge addrgenmode none up",
            ]
        _in_network(self._switch.pid, "\n".join(lines) + "\n")
        for host in self._hosts:
            lines = [
                # No IPv6: its own chatter would count as bytes sent.
                "link set eth0 addrgenmode none up",
                f"address add {host.address}/24 broadcast + dev eth0",
            ]
            _in_network(host.unix_pid, "\n".join(lines) + "\n")

    def close(self) -> None:
        """End every host and what runs there."""
        for host in self._hosts:
            host.kill()
        assert self._switch.stdin is not None and self._switch.stdout is not None
        self._switch.stdin.close()
        self._switch.stdout.close()
        self._switch.wait(timeout=LIMIT_S)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, number: int) -> Host:
        return self._hosts[number]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


def _hold(spaces: list[str], script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process that keeps new namespaces alive until its input ends."""
    kill = ["--kill-child"] if "--fork" in spaces else []
    return subprocess.Popen(
        ["unshare", *spaces, *kill, "sh", "-c", script, "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C is the test's, not the host's
    )


def _in_network(unix_pid: int, commands: str) -> None:
    """Give ``ip`` a batch of commands in a process's network namespace."""
    enter = ["nsenter", "-t", str(unix_pid), "-n", "ip", "-batch", "-"]
    subprocess.run(enter, input=commands, text=True, check=True, stdout=sys.stderr)


@contextmanager
def _children_in(unix_pid: int) -> Iterator[None]:
    """Children that this thread makes meanwhile are born in a process's PID namespace."""
    own = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(f"/proc/{unix_pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(target, CLONE_NEWPID)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _setns(own, CLONE_NEWPID)
    finally:
        os.close(own)


def _setns(fd: int, kind: int) -> None:
    if _libc.setns(fd, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")
