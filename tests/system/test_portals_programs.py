"""Programs of Portals users, run by yod: written to the specification, not to us.

They are in ``tests/c/programs``; each checks what it does and exits with 0 when all
was right. ``kinds:`` in one's first comment says with which interfaces it is built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.c_programs import FLAGS, Staged
from tests.support.partition import Partition, finish
from tests.support.wait import LIMIT_S, read_until

HERE = Path(__file__).parents[1] / "c/programs"
KINDS = {"matching": (0, 1), "no matching": (2, 3), "all": (0, 1, 2, 3), "": (1,)}
NAMES = ("physical ME", "logical ME", "physical LE", "logical LE")
APART = {"dies", "apart", "shells", "late"}  # tests of their own


def kinds_of(source: Path) -> tuple[int, ...]:
    found = re.search(r"kinds: (.+)", source.read_text())
    return KINDS[found[1] if found else ""]


ALL = [
    pytest.param(source.stem, kind, id=f"{source.stem}, {NAMES[kind]}")
    for source in sorted(HERE.glob("*.c"))
    if source.stem not in APART
    for kind in kinds_of(source)
]


class Portals:
    """The programs, each compiled once a session."""

    def __init__(self, staged: Staged, directory: Path) -> None:
        self._staged = staged
        self._directory = directory

    def program(self, name: str, kind: int = 1) -> Path:
        path = self._directory / f"{name}-{kind}"
        if not path.exists():
            words = ["cc", *FLAGS, "-D_GNU_SOURCE", "-pthread", f"-DKIND={kind}"]
            words += [HERE / f"{name}.c", "-o", path, *self._staged.flags("portals4", "pmi")]
            words += [f"-Wl,-rpath,{self._staged.prefix / 'lib'}"]
            subprocess.run(words, check=True)
        return path


@pytest.fixture(scope="session")
def portals(staged: Staged, tmp_path_factory: pytest.TempPathFactory) -> Portals:
    return Portals(staged, tmp_path_factory.mktemp("portals"))


def check(partition: Partition, size: int, *words: str | Path, **env: str) -> None:
    done = partition.yod("-sz", str(size), *words, env=env)
    assert (done.err, done.status) == ("", 0)


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 4])
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_a_program_of_the_specification_runs(embedded, portals, name, kind, size):
    check(embedded, size, portals.program(name, kind))


@pytest.mark.parametrize("kind", [1, 2])
def test_a_message_has_64_megabytes(embedded, portals, kind):
    check(embedded, 2, portals.program("vectors", kind), "large")


@pytest.mark.warm
@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
@pytest.mark.parametrize(("name", "kind"), [("soak", 1), ("messages", 0), ("overrun", 2)])
def test_a_program_runs_over_each_transport(embedded, portals, name, kind, transport):
    check(embedded, 3, portals.program(name, kind), PTL_TRANSPORT=transport)


@pytest.mark.warm
@pytest.mark.parametrize(("name", "kind"), [("alltoall", 3), ("collectives", 1)])
def test_a_program_has_64_ranks(embedded, portals, name, kind):
    check(embedded, 64, portals.program(name, kind))


@pytest.mark.warm
@pytest.mark.parametrize("transport", ["tcp", pytest.param("unix", marks=pytest.mark.long), "shm"])
@pytest.mark.parametrize("name", ["alltoall", "messages"])
def test_ranks_with_few_descriptors_take_turns(embedded, portals, name, transport):
    script = f"ulimit -n 20; exec {portals.program(name)}"
    check(embedded, 12, "--with-portals", "sh", "-c", script, PTL_TRANSPORT=transport)


def test_64_ranks_need_no_64_descriptors(embedded, portals):
    script = f"ulimit -n 60; exec {portals.program('alltoall')}"
    check(embedded, 64, "--with-portals", "sh", "-c", script)


def test_a_rank_whose_descriptors_were_closed_on_the_way_is_told(embedded, portals):
    start = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    words = [sys.executable, "-c", start, str(portals.program("alltoall"))]
    done = embedded.yod("-sz", "1", "--with-portals", *words)
    assert done.status == 1
    assert "libportals: YOD_PORTALS=" in done.err
    assert "descriptors were closed on the way" in done.err


@pytest.mark.warm
def test_a_limit_that_is_too_low_is_named(embedded, portals):
    script = f"ulimit -n 9; exec {portals.program('alltoall')}"
    done = embedded.yod("-sz", "2", "--with-portals", "sh", "-c", script)
    assert done.status == 1
    line = "libportals: too few descriptors: the limit of this process is 9 (ulimit -n)"
    assert line in done.err


@pytest.mark.hosts
def test_a_program_runs_across_hosts(start_hosts, portals):
    hosts = start_hosts(3)
    for name, kind in [("alltoall", 1), ("messages", 0), ("collectives", 2), ("soak", 3)]:
        check(hosts, 6, portals.program(name, kind))


def test_a_program_runs_on_the_daemons_of_a_host(local, portals):
    for name in ("window", "served"):
        check(local, 6, portals.program(name))


def test_a_program_is_its_own_world_without_yod(place, portals):
    for name in ("alltoall", "messages", "collectives", "soak"):
        run = subprocess.run(
            [portals.program(name)], capture_output=True, text=True, timeout=LIMIT_S
        )
        assert (run.stderr, run.returncode) == ("", 0)


@pytest.mark.warm
def test_a_script_starts_the_ranks(embedded, portals):
    program = portals.program("alltoall")
    check(embedded, 2, "--with-portals", "sh", "-c", f"{program}")


def test_the_exit_code_of_all_ranks_is_yods(embedded, portals):
    assert embedded.yod("-sz", "2", portals.program("alltoall"), "7").status == 7


def test_a_rank_may_begin_late(embedded, portals):
    check(embedded, 2, portals.program("late"))


@pytest.mark.parametrize("transport", ["tcp", "shm"])
@pytest.mark.parametrize("kind", range(4), ids=NAMES)
def test_a_rank_that_dies_is_seen_by_the_others(embedded, portals, kind, transport):
    program = portals.program("dies", kind)
    # The others end by themselves, however long they need.
    env = {"PTL_TRANSPORT": transport, "YOD_KILL_DELAY_S": f"{LIMIT_S:g}"}
    done = embedded.yod("-sz", "4", program, env=env)
    assert sorted(done.out.splitlines()) == ["rank 0 is fine", "rank 1 is fine"]
    assert done.status == 137
    assert "rank 3" in done.err and "SIGKILL" in done.err


@pytest.mark.warm
@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_two_jobs_cannot_reach_one_another(embedded, portals, transport):
    program, env = portals.program("apart", 0), {"PTL_TRANSPORT": transport}
    with embedded.start_yod("-sz", "2", program, env=env) as first:
        assert first.stdout is not None
        places = read_until(first.stdout.fileno(), b"\n").decode().split()
        assert len(places) == 4
        check(embedded, 2, program, *places, **env)
        done = finish(first)
    assert (done.err, done.status) == ("", 0)


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_two_shells_meet_by_a_key_file(place, portals, tmp_path, transport):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    ids = tmp_path / "ids"
    ids.mkdir()
    env = {**os.environ, "PTL_KEY_FILE": str(key), "PTL_TRANSPORT": transport}
    words = [[portals.program("shells"), ids, str(rank)] for rank in range(2)]
    with subprocess.Popen(words[0], env=env, stderr=subprocess.PIPE, text=True) as first:
        second = subprocess.run(words[1], env=env, capture_output=True, text=True, timeout=LIMIT_S)
        _, errors = first.communicate(timeout=LIMIT_S)
    assert (second.stderr, second.returncode) == ("", 0)
    assert (errors, first.returncode) == ("", 0)


@pytest.fixture
def ring(staged: Staged, tmp_path: Path) -> Path:
    source = Path(__file__).parents[2] / "examples/portals_ring.c"
    program = tmp_path / "portals_ring"
    words = ["cc", *FLAGS, source, "-o", program, *staged.flags("portals4", "pmi")]
    subprocess.run([*words, f"-Wl,-rpath,{staged.prefix / 'lib'}"], check=True)
    return program


def test_the_example_of_the_readme(embedded, ring):
    for size in (1, 4):
        done = embedded.yod("-sz", str(size), ring)
        token = size * (size - 1) // 2
        expected = f"ring of {size}: the token came back as {token}, expected {token}\n"
        assert done == (0, expected, "")


def test_a_rank_without_the_map_is_told_what_to_say(embedded, ring):
    done = embedded.yod("-sz", "2", "sh", "-c", str(ring))
    assert done.status == 1
    assert "libportals: there is no map of the ranks" in done.err
    assert "say yod --with-portals" in done.err
