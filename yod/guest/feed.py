"""What happens in a launch, in order, for a program that reads it when it likes.

Output that has not been read counts as not written, so the ranks wait once the window of their
stream is full. All other events are few: one for each rank, and some lines. What one stream of a
rank has written and nobody has read yet is one event, however many writes it took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from yod.guest.collected import LEFT_OUT, MESSAGES_MAX
from yod.guest.results import Result
from yod.launch.lines import Ranks
from yod.ranks import RankResult


class Held(Struct, frozen=True):
    """All ranks are held at their entry, until they are told to go (``attach``).

    Attributes:
        unix_pids: rank -> its process id, on its node.
    """

    job_id: str
    unix_pids: dict[int, int]


class Started(Struct, frozen=True):
    """All ranks have been let go. It comes again for ranks that these have spawned.

    Attributes:
        unix_pids: rank -> its process id, on its node.
    """

    job_id: str
    unix_pids: dict[int, int]


class Output(Struct, frozen=True):
    """A rank has written: bytes as they came, which may end within a line.

    Attributes:
        stream: 1: standard output; 2: standard error.
    """

    rank: int
    stream: int
    data: bytes


class Message(Struct, frozen=True):
    """A line of yod itself, as the command writes to its standard error."""

    text: str


class RankEnded(Struct, frozen=True):
    """A rank has ended. Its last output may come later."""

    rank: RankResult


class Ended(Struct, frozen=True):
    """The job is over, and nothing is left of it: always the last event."""

    result: Result


Event = Held | Started | Output | Message | RankEnded | Ended


class _Unread:
    """Output of one stream of a rank that nobody has read."""

    def __init__(self, rank: int, stream: int) -> None:
        self.rank = rank
        self.stream = stream
        self.parts: list[bytes] = []


class Feed:
    """The events of one launch that its program has not read.

    Args:
        on_more: called when an event has come.
    """

    def __init__(self, on_more: Callable[[], None]) -> None:
        self._on_more = on_more
        self._on_written: Callable[[int, int], None] = _nobody
        self._events: deque[Event | _Unread] = deque()
        self._unread: dict[tuple[int, int], _Unread] = {}
        self._unread_bytes = {1: 0, 2: 0}
        self._is_dropping = False
        self._is_released = False
        self._message_count = 0

    def open(self, on_written: Callable[[int, int], None]) -> dict[int, Tap]:
        """Where both streams of the launch go.

        Args:
            on_written: called with the stream and how many of its bytes have been read.
        """
        self._on_written = on_written
        return {1: Tap(self, 1), 2: Tap(self, 2)}

    def unread_bytes(self, stream: int) -> int:
        """How much of a stream nobody has read."""
        return self._unread_bytes[stream]

    def put(self, event: Event) -> None:
        """Something other than output has happened."""
        if isinstance(event, Message):
            self._message_count += 1
            if self._message_count > MESSAGES_MAX + 1:
                return
            if self._message_count > MESSAGES_MAX:
                event = Message(LEFT_OUT)
        self._events.append(event)
        self._on_more()

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """A rank has written."""
        if not data:
            return
        if self._is_dropping:
            self._on_written(stream, len(data))
            return
        unread = self._unread.get((rank, stream))
        if unread is None:
            unread = self._unread[rank, stream] = _Unread(rank, stream)
            self._events.append(unread)
        unread.parts.append(data)
        self._unread_bytes[stream] += len(data)
        self._on_more()

    def release(self) -> None:
        """Give output, too: all that is to come before it has been put.

        A node that lets its ranks go by itself may send output before it says that they run.
        """
        if not self._is_released:
            self._is_released = True
            self._events = deque(sorted(self._events, key=lambda each: isinstance(each, _Unread)))
            self._on_more()

    def take(self) -> Event | None:
        """The next event; None: there is none yet."""
        if not self._events:
            return None
        if not self._is_released and isinstance(self._events[0], _Unread):
            return None
        event = self._events.popleft()
        if not isinstance(event, _Unread):
            return event
        del self._unread[event.rank, event.stream]
        data = b"".join(event.parts)
        self._unread_bytes[event.stream] -= len(data)
        self._on_written(event.stream, len(data))
        return Output(event.rank, event.stream, data)

    def drop(self) -> None:
        """Drop output from now on, with what is unread."""
        self._is_dropping = True
        self._events = deque(each for each in self._events if not isinstance(each, _Unread))
        self._unread.clear()
        dropped, self._unread_bytes = self._unread_bytes, {1: 0, 2: 0}
        for stream, count in dropped.items():
            if count:
                self._on_written(stream, count)

    def begin_again(self) -> None:
        """Another try follows one that has failed, and no rank has written yet."""
        self._is_released = False

    def close(self) -> None:
        """The launch hears of nothing any more; what is unread can still be read."""
        self._on_written = _nobody

    def abandon(self) -> None:
        """Nobody reads any more: the program hears of no further event."""
        self._on_more = _nothing


class Tap:
    """The screen of one stream, whose reader is the program."""

    def __init__(self, feed: Feed, stream: int) -> None:
        self._feed = feed
        self._stream = stream

    @property
    def is_empty(self) -> bool:
        """All has been read."""
        return not self._feed.unread_bytes(self._stream)

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """A rank has written."""
        self._feed.show(rank, stream, data)

    def show_lines(self, ranks: Ranks, stream: int, data: bytes) -> None:
        """Some ranks have written the same."""
        for first, last in ranks:
            for rank in range(first, last + 1):
                self._feed.show(rank, stream, data)

    def say(self, text: str) -> None:
        """A line of yod itself, which waits for nobody."""
        self._feed.put(Message(text.removeprefix("yod: ")))

    def finish(self) -> None:
        """Do nothing: no line is held back."""

    def drop(self) -> int:
        """Drop what is unread."""
        count = self._feed.unread_bytes(self._stream)
        self._feed.drop()
        return count

    def close(self) -> None:
        """Hear of nothing any more."""
        self._feed.close()


def _nobody(stream: int, count_bytes: int) -> None:
    """No launch hears of what is read."""


def _nothing() -> None:
    """Nobody is told that there is more."""
