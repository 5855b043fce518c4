"""The loop: descriptors, calls and idle calls, without a sleep."""

import os
import select

import pytest

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


def test_an_edge_is_told_once_though_nobody_reads(reactor, pipes):
    (read, write), seen = pipes(), []
    watch = reactor.watch_edges(read, lambda: seen.append("edge"), has_room=False)
    for count in (1, 2):
        os.write(write, b"x")
        reactor.run_once(0)
        reactor.run_once(0)
        assert seen == ["edge"] * count
    watch.close()
    os.write(write, b"x")
    reactor.run_once(0)
    assert seen == ["edge"] * 2


def test_room_is_an_edge_where_that_is_asked_for(reactor, pipes):
    (read, write), seen = pipes(), []
    reactor.watch_edges(write, lambda: seen.append("edge"), has_room=True)
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == ["edge"], "at the beginning"
    while select.select([], [write], [], 0)[1]:
        os.write(write, bytes(4096))
    os.read(read, 1 << 20)
    reactor.run_once(0)
    assert seen == ["edge"] * 2


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


# -- call_soon -------------------------------------------------------------


def test_the_loop_waits_in_the_turn_in_which_it_makes_its_calls(reactor, pipes, monkeypatch):
    (read, write), waits = pipes(), []
    poll = reactor._epoll.poll

    class Epoll:
        def poll(self, timeout_s: float) -> list[tuple[int, int]]:
            waits.append(timeout_s)
            os.write(write, b"x")
            return poll(0.0)

    reactor.watch(read, reactor.stop)
    monkeypatch.setattr(reactor, "_epoll", Epoll())
    reactor.call_soon(lambda: None)
    reactor.run()
    monkeypatch.undo()
    assert waits == [-1.0]


def test_a_call_that_stops_the_loop_is_its_last(reactor):
    reactor.call_soon(reactor.stop)
    reactor.run()


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


# -- idle calls ------------------------------------------------------------


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
