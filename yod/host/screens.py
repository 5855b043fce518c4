"""What the output of a launch is shown on, with the files that have it too."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from native.limits import Limits
from native.loop.reactor import Reactor
from yod.host.display import Progress, open_displays
from yod.host.front import Front, OnBroken, OnWritten, Screen
from yod.plan.plan import Plan

if TYPE_CHECKING:  # few launches have any
    from yod.host.marker import Marker
    from yod.host.tee import Copies


class Screens(NamedTuple):
    """What a launch shows its output on.

    Attributes:
        shown: by stream.
        copies: what ``--tee`` writes.
        marker: marks the files of output at checkpoints.
    """

    shown: dict[int, Screen]
    copies: Copies | None = None
    marker: Marker | None = None


def lines(
    reactor: Reactor,
    front: Front,
    plan: Plan,
    limits: Limits,
    on_written: OnWritten,
    on_broken: OnBroken,
    progress: Progress | None,
) -> dict[int, Screen]:
    """Displays on the outputs of a front.

    Args:
        progress: of the launch; None: it is not shown.
    """
    options = plan.options
    return open_displays(
        reactor,
        front,
        options.style,
        plan.size,
        limits,
        on_written,
        on_broken,
        has_stamps=options.has_stamps,
        progress=progress,
        terminal_rank=options.terminal_rank,
    )


def with_files(
    shown: dict[int, Screen],
    front: Front,
    plan: Plan,
    on_written: OnWritten,
    on_failed: Callable[[str], None],
    say: Callable[[str], None],
) -> Screens:
    """The same screens behind the files of ``--tee``, and what marks files.

    Args:
        on_failed: takes why a file cannot be written.
        say: takes a line for the user.
    """
    marker, copies = None, None
    if plan.checkpointing is not None and plan.checkpointing.holds_output:
        from yod.host.marker import Marker

        marker = Marker(dict(os.environ), list(dict.fromkeys(shown.values())))
    if plan.options.tee is not None:
        from yod.host.tee import Copies, teed  # few launches have both

        copies = Copies(front, plan, plan.options.tee, on_failed, say)
        shown = teed(shown, copies, on_written)
    if marker is not None:
        marker.copies = copies
    return Screens(shown, copies, marker)
