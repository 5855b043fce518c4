"""Calls of several ranks: what they answer, and the program of each rank.

``python -m yod.pilot.function.together PATH`` runs as each rank of a launch. All ranks get the same
call, and a communicator where the call has room for one. A rank whose call raises ends with a code,
so that whoever has launched it ends the others, which may wait for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from native import limits
from native.errors import YodError
from yod.pilot.function import codec
from yod.pilot.function.worker import Worker
from yod.pilot.link.link import connect
from yod.pilot.model.description import TaskDescription
from yod.pilot.wire.calls import Answer, Here
from yod.pilot.work.place import Outcome, Work


def outputs_of(work: Work) -> tuple[str, str]:
    """The names of both output files of a call."""
    value = TaskDescription(work.description).value
    return value("stdout") or f"{work.uid}.out", value("stderr") or f"{work.uid}.err"


def outcome_of(answer: Answer, came: float) -> Outcome:
    """What the only rank of a call has answered.

    Args:
        came: when the call came, in seconds of day.
    """
    return Outcome(
        exit_code=answer.exit_code,
        value=b"" if answer.exception else answer.value,
        exception=answer.exception,
        exception_detail=answer.detail,
        stdout=answer.stdout,
        stderr=answer.stderr,
        times=times_of(came, answer.began, answer.ended),
    )


def times_of(came: float, began: float, ended: float) -> list[tuple[str, float]]:
    """The events of a call in its profile."""
    first = [("task_start", came), *((event, began) for event in _TIMES)]
    return [*first, ("rank_stop", ended), ("exec_stop", ended)]


MODULE = "yod.pilot.function.together"
_TIMES = ("task_run_start", "exec_start", "rank_start")


class Answers:
    """What the ranks of one call have answered.

    Attributes:
        lost: a rank that has ended without an answer, and for no reason that its launch has.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._answers: dict[int, Answer] = {}
        self._raised: Answer | None = None
        self.lost: int | None = None

    @property
    def is_complete(self) -> bool:
        """All have."""
        return len(self._answers) == self._ranks

    def has(self, rank: int) -> bool:
        """A rank has."""
        return rank in self._answers

    @property
    def has_raised(self) -> bool:
        """A rank's call has raised something."""
        return self._raised is not None

    def add(self, rank: int, answer: Answer) -> None:
        """A rank has answered."""
        self._answers[rank] = answer
        if answer.exception and self._raised is None:
            self._raised = answer

    def in_order(self) -> list[Answer]:
        """What there is, by rank."""
        return [self._answers[rank] for rank in sorted(self._answers)]

    def outcome(self, launched: Outcome) -> Outcome:
        """How the call has ended.

        Args:
            launched: how the launch of the ranks has.
        """
        raised = self._raised
        if raised is not None:
            launched.reason, launched.signal, launched.is_lost = "", 0, False
            launched.exit_code = raised.exit_code
            launched.exception, launched.exception_detail = raised.exception, raised.detail
        elif self.is_complete and not launched.failure:
            values = [self._answers[rank].value for rank in range(self._ranks)]
            launched.value = codec.pack_values(values)
        elif not launched.failure or self.lost is not None:
            which = "a rank" if self.lost is None else f"rank {self.lost}"
            launched.exit_code, launched.signal = None, 0
            launched.reason = f"{which} ended in the call: exit code 0"
        return launched


class Together(Worker):
    """One rank of a call."""

    def _given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return with_communicator(function, args, kwargs, _world)

    def _send(self, message: Here | Answer) -> None:
        super()._send(message)
        if isinstance(message, Answer) and message.exception:
            os._exit(message.exit_code or 1)  # ending in order, it would wait for the others


def with_communicator(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    communicator: Callable[[], Any],
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call, with a communicator where there is room for one.

    That is: an argument ``comm`` that is None, a first one that is, or a first parameter ``comm``
    that nothing has been given for.
    """
    if "comm" in kwargs:
        return args, kwargs if kwargs["comm"] is not None else {**kwargs, "comm": communicator()}
    if args and args[0] is None:
        return [communicator(), *args[1:]], kwargs
    if not _wants_communicator(function, args, kwargs):
        return args, kwargs
    return [communicator(), *args], kwargs


def _wants_communicator(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it is not known of all that is built in
        return False
    if next(iter(signature.parameters), "") != "comm":
        return False
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError:
        return False
    return True


def _world() -> Any:
    try:
        from mpi4py import MPI
    except ImportError:
        raise YodError("a communicator needs mpi4py: pip install 'yod[mpi]'") from None
    return MPI.COMM_WORLD


def main() -> int:
    """Run one rank until its caller has gone."""
    try:
        codec.demand()
        own = limits.load(dict(os.environ))
        end = connect(sys.argv[1])
    except YodError as error:
        print(f"a rank of a function: {error}", file=sys.stderr)
        return 1
    end.settimeout(None)
    here = Here(0, int(os.environ["RP_RANK"]), os.getpid(), "", os.environ["RP_TASK_ID"])
    Together(end, own.call_bytes).run(here)
    return 0


if __name__ == "__main__":
    sys.exit(main())
