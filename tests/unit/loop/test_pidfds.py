"""Children of a program whose signals are not ours."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading

import pytest

from native.loop.reactor import Reactor
from native.waitstatus import UNKNOWN


@pytest.fixture
def loop(clock):
    loop = Reactor(clock, takes_sigchld=False)
    yield loop
    loop.close()


def child(code: int = 0) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {code}"], os.environ)


def test_a_child_is_told_of_without_sigchld(loop):
    before = signal.getsignal(signal.SIGCHLD)
    ended: list[int] = []
    loop.on_child(child(3), lambda status: (ended.append(status), loop.stop()))
    loop.run()
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [3]
    assert signal.getsignal(signal.SIGCHLD) is before


def test_children_are_told_of_in_any_thread(clock):
    ended: list[int] = []

    def watch() -> None:
        loop = Reactor(clock, takes_sigchld=False)
        loop.on_child(child(4), lambda status: (ended.append(status), loop.stop()))
        loop.run()
        loop.close()

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [4]


def test_the_end_of_a_child_that_rests_wakes_nobody_and_is_told_later(loop):
    ended: list[int] = []
    unix_pid = child(5)
    loop.on_child(unix_pid, lambda status: (ended.append(status), loop.stop()))
    loop.rest_child(unix_pid, True)
    os.waitid(os.P_PID, unix_pid, os.WEXITED | os.WNOWAIT)
    ready = select.poll()
    ready.register(loop.fileno(), select.POLLIN)
    assert not ready.poll(0)
    loop.rest_child(unix_pid, False)
    loop.run()
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [5]
    loop.rest_child(unix_pid, True)  # it is not there any more


def test_all_who_ask_for_a_child_are_told(loop):
    ended: list[str] = []
    unix_pid = child()
    loop.on_child(unix_pid, lambda status: ended.append("first"))
    loop.on_child(unix_pid, lambda status: (ended.append("second"), loop.stop()))
    loop.run()
    assert ended == ["first", "second"]


def test_a_child_that_somebody_else_has_reaped_has_no_status_that_is_known(loop):
    unix_pid = child()
    os.waitpid(unix_pid, 0)
    ended: list[int] = []
    loop.on_child(unix_pid, ended.append)
    loop.run_once(0)
    assert ended == [UNKNOWN]


def test_a_child_without_a_descriptor_is_told_of_later(loop, clock, monkeypatch):
    def none_left(unix_pid: int) -> int:
        raise OSError(errno.EMFILE, "none left")

    ended: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", none_left)
        loop.on_child(child(5), lambda status: (ended.append(status), loop.stop()))
        loop.run_once(0)
    clock.now += 1.0
    loop.run()
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [5]


def test_a_closed_loop_leaves_no_descriptor(clock):
    before = sorted(os.listdir("/proc/self/fd"))
    loop = Reactor(clock, takes_sigchld=False)
    unix_pid = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ)
    loop.on_child(unix_pid, lambda status: None)
    loop.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
    os.kill(unix_pid, signal.SIGKILL)
    os.waitpid(unix_pid, 0)
