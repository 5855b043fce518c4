"""On a partition of root's every job is its owner's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from native import auth
from tests.support.daemons import Daemons
from tests.support.nobody import NOBODY, as_nobody
from tests.support.nobody import yod_as_nobody as yod
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_for_exit

pytestmark = pytest.mark.usefixtures("needs_root")


def key_of_nobody(partition_key: bytes, home: Path) -> Path:
    """A file with the key that proves the other user."""
    path = home / "key"
    derived = auth.derive_user_key(partition_key, NOBODY)
    path.write_text(f"user {NOBODY} {derived.hex()}\n")
    path.chmod(0o600)
    os.chown(path, NOBODY, NOBODY)
    return path


def test_ranks_run_as_the_owner_with_the_owners_groups(here, theirs):
    done = yod(here, theirs, "-sz", "2", "sh", "-c", "id -u; id -G; echo $HOME")
    assert (done.status, done.err) == (0, "")
    assert sorted(done.out.split()) == sorted([str(NOBODY)] * 4 + [str(theirs)] * 2)


def test_pingd_shows_the_owner_and_others_jobs_are_not_theirs_to_end(local, theirs):
    with local.start_yod("-sz", "4", "sh", "-c", "echo up; cat") as ours:
        read_until(ours.stdout.fileno(), b"up\n", times=4)
        with as_nobody(local, theirs, BIN / "yod", "-sz", "2", "sh", "-c", "echo up; cat") as other:
            read_until(other.stdout.fileno(), b"up\n")
            owners = [line.split(":")[8] for line in local.pingd().splitlines()[1:]]
            assert {"root", "nobody"} <= set(owners)
            keeper = local.keepers(1)[0]
            done = finish(as_nobody(local, theirs, "kill", "-KILL", str(ours.pid)))
            assert done.status != 0
            other.communicate(b"", timeout=LIMIT_S)
        assert other.returncode == 0
        ours.communicate(b"", timeout=LIMIT_S)
    assert ours.returncode == 0
    wait_for_exit(keeper)


def test_a_setuid_program_is_refused_by_name(local, theirs):
    program = theirs / "id"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    done = yod(local, theirs, "-sz", "2", program)
    assert (done.status, done.out) == (126, "")
    (line,) = done.err.splitlines()
    assert str(program) in line and "setuid" in line


def test_a_program_that_may_be_executed_and_not_read(embedded, theirs):
    program = theirs / "id"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o711)
    assert yod(embedded, theirs, program, "-u") == (0, f"{NOBODY}\n", "")


@pytest.mark.hosts
def test_a_shipped_program_runs_as_its_owner_who_proves_it_by_a_key(start_hosts, programs, theirs):
    hosts = start_hosts(2, slots=1, pct_options=("--store", "/dev/shm"))
    program = hosts.front.path("/dev/shm/theirs")
    program.write_bytes(programs.dynamic.read_bytes())
    program.chmod(0o700)
    os.chown(program, NOBODY, NOBODY)
    key = key_of_nobody(hosts.key_file.read_bytes(), theirs)
    env = {"YOD_KEY_FILE": str(key)}
    ran = theirs / "ran"
    done = yod(hosts, theirs, "-sz", "2", "/dev/shm/theirs", ran, env=env)
    program.unlink()
    assert (done.status, sorted(done.out.split()), done.err) == (0, ["0", "1", "rank", "rank"], "")
    assert ran.stat().st_uid == NOBODY


def test_another_users_key_file_is_not_taken(local: Daemons, theirs):
    key = key_of_nobody(bytes(32), theirs)
    env = {"YOD_PARTITION": local.address, "YOD_KEY_FILE": str(key)}
    done = yod(local, theirs, "true", env=env)
    assert done.status == 125
    assert "key" in done.err


@pytest.mark.hosts
def test_roots_own_run_time_directory_is_no_store_for_others(start_hosts, programs, theirs):
    """XDG_RUNTIME_DIR comes first, but nobody else can search it."""
    hosts = start_hosts(1, slots=1, uses_default_store=True)
    program = hosts.front.path("/dev/shm/theirs")
    program.write_bytes(programs.dynamic.read_bytes())
    program.chmod(0o755)
    key = key_of_nobody(hosts.key_file.read_bytes(), theirs)
    done = yod(hosts, theirs, "/dev/shm/theirs", env={"YOD_KEY_FILE": str(key)})
    program.unlink()
    assert done == (0, "rank 0\n", "")


def test_an_allocation_and_its_steps_run_as_their_owner(embedded, theirs):
    words = ("alloc", "-quiet", "-sz", "2", "sh", "-c", "id -u; yod -sz 2 id -u")
    done = finish(as_nobody(embedded, theirs, BIN / "yodjob", *words))
    assert (done.status, done.out.split(), done.err) == (0, [str(NOBODY)] * 3, "")
