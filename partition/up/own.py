"""Where yod is on this host."""

from __future__ import annotations

import os

from native.host import programs


def own_directory() -> str:
    """The directory of yod's commands; other hosts may have them in the same."""
    return os.path.dirname(os.path.abspath(programs.command_line("pct")[0]))
