"""When a request begins that wants few leaf switches: with so few, or with more after a time. Pure.

The time begins when it would begin with more, as Slurm's ``--switches=COUNT@TIME`` has it. Once
that is expected the time from which more do does not come later: nobody who passes moves it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec.structs import replace

from allocator.nodes.access import Claim
from allocator.queue.profile import Start


class Earliest(Protocol):
    """When a request begins; see :meth:`allocator.queue.profile.Profile.earliest`."""

    def __call__(self, claim: Claim, *, since: float = ...) -> Start | None: ...


class FewOrMore(NamedTuple):
    """What was found.

    Attributes:
        start: None: not as far as is known.
        more_s: from which more switches do; infinity: not known.
    """

    start: Start | None
    more_s: float


def few_or_more(
    earliest: Earliest, claim: Claim, patience_s: float, more_s: float, elapsed_s: float = 0.0
) -> FewOrMore:
    """When a request begins.

    Args:
        patience_s: how long it waits for few switches, from when it would begin with more.
        more_s: as in the answer; infinity: not known yet.
        elapsed_s: how long ago it was that times are counted from.
    """
    any_of_them = replace(claim, switches=0)
    if more_s <= elapsed_s:
        return FewOrMore(earliest(any_of_them), more_s)
    few = earliest(claim)
    if few is not None and not few.at:
        return FewOrMore(few, more_s)
    more = earliest(any_of_them)
    if more is None:
        return FewOrMore(few, more_s)
    more_s = min(more_s, max(more.at, elapsed_s) + patience_s)
    if few is not None and few.at <= more_s:
        return FewOrMore(few, more_s)
    if more_s > more.at:
        more = earliest(any_of_them, since=more_s)
    starts = [start for start in (few, more) if start is not None]
    return FewOrMore(min(starts, key=lambda start: start.at, default=None), more_s)
