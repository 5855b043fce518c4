"""Signals and children in the loop, without a sleep."""

import os
import signal

from native.loop.reactor import Reactor
from native.waitstatus import UNKNOWN

# -- signals ---------------------------------------------------------------


def test_a_signal_is_a_call_in_the_loop(reactor):
    seen = []
    reactor.on_signal(signal.SIGUSR1, lambda: seen.append("usr1"))
    os.kill(os.getpid(), signal.SIGUSR1)
    assert seen == []
    reactor.run_once(0)
    assert seen == ["usr1"]
    reactor.run_once(0)
    assert seen == ["usr1"]


def test_a_signal_wakes_the_loop(reactor):
    reactor.on_signal(signal.SIGUSR1, reactor.stop)
    reactor.call_soon(lambda: os.kill(os.getpid(), signal.SIGUSR1))
    reactor.run()


def test_time_in_which_the_process_was_stopped_does_not_pass(reactor, clock, monkeypatch):
    def stop(number):
        assert signal.getsignal(number) is signal.SIG_DFL
        clock.now += 100.0

    seen = []
    reactor.on_signal(signal.SIGTSTP, lambda: seen.append("stop"))
    monkeypatch.setattr(signal, "raise_signal", stop)
    before = reactor.monotonic()
    reactor.suspend(signal.SIGTSTP)
    assert reactor.monotonic() == before
    clock.now += 1.0
    assert reactor.monotonic() == before + 1.0
    os.kill(os.getpid(), signal.SIGTSTP)
    reactor.run_once(1)
    assert seen == ["stop"]


def test_the_last_call_for_a_signal_counts(reactor):
    seen = []
    reactor.on_signal(signal.SIGUSR1, lambda: seen.append("old"))
    reactor.on_signal(signal.SIGUSR1, lambda: seen.append("new"))
    os.kill(os.getpid(), signal.SIGUSR1)
    reactor.run_once(0)
    assert seen == ["new"]


def test_a_closed_loop_leaves_no_handler_and_no_descriptor(clock):
    before = set(os.listdir("/proc/self/fd"))
    loop = Reactor(clock)
    loop.on_signal(signal.SIGUSR1, lambda: None)
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_closed_loop_gives_signals_back_to_who_had_them(clock):
    """yod.api runs in a user's program, whose Ctrl-C is to raise KeyboardInterrupt again."""
    seen = []
    reading, writing = os.pipe2(os.O_NONBLOCK)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    wakeup_fd = signal.set_wakeup_fd(writing)
    try:
        loop = Reactor(clock)
        for _ in range(2):
            loop.on_signal(signal.SIGUSR1, lambda: None)
        loop.close()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
        assert os.read(reading, 8) == bytes([signal.SIGUSR1])
    finally:
        signal.set_wakeup_fd(wakeup_fd)
        signal.signal(signal.SIGUSR1, before)
        os.close(reading)
        os.close(writing)


def test_no_signal_finds_its_handler_gone_while_a_loop_closes(clock, monkeypatch):
    loop, change, blocked = Reactor(clock), signal.signal, []
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGCHLD)}
    for number in before:
        loop.on_signal(number, lambda: None)
    ours = signal.getsignal(signal.SIGCHLD)

    def watched(number, handler):
        blocked.append(number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return change(number, handler)

    monkeypatch.setattr(signal, "signal", watched)
    loop.close()
    monkeypatch.undo()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    kept = signal.getsignal(signal.SIGCHLD)  # another thread may take it: no mask helps
    for number, handler in before.items():
        signal.signal(number, handler)
    assert blocked == [True]
    assert kept is ours
    assert mask.isdisjoint(before)


# -- children --------------------------------------------------------------


def child(code=0):
    return os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {code}"], os.environ)


def test_a_child_is_told_when_it_has_ended(reactor):
    ended = []
    reactor.on_child(child(3), lambda status: (ended.append(status), reactor.stop()))
    reactor.run()
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [3]


def test_a_child_that_ended_before_anybody_asked_is_told(reactor):
    unix_pid, ended = child(4), []
    os.waitid(os.P_PID, unix_pid, os.WEXITED | os.WNOWAIT)
    reactor.on_child(unix_pid, ended.append)
    reactor.run_once(0)
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [4]


def test_children_that_end_together_are_each_told(reactor):
    ended = {}

    def told(number):
        def call(status):
            ended[number] = os.waitstatus_to_exitcode(status)
            if len(ended) == 5:
                reactor.stop()

        return call

    children = [child(number) for number in range(5)]
    for unix_pid in children:
        os.waitid(os.P_PID, unix_pid, os.WEXITED | os.WNOWAIT)
    for number, unix_pid in enumerate(children):
        reactor.on_child(unix_pid, told(number))
    reactor.run()
    assert ended == {number: number for number in range(5)}


def test_all_who_asked_for_a_child_are_told_of_its_end(reactor):
    unix_pid, ended = child(6), []
    reactor.on_child(unix_pid, lambda status: ended.append(("first", status)))
    reactor.on_child(unix_pid, lambda status: (ended.append(("second", status)), reactor.stop()))
    reactor.run()
    assert [(who, os.waitstatus_to_exitcode(status)) for who, status in ended] == [
        ("first", 6),
        ("second", 6),
    ]


def test_a_child_that_somebody_else_has_reaped_has_no_status_that_is_known(reactor):
    unix_pid, ended = child(), []
    os.waitpid(unix_pid, 0)
    reactor.on_child(unix_pid, ended.append)
    reactor.run_once(0)
    assert ended == [UNKNOWN]


def test_a_child_of_somebody_else_is_left_alone(reactor):
    others = child(5)
    os.waitid(os.P_PID, others, os.WEXITED | os.WNOWAIT)
    ours = child(0)
    reactor.on_child(ours, lambda status: reactor.stop())
    reactor.run()
    _, status = os.waitpid(others, 0)
    assert os.waitstatus_to_exitcode(status) == 5
