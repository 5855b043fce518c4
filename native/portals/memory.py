"""A user's memory as C sees it: locked in place while an object may use it, never copied."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from native._native import ffi
from native.portals.values import AtomicOp, Datatype

Memory: TypeAlias = Any  # one object with the buffer protocol, a list of them, or None

IOVEC = 1 << 0  # PTL_IOVEC
_NAMES_IN_FORMAT = re.compile(r":[^:]*:")
_POINTERS = frozenset("OP&X")
_INTEGERS = {
    Datatype.INT8_T: "int8_t",
    Datatype.UINT8_T: "uint8_t",
    Datatype.INT16_T: "int16_t",
    Datatype.UINT16_T: "uint16_t",
    Datatype.INT32_T: "int32_t",
    Datatype.UINT32_T: "uint32_t",
    Datatype.INT64_T: "int64_t",
    Datatype.UINT64_T: "uint64_t",
}
_REALS = {
    Datatype.FLOAT: "float",
    Datatype.FLOAT_COMPLEX: "float",
    Datatype.DOUBLE: "double",
    Datatype.DOUBLE_COMPLEX: "double",
    Datatype.LONG_DOUBLE: "long double",
    Datatype.LONG_DOUBLE_COMPLEX: "long double",
}
_COMPLEX = (
    Datatype.FLOAT_COMPLEX,
    Datatype.DOUBLE_COMPLEX,
    Datatype.LONG_DOUBLE_COMPLEX,
)


class HeldMemory:
    """Memory of a descriptor or an entry.

    While it is held an object that could move its memory (``bytearray``, ``array``,
    ``mmap``) refuses to. The objects themselves are referenced even longer, so that the
    bytes of an event can be looked at.

    Args:
        memory: one object with the buffer protocol, or a list or tuple of them, which
            become an I/O vector; None: no bytes.
        is_written: bytes may land in it.

    Attributes:
        start, length, options: for ``ptl_md_t``, ``ptl_le_t`` and ``ptl_me_t``.
        size_bytes: of all pieces.
        is_writable: all pieces are.

    Raises:
        TypeError: no memory that can be shared, or it holds pointers.
        ValueError: read-only where bytes may land, or not contiguous.
    """

    def __init__(self, memory: Memory, *, is_written: bool) -> None:
        is_vector = isinstance(memory, list | tuple)
        if is_vector:
            self.objects = tuple(memory)
        else:
            self.objects = () if memory is None else (memory,)
        self._held = [_lock(piece, is_written) for piece in self.objects]
        self._places = [(_address(held), len(held)) for held in self._held]
        self.is_writable = not any(memoryview(piece).readonly for piece in self.objects)
        self.size_bytes = sum(size for _, size in self._places)
        self.options = IOVEC if is_vector else 0
        if is_vector:
            self.start = ffi.new("ptl_iovec_t[]", max(1, len(self._held)))
            for place, held in zip(self.start, self._held, strict=False):
                place.iov_base, place.iov_len = held, len(held)
            self.length = len(self._held)
        else:
            self.start = self._held[0] if self._held else ffi.NULL
            self.length = self.size_bytes

    def release(self) -> None:
        """C uses it no more: the objects may move their memory again."""
        held, self._held = self._held, []
        self.start = ffi.NULL
        for one in held:
            ffi.release(one)

    def contains(self, start: int) -> bool:
        """Does an address lie in it?"""
        return any(address <= start < address + size for address, size in self._places)

    def bytes_at(self, start: int, size: int) -> memoryview:
        """Bytes from an address on: a view, or a copy where they are in several pieces.

        Raises:
            ValueError: they are not in it, or it has moved since it was released.
        """
        found: list[memoryview] = []
        for place, (address, room) in enumerate(self._places):
            at = 0 if found else start - address
            if size and 0 <= at < room:
                piece = self._view(place)[at : at + size]
                found.append(piece)
                size -= len(piece)
        if size:
            raise ValueError("these bytes are not in the memory of the entry")
        return found[0] if len(found) == 1 else memoryview(b"".join(found))

    def _view(self, place: int) -> memoryview:
        shared = ffi.from_buffer(self.objects[place])
        if (_address(shared), len(shared)) != self._places[place]:
            raise ValueError("the memory has moved since the entry was closed")
        view = memoryview(ffi.buffer(shared))
        return view.toreadonly() if memoryview(self.objects[place]).readonly else view


def _address(held: Any) -> int:
    return int(ffi.cast("uintptr_t", held))


def _lock(piece: Any, is_written: bool) -> Any:
    try:
        view = memoryview(piece)
    except (TypeError, BufferError, ValueError) as error:
        raise TypeError(f"{type(piece).__name__} has no memory to share: {error}") from None
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous")
    if is_written and view.readonly:
        raise ValueError("bytes may land there, and the memory is read-only")
    if _POINTERS & set(_NAMES_IN_FORMAT.sub("", view.format)):
        raise TypeError("the memory holds pointers")
    return ffi.from_buffer(piece)


def operand_of(operand: Any, operation: AtomicOp, datatype: Datatype) -> Any:
    """The operand of a swap for C: one element from a number or a buffer.

    Raises:
        TypeError: none is given where one is needed, or neither number nor buffer.
        ValueError: one too many, out of range, or not of the size of an element.
    """
    if not operation.needs_operand:
        if operand is not None:
            raise ValueError(f"{operation.name} takes no operand")
        return ffi.NULL
    is_integer = datatype in _INTEGERS
    part = _INTEGERS[datatype] if is_integer else _REALS[datatype]
    size = ffi.sizeof(part) * (2 if datatype in _COMPLEX else 1)
    if isinstance(operand, int | float | complex) and not hasattr(operand, "dtype"):
        if isinstance(operand, complex) and datatype not in _COMPLEX:
            raise TypeError(f"a complex operand for {datatype.name}")
        values = [operand.real, operand.imag] if datatype in _COMPLEX else [operand]
        return ffi.new(f"{part}[]", values)
    held = _lock(operand, False)
    if len(held) != size:
        raise ValueError(f"an operand of {len(held)} bytes, where {datatype.name} has {size}")
    return held
