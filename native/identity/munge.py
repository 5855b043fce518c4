"""MUNGE: proves to a process of another host who the user of this one is.

A credential is made by munged of the maker's host and opened by that of the receiver's; both have
the site's key. What is in it can be read by the receiver alone, and by munged only once. libmunge
is loaded when it is needed, so that yod needs nothing of it where there is none.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_void_p
from enum import Enum, auto
from functools import cache

from native.errors import YodError

LIBRARY = "libmunge.so.2"
SOCKET = "/run/munge/munge.socket.2"
VARIABLE = "YOD_MUNGE_SOCKET"
LABEL = b"yod.user."  # what is in a credential begins with it
_OPT_SOCKET = 8  # munge_opt_t of munge.h
_OPT_UID_RESTRICTION = 9


class Fault(Enum):
    """Why there is no credential, or why it proves nobody."""

    INVALID = auto()
    EXPIRED = auto()
    USED = auto()
    NO_ANSWER = auto()


_FAULTS = {  # munge_err_t; all others: INVALID
    1: Fault.NO_ANSWER,
    5: Fault.NO_ANSWER,
    6: Fault.NO_ANSWER,
    7: Fault.NO_ANSWER,
    15: Fault.EXPIRED,
    16: Fault.EXPIRED,
    17: Fault.USED,
}


class MungeError(YodError):
    """A credential cannot be made, or proves nobody; the text says why."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def socket_path(environment: Mapping[str, str]) -> str:
    """The socket of this host's munged; empty: there is none."""
    path = environment.get(VARIABLE) or SOCKET
    return path if os.path.exists(path) else ""


def encode(payload: bytes, for_uid: int, socket: str = "") -> bytes:
    """A credential of this process's user, which only ``for_uid`` can open, once.

    Raises:
        MungeError: there is none.
    """
    library, made, context = _library(), c_char_p(), _context(socket)
    try:
        uid = c_uint32(for_uid)
        library.munge_ctx_set(context, c_int(_OPT_UID_RESTRICTION), uid)
        code = library.munge_encode(byref(made), context, payload, c_int(len(payload)))
        if code:
            raise _error(code, context)
        return made.value or b""
    finally:
        _libc().free(made)
        library.munge_ctx_destroy(context)


def decode(credential: bytes, socket: str = "") -> tuple[int, bytes]:
    """Whose credential it is, and what is in it. It cannot be opened again.

    Raises:
        MungeError: it proves nobody.
    """
    library, context = _library(), _context(socket)
    payload, length = c_void_p(), c_int()
    uid, gid = c_uint32(), c_uint32()
    try:
        code = library.munge_decode(
            credential, context, byref(payload), byref(length), byref(uid), byref(gid)
        )
        if code:
            raise _error(code, context)
        return uid.value, ctypes.string_at(payload, length.value)
    finally:
        _libc().free(payload)
        library.munge_ctx_destroy(context)


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.free.argtypes = [c_void_p]
    library.free.restype = None
    return library


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise MungeError(Fault.NO_ANSWER, f"{LIBRARY} cannot be loaded: {error}") from None
    library.munge_ctx_create.restype = c_void_p
    library.munge_ctx_destroy.argtypes = [c_void_p]
    library.munge_ctx_strerror.argtypes = [c_void_p]
    library.munge_ctx_strerror.restype = c_char_p
    library.munge_strerror.restype = c_char_p
    library.munge_encode.argtypes = [POINTER(c_char_p), c_void_p, c_char_p, c_int]
    library.munge_decode.argtypes = [
        *(c_char_p, c_void_p, POINTER(c_void_p), POINTER(c_int)),
        *(POINTER(c_uint32), POINTER(c_uint32)),
    ]
    return library


def _context(socket: str) -> c_void_p:
    library = _library()
    context = c_void_p(library.munge_ctx_create())
    if not context:
        raise MungeError(Fault.NO_ANSWER, "no memory for a context of MUNGE")
    if socket:
        library.munge_ctx_set(context, c_int(_OPT_SOCKET), c_char_p(socket.encode()))
    return context


def _error(code: int, context: c_void_p) -> MungeError:
    library = _library()
    text = library.munge_ctx_strerror(context) or library.munge_strerror(c_int(code)) or b"?"
    return MungeError(_FAULTS.get(code, Fault.INVALID), text.decode(errors="replace"))
