"""C programs beside MPI: built against what ``make install`` installs, started by yod."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.c_programs import HERE, Staged
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm


def line(rank: int, size: int, on_node: int) -> str:
    return f"rank {rank} of {size}, {on_node} on its node, spawned 0, program 0"


def world(size: int, on_node: int) -> list[str]:
    return [line(rank, size, on_node) for rank in range(size)]


def test_a_program_of_pkg_config_finds_an_interface(staged: Staged):
    program = staged.program("portals_id", "portals4")
    run = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert run.stdout == "an interface\n"


def test_uninstall_takes_away_what_install_has_put_there(staged: Staged, tmp_path):
    def files() -> set[str]:
        return {path.name for path in staged.prefix.rglob("*") if not path.is_dir()}

    assert files() == {
        *("portals4.h", "portals4_err.h", "portals4_ext.h", "pmi.h", "yod_checkpoint.h"),
        "yod_ensemble.h",
        *("libportals.so", "libportals.so.4", "libpmi.so", "libpmi.so.1"),
        *("portals4.pc", "pmi.pc"),
    }
    (staged.prefix / "lib/libother.so").touch()
    staged.make("uninstall")
    assert files() == {"libother.so"}
    (staged.prefix / "lib/libother.so").unlink()
    staged.make("install")


def test_libpmi_exports_the_interface_and_nothing_else(staged: Staged):
    words = ["nm", "-D", "--defined-only", staged.prefix / "lib/libpmi.so.1"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    names = {row.split()[-1] for row in run.stdout.splitlines()}
    assert {"PMI_Init", "PMI_KVS_Get", "PMI_Abort"} <= names
    assert {name for name in names if not name.startswith("PMI_")} == set()


def test_a_program_is_compiled_against_the_python_package(tmp_path):
    asked = [sys.executable, "-m", "native", "--cflags", "--libs"]
    flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    program = tmp_path / "program"
    subprocess.run(["cc", HERE / "portals_id.c", "-o", program, *flags], check=True)
    run = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert run.stdout == "an interface\n"


@pytest.mark.parametrize("options", [(), ("--mpi=pmi1",), ("--mpi=pmi2",)], ids=str)
def test_ranks_learn_their_places_and_meet(anywhere, staged: Staged, options):
    done = anywhere.yod("-sz", "4", *options, staged.program("pmi_world", "pmi"))
    assert done.err == ""
    assert done.status == 0
    lines = done.out.splitlines()
    on_node = {row.split(", ")[1] for row in lines}
    assert len(on_node) == 1
    assert sorted(lines) == world(4, int(on_node.pop().split()[0]))


def test_the_common_exit_code_of_all_ranks_is_yods(anywhere, staged: Staged):
    program = staged.program("pmi_world", "pmi")
    assert anywhere.yod("-sz", "2", program, "exit", "3").status == 3


def test_an_abort_ends_all_ranks_with_its_code(anywhere, staged: Staged):
    done = anywhere.yod("-sz", "3", staged.program("pmi_world", "pmi"), "abort", "7")
    assert done.status == 7
    assert "the last rank has had enough" in done.err


def test_a_script_may_run_the_program(embedded, staged: Staged, tmp_path):
    script = tmp_path / "twice"
    program = staged.program("pmi_world", "pmi")
    script.write_text(f"#!/bin/sh\n{program} && exec {program}\n")
    script.chmod(0o755)
    done = embedded.yod("-sz", "2", script)
    assert done.err == ""
    assert sorted(done.out.splitlines()) == sorted(world(2, 2) * 2)


def rank_file(staged: Staged) -> Path:
    return staged.program("rank_file", "portals4", beside=("process/ptl_job.c",))


def ring(out: str, size: int) -> tuple[set[str], set[str]]:
    """The keys and job ids that ranks have printed, each of which the one before has called."""
    rows = sorted((line.split() for line in out.splitlines()), key=lambda row: int(row[0]))
    assert [list(map(int, row[:3])) for row in rows] == [
        [rank, size, (rank - 1) % size] for rank in range(size)
    ]
    return {row[3] for row in rows}, {row[4] for row in rows}


def test_every_rank_has_the_map_and_the_key_and_is_reached_there(anywhere, staged: Staged):
    seen = []
    for size in (4, 1):
        done = anywhere.yod("-sz", str(size), rank_file(staged))
        assert (done.err, done.status) == ("", 0)
        keys, jobs = ring(done.out, size)
        assert len(keys) == len(jobs) == 1
        seen.append(keys)
    assert seen[0] != seen[1]  # another job has another key


def test_a_program_that_is_not_linked_to_libportals_is_given_nothing(embedded):
    done = embedded.yod("-sz", "2", "/bin/sh", "-c", "echo ${YOD_PORTALS-none}; ls /proc/self/fd")
    assert done.out.splitlines().count("none") == 2
    assert set(done.out.split()) <= {"none", "0", "1", "2", "3"}


def test_a_script_s_program_is_given_all_that_the_user_asks_for(embedded, staged: Staged):
    script = f"exec {rank_file(staged)}"
    assert embedded.yod("-sz", "2", "sh", "-c", script).out == "no rank\n" * 2
    done = embedded.yod("-sz", "2", "--with-portals", "sh", "-c", script)
    assert (done.err, done.status) == ("", 0)
    ring(done.out, 2)


def test_a_dry_run_says_that_the_ranks_use_portals(embedded, staged: Staged):
    assert "portals: each rank has" in embedded.yod("--dry-run", rank_file(staged)).out
    assert "portals" not in embedded.yod("--dry-run", "/bin/true").out


def test_without_a_launcher_it_is_a_world_of_one(embedded, staged: Staged):
    program = staged.program("pmi_world", "pmi")
    run = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert run.stdout.splitlines() == world(1, 1)


@pytest.mark.mpi
def test_mpich_s_launcher_starts_the_program_too(staged: Staged):
    mpiexec = shutil.which("mpiexec.mpich")
    assert mpiexec, "Debian: apt install mpich"
    words = [mpiexec, "-n", "3", staged.program("pmi_world", "pmi")]
    run = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert run.stderr == ""
    assert sorted(run.stdout.splitlines()) == world(3, 3)
