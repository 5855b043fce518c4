"""Long work, a slice at a time.

A piece of work is a generator: what it does up to a ``yield`` is a slice, short by
construction. In a turn of the loop one slice of one piece is done, and the pieces take
turns, so a turn stays short however much there is to do and however many ask for it.

A piece belongs to a job, or to none. When the job ends its work is cancelled: the
generator is closed where it stands, and its ``finally`` clauses give back what it holds.
What a slice raises goes to the owner for whom the work was started (:meth:`Reactor.run_for`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from native.loop.reactor import Owner, Reactor

T = TypeVar("T")
Work = Generator[None, None, T]


class _Piece:
    """A piece of work that is under way."""

    __slots__ = ("done", "job_id", "owner", "work")

    def __init__(
        self, job_id: int, owner: Owner | None, work: Work[Any], done: Callable[[Any], None]
    ) -> None:
        self.job_id = job_id
        self.owner = owner
        self.work = work
        self.done = done


class Slices:
    """All long work of one loop."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._queue: deque[_Piece] = deque()
        self._is_called = False  # by the loop, in its next turn

    def start(self, job_id: int, work: Work[T], done: Callable[[T], None]) -> None:
        """Do work for a job; the first slice at once when nothing else is under way.

        Args:
            job_id: whose it is; 0: nobody's.
            done: called with the work's result, maybe at once; never after :meth:`cancel`.
        """
        self._queue.append(_Piece(job_id, self._reactor.owner, work, done))
        if not self._is_called:
            self._turn()

    def has(self, job_id: int) -> bool:
        """Whether work of this job is under way."""
        return any(piece.job_id == job_id for piece in self._queue)

    def cancel(self, job_id: int) -> None:
        """Cancel a job's work where it stands."""
        for piece in self._take(job_id):
            piece.work.close()

    def finish(self, job_id: int) -> None:
        """Do all of a job's work now: for a process that ends."""
        for piece in self._take(job_id):
            run(piece.work)

    def _take(self, job_id: int) -> list[_Piece]:
        taken = [piece for piece in self._queue if piece.job_id == job_id]
        self._queue = deque(piece for piece in self._queue if piece.job_id != job_id)
        return taken

    def _called(self) -> None:
        self._is_called = False
        if self._queue:
            self._turn()

    def _turn(self) -> None:
        # Set before anything is called that may start more work, which waits for its turn.
        self._is_called = True
        self._reactor.run_for(None, self._reactor.call_soon, self._called)
        piece = self._queue.popleft()
        self._reactor.run_for(piece.owner, self._slice, piece)

    def _slice(self, piece: _Piece) -> None:
        try:
            next(piece.work)
        except StopIteration as end:
            piece.done(end.value)
        else:
            self._queue.append(piece)


def run(work: Work[T]) -> T:
    """Do all of it at once, where nothing else waits; its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
