"""Memory descriptors, and data movement from and into them; see :mod:`native.portals`."""

from __future__ import annotations

from typing import Any

from native._native import ffi, lib
from native.portals.events import CountingEvent, EventQueue
from native.portals.interface import Interface, state_of
from native.portals.memory import HeldMemory, Memory, operand_of
from native.portals.state import SWEEP_FIRST, UNKNOWN, Operation, Part, Target, handle_of, plain
from native.portals.values import AckReq, AtomicOp, Datatype, MdOption
from native.transport.raw import check, in_range


class MemoryDescriptor(Part):
    """The initiator's memory (PtlMDBind, PtlMDRelease).

    Args:
        memory: where bytes are taken from, and replies land; a list is an I/O vector.
            Read-only memory can only be put.
        queue: of SEND, ACK and REPLY events.
        counter: counts what the CT options say.
        options: :class:`MdOption`.

    Raises:
        TypeError, ValueError: memory that cannot be used; see :mod:`native.portals`.
        NoSpaceError: too many descriptors.
    """

    _what = "memory descriptor"
    _free_name = "PtlMDRelease"

    @in_range
    def __init__(
        self,
        interface: Interface,
        memory: Memory,
        queue: EventQueue | None = None,
        counter: CountingEvent | None = None,
        *,
        options: int = 0,
    ) -> None:
        super().__init__(state_of(interface))
        options = plain(options)
        self._queue = queue
        # Events that one operation gives, when it goes well: 0 or 1, or not known.
        each = UNKNOWN if options & MdOption.EVENT_SUCCESS_DISABLE else 1
        self._replies = each if queue is not None else 0
        self._sends = 0 if options & MdOption.EVENT_SEND_DISABLE else self._replies
        self._numbers: set[int] = set()  # of records whose events may be to come
        self._memory = HeldMemory(memory, is_written=False)
        try:
            md = ffi.new("ptl_md_t *")
            md.start, md.length = self._memory.start, self._memory.length
            md.options = options | self._memory.options
            md.eq_handle = handle_of(queue, EventQueue)
            md.ct_handle = handle_of(counter, CountingEvent)
            handle = ffi.new("uint32_t *")
            self._made(lib.PtlMDBind(interface.handle, md, handle), "PtlMDBind", handle)
        except BaseException:
            self._memory.release()
            raise

    @staticmethod
    def _free(handle: int) -> int:
        return int(lib.PtlMDRelease(handle))

    def _give_back(self) -> None:
        self._memory.release()
        for number in self._numbers & self._state.records.keys():
            if self._queue is None or self._queue.is_closed:
                self._state.records.pop(number, None)
            else:
                self._queue._retire(number)
        self._numbers.clear()

    @property
    def size_bytes(self) -> int:
        """Bytes of all its memory."""
        return self._memory.size_bytes

    @in_range
    def put(
        self,
        target: Target,
        index: int,
        match_bits: int = 0,
        *,
        offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        ack: AckReq = AckReq.NO_ACK_REQ,
        user_ptr: Any = None,
        hdr_data: int = 0,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Put bytes to a target (PtlPut), or when ``trigger`` gets there (PtlTriggeredPut).

        A SEND event says that the memory may be used again, an ACK event that the bytes
        are at the target.

        Args:
            target: a :class:`Process`, or a rank on a logical interface.
            index: of the target's portal table entry.
            match_bits: for match entries.
            offset, length: of the bytes here; None: all behind the offset.
            remote_offset: in the target's memory.
            ack: which acknowledgement is wanted.
            user_ptr: comes back in the events; any object.
            hdr_data: goes to the target's event; 64 bits.
            trigger, threshold: begin when that counter has had so many.

        Raises:
            ValueError: bytes outside the memory, a target that cannot be, a number that
                does not fit, an acknowledgement whose queue or counter is missing.
            NoSpaceError: no memory, or too many triggered operations wait.
        """
        size = self._length(offset, length)
        local = (self.handle, offset, size, AckReq(ack))
        remote = (self._state.process(target), index, match_bits, remote_offset)
        left = self._sends + (self._replies if ack == AckReq.ACK_REQ else 0)
        when = (trigger, threshold)
        self._run("Put", local + remote, user_ptr, left, (hdr_data,), when)

    @in_range
    def get(
        self,
        target: Target,
        index: int,
        match_bits: int = 0,
        *,
        offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        user_ptr: Any = None,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Get bytes from a target (PtlGet, PtlTriggeredGet); a REPLY event says they are here.

        Arguments and errors are those of :meth:`put`; read-only memory is a ValueError.
        """
        self._must_be_writable()
        size = self._length(offset, length)
        local = (self.handle, offset, size)
        remote = (self._state.process(target), index, match_bits, remote_offset)
        when = (trigger, threshold)
        self._run("Get", local + remote, user_ptr, self._replies, (), when)

    @in_range
    def atomic(
        self,
        target: Target,
        index: int,
        operation: AtomicOp,
        datatype: Any = None,
        match_bits: int = 0,
        *,
        offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        ack: AckReq = AckReq.NO_ACK_REQ,
        user_ptr: Any = None,
        hdr_data: int = 0,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Combine these elements with the target's (PtlAtomic, PtlTriggeredAtomic).

        Args:
            operation: MIN to BXOR.
            datatype: a :class:`Datatype` or numpy dtype; None: that of this memory.

        The others, the events and the errors are those of :meth:`put`.

        Raises:
            TypeError: the memory has no such type.
            ValueError: also an operation that does not go with the type, or a length
                that is no number of elements or above the limit.
        """
        size = self._length(offset, length)
        local = (self.handle, offset, size, AckReq(ack))
        remote = (self._state.process(target), index, match_bits, remote_offset)
        rest = (hdr_data, AtomicOp(operation), self._datatype(datatype))
        left = self._sends + (self._replies if ack == AckReq.ACK_REQ else 0)
        self._run("Atomic", local + remote, user_ptr, left, rest, (trigger, threshold))

    @in_range
    def fetch_atomic(
        self,
        data: MemoryDescriptor,
        target: Target,
        index: int,
        operation: AtomicOp,
        datatype: Any = None,
        match_bits: int = 0,
        *,
        offset: int = 0,
        data_offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        user_ptr: Any = None,
        hdr_data: int = 0,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Combine the elements of ``data`` with the target's, and get what was there before
        into this memory (PtlFetchAtomic, PtlTriggeredFetchAtomic).

        ``data`` gets a SEND event, this descriptor REPLY.

        Args:
            data: a descriptor of the same interface.
            data_offset: of the bytes there.
            length: None: all of ``data`` behind ``data_offset``.

        The others and the errors are those of :meth:`atomic`.
        """
        self._must_be_writable()
        data_handle = handle_of(data, MemoryDescriptor)
        size = data._length(data_offset, length)
        local = (self.handle, offset, data_handle, data_offset, size)
        remote = (self._state.process(target), index, match_bits, remote_offset)
        rest = (hdr_data, AtomicOp(operation), data._datatype(datatype))
        left = self._replies + data._sends
        self._run("FetchAtomic", local + remote, user_ptr, left, rest, (trigger, threshold))

    @in_range
    def swap(
        self,
        data: MemoryDescriptor,
        target: Target,
        index: int,
        operation: AtomicOp = AtomicOp.SWAP,
        operand: Any = None,
        datatype: Any = None,
        match_bits: int = 0,
        *,
        offset: int = 0,
        data_offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        user_ptr: Any = None,
        hdr_data: int = 0,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Replace the target's elements by those of ``data``, and get what was there before
        into this memory (PtlSwap, PtlTriggeredSwap).

        Args:
            operation: SWAP, or CSWAP... and MSWAP, which take an operand.
            operand: a number, or a buffer of one element; copied.

        The others, the events and the errors are those of :meth:`fetch_atomic`.
        """
        self._must_be_writable()
        data_handle = handle_of(data, MemoryDescriptor)
        size = data._length(data_offset, length)
        elements = data._datatype(datatype)
        operation = AtomicOp(operation)
        local = (self.handle, offset, data_handle, data_offset, size)
        remote = (self._state.process(target), index, match_bits, remote_offset)
        rest = (hdr_data, operand_of(operand, operation, elements), operation, elements)
        left = self._replies + data._sends
        self._run("Swap", local + remote, user_ptr, left, rest, (trigger, threshold))

    def _length(self, offset: int, length: int | None) -> int:
        return self._memory.size_bytes - offset if length is None else length

    def _must_be_writable(self) -> None:
        if not self._memory.is_writable:
            raise ValueError("bytes would land in read-only memory")

    def _datatype(self, datatype: Any) -> Datatype:
        if datatype is not None:
            return Datatype.of(datatype)
        types = {Datatype.of(piece) for piece in self._memory.objects}
        if len(types) != 1:
            raise TypeError("pieces of several types, or of none: say which")
        return types.pop()

    def _run(
        self,
        name: str,
        head: tuple[Any, ...],
        user_ptr: Any,
        left: int,
        rest: tuple[Any, ...],
        when: tuple[CountingEvent | None, int],
    ) -> None:
        """Call PtlPut and the like, or PtlTriggeredPut.

        Args:
            head, rest: the arguments before and behind the user_ptr.
            left: how many events will name it.
        """
        call = f"Ptl{name}"
        trigger: tuple[Any, ...] = ()
        if when[0] is not None:
            call, trigger = f"PtlTriggered{name}", (handle_of(when[0], CountingEvent), when[1])
        if user_ptr is None or left == 0:
            check(getattr(lib, call)(*head, ffi.NULL, *rest, *trigger), call)
            return
        number = next(self._state.numbers)
        self._state.records[number] = Operation(user_ptr, left)
        try:
            pointer = ffi.cast("void *", number)
            check(getattr(lib, call)(*head, pointer, *rest, *trigger), call)
        except BaseException:
            self._state.forget(number)
            raise
        self._numbers.add(number)
        if len(self._numbers) > 2 * SWEEP_FIRST + 2 * len(self._state.records):
            self._numbers &= self._state.records.keys()  # the others have had their events
