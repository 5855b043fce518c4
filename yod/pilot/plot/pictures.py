"""Makes the pictures of a session, each a file."""

from __future__ import annotations

import os
from typing import NamedTuple

from native.errors import YodError
from yod.pilot.analysis import trace
from yod.pilot.plot import figures, page
from yod.pilot.plot.load import load
from yod.pilot.plot.view import View
from yod.trace import encode

FIGURE, PAGE, TRACE = "plot.png", "plot.html", "trace.json"  # in the session's directory


class Drawn(NamedTuple):
    """A file that was written, and what of the session does not add up."""

    path: str
    wrong: list[str]


def draw(session: str, what: str, path: str | None) -> Drawn:
    """Make one of ``FIGURE``, ``PAGE`` and ``TRACE``.

    Args:
        path: of the file; None: in the session's directory.

    Raises:
        YodError: there is no such session, it has no profiles, or the file cannot be written.
    """
    path = path or os.path.join(session, what)
    story = load(session)
    if what == TRACE:
        _write(path, encode(trace.events_of(story)))
        return Drawn(path, [])
    view = View(story)
    if what == PAGE:
        _write(path, page.page(view).encode())
    else:
        figures.draw(view, path)
    return Drawn(path, view.wrong)


def sums(session: str) -> dict[str, object]:
    """The sums of a session, for programs.

    Raises:
        YodError: as for :func:`draw`.
    """
    return View(load(session)).as_dict()


def _write(path: str, whole: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(whole)
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
