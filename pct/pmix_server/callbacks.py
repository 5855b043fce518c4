"""Answers to libpmix: its callbacks, and the buffers that they point to."""

from __future__ import annotations

from ctypes import addressof, create_string_buffer

from pct.pmix_server.library import InfoDone, ModexDone, OpDone, Release
from pct.pmix_server.memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pct.pmix_server.keys import Info
    from pct.pmix_server.plain import Answer, FenceDone

LATELY_MAX = 64  # answers whose buffers are kept without a release function


class Callbacks:
    """The buffers that the library may still read."""

    def __init__(self) -> None:
        self._given: dict[int, object] = {}  # by address, until the library releases them
        self._lately: list[object] = []  # those without a release function
        self._release = Release(self._released)

    def give_data(self, done: int, status: int, data: bytes, token: int | None) -> None:
        """Call a modex callback."""
        if not data:
            ModexDone(done)(status, None, 0, token, None, None)
            return
        buffer = create_string_buffer(data, len(data))
        address = addressof(buffer)
        self._given[address] = buffer
        ModexDone(done)(status, address, len(data), token, self._release, address)

    def give_infos(
        self, done: int, status: int, infos: tuple[Info, ...], token: int | None
    ) -> None:
        """Call an info callback."""
        memory = Memory()
        address, length = memory.infos(infos)
        self._given[address or 0] = memory
        InfoDone(done)(status, address, length, token, self._release, address)

    def keep_lately(self, memory: Memory) -> None:
        """Keep the buffers of an answer for which the library calls no release function."""
        self._lately = [*self._lately[-LATELY_MAX:], memory]

    def _released(self, address: int | None) -> None:
        self._given.pop(address or 0, None)


def status_to(done: int, token: int | None) -> Callable[[FenceDone | Answer], None]:
    """A function that passes an answer's status, and nothing else, to a callback."""
    return lambda message: OpDone(done)(message.status, token)
