"""A Slurm of N nodes on this host, for the time of a measurement.

Everything is in one temporary directory: key, sockets, state and logs. The
daemons are children of this process and end with it. Needs root, munged,
slurmctld, slurmd and srun; no service of the machine is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
UP_S = 60.0

# Plain: no accounting, no cgroups, no task binding; a node's daemon and its
# controller do what every srun needs and no more.
CONFIGURATION = """\
ClusterName=bench
SlurmctldHost={host}({address})
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
MessageTimeout=60
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODES = "NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports}] CPUs={cpus}\n"
OF_HOSTS = "NodeName={host.name} NodeAddr={host.address} Port={port} CPUs={cpus}\n"


class Host(Protocol):
    """Where a daemon runs, if not here."""

    name: str
    address: str

    def popen(
        self, command: list[str], *, env: dict[str, str], **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command there."""


def missing() -> str:
    """Why this cannot run here; empty if it can."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "needs root"


class Slurm:
    """A running Slurm; a context manager.

    Args:
        count: of nodes.
        cpus: of each.
        hosts: of its nodes, and behind these of its controller; empty: all are on this one.

    Attributes:
        environment: for srun to find it.
    """

    def __init__(self, count: int, cpus: int = 1, hosts: Sequence[Host] = ()) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._directory.chmod(0o755)
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._count = count
        self._hosts = hosts
        ports = _free_ports(count + 1)
        (self._directory / "state").mkdir()
        configuration = self._directory / "slurm.conf"
        host = hosts[count].name if hosts else socket.gethostname().partition(".")[0]
        if hosts:
            each = zip(hosts[:count], ports[1:], strict=True)
            nodes = "".join(OF_HOSTS.format(host=one, port=port, cpus=cpus) for one, port in each)
        else:
            own = f"{ports[1]}-{ports[-1]}"
            nodes = NODES.format(last=count - 1, host=host, ports=own, cpus=cpus)
        general = CONFIGURATION.format(
            host=host,
            address=hosts[count].address if hosts else "127.0.0.1",
            directory=self._directory,
            controller_port=ports[0],
        )
        configuration.write_text(general + nodes)
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        try:
            self._start(count)
        except BaseException:
            self.close()
            raise

    def _start(self, count: int) -> None:
        directory = self._directory
        key = directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        munge = ["munged", "--foreground", "--force", f"--key-file={key}"]
        munge += [f"--socket={directory}/munge.socket", f"--log-file={directory}/munged.log"]
        munge += [f"--pid-file={directory}/munged.pid", f"--seed-file={directory}/munged.seed"]
        self._daemon(munge)
        _wait(lambda: (directory / "munge.socket").exists(), "munged")
        self._daemon(["slurmctld", "-D", "-i"], count)
        for number in range(count):
            name = self._hosts[number].name if self._hosts else f"n{number}"
            (directory / f"spool-{name}").mkdir()
            self._daemon(["slurmd", "-D", "-N", name], number)
        _wait(lambda: self.idle() == self._count, "slurmd")

    def _daemon(self, command: list[str], host: int = -1) -> None:
        with open(self._directory / f"{command[0]}.err", "ab") as errors:
            self._daemons.append(
                self._popen(host, command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
            )

    def _popen(self, host: int, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command on a host; -1: on this one."""
        if self._hosts and host >= 0:
            return self._hosts[host].popen(command, env=self.environment, **options)
        return subprocess.Popen(command, env=self.environment, **options)

    def idle(self) -> int:
        """How many nodes wait for work."""
        command = ["sinfo", "-h", "-N", "-o", "%t"]
        with self._popen(self._count, command, stdout=subprocess.PIPE, text=True) as sinfo:
            output, _ = sinfo.communicate(timeout=UP_S)
        return str(output).split().count("idle")

    def settle(self) -> None:
        """Return when the last job has left every node."""
        _wait(lambda: self.idle() == self._count, "nodes after a job")

    def close(self) -> None:
        """End the daemons and remove their files."""
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Slurm:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for log in sorted(self._directory.glob("*.log"))[:2]:
                print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
        self.close()


def _free_ports(count: int) -> list[int]:
    """Neighbouring ports below the range that the kernel hands out."""
    # Two that look at once find others.
    begin = 20000 + os.getpid() % 50 * 200
    for first in range(begin, 32000 - count, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        finally:
            for held in sockets:
                held.close()
        return list(range(first, first + count))
    raise RuntimeError(f"no {count} neighbouring ports are free")


def _wait(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + UP_S
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not ready after {UP_S:g} s")
        time.sleep(0.02)
