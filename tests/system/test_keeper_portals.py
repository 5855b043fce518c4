"""Ranks that want Portals: a listener of their own and the file with the job's map."""

from __future__ import annotations

import os
import sys

import pytest
from msgspec.structs import replace

from native.wire.keeper import Hold, KeeperLost, KeeperSpec, RankStarted
from tests.support.keeper_job import Job, make_spec

LOOPBACK = 0x7F000001
NOT_OURS = 0xC6336401  # 198.51.100.1, of TEST-NET-2

# What a rank has: variable, descriptors, where it listens, what the file holds.
SHOW = """
import os, socket
file, listener, rank = map(int, os.environ["YOD_PORTALS"].split(","))
print(rank)
there = [fd for fd in range(1000) if os.path.exists(f"/proc/self/fd/{fd}")]
print(there == sorted([0, 1, 2, file, listener]))
end = socket.socket(fileno=listener)
print(*end.getsockname(), end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
print(os.get_blocking(listener), os.pread(file, 100, 0).decode())
"""


def spec_of(nid: int, ranks: int = 2, hold: Hold = Hold.AUTO) -> KeeperSpec:
    spec = make_spec((sys.executable, "-S", "-c", SHOW), ranks=ranks, hold=hold)
    wanting = tuple(replace(rank, wants_portals=True) for rank in spec.ranks)
    return replace(spec, ranks=wanting, listen_nid=nid)


def shown(spec: KeeperSpec) -> list[tuple[list[str], int]]:
    """What each rank shows, and the port that was told of it."""
    fd = os.memfd_create("map")
    with Job(spec, portals_fd=fd) as job:
        job.wait_held()
        os.write(fd, b"written while they are held")
        os.close(fd)
        job.run()
        ports = {each.rank: each.port for each in job.of(RankStarted)}
        return [(job.text(rank).splitlines(), ports[rank]) for rank in range(len(spec.ranks))]


@pytest.mark.parametrize("hold", list(Hold))
def test_a_rank_inherits_its_listener_and_the_file(hold: Hold) -> None:
    ranks = shown(spec_of(LOOPBACK, hold=hold))
    for rank, (lines, port) in enumerate(ranks):
        assert lines == [
            str(rank),
            "True",
            f"127.0.0.1 {port} 1",
            "False written while they are held",
        ]
    assert ranks[0][1] != ranks[1][1]


def test_a_rank_listens_everywhere_where_the_host_does_not_know_the_node_s_address() -> None:
    ((lines, port),) = shown(spec_of(NOT_OURS, ranks=1))
    assert lines[2] == f"0.0.0.0 {port} 1"


def test_a_keeper_without_the_file_starts_nothing() -> None:
    with Job(spec_of(LOOPBACK)) as job:
        job.run_until(lambda: bool(job.of(KeeperLost)), "the keeper is lost")
        assert job.events == [KeeperLost("no file for the job's map")]


def test_a_rank_that_wants_no_portals_has_no_port() -> None:
    with Job(make_spec(("/bin/true",))) as job:
        job.run()
        assert [each.port for each in job.of(RankStarted)] == [0]
