"""A real sshd on hosts made of namespaces, with keys of its own, and an ssh that knows them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.hosts import Host, Hosts
from tests.support.partition import BIN, Done, finish
from tests.support.place import MARK, Place
from tests.support.wait import LIMIT_S, read_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

_SSHD_CONFIG = """\
Port 22
HostKey {directory}/host
AuthorizedKeysFile {directory}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PrintLastLog no
Subsystem sftp internal-sftp
MaxStartups 200
SetEnv {variables}
"""
_SSH_CONFIG = """\
Host *
    User root
    IdentityFile {directory}/user
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
"""


class Ssh:
    """An sshd on each of several hosts; :func:`serving` makes it.

    Attributes:
        command: that reaches them, for ``--ssh-command``.
        hosts: those with an sshd, by name.
    """

    def __init__(self, directory: Path, hosts: Sequence[Host], variables: Mapping[str, str]):
        self._directory = directory
        self.hosts = {host.name: host for host in hosts}
        self.command = f"ssh -F {directory}/config"
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("host", "user"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
        public = (directory / "host.pub").read_text()
        names = ",".join([*self.hosts, *(host.address for host in hosts)])
        (directory / "known").write_text(f"{names} {public}")
        (directory / "config").write_text(_SSH_CONFIG.format(directory=directory))
        said = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        (directory / "sshd_config").write_text(
            _SSHD_CONFIG.format(directory=directory, variables=said)
        )
        for host in hosts:
            self.start(host)

    def start(self, host: Host, before: Sequence[Sequence[str]] = ()) -> None:
        """Start the sshd of a host.

        Args:
            before: commands of the host that come before.
        """
        assert SSHD is not None
        for words in (["mkdir", "-p", "-m", "755", "/run/sshd"], *before):
            host.run(list(words), check=True)
        config = str(self._directory / "sshd_config")
        server = host.popen(
            [SSHD, "-D", "-e", "-f", config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert server.stderr is not None
        read_until(server.stderr.fileno(), b"listening on")
        self._servers[host.name] = server

    def stop(self, host: Host) -> None:
        """End the sshd of a host; sessions go on."""
        server = self._servers.pop(host.name)
        server.terminate()
        server.wait(timeout=LIMIT_S)
        assert server.stderr is not None
        server.stderr.close()

    def hold(self, host: Host) -> None:
        """The sshd of a host takes connections and answers none, until :meth:`release`."""
        self._servers[host.name].send_signal(signal.SIGSTOP)

    def release(self, host: Host) -> None:
        """It answers again."""
        self._servers[host.name].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End all."""
        for name in list(self._servers):
            self.stop(self.hosts[name])


@contextmanager
def serving(
    directory: Path, hosts: Sequence[Host], variables: Mapping[str, str] | None = None
) -> Iterator[Ssh]:
    """An sshd on each host.

    Args:
        directory: for keys and configurations.
        variables: of every session.
    """
    ssh = Ssh(directory, hosts, variables or {})
    try:
        yield ssh
    finally:
        ssh.close()


def need() -> None:
    """Skip where there is no sshd."""
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("needs openssh-server and openssh-client")


def run(host: Host, *words: str, env: Mapping[str, str] | None = None) -> Done:
    """Run one of our commands on a host to its end."""
    return finish(start(host, *words, env=env))


def start(host: Host, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start one of our commands on a host."""
    return host.popen(
        [BIN / words[0], *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**host.environment(), **(env or {})},
    )


def here(*words: str) -> Done:
    """Run one of our commands on the host of the tests."""
    process = subprocess.Popen(
        [BIN / words[0], *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return finish(process)


@contextmanager
def hosts_of(place: Place, count: int) -> Iterator[tuple[Hosts, Ssh]]:
    """So many hosts, all but the first with an sshd, whose sessions have their state in a place."""
    need()
    directory = place.directory / "ssh"
    directory.mkdir()
    variables = {
        MARK: place.mark,
        "XDG_STATE_HOME": str(place.directory / "state"),
        "XDG_CACHE_HOME": str(place.directory / "cache"),
        "YOD_LIVENESS_S": "3",
    }
    with Hosts(count) as hosts, serving(directory, list(hosts)[1:], variables) as ssh:
        yield hosts, ssh
