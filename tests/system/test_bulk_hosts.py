"""A program that only yod's host has goes to seven hosts down the tree.

The hosts are a tree of arity 2: node 0 has children 1 and 2, 1 has 3 and 4, 2 has 5
and 6. Their clocks are one: the machine's.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.daemons import HostDaemons
from tests.support.hosts import Host
from tests.support.programs import script
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

pytestmark = pytest.mark.hosts

IMAGE_BYTES = 64 << 20
CHILDREN = {0: 2, 1: 2, 2: 2, 3: 0, 4: 0, 5: 0, 6: 0}
ARRIVED = re.compile(r"object (\d+): first chunk at ([\d.]+), last at ([\d.]+)")


def count_up(yod: subprocess.Popen[bytes], times: int) -> None:
    """Return when so many ranks have said that they are up."""
    read_until(yod.stdout.fileno(), b"up\n", times=times)


def put_on(host: Host, program: Path, size: int, name: str = "image") -> str:
    """Write a program of that size to a host's own RAM disk; gives its path there."""
    directory = host.path("/dev/shm")
    path = directory / name
    with path.open("wb") as file:
        file.write(program.read_bytes())
        block = os.urandom(1 << 20)  # nothing on the way could make it smaller
        while file.tell() < size:
            file.write(block[: size - file.tell()])
    path.chmod(0o755)
    return f"/dev/shm/{name}"


def remove(host: Host, path: str) -> None:
    """Tests look at what is left in RAM disks."""
    host.path(path).unlink()


def test_every_byte_leaves_yods_host_once(start_hosts, programs):
    hosts = start_hosts(7, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, programs.dynamic, IMAGE_BYTES)
    before = [host.tx_bytes() for host in hosts.hosts]
    done = hosts.yod("-sz", "7", image)
    sent = [host.tx_bytes() - old for host, old in zip(hosts.hosts, before, strict=True)]
    remove(hosts.front, image)
    assert (done.status, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == [f"rank {rank}" for rank in range(7)]
    assert IMAGE_BYTES <= sent[7] <= 1.1 * IMAGE_BYTES
    for node, children in CHILDREN.items():
        assert sent[node] <= (children + 0.1) * IMAGE_BYTES
    traces = [ARRIVED.search(pct.text()) for pct in hosts.pcts]
    assert all(traces)
    times = [(float(trace[2]), float(trace[3])) for trace in traces if trace]
    for leaf in (3, 4, 5, 6):
        first_at_leaf, last_at_root = times[leaf][0], times[0][1]
        assert first_at_leaf < last_at_root


def test_a_file_that_is_the_same_everywhere_is_not_sent(start_hosts, programs):
    hosts = start_hosts(3, slots=1)
    size = 8 << 20
    for host in hosts.hosts:
        host.path("/dev/shm/image").write_bytes(b"")
    images = {put_on(host, programs.static, size) for host in hosts.hosts}
    image = images.pop()
    first = hosts.front.path(image).read_bytes()
    for host in hosts.hosts:
        host.path(image).write_bytes(first)
    before = hosts.front.tx_bytes()
    done = hosts.yod("-sz", "3", image)
    assert (done.status, done.err) == (0, "")
    assert hosts.front.tx_bytes() - before < 0.1 * size
    for host in hosts.hosts:
        remove(host, image)


def test_a_file_with_other_bytes_at_the_same_path_is_not_run(start_hosts, programs, tmp_path):
    """Every rank runs what yod's user has, not what lies there by chance."""
    hosts = start_hosts(2, slots=1)
    for host, word in ((hosts.front, "right"), (hosts.hosts[0], "wrong"), (hosts.hosts[1], None)):
        if word:
            program = script(tmp_path / word, f"#!/bin/sh\necho {word}\n")
            put_on(host, program, program.stat().st_size)
    done = hosts.yod("-sz", "2", "/dev/shm/image")
    assert done == (0, "right\nright\n", "")
    for host in (hosts.front, hosts.hosts[0]):
        remove(host, "/dev/shm/image")


def test_large_arguments_go_down_the_tree(start_hosts):
    hosts = start_hosts(7, slots=1)
    values = {f"LARGE_{n}": "x" * 60_000 for n in range(20)}
    before = hosts.front.tx_bytes()
    check = "env | grep -c ^LARGE_"
    done = hosts.yod("-sz", "7", "sh", "-c", check, env=values)
    assert done == (0, "20\n" * 7, "")
    assert hosts.front.tx_bytes() - before < 1.2 * 20 * 60_000 + 50_000


# -- room -----------------------------------------------------------------


def test_a_full_ram_disk_gives_way_to_the_next(start_hosts, programs):
    """XDG_RUNTIME_DIR is too small on one host; its /dev/shm takes the image."""
    stores = ("--store", "/run/yod-ram", "--store", "/dev/shm")
    hosts = start_hosts(3, slots=1, ram_bytes=32 << 20, pct_options=stores)
    full = hosts.hosts[1].path("/run/yod-ram") / "fill"
    full.write_bytes(bytes(28 << 20))
    image = put_on(hosts.front, programs.dynamic, 8 << 20)
    done = hosts.yod("-sz", "3", image)
    remove(hosts.front, image)
    full.unlink()
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) == 3


def fill(hosts: HostDaemons, node: int) -> list[Path]:
    """Leave less than 8 MB in every RAM disk of a node."""
    paths = []
    for directory in ("/run/yod-ram", "/dev/shm"):
        path = hosts.hosts[node].path(directory) / "fill"
        path.write_bytes(bytes((32 << 20) - (4 << 20)))
        paths.append(path)
    return paths


RAM_ONLY = ("--store", "/run/yod-ram", "--store", "/dev/shm")


@pytest.mark.parametrize("why", ["full", "noexec"])
def test_without_room_on_a_node_the_shared_file_system_is_used(
    start_hosts, programs, tmp_path, why
):
    hosts = start_hosts(3, slots=1, ram_bytes=32 << 20, pct_options=RAM_ONLY)
    filled = fill(hosts, 1) if why == "full" else []
    if why == "noexec":
        hosts.hosts[1].resize_ram(32 << 20, noexec=True)
    shared = tmp_path / "shared"
    shared.mkdir()
    image = put_on(hosts.front, programs.dynamic, 8 << 20)
    done = hosts.yod("-sz", "3", image, env={"PARALLEL_FILE_SYSTEM": str(shared)})
    for path in filled:
        path.unlink()
    remove(hosts.front, image)
    assert (done.status, sorted(done.out.splitlines())) == (0, ["rank 0", "rank 1", "rank 2"])
    (line,) = done.err.splitlines()
    assert "node1" in line and image in line and "shared file system" in line
    assert ("noexec" if why == "noexec" else "needed") in line
    assert list(shared.iterdir()) == []


def test_without_any_room_the_node_and_the_remedy_are_named(start_hosts, programs, tmp_path):
    hosts = start_hosts(3, slots=1, ram_bytes=32 << 20, pct_options=RAM_ONLY)
    filled = fill(hosts, 2)
    image = put_on(hosts.front, programs.dynamic, 8 << 20)
    gone = tmp_path / "gone"
    done = hosts.yod("-sz", "3", image, env={"PARALLEL_FILE_SYSTEM": str(gone)})
    for path in filled:
        path.unlink()
    remove(hosts.front, image)
    assert (done.status, done.out) == (125, "")
    assert "node2" in done.err
    assert "PARALLEL_FILE_SYSTEM" in done.err and str(gone) in done.err
    assert len(done.err.splitlines()) <= 2


def test_a_program_that_cannot_be_executed_on_one_node_only(start_hosts, tmp_path):
    """Its interpreter is missing there: that node and rank are named."""
    hosts = start_hosts(3, slots=1)
    for host in (hosts.hosts[0], hosts.hosts[1], hosts.front):
        host.path("/dev/shm/interpreter").symlink_to("/bin/sh")
    job = script(tmp_path / "job", "#!/dev/shm/interpreter\necho never\n")
    done = hosts.yod("-sz", "3", job)
    for host in (hosts.hosts[0], hosts.hosts[1], hosts.front):
        remove(host, "/dev/shm/interpreter")
    assert (done.status, done.out) == (127, "")
    (line,) = done.err.splitlines()
    for text in ("node 2 (node2), rank 2", "/dev/shm/interpreter", str(job)):
        assert text in line


# -- power and cables -----------------------------------------------------

QUICK = {"YOD_LIVENESS_S": "5", "YOD_END_S": "2"}


@pytest.mark.parametrize("node", [0, 1, 2])
def test_power_off_while_the_job_runs(start_hosts, node):
    hosts = start_hosts(3, slots=1)
    with hosts.start_yod("-sz", "3", "sh", "-c", "echo up; sleep 1000", env=QUICK) as yod:
        count_up(yod, 3)
        hosts.power_off(node)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert f"node {node} (node{node})" in err.decode().splitlines()[0]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A program that would still run if its image had been quicker than the test."""
    return script(tmp_path / "endless", "#!/bin/sh\nsleep 1000\nexit\n")


def test_power_off_while_an_image_is_on_its_way(start_hosts, endless):
    hosts = start_hosts(7, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, endless, IMAGE_BYTES)
    with hosts.start_yod("-sz", "7", "-D", image, env=QUICK) as yod:
        read_until(yod.stderr.fileno(), b"form -> load\n")
        hosts.power_off(1)
        _, err = yod.communicate(timeout=LIMIT_S)
    remove(hosts.front, image)
    assert yod.returncode == 125
    words = [line for line in err.decode().splitlines() if " -> " not in line]
    assert "node 1 (node1) was lost" in words[0]


def test_a_cable_pulled_while_the_job_runs(start_hosts):
    hosts = start_hosts(3, slots=1, env=QUICK)
    with hosts.start_yod("-sz", "3", "sh", "-c", "echo up; sleep 1000", env=QUICK) as yod:
        count_up(yod, 3)
        ranks = [pid for pid, name in hosts.hosts[2].processes().items() if "sleep" in name]
        hosts.hosts[2].cut()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert "node 2 (node2) was lost" in err.decode().splitlines()[0]
    hosts.hosts[2].heal()
    for unix_pid in ranks:
        wait_for_exit(unix_pid)
    wait_until(lambda: set(hosts.states()) == {"free"})


def test_a_cable_pulled_while_an_image_is_on_its_way(start_hosts, endless):
    hosts = start_hosts(3, slots=1, ram_bytes=4 * IMAGE_BYTES, env=QUICK)
    image = put_on(hosts.front, endless, IMAGE_BYTES)
    with hosts.start_yod("-sz", "3", "-D", image, env=QUICK) as yod:
        read_until(yod.stderr.fileno(), b"form -> load\n")
        hosts.hosts[1].cut()
        _, err = yod.communicate(timeout=LIMIT_S)
    remove(hosts.front, image)
    assert yod.returncode == 125
    words = [line for line in err.decode().splitlines() if " -> " not in line]
    assert "node 1 (node1) was lost" in words[0]
    hosts.hosts[1].heal()
    wait_until(lambda: set(hosts.states()) == {"free"})
