"""The process between the programs that talk by channels: ``python -m yod.pilot.channel.bridge``.

Its arguments are a directory, which is its user's alone, and the names of channels. Programs put
into ``ipc://DIRECTORY/NAME.in`` and get from ``NAME.out``. The kernel lets nobody else in: the
classes by which these programs talk can show no key. It ends when its input does, and takes the
directory away.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable

import msgspec
import zmq

from native import limits
from native.host.rlimits import raise_soft
from yod.pilot.channel.cuts import Cuts
from yod.pilot.channel.directory import remove
from yod.pilot.channel.queue import Delivery, Queue
from yod.pilot.model.channels import IN, OUT, QUEUE

_WAITING_MAX = 16  # messages of one putter that are here and not in its queue yet
_UNREAD_MAX = 1000  # messages for one subscriber; later ones are lost to it
_LIFE_FD = 0
_DEFAULT_LINE = "default"
_LIST_OF_ONE = b"\x91"  # in MessagePack, before its element

_names = msgspec.msgpack.Decoder(str)
_bulks = msgspec.msgpack.Decoder(list[msgspec.Raw])


class Bridge:
    """All channels of a pilot.

    Args:
        queue_bytes: that a queue takes.
    """

    def __init__(self, directory: str, names: list[str], queue_bytes: int) -> None:
        self._context = zmq.Context()
        self._directory = directory
        self._queue_bytes = queue_bytes
        self._poller = zmq.Poller()
        self._handlers: dict[object, Callable[[], None]] = {}
        self._cuts = Cuts(self._context, queue_bytes, self._watch, _say)
        for name in names:
            if name.endswith(QUEUE):
                self._add_queue(name)
            else:
                self._add_pubsub(name)

    def run(self) -> None:
        """Pass messages on until the input of this process ends."""
        self._poller.register(_LIFE_FD, zmq.POLLIN)
        while True:
            for end, _ in self._poller.poll():
                if end == _LIFE_FD:
                    return
                self._handlers[end]()

    def close(self) -> None:
        """Leave nothing."""
        self._context.destroy(linger=0)

    def _bind(self, kind: int, name: str, options: dict[int, int]) -> zmq.Socket[bytes]:
        end = self._context.socket(kind)
        for option, value in {zmq.MAXMSGSIZE: self._queue_bytes, **options}.items():
            end.set(option, value)
        if name.endswith(IN):
            self._cuts.add(name.removesuffix(IN), end)
        end.bind(f"ipc://{self._directory}/{name}")
        return end

    def _watch(self, end: zmq.Socket[bytes], handler: Callable[[], None]) -> None:
        self._handlers[end] = handler
        self._poller.register(end, zmq.POLLIN)

    def _add_queue(self, name: str) -> None:
        queue = Queue(self._queue_bytes)
        puts = self._bind(zmq.PULL, name + IN, {zmq.RCVHWM: _WAITING_MAX})
        # Mandatory, else a message for a getter that has gone is lost.
        gets = self._bind(zmq.ROUTER, name + OUT, {zmq.ROUTER_MANDATORY: 1})

        def put() -> None:
            try:
                line, bulk = puts.recv_multipart()
                messages = [bytes(each) for each in _bulks.decode(bulk)]
                _deliver(queue, gets, queue.put(_names.decode(line), messages))
            except (ValueError, msgspec.DecodeError) as error:
                _say(f"{name}: what has been put is no message: {error}")
            if queue.is_full:
                self._poller.unregister(puts)  # putters keep what they put

        def get() -> None:
            getter, *_, line = gets.recv_multipart()
            was_full = queue.is_full
            asked = line.decode(errors="replace") or _DEFAULT_LINE
            _deliver(queue, gets, queue.get(getter, asked))
            if was_full and not queue.is_full:
                self._poller.register(puts, zmq.POLLIN)

        self._watch(puts, put)
        self._watch(gets, get)

    def _add_pubsub(self, name: str) -> None:
        publishers = self._bind(zmq.XSUB, name + IN, {zmq.RCVHWM: _WAITING_MAX})
        subscribers = self._bind(zmq.XPUB, name + OUT, {zmq.SNDHWM: _UNREAD_MAX})
        self._watch(publishers, lambda: _pass(publishers, subscribers))
        self._watch(subscribers, lambda: _pass(subscribers, publishers))


def _pass(source: zmq.Socket[bytes], target: zmq.Socket[bytes]) -> None:
    target.send_multipart(source.recv_multipart())


def _say(line: str) -> None:
    """Tell in the log of the agent, whose standard error this is."""
    print(line, file=sys.stderr, flush=True)


def _deliver(queue: Queue, gets: zmq.Socket[bytes], deliveries: list[Delivery]) -> None:
    waiting = deque(deliveries)
    while waiting:
        delivery = waiting.popleft()
        line = msgspec.msgpack.encode(delivery.line)
        bulk = _LIST_OF_ONE + delivery.message
        try:
            gets.send_multipart([delivery.getter, b"", line, bulk], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            waiting.extend(queue.undelivered(delivery))


def main() -> int:
    """Be the bridge of a pilot."""
    directory, *names = sys.argv[1:]
    in_force = limits.load(dict(os.environ))
    raise_soft()  # each connection of a putter is here twice
    try:
        bridge = Bridge(directory, names, in_force.channel_bytes)
    except zmq.ZMQError as error:
        print(f"{directory}: {error}", file=sys.stderr)
        return 1
    try:
        bridge.run()
    finally:
        bridge.close()
        remove(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
