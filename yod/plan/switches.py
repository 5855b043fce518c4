"""How few leaf switches a job waits for: ``--switches COUNT[@TIME]``."""

from __future__ import annotations

import re

from native import duration
from native.errors import UsageError
from native.text import shown
from native.wire.base import NODE_MAX

_COUNT = re.compile("[1-9][0-9]{0,6}")


def parse(text: str) -> tuple[int, float]:
    """The most leaf switches, and for how many seconds to wait for so few; 0: as bebopd says.

    Raises:
        UsageError: no count, or no time.
    """
    count, at, time = text.partition("@")
    if not (_COUNT.fullmatch(count) and int(count) <= NODE_MAX):
        raise UsageError(f"--switches {shown(text)}: COUNT or COUNT@TIME, with a count from 1")
    return int(count), float(duration.parse(time, f"--switches {count}@")) if at else 0.0
