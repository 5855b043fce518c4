"""A loop for tests, a clock that tests set, and pipes."""

import os
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
