"""Ranks that ask for more and more: they are refused, the daemon and others' jobs go on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.wait import LIMIT_S

STORE = 3 << 20
LIMIT = f"a node keeps at most {STORE} bytes for a job (YOD_JOB_STORE_BYTES of its pct)"
GROWTH_KB = 16 * 1024  # of the PCTs, however much a rank asks for

# One rank's client of PMI-1, and what each way to be hostile comes to.
CLIENT = r"""
import os, socket, sys

host, _, port = os.environ["PMI_PORT"].partition(":")


def connect():
    s = socket.create_connection((host, int(port)))
    s.sendall(b"cmd=initack pmiid=%s\n" % os.environ["PMI_ID"].encode())
    s.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\n")
    f = s.makefile("rb")
    for _ in range(5):
        f.readline()
    return s, f


def until_refused(line):
    s, f = connect()
    s.sendall(b"cmd=get_my_kvsname\n")
    space = f.readline().split(b"kvsname=")[1].strip()
    for number in range(100000):
        s.sendall(line.replace(b"KVS", space).replace(b"NUMBER", b"%d" % number))
        answer = f.readline()
        if b"rc=-1" in answer or not answer:
            return number, answer
    return 100000, answer


def puts():
    return until_refused(b"cmd=put kvsname=KVS key=NUMBER value=" + b"v" * 4000 + b"\n")


def small_puts():
    return until_refused(b"cmd=put kvsname=KVS key=NUMBER value=v\n")


def names():
    return until_refused(b"cmd=publish_name service=NUMBER port=" + b"v" * 4000 + b"\n")


def spawns():
    block = b"mcmd=spawn\nnprocs=1\nexecname=/bin/true\n"
    block += b"argcnt=1\narg1=" + b"a" * 15000 + b"\nendcmd\n"
    return until_refused(block)


def connections():
    kept = []
    for number in range(2000):
        s = socket.create_connection((host, int(port)))
        s.settimeout(0.05 if number > 200 else 1)
        s.sendall(b"cmd=initack pmiid=%s\n" % os.environ["PMI_ID"].encode())
        try:
            if not s.recv(1):
                return number, b"closed"
        except TimeoutError:
            pass  # a busy PCT answers later
        except ConnectionError:
            return number, b"closed"
        kept.append(s)
    return 2000, b""


def deaf():
    kept = []
    for number in range(200):
        s, f = connect()
        kept.append((s, f))
        s.setblocking(False)
        try:
            while True:
                s.send(b"cmd=get kvsname=KVS key=PMI_process_mapping\n" * 200)
        except BlockingIOError:
            pass
        except ConnectionError:
            return number, b"closed"
    return 200, b""


number, answer = globals()[sys.argv[1]]()
print(number, answer.decode().strip())
"""


@pytest.fixture
def small(start_local) -> Daemons:
    """Two nodes that keep little for a job."""
    return start_local(2, env={"YOD_JOB_STORE_BYTES": str(STORE)})


@pytest.fixture
def client(tmp_path: Path) -> list[str]:
    program = tmp_path / "client.py"
    program.write_text(CLIENT)
    return [sys.executable, "-S", str(program)]


def resident_kb(daemons: Daemons) -> int:
    """Memory of the PCTs."""
    texts = [Path(f"/proc/{pct.unix_pid}/status").read_text() for pct in daemons.pcts]
    return sum(int(re.search(r"VmRSS:\s+(\d+)", text)[1]) for text in texts)


@pytest.fixture
def innocent(small) -> Iterator[subprocess.Popen[bytes]]:
    """Another job on the node; it must go on until its input ends."""
    job = small.start_yod("-sz", "1", "/bin/cat")
    yield job
    out, _ = job.communicate(b"still here\n", timeout=LIMIT_S)
    assert (job.returncode, out) == (0, b"still here\n")


@pytest.mark.parametrize("way", ["puts", "small_puts", "names", "spawns"])
def test_a_rank_that_asks_without_end_reads_which_limit_refused_it(small, client, innocent, way):
    for turn in range(2):  # the first job gives back what it took
        done = small.yod("-sz", "1", "--mpi=pmi1", *client, way)
        number, _, answer = done.out.strip().partition(" ")
        assert 5 < int(number) < 20_000, done
        assert LIMIT.replace(" ", "_") in answer, done
        assert LIMIT in done.err and done.status == 0, done
        if not turn:
            before = resident_kb(small)
    assert resident_kb(small) - before < GROWTH_KB


@pytest.mark.parametrize(
    ("way", "why"),
    [("connections", LIMIT), ("deaf", "more than 256 requests without taking an answer")],
)
def test_a_rank_that_connects_or_does_not_read_without_end_is_hung_up_on(
    small, client, innocent, way, why
):
    for turn in range(2):
        done = small.yod("-sz", "1", "--mpi=pmi1", *client, way)
        assert why in done.err, done  # it may have been killed before it could say so itself
        if not turn:
            before = resident_kb(small)
    assert resident_kb(small) - before < GROWTH_KB
