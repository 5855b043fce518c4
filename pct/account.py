"""What the ranks of one job have a node keep for them: bytes, within a limit.

Every store that an application can fill takes from its job's account before it keeps
something, and gives back what it lets go. So no job makes its PCT grow without bound,
and who asks for too much is told so. After the job the account is empty.

Pure. Bytes are those of the data, and those that Python needs beside it (measured, and
rounded up).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from native.limits import JOB_STORE_BYTES, variable
from native.wire.pmi import KeyValue

WORD_BYTES = 64  # a string of bytes in a list, without its bytes
PAIR_BYTES = 200  # two of them, and their place in a table
CONNECTION_BYTES = 4096  # a client's connection: socket, conversation
REQUEST_BYTES = 512  # a request or a question that waits for its answer
MEETING_BYTES = 512  # a fence, beside its ranks
MEETING_RANK_BYTES = 40
WORLD_BYTES = 8192  # a spawned world: keeper, tables
RANK_BYTES = 1024  # one of its ranks: pipes, its end


class Gpu(NamedTuple):
    """One GPU of this node.

    Attributes:
        name: by which its library knows it: its number on the host.
        kind: for people; empty: not known.
    """

    name: str
    kind: str = ""


class OverLimit(Exception):
    """The account has not so much left. The text says which limit that is."""


class Account:
    """One job's, on one node.

    Attributes:
        used_bytes: what is kept now.
        has_refused: something was refused at least once.
    """

    __slots__ = ("_limit_bytes", "has_refused", "used_bytes")

    def __init__(self, limit_bytes: int = JOB_STORE_BYTES) -> None:
        self.used_bytes = 0
        self.has_refused = False
        self._limit_bytes = limit_bytes

    @property
    def text(self) -> str:
        """The limit, and how it is set."""
        name = variable("job_store_bytes")
        return f"a node keeps at most {self._limit_bytes} bytes for a job ({name} of its pct)"

    def take(self, count_bytes: int) -> None:
        """Take so much.

        Raises:
            OverLimit: there is not so much left; nothing has been taken.
        """
        if self.used_bytes + count_bytes > self._limit_bytes:
            self.has_refused = True
            raise OverLimit(self.text)
        self.used_bytes += count_bytes

    def owe(self, count_bytes: int) -> None:
        """Take what another node has granted already: it may exceed the limit here."""
        self.used_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        """Give back what was taken."""
        self.used_bytes -= count_bytes


class Charge:
    """What one store has taken of an account.

    Attributes:
        held_bytes: so much.
    """

    __slots__ = ("_account", "held_bytes")

    def __init__(self, account: Account) -> None:
        self.held_bytes = 0
        self._account = account

    def add(self, count_bytes: int) -> None:
        """Hold more.

        Raises:
            OverLimit: there is not so much left; nothing has changed.
        """
        self._account.take(count_bytes)
        self.held_bytes += count_bytes

    def owe(self, count_bytes: int) -> None:
        """Hold more, which cannot be refused any more."""
        self._account.owe(count_bytes)
        self.held_bytes += count_bytes

    def drop(self, count_bytes: int) -> None:
        """Hold less."""
        self._account.give_back(count_bytes)
        self.held_bytes -= count_bytes

    def set(self, count_bytes: int) -> None:
        """Hold so much from now on.

        Raises:
            OverLimit: there is not so much left; nothing has changed.
        """
        if count_bytes > self.held_bytes:
            self.add(count_bytes - self.held_bytes)
        elif count_bytes < self.held_bytes:
            self.drop(self.held_bytes - count_bytes)

    def clear(self) -> None:
        """Hold nothing any more."""
        self.drop(self.held_bytes)


def of_pair(key: bytes, value: bytes) -> int:
    """What a pair costs that is kept."""
    return len(key) + len(value) + PAIR_BYTES


def of_pairs(pairs: Iterable[KeyValue]) -> int:
    """What pairs cost that are kept."""
    return sum(len(pair.key) + len(pair.value) + PAIR_BYTES for pair in pairs)


def of_words(words: Iterable[bytes]) -> int:
    """What words cost that are kept in a list."""
    return sum(len(word) + WORD_BYTES for word in words)
