"""What the interfaces of a process and the objects made from them share.

A :class:`State` is what Python knows of an interface of C. It keeps all that was made from
it, so nothing that C may still use is ever collected, and finds the objects that events name.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from native._native import ffi, lib
from native.portals.memory import IOVEC
from native.portals.values import Limits, NiOption, Process
from native.transport.raw import InUseError, Object, Rc, check

UNKNOWN = 1 << 62  # events that an operation may still have
SWEEP_FIRST = 256
_TARGETS_MAX = 4096  # ids kept in C's form

Target: TypeAlias = Process | tuple[int, int] | int
Sort = TypeVar("Sort", bound="Part")


class Operation:
    """An operation or search that has a user_ptr, until its last event has been taken."""

    __slots__ = ("left", "user_ptr")

    def __init__(self, user_ptr: Any, left: int) -> None:
        self.user_ptr = user_ptr
        self.left = left  # events to come


class State:
    """An interface of C, and what Python knows of it; several Interface objects may share it."""

    def __init__(self, handle: int, options: int, limits: Limits) -> None:
        self.handle = handle
        self.limits = limits
        self.unix_pid = os.getpid()
        self.is_logical = bool(options & NiOption.LOGICAL)
        self.is_matching = bool(options & NiOption.MATCHING)
        self.users = 0
        self.parts: dict[Part, None] = {}
        self.leaving: deque[Part] = deque()  # left by ``with``, still in use by an operation
        self.numbers = itertools.count(1)
        self.records: dict[int, Any] = {}  # by user_ptr of C: an Operation or an entry
        self.overflow: dict[Any, None] = {}  # entries whose bytes an event may name
        self.targets: dict[Target, Any] = {}
        self.sweep_at = SWEEP_FIRST

    def is_foreign(self) -> bool:
        """Was it made by a parent of this process?"""
        return self.unix_pid != os.getpid()

    def add(self, part: Part) -> None:
        self.release_leavers()
        self.parts[part] = None
        if len(self.parts) >= self.sweep_at:
            self.sweep()

    def sweep(self) -> None:
        """Forget entries that have unlinked themselves without an event."""
        for part in list(self.parts):
            if part.ends_itself and part._handle and not part._is_known():
                part._ended()
        self.sweep_at = max(SWEEP_FIRST, 2 * len(self.parts))

    def release_leavers(self) -> None:
        """Free the parts that ``with`` has left and that no operation uses any more."""
        for _ in range(len(self.leaving)):
            try:
                part = self.leaving.popleft()
            except IndexError:  # another thread is at it
                return
            part._leave()

    def forget(self, number: int) -> None:
        """No event names this operation or entry any more."""
        self.overflow.pop(self.records.pop(number, None), None)

    def process(self, target: Target) -> Any:
        """A target for C: a rank, or nid and pid."""
        try:
            return self.targets[target][0]
        except (KeyError, TypeError):
            pass
        process = ffi.new("ptl_process_t *")
        if self.is_logical:
            if not isinstance(target, int):
                raise TypeError(f"a target of a logical interface is a rank, not {target!r}")
            process.rank = target
        else:
            if not isinstance(target, tuple):
                raise TypeError(f"a target is a Process or (nid, pid), not {target!r}")
            process.phys.nid, process.phys.pid = target
        if len(self.targets) >= _TARGETS_MAX:
            self.targets.clear()
        self.targets[target] = process
        return process[0]

    def process_of(self, process: Any) -> Process | int:
        if self.is_logical:
            return int(process.rank)
        return Process(process.phys.nid, process.phys.pid)

    def ended(self) -> None:
        """C has freed it all."""
        parts, self.parts = list(self.parts), {}
        for part in [*parts, *self.leaving]:
            part._handle = part._leaving = 0
            part._give_back()
        self.leaving.clear()
        self.records.clear()
        self.overflow.clear()


class Part(Object):
    """An object of an interface.

    ``with`` leaves one that an operation still uses to be freed when that has ended;
    ``close`` raises InUseError for it.
    """

    _free: Callable[[int], int]
    _free_name: str
    ends_itself = False  # C may unlink it
    _none = 0  # what C takes where there is none; 0: it takes nothing else

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._leaving = 0

    def _made(self, rc: int, call: str, handle: Any) -> None:
        check(rc, call)
        self._handle = handle[0]
        self._state.add(self)

    def ni_handle(self) -> int:
        """The handle of its interface (PtlNIHandle)."""
        return ni_handle_of(self.handle)

    def is_same(self, other: Object) -> bool:
        """Do both name the same object of C (PtlHandleIsEqual)?"""
        return bool(lib.PtlHandleIsEqual(self.handle, other.handle))

    def _is_known(self) -> bool:
        found = ffi.new("uint32_t *")
        return bool(lib.PtlNIHandle(self._handle, found) == Rc.PTL_OK)

    def close(self) -> None:
        """Free it; twice is harmless.

        Raises:
            InUseError: an operation is under way on it, or another object uses it.
        """
        handle = self._handle
        if not handle:
            return
        rc = type(self)._free(handle)
        if rc not in (Rc.PTL_ARG_INVALID, Rc.PTL_NO_INIT):  # it had ended by itself
            check(rc, self._free_name)
        self._ended()
        self._state.release_leavers()

    def _ended(self) -> None:
        self._handle = 0
        self._state.parts.pop(self, None)
        self._give_back()

    def _give_back(self) -> None:
        """C uses it no more."""

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        except InUseError:
            self._leaving, self._handle = self._handle, 0
            self._state.parts.pop(self, None)
            self._state.leaving.append(self)

    def _leave(self) -> None:
        """Try again to free what ``with`` has left."""
        rc = type(self)._free(self._leaving)
        if rc in (Rc.PTL_IN_USE, Rc.PTL_PT_IN_USE):
            self._state.leaving.append(self)
        else:
            self._leaving = 0
            self._give_back()


def handle_of(part: Sort | None, kind: type[Sort]) -> int:
    """The handle of an object for C, or its "none". Raises TypeError, ValueError (closed)."""
    if part is None:
        return kind._none
    if not isinstance(part, kind):
        raise TypeError(f"{part!r:.80} is no {kind.__name__}")
    return part.handle


def plain(options: int) -> int:
    """Options as a user may give them: PTL_IOVEC would make pointers of his bytes."""
    if options & IOVEC:
        raise ValueError("PTL_IOVEC is set by a list of buffers")
    return int(options)


def ni_handle_of(handle: int) -> int:
    """The interface's handle, of any object's."""
    found = ffi.new("uint32_t *")
    check(lib.PtlNIHandle(handle, found), "PtlNIHandle")
    return int(found[0])
