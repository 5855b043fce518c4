"""A real OAR, Debian's, on hosts made of namespaces: its server with a database, and its nodes.

Every path of OAR is fixed when it is built, so its directories are mounted over on each host.
All of it ends with the hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.hosts import Host, Hosts
from tests.support.partition import BIN, Done, finish
from tests.support.wait import LIMIT_S, wait_until

CORES = 2  # of each node

# Each host: OAR's directories are its own, and root has another home. OAR runs a user's files when
# a job begins, and tests must not run those of whoever tests.
_MOUNTS = """
set -e
cp -a /var/lib/oar "$1/lib.$2"
mount --bind "$1/etc" /etc/oar
mount --bind "$1/lib.$2" /var/lib/oar
mount --bind "$1/passwd" /etc/passwd
mkdir -p /run/sshd
"""
_NODE = "exec /usr/sbin/sshd -f /etc/oar/sshd_config -o PidFile=none"
# Root may hand jobs in: another user might not reach the project's files.
_SERVER = """
set -e
cd /
postgres() { setpriv --reuid postgres --regid postgres --init-groups "$programs/$@"; }
programs=$(ls -d /usr/lib/postgresql/*/bin)
mkdir /run/postgresql
chown postgres: /run/postgresql "$1/data"
postgres initdb -D "$1/data" -A trust -N
echo 'host all all samenet trust' >>"$1/data/pg_hba.conf"
postgres pg_ctl -D "$1/data" -l "$1/data/log" -w -o \
    "-F -k /run/postgresql -c listen_addresses=*" start
oar-database --create --db-is-local -y
psql -q -h 127.0.0.1 -U postgres oar \
    -c "delete from admission_rules where rule like '%Prevent users oar and root%'"
setpriv --reuid oar --regid oar --init-groups env HOME=/var/lib/oar /usr/sbin/Almighty &
"""
_SETTINGS = {
    "DB_HOSTNAME": "node0",
    "DB_BASE_PASSWD": "oar",
    "DB_BASE_PASSWD_RO": "oar",
    "SERVER_HOSTNAME": "node0",
    "DEPLOY_HOSTNAME": "node0",
    "FINAUD_FREQUENCY": "0",
    "SCHEDULER_JOB_SECURITY_TIME": "1",
    # Without cpusets: they would be made in the cgroups of this machine.
    "CPUSET_PATH": None,
    "JOB_RESOURCE_MANAGER_FILE": "/etc/oar/job_resource_manager.pl",
}


def missing() -> str:
    """What a test of OAR lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "OAR needs root"
    return "" if shutil.which("Almighty", path="/usr/sbin") else "oar-server is not installed"


class Oar:
    """OAR's server on the first host, a node on each other one.

    Attributes:
        directory: for the files of jobs, on all hosts; it is root's home there.
        head: the host with the server.
        nodes: the others.
    """

    def __init__(self, hosts: Hosts, directory: Path) -> None:
        self.head, *self.nodes = hosts
        self.directory = directory / "home"
        self._configure(directory)
        for number, host in enumerate(hosts):
            host.run(["sh", "-c", _MOUNTS, "sh", directory, str(number)], check=True)
        for host in self.nodes:
            host.run(["sh", "-c", _NODE], check=True)
        # What it starts goes on, and has its streams.
        with open(directory / "server.out", "w") as said:
            words = ["sh", "-c", _SERVER, "sh", directory]
            done = self.head.popen(words, env=self.environment(), stdout=said, stderr=said)
            if done.wait(timeout=LIMIT_S) != 0:
                raise RuntimeError((directory / "server.out").read_text())
        for host in self.nodes:
            for cpu in range(CORES):
                words = ["oarnodesetting", "-a", "-h", host.name, "-p", f"cpuset={cpu}"]
                self.head.run(words, env=self.environment(), check=True)
        wait_until(self._is_served, what="OAR's server answers")

    def environment(self) -> dict[str, str]:
        """Of commands on the first host."""
        return {
            "HOME": str(self.directory),
            "USER": "root",
            "LOGNAME": "root",
            "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
        }

    def start(
        self,
        words: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a command on the first host, in the directory unless told."""
        pipe = subprocess.PIPE
        place = cwd or self.directory
        return self.head.popen(
            words,
            # oarsub takes a job's directory from PWD.
            env={**self.environment(), "PWD": str(place), **(env or {})},
            cwd=place,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
        )

    def run(self, *words: str) -> Done:
        """Run a command on the first host."""
        return finish(self.start(words))

    def submit(self, script: str, *, nodes: int = 1) -> str:
        """Hand a script in; the job's id."""
        environment = f"export PATH={BIN}:$PATH; "
        done = self.run("oarsub", "-l", f"/nodes={nodes},walltime=0:10:0", environment + script)
        assert done.status == 0, done
        return done.out.rpartition("OAR_JOB_ID=")[2].strip()

    def is_over(self, job_id: str) -> bool:
        """Whether a job has ended."""
        return self._about(job_id, "state") in ("Terminated", "Error")

    def types(self, job_id: str) -> str:
        """OAR's types of a job."""
        return self._about(job_id, "types")

    def wait(self, job_id: str) -> Done:
        """A job at its end: its exit code and what it has written."""
        wait_until(lambda: self.is_over(job_id), what=f"job {job_id} ends")
        code = self._about(job_id, "exit_code").partition(" ")[0]
        out, err = (self.output(job_id, stream) for stream in ("stdout", "stderr"))
        return Done(int(code or -1) >> 8, out, err)

    def output(self, job_id: str, stream: str = "stdout") -> str:
        """What a job has written so far."""
        path = self.directory / f"OAR.{job_id}.{stream}"
        return path.read_text() if path.exists() else ""

    def processes(self) -> set[int]:
        """All that run on its hosts now."""
        return {unix_pid for host in (self.head, *self.nodes) for unix_pid in host.processes()}

    def demand_clean(self) -> None:
        """Wait until nothing of yod's is left on the nodes."""
        for host in self.nodes:
            wait_until(lambda host=host: not _ours_on(host), what=f"{host.name} is clean")

    def _about(self, job_id: str, name: str) -> str:
        done = self.run("oarstat", "--full", "--job", job_id)
        return done.out.partition(f"    {name} = ")[2].partition("\n")[0]

    def _is_served(self) -> bool:
        done = self.head.run(["oarnodes", "-s"], env=self.environment())
        return done.stdout.count("Alive") >= len(self.nodes)

    @staticmethod
    def _configure(directory: Path) -> None:
        for name in ("data", "home"):
            (directory / name).mkdir()
        shutil.copytree("/etc/oar", directory / "etc")
        file = directory / "etc" / "oar.conf"
        lines = []
        for line in file.read_text().splitlines():
            name, equals, _ = line.partition("=")
            if not equals or name not in _SETTINGS:
                lines.append(line)
            elif (value := _SETTINGS[name]) is not None:
                lines.append(f'{name}="{value}"')
        file.write_text("\n".join([*lines, f'LOG_FILE="{directory}/oar.log"', ""]))
        for path in (file, directory / "etc" / "sshd_config"):
            shutil.chown(path, "oar")
        (directory / "oar.log").touch()
        shutil.chown(directory / "oar.log", "oar")
        users = Path("/etc/passwd").read_text().splitlines()
        users = [line for line in users if not line.startswith("root:")]
        home = directory / "home"
        (directory / "passwd").write_text("\n".join([f"root:x:0:0::{home}:/bin/sh", *users, ""]))


@contextmanager
def serving(nodes: int = 2) -> Iterator[Oar]:
    """OAR on so many nodes, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)  # OAR has a user of its own
        with Hosts(nodes + 1) as hosts:
            yield Oar(hosts, directory)


def _ours_on(host: Host) -> list[str]:
    return [words for words in host.processes().values() if str(BIN) in words]
