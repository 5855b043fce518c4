"""The loop: descriptors, deadlines, signals and children, without a sleep."""

import os
import select
import signal

import pytest

from native.loop.reactor import Reactor


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reactor(clock):
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGCHLD)}
    loop = Reactor(clock)
    yield loop
    loop.close()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def pipes():
    """Makes pipes that do not block; closes them."""
    opened = []

    def make():
        opened.extend(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
        return opened[-2:]

    yield make
    for fd in opened:
        try:
            os.close(fd)
        except OSError:
            pass


# -- descriptors -----------------------------------------------------------


def test_a_descriptor_is_called_back_while_it_is_readable(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.watch(read, lambda: seen.append("readable"))
    reactor.run_once(0)
    assert seen == []
    os.write(write, b"x")
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == ["readable"] * 2
    os.read(read, 1)
    reactor.run_once(0)
    assert seen == ["readable"] * 2


def test_a_descriptor_is_called_back_while_it_is_writable(reactor, pipes):
    (_, write), seen = pipes(), []
    watch = reactor.watch(write, None, lambda: seen.append("writable"))
    reactor.run_once(0)
    assert seen == ["writable"]
    watch.set(None, None)
    reactor.run_once(0)
    assert seen == ["writable"]
    watch.set(None, lambda: seen.append("again"))
    reactor.run_once(0)
    assert seen == ["writable", "again"]


def test_the_end_of_file_is_readable(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.watch(read, lambda: seen.append(os.read(read, 9)))
    os.close(write)
    reactor.run_once(0)
    assert seen == [b""]


def test_a_hang_up_that_nobody_wants_does_not_wake_the_loop(reactor, pipes):
    read, write = pipes()
    watch = reactor.watch(read, lambda: None)
    watch.set(None, None)
    os.close(write)
    assert select.select([reactor.fileno()], [], [], 0)[0] == []


def test_a_callback_may_close_its_own_watch(reactor, pipes):
    (read, write), seen = pipes(), []

    def take():
        seen.append("once")
        watch.close()
        os.close(read)

    watch = reactor.watch(read, take)
    os.write(write, b"x")
    reactor.run_once(0)
    reactor.run_once(0)
    watch.close()  # twice is harmless
    watch.set(take, None)  # too late is harmless
    reactor.run_once(0)
    assert seen == ["once"]


def test_a_watch_closed_by_another_callback_is_not_called(reactor, pipes):
    seen, watches = [], []
    for number in range(2):
        read, write = pipes()
        os.write(write, b"x")

        def take(number=number):
            seen.append(number)
            watches[1 - number].close()

        watches.append(reactor.watch(read, take))
    reactor.run_once(0)
    assert len(seen) == 1


def test_a_watch_closed_while_readable_is_not_called_writable(reactor):
    import socket

    one, other = socket.socketpair()
    seen = []

    def readable():
        seen.append("readable")
        watch.close()

    with one, other:
        watch = reactor.watch(one.fileno(), readable, lambda: seen.append("writable"))
        other.send(b"x")
        reactor.run_once(0)
    assert seen == ["readable"]


def test_a_callback_may_watch_another_descriptor(reactor, pipes):
    (read, write), (later, feed), seen = pipes(), pipes(), []

    def take():
        os.read(read, 1)
        reactor.watch(later, lambda: seen.append(os.read(later, 1)))

    reactor.watch(read, take)
    os.write(write, b"x")
    os.write(feed, b"y")
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == [b"y"]


def test_a_regular_file_is_refused(reactor, tmp_path):
    with open(tmp_path / "file", "w") as file, pytest.raises(PermissionError):
        reactor.watch(file.fileno(), lambda: None)


def test_another_loop_can_host_this_one(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.watch(read, lambda: seen.append(os.read(read, 1)))
    outer = select.epoll()
    outer.register(reactor.fileno(), select.EPOLLIN)
    assert outer.poll(0) == []
    os.write(write, b"x")
    assert outer.poll(0) == [(reactor.fileno(), select.EPOLLIN)]
    reactor.run_once(0)
    assert seen == [b"x"] and outer.poll(0) == []
    outer.close()


# -- timers and call_soon --------------------------------------------------


class Timer:
    """Something with a deadline; notes when it was due."""

    def __init__(self, clock, due):
        self.clock, self.due, self.calls = clock, due, []

    def deadline(self):
        return self.due

    def on_due(self):
        self.calls.append(self.clock.now)
        self.due = None


def test_a_timer_is_called_when_its_time_has_come(reactor, clock):
    timer = Timer(clock, 105.0)
    reactor.add_timer(timer.deadline, timer.on_due)
    assert reactor.deadline() == 105.0
    reactor.run_once(0)
    clock.now = 104.9
    reactor.run_once(0)
    assert timer.calls == []
    clock.now = 105.0
    reactor.run_once(0)
    assert timer.calls == [105.0]
    assert reactor.deadline() is None


def test_the_earliest_of_several_deadlines_is_the_loops(reactor, clock):
    timers = [Timer(clock, due) for due in (None, 120.0, 110.0)]
    for timer in timers:
        reactor.add_timer(timer.deadline, timer.on_due)
    assert reactor.deadline() == 110.0
    timers[2].due = None  # a deadline is asked for each time
    assert reactor.deadline() == 120.0


def test_a_deadline_that_an_event_has_cancelled_is_not_delivered(reactor, clock, pipes):
    (read, write), timer = pipes(), Timer(clock, 105.0)
    reactor.add_timer(timer.deadline, timer.on_due)

    def take():
        os.read(read, 1)
        timer.due = None

    reactor.watch(read, take)
    os.write(write, b"x")
    clock.now = 106.0
    reactor.run_once(0)
    assert timer.calls == []


def test_a_removed_timer_is_not_called_even_by_one_of_the_same_moment(reactor, clock):
    first, second = Timer(clock, 101.0), Timer(clock, 101.0)
    removals = []
    reactor.add_timer(first.deadline, lambda: (first.on_due(), removals[0]()))
    removals.append(reactor.add_timer(second.deadline, second.on_due))
    clock.now = 102.0
    reactor.run_once(0)
    removals[0]()  # twice is harmless
    assert first.calls == [102.0] and second.calls == []


def test_calls_made_soon_come_in_order_before_the_next_wait(reactor, clock):
    seen = []
    reactor.call_soon(lambda: seen.append(1))
    reactor.call_soon(lambda: seen.append(2))
    assert reactor.deadline() == clock.now
    reactor.run_once(-1.0 if seen else 0.0)
    assert seen == [1, 2]
    assert reactor.deadline() is None


def test_sliced_work_lets_descriptors_in_between(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.watch(read, lambda: seen.append(os.read(read, 1)))
    os.write(write, b"x")

    def piece(left):
        seen.append(left)
        reactor.call_soon((lambda: piece(left - 1)) if left else reactor.stop)

    reactor.call_soon(lambda: piece(2))
    reactor.run()
    assert seen == [2, b"x", 1, 0]


def test_run_ends_when_it_is_told_to(reactor, clock):
    timer = Timer(clock, 100.0)
    reactor.add_timer(timer.deadline, lambda: (timer.on_due(), reactor.stop()))
    reactor.run()
    assert timer.calls == [100.0]
    reactor.call_soon(reactor.stop)
    reactor.run()  # and may run again


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


def test_a_forgotten_child_is_reaped_and_not_told(reactor):
    forgotten, ended = child(1), []
    reactor.on_child(forgotten, ended.append)
    reactor.forget_child(forgotten)
    os.waitid(os.P_PID, forgotten, os.WEXITED | os.WNOWAIT)
    reactor.run_once(0)
    assert ended == []
    with pytest.raises(ChildProcessError):
        os.waitpid(forgotten, os.WNOHANG)


def test_a_child_of_somebody_else_is_left_alone(reactor):
    others = child(5)
    os.waitid(os.P_PID, others, os.WEXITED | os.WNOWAIT)
    ours = child(0)
    reactor.on_child(ours, lambda status: reactor.stop())
    reactor.run()
    _, status = os.waitpid(others, 0)
    assert os.waitstatus_to_exitcode(status) == 5


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


def test_idle_calls_come_one_at_a_time_when_nothing_is_ready(reactor, pipes):
    reader, writer = pipes()
    order = []

    def readable():
        order.append("readable")
        os.read(reader, 1)

    reactor.watch(reader, readable)
    for number in range(2):
        reactor.when_idle(lambda number=number: order.append(number))
    os.write(writer, b"x")
    reactor.call_soon(lambda: order.append("soon"))
    for _ in range(3):
        reactor.run_once(-1.0)
    assert order == ["soon", "readable", 0, 1]


def test_a_loop_that_hosts_another_is_told_of_its_idle_calls(reactor, clock):
    assert reactor.deadline() is None
    reactor.when_idle(reactor.stop)
    assert reactor.deadline() == clock()
    reactor.run()
    assert reactor.deadline() is None


# -- owners ----------------------------------------------------------------


class Owner:
    """Remembers what was raised on its behalf."""

    def __init__(self):
        self.told = []

    def __call__(self, error):
        self.told.append(str(error))


def fail(*_arguments):
    raise ValueError("broken")


def test_what_is_raised_for_an_owner_is_told_to_it_and_the_loop_goes_on(reactor):
    owner, seen = Owner(), []
    assert not reactor.run_for(owner, fail)
    assert reactor.run_for(owner, seen.append, "done")
    assert (owner.told, seen) == (["broken"], ["done"])


def test_what_is_asked_of_the_loop_for_an_owner_is_the_owners(reactor, clock, pipes):
    (read, write), owner = pipes(), Owner()

    def ask():
        reactor.watch(read, fail)
        reactor.call_soon(fail)
        reactor.when_idle(fail)
        reactor.add_timer(lambda: 101.0 if clock.now < 102.0 else None, fail)

    reactor.run_for(owner, ask)
    os.write(write, b"x")
    reactor.run_once(0)
    assert owner.told == ["broken"] * 2  # the call and the watch
    reactor.run_once(0)
    clock.now = 101.0
    reactor.run_once(0)
    assert owner.told == ["broken"] * 4


def test_a_callback_that_raises_for_its_owner_is_not_called_again(reactor, pipes):
    (read, write), owner = pipes(), Owner()
    reactor.run_for(owner, reactor.watch, read, fail)
    os.write(write, b"x")
    reactor.run_once(0)
    reactor.run_once(0)
    assert owner.told == ["broken"]


def test_what_an_owned_call_asks_for_is_the_owners_too(reactor):
    owner = Owner()
    reactor.run_for(owner, reactor.call_soon, lambda: reactor.call_soon(fail))
    reactor.run_once(0)
    reactor.run_once(0)
    assert owner.told == ["broken"]


def test_the_children_of_one_owner_are_not_the_trouble_of_another(reactor):
    one, other, statuses = Owner(), Owner(), []
    true, false = (os.posix_spawnp(name, [name], os.environ) for name in ("true", "false"))

    def ended(status):
        statuses.append(status)
        if len(statuses) == 2:
            reactor.call_soon(reactor.stop)

    reactor.run_for(one, reactor.on_child, true, lambda status: (ended(status), fail()))
    reactor.run_for(other, reactor.on_child, false, ended)
    reactor.run()
    assert sorted(map(os.waitstatus_to_exitcode, statuses)) == [0, 1]
    assert (one.told, other.told) == (["broken"], [])


def test_what_has_no_owner_raises_through_the_loop(reactor):
    reactor.call_soon(fail)
    with pytest.raises(ValueError, match="broken"):
        reactor.run_once(0)


def test_an_owner_that_contains_nothing_raises_through_the_loop(reactor):
    reactor.run_for(fail, reactor.call_soon, fail)
    with pytest.raises(ValueError, match="broken"):
        reactor.run_once(0)


def test_a_deadline_in_many_years_is_waited_for_like_any_other(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.add_timer(lambda: float(1 << 40), lambda: None)
    reactor.watch(read, lambda: (seen.append("readable"), reactor.stop()))
    os.write(write, b"x")
    reactor.run()
    assert seen == ["readable"]
