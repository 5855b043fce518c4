"""One connection of a PMI client.

A :class:`Conversation` turns bytes into requests and answers into bytes, and knows nothing
of other ranks; :mod:`pct.wireup.clients` answers. The client's first line chooses the
version (:mod:`pct.wireup.pmi.version1`, :mod:`pct.wireup.pmi.version2`).
See native/wire/PMI.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pct.account import REQUEST_BYTES
from pct.wireup.pmi import version1
from pct.wireup.pmi.requests import (
    Abort,
    Fence,
    Get,
    GetNode,
    Heard,
    Identity,
    Joined,
    Left,
    Lookup,
    PmiError,
    Publish,
    Put,
    PutNode,
    Request,
    SpawnMultiple,
    Unpublish,
    number,
)

if TYPE_CHECKING:
    from pct.wireup.pmi import version2

__all__ = [
    "OUTSTANDING_MAX",
    "Abort",
    "Conversation",
    "Fence",
    "Get",
    "GetNode",
    "Identity",
    "Joined",
    "Left",
    "Lookup",
    "PmiError",
    "Publish",
    "Put",
    "PutNode",
    "Request",
    "SpawnMultiple",
    "Unpublish",
]

OUTSTANDING_MAX = 256  # requests of a connection whose answers have not been taken


class _Slot:
    """A request in its place in the order of answers.

    Attributes:
        answer: None until there is one.
        speaker: who words it.
    """

    __slots__ = ("answer", "command", "request", "speaker")

    def __init__(self, heard: Heard, speaker: version1.Speaker | version2.Speaker) -> None:
        self.answer: bytes | None = None
        self.command = heard.answers_as
        self.request = heard.request
        self.speaker = speaker


class Conversation:
    """One connection of a client.

    Answers go out in the order of their requests; those of a PMI-2 client that has
    named its requests, as soon as they are there.

    Args:
        identify: rank of the job -> Identity, or None: no such rank here.
        rank: of the job, where the connection is known to be one's (PMI_FD); None: the
            client says it (PMI_PORT, ``cmd=initack pmiid=R``).

    Attributes:
        rank: of the job; None until known.
        has_joined: init has succeeded at least once.
    """

    def __init__(self, identify: Callable[[int], Identity | None], rank: int | None = None) -> None:
        self.rank = rank
        self.has_joined = False
        self._identify = identify
        self._speaker: version1.Speaker | version2.Speaker | None = None
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer without an end of line
        self._slots: deque[_Slot | bytes] = deque()
        self._threaded: dict[int, _Slot] = {}
        self._ready = bytearray()
        self._untaken = 0
        self._is_over = False

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept of the client's words and unanswered requests."""
        held = len(self._buffer) + len(self._ready) + len(self._threaded) * REQUEST_BYTES
        for slot in self._slots:
            answer = slot if isinstance(slot, bytes) else slot.answer or b""
            held += REQUEST_BYTES + len(answer)
        return held + (self._speaker.held_bytes if self._speaker is not None else 0)

    def receive(self, data: bytes) -> list[Request]:
        """Take bytes of the client, in pieces of any size.

        Returns:
            Its requests, in order; none after an abort or an error.

        Raises:
            PmiError: the protocol is broken: close the connection.
        """
        requests: list[Request] = []
        if self._is_over:
            return requests
        self._buffer += data
        try:
            while self._buffer and not self._is_over and (heard := self._hear()) is not None:
                self._note(heard)
                if heard.request is not None:
                    requests.append(heard.request)
        except PmiError:
            self._end()
            raise
        return requests

    def take(self) -> bytes:
        """The bytes to send to the client now."""
        self._settle()
        self._untaken = len(self._slots) + len(self._threaded)
        data = bytes(self._ready)
        self._ready.clear()
        return data

    # Answers. An answer for which the client no longer waits is dropped.

    def stored(self, request: Put | PutNode, error: str = "") -> None:
        """Answer a put: done, or the reason of a refusal."""
        self._answer(request, lambda slot: slot.speaker.stored(slot.command, request, error))

    def found(self, request: Get | GetNode, value: bytes | None) -> None:
        """Answer a get; None: there is no such key."""
        self._answer(request, lambda slot: slot.speaker.found(slot.command, request, value))

    def fenced(self, request: Fence) -> None:
        """Answer a fence: all participants have entered."""
        self._answer(request, lambda slot: slot.speaker.fenced(slot.command, request))

    def published(self, request: Publish, error: str = "") -> None:
        """Answer a publication: done, or the reason of a refusal."""
        self._answer(request, lambda slot: slot.speaker.published(slot.command, request, error))

    def looked_up(self, request: Lookup, port: bytes | None) -> None:
        """Answer a lookup with the port; None: there is no such name."""
        self._answer(request, lambda slot: slot.speaker.looked_up(slot.command, request, port))

    def unpublished(self, request: Unpublish, error: str = "") -> None:
        """Answer an unpublish: done, or the reason of a refusal."""
        self._answer(request, lambda slot: slot.speaker.published(slot.command, request, error))

    def spawned(self, request: SpawnMultiple, error: str = "", job: bytes = b"") -> None:
        """Answer a spawn: the ranks run as world ``job``, or the reason of a refusal."""
        self._answer(request, lambda slot: slot.speaker.spawned(slot.command, request, error, job))

    def _answer(self, request: Request, word: Callable[[_Slot], bytes]) -> None:
        if (named := self._threaded.pop(id(request), None)) is not None:
            self._ready += word(named)
            return
        for slot in self._slots:
            if isinstance(slot, _Slot) and slot.request is request and slot.answer is None:
                slot.answer = word(slot)
                return

    def _note(self, heard: Heard) -> None:
        """Keep the order of answers, within the limit."""
        request = heard.request
        if heard.answers_as and request is not None and self._speaker is not None:
            slot = _Slot(heard, self._speaker)
            if request.thread:
                self._threaded[id(request)] = slot
            else:
                self._slots.append(slot)
        elif request is not None and request.thread:
            self._ready += heard.answer
        elif heard.answer:
            self._slots.append(heard.answer)
        match request:
            case Joined():
                self.has_joined = True
            case Left():
                self._speaker = None
            case Abort():
                self._end()
        self._untaken += bool(heard.answer or heard.answers_as)
        if self._untaken > OUTSTANDING_MAX:
            raise PmiError(f"more than {OUTSTANDING_MAX} requests without taking an answer")

    def _settle(self) -> None:
        """Make those answers ready that no unanswered request precedes."""
        while self._slots:
            slot = self._slots[0]
            answer = slot if isinstance(slot, bytes) else slot.answer
            if answer is None:
                return
            self._ready += answer
            self._slots.popleft()

    def _end(self) -> None:
        self._is_over = True
        self._buffer.clear()

    def _hear(self) -> Heard | None:
        """Take the next line or frame, if it is complete."""
        # A client of PMI-2 may have ended early; a line is from the rank's next program.
        speaker = self._speaker
        if (
            speaker is None
            or isinstance(speaker, version1.Speaker)
            or self._buffer.startswith(b"cmd=")
        ):
            line = self._next_line()
            return None if line is None else self._hear_line(line)
        frame = self._next_frame()
        return None if frame is None else speaker.hear(frame)

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._scanned)
        length = len(self._buffer) if end < 0 else end
        if length > version1.LINE_MAX:
            raise PmiError(f"a line of more than {version1.LINE_MAX} bytes")
        self._scanned = length if end < 0 else 0
        return None if end < 0 else self._cut(end + 1)[:-1]

    def _next_frame(self) -> bytes | None:
        from pct.wireup.pmi import version2

        if len(self._buffer) < version2.HEADER_BYTES:
            return None
        length = version2.HEADER_BYTES + version2.frame_length(
            bytes(self._buffer[: version2.HEADER_BYTES])
        )
        if len(self._buffer) < length:
            return None
        return self._cut(length)[version2.HEADER_BYTES :]

    def _cut(self, length: int) -> bytes:
        unit = bytes(self._buffer[:length])
        del self._buffer[:length]
        if b"\0" in unit:
            raise PmiError(f"a zero byte in {unit[:80]!r}")
        return unit

    def _hear_line(self, line: bytes) -> Heard:
        if not line:
            return Heard()
        command = line.partition(b" ")[0]
        if command == b"cmd=initack":
            return self._welcome(version1.parse(line))
        if command == b"cmd=init":
            return self._begin(version1.parse(line))
        if isinstance(self._speaker, version1.Speaker):
            return self._speaker.hear(line)
        if command == b"cmd=abort" and self.rank is not None:
            return Heard(b"", version1.aborted(version1.parse(line)))
        raise PmiError(f"{line[:80]!r} before init")

    def _welcome(self, words: dict[bytes, bytes]) -> Heard:
        rank = number(words.get(b"pmiid"))
        if rank is None or (self.rank is not None and rank != self.rank):
            raise PmiError(f"initack: pmiid is {words.get(b'pmiid', b'')[:80]!r}")
        identity = self._identity_of(rank)
        self.rank = rank
        return Heard(version1.welcome(identity))

    def _begin(self, words: dict[bytes, bytes]) -> Heard:
        """``init``: the client no longer waits for earlier answers."""
        self._settle()
        self._slots.clear()
        self._threaded.clear()
        self._speaker = None
        version = words.get(b"pmi_version")
        if version == b"2":
            from pct.wireup.pmi import version2  # most clients speak PMI-1

            self._speaker = version2.Speaker(self._claim)
            return Heard(version1.response_to_init(2, 0))
        if version != b"1":
            return Heard(version1.response_to_init(1, 1, rc=-1))
        if self.rank is None:
            raise PmiError("init before initack: is PMI_ID set?")
        self._speaker = version1.Speaker(self._identity_of(self.rank))
        return Heard(version1.response_to_init(1, 1), Joined())

    def _identity_of(self, rank: int) -> Identity:
        if (identity := self._identify(rank)) is None:
            raise PmiError(f"there is no rank {rank} here")
        return identity

    def _claim(self, rank: int) -> Identity | None:
        """The identity of a PMI-2 client that claims to be ``rank``; None: it is another rank."""
        own = self._identify(rank if self.rank is None else self.rank)
        if own is None or (self.rank is not None and rank not in (self.rank, own.rank)):
            return None
        if self.rank is None:
            self.rank = rank
        return own
