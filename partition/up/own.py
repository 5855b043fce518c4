"""Where yod is on this host."""

from __future__ import annotations

import os

from native.host import programs, release


def own_directory() -> str:
    """The directory of yod's commands; other hosts may have them in the same."""
    return os.path.dirname(os.path.abspath(programs.command_line("pct")[0]))


def own_release() -> str:
    """Which release it is, by which hosts name what is shipped to them; empty: it is not whole."""
    try:
        return release.own_release().decode()
    except (OSError, ValueError):
        return ""
