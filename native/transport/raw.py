"""The base of the Python layers over the C transport: results, handles, numbers.

:mod:`native.port.endpoint` (what daemons need, quick to import) and :mod:`native.portals`
(all of Portals) build on it and on ``native._native``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ParamSpec, Self, TypeVar

from native._native import ffi, lib

KEY_BYTES = 32
NO_LISTEN: int = lib.PTLX_NO_LISTEN


class Rc(IntEnum):
    """What a Ptl call returns; the values of ``enum ptl_err``."""

    PTL_OK = 0
    PTL_ARG_INVALID = 1
    PTL_CT_NONE_REACHED = 2
    PTL_EQ_DROPPED = 3
    PTL_EQ_EMPTY = 4
    PTL_FAIL = 5
    PTL_IN_USE = 6
    PTL_INTERRUPTED = 7
    PTL_LIST_TOO_LONG = 8
    PTL_NO_INIT = 9
    PTL_NO_SPACE = 10
    PTL_PID_IN_USE = 11
    PTL_PT_FULL = 12
    PTL_PT_EQ_NEEDED = 13
    PTL_PT_IN_USE = 14
    PTL_ABORTED = 15
    PTL_IGNORED = 16


class PtlError(Exception):
    """A transport call did not return PTL_OK.

    Attributes:
        rc: the result code.
        call: name of the call that returned it.
        errno: why the system refused, for PTL_FAIL and PTL_PID_IN_USE; else 0.
        reason: for users; where the system refused, its text.
    """

    def __init__(self, rc: Rc, call: str, errno: int = 0) -> None:
        self.rc = rc
        self.call = call
        self.errno = errno
        self.reason = os.strerror(errno) if errno else rc.name
        text = ffi.string(lib.PtlxErrorText(rc)).decode()
        super().__init__(f"{call}: {rc.name}: {text}" + (f" (errno {errno})" if errno else ""))


class NoSpaceError(PtlError):
    """No room: a full table, or memory."""


class InUseError(PtlError):
    """The address, entry or object is in use."""


_BY_CODE: dict[Rc, type[PtlError]] = {
    Rc.PTL_NO_SPACE: NoSpaceError,
    Rc.PTL_PID_IN_USE: InUseError,
    Rc.PTL_IN_USE: InUseError,
    Rc.PTL_PT_IN_USE: InUseError,
}


def check(rc: int, call: str) -> None:
    """Raise the exception for ``rc``; return quietly on PTL_OK.

    Raises:
        ValueError: PTL_ARG_INVALID, the caller's mistake.
        PtlError: every other code.
    """
    if rc == 0:
        return
    if rc == Rc.PTL_ARG_INVALID:
        raise ValueError(f"{call}: an argument is invalid")
    code = Rc(rc)
    errno = ffi.errno if code in (Rc.PTL_FAIL, Rc.PTL_PID_IN_USE) else 0
    raise _BY_CODE.get(code, PtlError)(code, call, errno)


P = ParamSpec("P")
Result = TypeVar("Result")


def in_range(call: Callable[P, Result]) -> Callable[P, Result]:
    """Numbers that C's types do not hold raise ValueError, like all other misuse."""

    def checked(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return call(*args, **kwargs)
        except OverflowError as error:
            raise ValueError(f"{call.__qualname__}: {error}") from None

    checked.__doc__ = call.__doc__
    return checked


class Object:
    """Something with a handle; 0, PTL_INVALID_HANDLE, once it is closed."""

    _what = "object"

    def __init__(self) -> None:
        self._handle = 0

    @property
    def handle(self) -> int:
        """The handle for C. Raises ValueError when the object is closed."""
        if not self._handle:
            raise ValueError(f"{self._what} is closed")
        return self._handle

    @property
    def is_closed(self) -> bool:
        """Has it been closed, by itself or with its interface?"""
        return not self._handle

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def made(call: str, *args: Any) -> int:
    """Call a function of C whose last argument is where a handle goes; the handle."""
    handle = ffi.new("uint32_t *")
    check(getattr(lib, call)(*args, handle), call)
    return int(handle[0])


def private_config(
    unix_path: bytes | None, partition_key: bytes | None, **numbers: int
) -> tuple[Any, list[Any]]:
    """A ``struct ptlx_config``, and what the caller holds as long as it is used.

    Raises:
        ValueError: a key of another length.
        OverflowError: a number that its field does not hold.
    """
    if partition_key is not None and len(partition_key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(partition_key)}")
    config = ffi.new("struct ptlx_config *", numbers)
    path = ffi.new("char[]", unix_path) if unix_path is not None else ffi.NULL
    key = ffi.new("uint8_t[]", partition_key) if partition_key is not None else ffi.NULL
    config.unix_path, config.partition_key = path, key
    return config, [path, key]
