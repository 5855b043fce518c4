"""Use after close, wrong types and wrong numbers raise; nothing crashes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from native._native import ffi, lib

from native.ids import ObjectKey, PortalId
from native.port.endpoint import Key, NetworkInterface, Slab
from native.port.portals import JobKey, PartitionKey, PortalsPort, UserKey
from native.portals import (
    AckReq,
    CountingEvent,
    EventQueue,
    MatchEntry,
    MemoryDescriptor,
    PortalTableEntry,
    PrivateInterface,
    PtOption,
)
from native.transport.raw import InUseError, PtlError, Rc
from native.wire.io import InputCredit

LOOPBACK = 0x7F000001
HELLO = InputCredit(1, 1)
KEY = ObjectKey(1, 1)


@pytest.fixture
def interface() -> Iterator[NetworkInterface]:
    with NetworkInterface(listen_nid=LOOPBACK, listen_pid=0, partition_key=bytes(32)) as one:
        yield one


@pytest.fixture
def private() -> Iterator[PrivateInterface]:
    with PrivateInterface(partition_key=bytes(32), flush_ms=0) as one:
        yield one


@pytest.fixture
def port() -> Iterator[PortalsPort]:
    one = PortalsPort(listen="127.0.0.1:0", partition_key=bytes(32))
    yield one
    one.close()


def test_result_codes_match_c() -> None:
    in_c = ffi.typeof("enum ptl_err").relements
    assert {code.name: code.value for code in Rc} == in_c


def test_every_result_code_has_a_name_and_a_text_in_c() -> None:
    for code in Rc:
        assert ffi.string(lib.PtlxErrorName(code)).decode() == code.name
        assert ffi.string(lib.PtlxErrorText(code)) != b"unknown"
    for number in (-1, 17, 1 << 30):
        assert ffi.string(lib.PtlxErrorName(number)) == b"unknown"


def test_an_error_says_the_call_the_code_and_the_reason(interface: NetworkInterface) -> None:
    _, pid = interface.id()
    with pytest.raises(InUseError) as caught:
        NetworkInterface(listen_nid=LOOPBACK, listen_pid=pid)
    assert str(caught.value) == "PtlxNIInit: PTL_PID_IN_USE: the address is in use (errno 98)"
    assert (caught.value.rc, caught.value.call) == (Rc.PTL_PID_IN_USE, "PtlxNIInit")


def test_use_after_close_raises_value_error(private: PrivateInterface) -> None:
    queue = EventQueue(private, 8)
    counter = CountingEvent(private)
    descriptor = MemoryDescriptor(private, b"abc", queue)
    entry = MatchEntry(PortalTableEntry(private, queue, 5), bytearray(64))
    descriptor.close()
    entry.close()
    counter.close()
    with pytest.raises(ValueError, match="memory descriptor is closed"):
        descriptor.put((LOOPBACK, 1), 0, 0)
    with pytest.raises(ValueError, match="counting event is closed"):
        counter.get()
    for one in (descriptor, entry, counter):
        one.close()  # twice is harmless


def test_closing_an_interface_closes_what_was_made_from_it() -> None:
    private = PrivateInterface(listen=None)
    queue = EventQueue(private, 8)
    counter = CountingEvent(private)
    descriptor = MemoryDescriptor(private, b"abc", queue)
    private.close()
    assert queue.is_closed and counter.is_closed and descriptor.is_closed
    interface = NetworkInterface()
    interface.receive_messages()
    slab = Slab(interface, 64, 1, 1)
    interface.close()
    assert slab.is_closed
    uses: list[Callable[[], object]] = [
        private.id,
        private.fileno,
        interface.id,
        interface.fileno,
        interface.counters,
        interface.events,
        interface.receive_messages,
        interface.turn_on,
        slab.append,
        lambda: interface.send(LOOPBACK, 1, b"x"),
        lambda: interface.disconnect(LOOPBACK, 1),
        lambda: interface.cancel(1),
        lambda: Slab(interface, 64, 1, 1),
        lambda: EventQueue(private, 8),
        lambda: CountingEvent(private),
        lambda: descriptor.put((LOOPBACK, 1), 0, 0),
        lambda: counter.inc(),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="is closed"):
            use()
    for one in (private, interface, queue, counter, descriptor, slab):
        one.close()


def test_a_handle_of_another_life_is_refused() -> None:
    first = PrivateInterface(listen=None)
    queue = EventQueue(first, 8)
    stale = queue.handle
    first.close()
    with PrivateInterface(listen=None) as second:
        EventQueue(second, 8)
        queue._handle = stale  # what a forgotten close would leave behind
        with pytest.raises(ValueError):
            queue.get()
        queue._handle = 0


@pytest.mark.parametrize("number", [-1, 1 << 32, 1 << 64, 1 << 200])
def test_numbers_out_of_range_raise_value_error(
    interface: NetworkInterface, private: PrivateInterface, number: int
) -> None:
    queue = EventQueue(private, 8)
    descriptor = MemoryDescriptor(private, b"abc", queue)
    uses: list[Callable[[], object]] = [
        lambda: interface.send(number, 1, b""),
        lambda: interface.send(LOOPBACK, number, b""),
        lambda: interface.disconnect(number, 1),
        lambda: interface.set_address(number, b"/x"),
        lambda: interface.use_key((number, 1), Key.LOCAL),
        lambda: interface.forward(1, 1, 0, 1, number, [], is_source=False),
        lambda: interface.forward(1, 1, 0, 1, 1, [(number, 1)], is_source=True),
        lambda: PortalTableEntry(private, queue, number),
        lambda: EventQueue(private, number),
        lambda: descriptor.put((number, 1), 0, 0),
        lambda: descriptor.put((LOOPBACK, 1), number, 0),
        lambda: descriptor.put((LOOPBACK, 1), 0, 0, offset=number),
        lambda: descriptor.put((LOOPBACK, 1), 0, 0, length=number),
        lambda: NetworkInterface(listen_pid=number),
    ]
    for place, use in enumerate(uses):
        if place == 13 and number == 0xFFFFFFFF:
            continue
        with pytest.raises(ValueError):
            use()


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)], ids=len)
def test_a_key_of_another_length_raises_value_error(port: PortalsPort, key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        PortalsPort(partition_key=key)
    for one in (PartitionKey(key), UserKey(1, key), JobKey(1, 1, 1, key)):
        with pytest.raises(ValueError, match="32 bytes"):
            port.use_key(None, one)


def test_a_busy_object_cannot_be_closed(private: PrivateInterface) -> None:
    trigger = CountingEvent(private)
    md = MemoryDescriptor(private, bytes(8))
    md.put((LOOPBACK, 1), 5, 0, ack=AckReq.NO_ACK_REQ, trigger=trigger, threshold=1)
    with pytest.raises(InUseError):
        md.close()
    assert not md.is_closed
    trigger.close()  # and what waits for it with it
    md.close()


def test_a_queue_can_be_closed_before_what_posts_to_it(private: PrivateInterface) -> None:
    queue = EventQueue(private, 8)
    pt = PortalTableEntry(private, queue, 5, PtOption.FLOWCTRL)
    md = MemoryDescriptor(private, bytes(8), queue)
    queue.close()
    target = private.phys_id()
    with pytest.raises(ValueError):
        md.put(target, pt.index, 0, ack=AckReq.ACK_REQ)  # an ack goes nowhere
    md.put(target, pt.index, 0, ack=AckReq.NO_ACK_REQ)
    pt.enable()
    md.close()


@pytest.mark.parametrize("chunk", [0, (64 << 20) + 1])
def test_an_object_of_impossible_shape_raises_value_error(port: PortalsPort, chunk: int) -> None:
    fd = os.memfd_create("x")
    os.ftruncate(fd, 4096)
    with pytest.raises(ValueError):
        port.receive_object(KEY, fd, 4096, chunk, [])
    with pytest.raises(ValueError):
        port.receive_object(KEY, fd, 0, 4096, [])
    with pytest.raises(ValueError):
        port.send_object(KEY, fd, 4096, 4096, [])  # to nobody
    with pytest.raises(ValueError):
        port.receive_object(ObjectKey(1 << 48, 0), fd, 4096, 4096, [])
    with pytest.raises(ValueError):
        port.receive_object(ObjectKey(1, 1 << 16), fd, 4096, 4096, [])
    os.close(fd)


def test_an_object_over_what_is_no_file_raises(port: PortalsPort) -> None:
    for fd in (-1, port.fileno()):
        with pytest.raises(PtlError) as caught:
            port.receive_object(KEY, fd, 4096, 4096, [])
        assert caught.value.rc is Rc.PTL_FAIL
    with pytest.raises(PtlError):
        port.send_object(KEY, -1, 4096, 4096, [PortalId(LOOPBACK, 1)])


def test_the_same_object_twice_raises(port: PortalsPort) -> None:
    fd = os.memfd_create("x")
    os.ftruncate(fd, 4096)
    port.receive_object(KEY, fd, 4096, 4096, [])
    with pytest.raises(InUseError):
        port.receive_object(KEY, fd, 4096, 4096, [])
    os.close(fd)


def test_a_closed_port_raises_value_error(port: PortalsPort) -> None:
    port.close()
    uses: list[Callable[[], object]] = [
        port.events,
        port.fileno,
        lambda: port.send(PortalId(LOOPBACK, 1), HELLO),
        lambda: port.disconnect(PortalId(LOOPBACK, 1)),
        lambda: port.cancel_object(KEY),
        lambda: port.use_key(None, PartitionKey(bytes(32))),
        lambda: port.set_addresses({1: "/x"}),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="is closed"):
            use()


@pytest.mark.parametrize("target", [PortalId(0, 5), PortalId(LOOPBACK, 0), PortalId(1 << 32, 5)])
def test_sending_to_an_impossible_id_raises_value_error(
    port: PortalsPort, target: PortalId
) -> None:
    with pytest.raises(ValueError):
        port.send(target, HELLO)


def test_a_path_that_is_too_long_or_taken_raises(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "socket")
    first = PortalsPort(unix_path=path)
    with pytest.raises(InUseError):
        PortalsPort(unix_path=path)
    first.close()
    assert not os.path.exists(path)
    with pytest.raises(ValueError):
        PortalsPort(unix_path="/" + "x" * 200)


def test_a_path_left_behind_by_a_dead_process_is_taken_over(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "socket")
    pid = os.fork()
    if pid == 0:
        PortalsPort(unix_path=path)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.path.exists(path)
    PortalsPort(unix_path=path).close()


def test_memory_of_a_descriptor_cannot_shrink_under_it(private: PrivateInterface) -> None:
    memory = bytearray(b"abc")
    descriptor = MemoryDescriptor(private, memory)
    with pytest.raises(BufferError):
        memory.clear()
    descriptor.close()
    memory.clear()
