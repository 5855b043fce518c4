"""A daemon's log: its lines, where they go, and what becomes of those that cannot be written."""

import os
import re
import socket
from contextlib import ExitStack

import pytest

from native.errors import UsageError
from native.host import systemd
from native.host.log import DaemonLog

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def a_log():
    """Makes logs of node n3, which are closed in the end."""
    with ExitStack() as stack:

        def make(target, environment=None, **options):
            log = DaemonLog("pct", "n3", str(target), environment or {}, **options)
            stack.callback(log.close)
            return log

        yield make


def test_a_line_has_the_time_the_node_and_the_job(a_log, file):
    log = a_log(file)
    log.say("begins")
    log.say("held", 17)
    first, second = file.read_text().splitlines()
    assert re.fullmatch(rf"{STAMP} n3: begins", first)
    assert re.fullmatch(rf"{STAMP} n3: job 17: held", second)


def test_a_line_may_have_milliseconds(a_log, file):
    a_log(file, has_milliseconds=True).say("begins")
    assert re.fullmatch(rf"{STAMP}\.\d{{3}} n3: begins\n", file.read_text())


def test_a_log_goes_on_behind_what_an_earlier_process_wrote(a_log, file):
    file.write_text("earlier\n")
    a_log(file).say("begins")
    assert file.read_text().startswith("earlier\n") and "begins" in file.read_text()


def test_a_log_that_was_moved_away_is_opened_again(a_log, file, tmp_path):
    log = a_log(file)
    log.say("one")
    file.rename(tmp_path / "log.1")
    log.say("two")
    log.open_again()
    log.say("three")
    assert (
        "two" in (tmp_path / "log.1").read_text()
        and "three" not in (tmp_path / "log.1").read_text()
    )
    assert "three" in file.read_text()


def test_a_log_that_cannot_be_opened_again_stays_open_and_says_so(a_log, file, tmp_path):
    log = a_log(file)
    file.rename(tmp_path / "log.1")
    file.mkdir()
    log.open_again()
    assert f"the log is the same file: {file}: Is a directory" in (tmp_path / "log.1").read_text()


def test_without_a_file_there_is_none_to_open_again(a_log, capfd):
    a_log("").open_again()
    assert "there is no log file to open again" in capfd.readouterr().err


def test_a_file_that_cannot_be_opened_is_refused(a_log, tmp_path):
    with pytest.raises(UsageError, match=r"--log .*/no/log: No such file or directory"):
        a_log(tmp_path / "no" / "log")


def test_lines_that_cannot_be_written_are_counted_and_told(a_log, file, monkeypatch):
    log = a_log(file)
    write = os.write

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    log.say("one")
    log.say("two")
    monkeypatch.setattr(os, "write", write)
    log.say("three")
    lost, last = file.read_text().splitlines()
    assert lost.endswith("n3: here 2 lines could not be written: No space left on device")
    assert last.endswith("n3: three")


def test_a_lack_of_the_host_is_one_line_and_a_bug_has_its_traceback(a_log, file):
    log = a_log(file)
    log.contain("job 17", OSError(28, "No space left on device"))
    assert file.read_text().count("\n") == 1
    log.contain("job 17", ValueError("x"))
    assert "internal error, please report: ValueError: x" in file.read_text()
    assert file.read_text().count("ValueError: x") == 2


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """A socket in place of journald's."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taker:
        taker.bind(path)
        taker.settimeout(10)
        monkeypatch.setattr(systemd.Journal.__init__, "__defaults__", (path,))
        yield taker


def test_the_journal_has_node_and_job_as_fields(a_log, journal):
    a_log("journal").say("held", 17)
    fields = journal.recv(4096).decode().splitlines()
    assert set(fields) == {
        "MESSAGE=job 17: held",
        "PRIORITY=6",
        "SYSLOG_IDENTIFIER=pct",
        "YOD_NODE=n3",
        "YOD_JOB=17",
    }


def test_a_text_of_several_lines_is_one_entry(a_log, journal):
    a_log("journal").say("one\ntwo")
    assert b"MESSAGE\n" + (7).to_bytes(8, "little") + b"one\ntwo\n" in journal.recv(4096)


def test_standard_error_that_is_the_journal_is_known(a_log, journal):
    found = os.fstat(2)
    environment = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
    a_log("", environment).say("begins")
    assert b"MESSAGE=begins\n" in journal.recv(4096)


def test_a_journal_that_does_not_read_holds_up_nobody(a_log, journal):
    log = a_log("journal")
    for _ in range(5000):
        log.say("x" * 1000)
    journal.setblocking(False)
    with pytest.raises(BlockingIOError):  # all that was kept for it has been read
        while journal.recv(4096):
            pass
    log.say("more")
    assert b"lines could not be written" in journal.recv(4096)


@pytest.mark.parametrize("form", ["path", "abstract"])
def test_the_service_manager_is_told_that_a_daemon_is_ready(tmp_path, form):
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name if form == "path" else "\0" + name)
        systemd.notify({"NOTIFY_SOCKET": name if form == "path" else "@" + name}, "READY=1")
        assert manager.recv(100) == b"READY=1"


def test_a_service_manager_that_is_not_there_is_no_error(tmp_path):
    systemd.notify({}, "READY=1")
    systemd.notify({"NOTIFY_SOCKET": str(tmp_path / "gone")}, "READY=1")
