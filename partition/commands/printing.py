"""How commands print."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_lines(lines: Sequence[str]) -> None:
    """To standard output."""
    sys.stdout.write("".join(line + "\n" for line in lines))


def print_json(value: object) -> None:
    """To standard output, for programs."""
    from msgspec import json

    sys.stdout.write(json.format(json.encode(value), indent=1).decode() + "\n")
