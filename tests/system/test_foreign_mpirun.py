"""yod-agent against a stand-in for the PCT: the conversation, statuses, ends, and the
launchers that use it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pct.host import hostfiles
from pct.wireup import foreign
from pct.wireup.agent import AgentConversation
from tests.support.mpi import Mpi, world
from tests.support.wait import LIMIT_S, read_until, wait_for_exit

AGENT = Path(sys.executable).parent / "yod-agent"


@pytest.fixture
def mpi(every_mpi: Mpi) -> Mpi:
    """All five: each launcher goes its own way."""
    return every_mpi


class StandIn:
    """Takes agents' commands as a PCT does, and runs them here.

    Attributes:
        commands: (host, text) of each.
        environment: of a rank.
    """

    def __init__(self, directory: Path, hosts: list[str]) -> None:
        self.commands: list[tuple[str, str]] = []
        self._hosts = hosts
        self._listener = socket.create_server(("127.0.0.1", 0))
        place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._files = paths = hostfiles.write(
            str(directory),
            os.getuid(),
            os.getgid(),
            foreign.host_files([(host, 2) for host in hosts]),
        )
        given = foreign.variables(os.fsencode(AGENT), *paths)
        told = dict(os.fsdecode(entry).split("=", 1) for entry in given)
        self.environment = {**os.environ, **told, "YOD_AGENT": place, "YOD_RANK": "0"}
        self._threads = [threading.Thread(target=self._listen)]
        self._threads[0].start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            conversation = AgentConversation()
            requests = []
            while not requests:
                if not (data := connection.recv(4096)):
                    return
                requests = conversation.receive(data)
            [request] = requests
            host = os.fsdecode(request.host)
            self.commands.append((host, os.fsdecode(request.command)))
            if host not in self._hosts:
                conversation.refused(f"{host} is no node of this job")
                connection.sendall(conversation.take())
                return
            command = subprocess.Popen(
                ["/bin/sh", "-c", request.command],
                cwd=request.directory,
                env={**self.environment, "YOD_NODE_NAME": host},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            conversation.started()
            connection.sendall(conversation.take())
            watcher = threading.Thread(target=self._watch, args=(connection, command))
            watcher.start()
            status = command.wait()
            conversation.ended(-status if status < 0 else status << 8)
            try:
                connection.sendall(conversation.take())
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            watcher.join()

    def _watch(self, connection: socket.socket, command: subprocess.Popen[bytes]) -> None:
        try:
            connection.recv(1)
        except ConnectionResetError:  # it had not read what we said
            pass
        if command.poll() is None:
            command.kill()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=LIMIT_S)
            assert not thread.is_alive()
        hostfiles.remove(self._files)


@pytest.fixture
def pct(tmp_path: Path) -> Iterator[StandIn]:
    stand_in = StandIn(tmp_path, ["n0", "n1"])
    yield stand_in
    stand_in.close()


def run(pct: StandIn, *words: object, **options: object) -> subprocess.CompletedProcess[str]:
    options.setdefault("env", pct.environment)
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S, **options
    )


@pytest.mark.parametrize(
    ("command", "status"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_agent_ends_as_its_command_does(pct, command, status):
    done = run(pct, AGENT, "n1", command)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    assert pct.commands == [("n1", command)]


def test_the_agent_takes_the_command_lines_of_remote_shells(pct, tmp_path):
    done = run(pct, AGENT, "-x", "-l", "me", "me@n0", "cd", "/;", "pwd >", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "/\n"


def test_the_command_starts_where_the_agent_was(pct, tmp_path):
    assert run(pct, AGENT, "n0", "pwd > out", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out").read_text() == f"{tmp_path}\n"


def test_a_host_that_is_not_of_the_job_is_refused_by_name(pct):
    done = run(pct, AGENT, "n7", "true")
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == "yod-agent: n7: n7 is no node of this job\n"


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ("YOD_AGENT", "not in a job of yod: YOD_AGENT is not set"),
        ("YOD_RANK", "not in a job of yod: YOD_RANK is not set"),
    ],
)
def test_the_agent_says_that_it_is_not_in_a_job(pct, missing, text):
    environment = {key: value for key, value in pct.environment.items() if key != missing}
    done = run(pct, AGENT, "n0", "true", env=environment)
    assert (done.returncode, done.stderr) == (255, f"yod-agent: {text}\n")


def test_a_command_is_killed_when_its_agent_is(pct, tmp_path):
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "never")
    # Opened both ways: neither end waits for the other.
    up = os.open(tmp_path / "up", os.O_RDWR)
    agent = subprocess.Popen(
        [AGENT, "n0", f"echo $$ > {tmp_path}/up; exec cat {tmp_path}/never"],
        env=pct.environment,
        start_new_session=True,
    )
    unix_pid = int(read_until(up, b"\n"))
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=LIMIT_S) == -signal.SIGINT
    wait_for_exit(unix_pid)
    os.close(up)


def test_the_agent_imports_nothing_that_the_interpreter_does_not_need():
    done = subprocess.run(
        [sys.executable, "-EP", "-X", "importtime", AGENT, "-help"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "native.wire.agent" in imported
    assert not {name.partition(".")[0] for name in imported} & {"msgspec", "socket", "re"}


def test_a_command_can_be_run_in_the_environment_around_the_job():
    environment = {
        "PATH": os.environ["PATH"],
        "YOD_OUTER_PMI_RANK": "4",
        "PMI_RANK": "0",
        "PMI_SIZE": "2",
        "YOD_RANK": "0",
        "I_MPI_PIN": "off",
        "YOD_DEFAULTS": "I_MPI_PIN",
    }
    done = subprocess.run([AGENT, "-outer", "env"], env=environment, stdout=subprocess.PIPE)
    of_shell = {b"_", b"PWD", b"LC_CTYPE"}
    names = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    assert names - of_shell == {b"PATH", b"PMI_RANK"}
    assert b"PMI_RANK=4" in done.stdout.splitlines()


def test_a_command_that_is_not_there_cannot_be_run_around_the_job():
    done = subprocess.run([AGENT, "-outer", "/absent"], capture_output=True, text=True)
    assert done.returncode == 127
    assert done.stderr == "yod-agent: /absent: No such file or directory\n"


# What a rank has of our own wire-up, and of a batch job around it.
OURS = {
    "PMI_PORT": "127.0.0.1:9",
    "PMI_ID": "0",
    "PMI_RANK": "0",
    "PMI_SIZE": "2",
    "PMIX_NAMESPACE": "yod",
    "PMIX_RANK": "0",
    "PMIX_SERVER_URI41": "yod.0;tcp4://127.0.0.1:9",
    "PMIX_SERVER_URI4": "yod.0;tcp4://127.0.0.1:9",
    "MPICH_PMI_VERSION": "1",
    "JSM_JSRUN_PORT": "1",
    "MPI_LOCALRANKID": "0",
    "MPI_LOCALNRANKS": "2",
}
SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_JOBID": "1",
    "SLURM_JOB_NODELIST": "q[0-1]",
    "SLURM_NODELIST": "q[0-1]",
    "SLURM_NNODES": "2",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
}


@pytest.mark.mpi
@pytest.mark.parametrize("around", [{}, SLURM], ids=["alone", "slurm"])
def test_a_launcher_starts_its_daemons_through_the_agent(pct, mpi, around):
    environment = {**pct.environment, **OURS, **around, **mpi.library.launcher_env}
    environment.update(mpi.program_env)
    if mpi.library.family == "openmpi":
        environment["OMPI_MCA_btl"] = "tcp,self"  # both hosts are this one
    command = mpi.own_launch(4, *mpi.program, "life")
    done = run(pct, *command, env=environment)
    if done.returncode == 128 + signal.SIGSEGV:  # Open MPI 4.1's own, rarely: two daemons on a host
        pct.commands.clear()
        done = run(pct, *command, env=environment)
    assert done.returncode == 0, done.stderr
    ranks = sorted(line.split(",")[0] for line in done.stdout.splitlines())
    assert ranks == [f"rank {rank} of 4" for rank in range(4)]
    assert sorted(host for host, _ in pct.commands) == ["n0", "n1"]


ON_RANK_0 = 'if [ "$YOD_RANK" = 0 ]; then exec "$@"; fi'
SAY_HOST = 'uname -n; exec "$@"'


@pytest.mark.mpi
@pytest.mark.hosts
def test_a_foreign_mpirun_has_the_nodes_of_the_job(start_hosts, mpi):
    partition = start_hosts(2, slots=2)
    environment = {**mpi.library.launcher_env, **mpi.program_env}
    program = ["sh", "-c", SAY_HOST, "sh", *mpi.program, "life"]
    command = mpi.own_launch(4, *program)
    if "--oversubscribe" in command:  # then Open MPI 5 puts all on the first host
        command.remove("--oversubscribe")
    words = ["-sz", "4", "sh", "-c", ON_RANK_0, "sh", *command]
    done = partition.yod(*words, env=environment)
    assert done.status == 0, done.err
    hosts = [name for name in partition.node_names for _ in range(2)]
    ranks = [f"rank {rank} of 4, 2 on its node" for rank in range(4)]
    assert sorted(done.out.splitlines()) == [*hosts, *ranks]


@pytest.mark.mpi
def test_a_foreign_mpirun_needs_nothing_on_one_host(embedded, mpi):
    environment = {**mpi.library.launcher_env, **mpi.program_env}
    command = mpi.own_launch(2, *mpi.program, "life")
    words = ["-sz", "2", "sh", "-c", ON_RANK_0, "sh", *command]
    done = embedded.yod(*words, env=environment)
    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == world(2, on_node=2)


@pytest.mark.mpi
def test_a_yod_inside_a_foreign_launcher_has_its_own_world(embedded, mpi):
    """The ranks do not see the world around them."""
    environment = embedded.environment({**mpi.library.launcher_env, **mpi.program_env})
    command = mpi.own_launch(1, "yod", "-sz", "2", *mpi.program, "life")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == world(2, on_node=2)


@pytest.mark.mpi
def test_a_yod_inside_yod_has_its_own_world(embedded, mpi):
    words = ["-sz", "2", "sh", "-c", ON_RANK_0, "sh", "yod", "-sz", "3", *mpi.program, "life"]
    done = embedded.yod(*words, env=mpi.program_env)
    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == world(3, on_node=3)
