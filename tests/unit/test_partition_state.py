"""The state file of yodctl, and knowing a process again."""

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from native.errors import PartitionError
from native.host import userdirs
from partition.find import state
from partition.find.state import Daemon, State
from partition.up import processes
from tests.support.wait import LIMIT_S


@pytest.fixture
def environment(tmp_path):
    return {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path / "home")}


def a_state(**changes):
    fields = {
        "is_up": True,
        "name": "local",
        "address": "127.0.0.1:1234",
        "unix_address": "unix:/x",
        "key_file": "/key",
        "boot_id": userdirs.boot_id(),
        "began": 5.0,
        "daemons": (Daemon(77, 5, "/log"),),
    }
    return State(**{**fields, **changes})


def save(environment, found):
    where = state.directory(environment)
    where.mkdir(exist_ok=True)
    state.save(found, where)
    return where / state.FILE_NAME


def test_what_was_saved_is_found(environment):
    path = save(environment, a_state())
    assert state.load(environment) == a_state()
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [state.FILE_NAME]


def test_nothing_is_found_where_nothing_is_up(environment):
    assert state.load(environment) is None
    assert state.load({"HOME": "/nonexistent"}) is None


def test_a_partition_that_is_being_started_is_not_up_yet(environment):
    save(environment, a_state(is_up=False))
    assert state.load(environment) is None
    assert state.load_any(environment) == a_state(is_up=False)


def test_a_partition_of_before_a_reboot_is_none(environment):
    save(environment, a_state(boot_id="another life"))
    assert state.load_any(environment) is None


@pytest.mark.parametrize("data", [b"", b"{", b'{"is_up": 3}', b"\xff"])
def test_a_damaged_file_is_named(environment, data):
    path = save(environment, a_state())
    path.write_bytes(data)
    with pytest.raises(PartitionError, match=r"partition\.json: damaged .*; remove it"):
        state.load(environment)


def test_a_newer_file_may_say_more(environment):
    path = save(environment, a_state())
    more = {**msgspec.json.decode(path.read_bytes()), "colour": "red"}
    path.write_bytes(msgspec.json.encode(more))
    assert state.load(environment) == a_state()


def test_the_state_is_in_the_home_where_there_is_no_runtime_directory(tmp_path):
    missing = {"XDG_RUNTIME_DIR": str(tmp_path / "gone"), "HOME": str(tmp_path)}
    for environment in (missing, {"HOME": str(tmp_path)}):
        assert state.directory(environment) == tmp_path / ".local" / "state" / "yod"


def test_a_process_is_known_by_its_start_too():
    ticks = processes.start_ticks(os.getpid())
    assert processes.is_alive(Daemon(os.getpid(), ticks, ""))
    assert not processes.is_alive(Daemon(os.getpid(), ticks + 1, ""))
    assert not processes.is_alive(Daemon(2**22 + 1, ticks, ""))


def sleeper(ignores_term):
    script = (
        "import signal, sys, time\n"
        + ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignores_term else "")
        + "print(flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    process.stdout.read(1)
    return process, Daemon(process.pid, processes.start_ticks(process.pid), "")


def test_daemons_are_ended_and_those_that_refuse_are_killed():
    polite, one = sleeper(ignores_term=False)
    stubborn, two = sleeper(ignores_term=True)
    gone = Daemon(one.unix_pid, one.start_ticks + 7, "")  # another process by now
    assert processes.end([one, gone], wait_s=LIMIT_S) == (1, 0)
    assert processes.end([two], wait_s=0.5) == (1, 1)
    for process, status in ((polite, -15), (stubborn, -9)):
        assert process.wait(LIMIT_S) == status
        process.stdout.close()
    assert processes.end([one, two], wait_s=0.5) == (0, 0)


def test_a_stopped_daemon_that_is_resumed_ends_without_being_killed():
    process, daemon = sleeper(ignores_term=False)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert processes.end([daemon], wait_s=LIMIT_S, resumes=True) == (1, 0)
    assert process.wait(LIMIT_S) == -signal.SIGTERM
    process.stdout.close()
