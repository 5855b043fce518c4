"""A daemon's configuration file, its log, its unit of systemd."""

import os
import signal
import socket
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S, wait_until


def begun(*words, **options):
    """A daemon, and the address that it says when it is ready."""
    read, write = os.pipe()
    try:
        daemon = subprocess.Popen(
            [*map(str, words), "--ready-fd", str(write)], pass_fds=(write,), **options
        )
    finally:
        os.close(write)
    with open(read) as ready:
        return daemon, ready.readline().strip()


@pytest.fixture
def site(tmp_path):
    """A configuration file and what it names."""
    (tmp_path / "nodes").write_text("n0\n")
    (tmp_path / "yod.conf").write_text(
        "[limits]\nheartbeat_s = 0.5\n"
        f'[bebopd]\nstate-dir = "{tmp_path}/state"\nnodes-file = "{tmp_path}/nodes"\n'
        f'key-file = "{tmp_path}/key"\nlog = "{tmp_path}/bebopd.log"\nname = "main"\n'
        f'[pct]\nkey-file = "{tmp_path}/key"\nslots = 3\nlisten = "127.0.0.1:0"\n'
        'advertise = "127.0.0.1"\ncgroups = "no"\n'
    )
    return tmp_path


@pytest.fixture
def start(site):
    """Starts daemons with the file, and ends them."""
    daemons = []

    def one(*words, **options):
        daemon, address = begun(*words, "--config", site / "yod.conf", **options)
        daemons.append(daemon)
        assert address, daemon.wait(timeout=LIMIT_S)
        return daemon, address

    yield one
    for daemon in reversed(daemons):
        daemon.terminate()
        assert daemon.wait(timeout=LIMIT_S) == 0


def has(path, text):
    return lambda: path.exists() and text in path.read_text()


def test_daemons_take_their_options_from_the_file_and_the_command_line_goes_before(site, start):
    _, address = start(BIN / "bebopd", "--name", "other")
    log = site / "bebopd.log"
    start(BIN / "pct", "--bebopd", address, "--name", "n0", "--log", site / "pct.log")
    wait_until(has(log, "node 0 (n0)"))
    assert "bebopd: partition other at" in log.read_text()
    table = subprocess.check_output(
        [BIN / "pingd", "--partition", address],
        env={**os.environ, "YOD_KEY_FILE": f"{site}/key"},
        text=True,
    )
    assert "3 slots" in table


def test_at_sighup_bebopd_opens_its_log_again_and_takes_the_nodes_file_as_it_is(site, start):
    bebopd, address = start(BIN / "bebopd")
    log = site / "bebopd.log"
    log.rename(site / "bebopd.log.1")
    (site / "nodes").write_text("n0\nn1\nn7\n")
    bebopd.send_signal(signal.SIGHUP)
    wait_until(has(log, f"SIGHUP: nodes file {site}/nodes is in force"))
    start(BIN / "pct", "--bebopd", address, "--name", "n7", "--log", site / "n7.log")
    wait_until(has(log, "node 2 (n7)"))
    (site / "nodes").write_text("n7\n")
    bebopd.send_signal(signal.SIGHUP)
    wait_until(has(log, "SIGHUP: all stays as it is: n7 is node 2, not 0"))


def test_at_sighup_a_limit_that_has_changed_is_said_to_wait_for_the_next_start(site, start):
    bebopd, _ = start(BIN / "bebopd")
    path = site / "yod.conf"
    path.write_text(path.read_text().replace("heartbeat_s = 0.5", "heartbeat_s = 3"))
    bebopd.send_signal(signal.SIGHUP)
    wait_until(has(site / "bebopd.log", f"{path} has changed, and will be in force at the next"))
    path.write_text("[limits")
    bebopd.send_signal(signal.SIGHUP)
    wait_until(has(site / "bebopd.log", f"SIGHUP: all stays as it is: {path}: Expected"))


@pytest.mark.parametrize("daemon", ["bebopd", "pct"])
def test_a_mistake_in_the_file_is_one_line_and_status_2(site, daemon):
    (site / "yod.conf").write_text(f"[{daemon}]\nlissen = 3\n")
    done = subprocess.run(
        [BIN / daemon, "--config", site / "yod.conf"], capture_output=True, text=True
    )
    said = f"{site}/yod.conf: [{daemon}] lissen: no such option in a file; there is listen\n"
    assert (done.returncode, done.stderr) == (2, f"{daemon}: {said}")


def test_the_doctor_checks_the_file(site):
    command = [BIN / "yodctl", "doctor", "--config", site / "yod.conf"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{site}/yod.conf: nothing is wrong\n")
    (site / "yod.conf").write_text("[limits]\nphase_s = -1\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "[limits] phase_s=-1: must be from 0.001" in done.stderr


def test_a_daemon_tells_the_service_manager_that_it_is_ready(site, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(site / "notify"))
        manager.settimeout(LIMIT_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(site / "notify")}
        _, address = start(BIN / "bebopd", env=environment)
        assert manager.recv(100) == b"READY=1"
        start(BIN / "pct", "--bebopd", address, "--log", site / "pct.log", env=environment)
        assert manager.recv(100) == b"READY=1"


# A daemon that finds a directory of the test's in the place of the journal's.
WITH_JOURNAL = """mount -t tmpfs none /run && mkdir -p /run/systemd/journal &&
mount --bind "$0" /run/systemd/journal && exec "$@" """


@pytest.mark.usefixtures("needs_root")
def test_daemons_log_to_the_journal(site, start):
    (site / "j").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(site / "j/socket"))
        journal.settimeout(LIMIT_S)
        run = ("unshare", "--mount", "sh", "-c", WITH_JOURNAL, site / "j")
        _, address = start(*run, BIN / "bebopd", "--log", "journal")
        entry = journal.recv(4096).decode().splitlines()
        assert {"PRIORITY=6", "SYSLOG_IDENTIFIER=bebopd"} < set(entry)
        assert any(line.startswith("MESSAGE=partition main at ") for line in entry)
        start(*run, BIN / "pct", "--bebopd", address, "--name", "n0", "--log", "journal")
        while "SYSLOG_IDENTIFIER=pct" not in entry:
            entry = journal.recv(4096).decode().splitlines()
        assert "YOD_NODE=n0" in entry
        assert not (site / "bebopd.log").exists()


@pytest.mark.parametrize("daemon", ["bebopd", "pct"])
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path, daemon):
    text = subprocess.check_output([BIN / "yodctl", "unit", daemon], text=True)
    unit = tmp_path / f"{daemon}.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
