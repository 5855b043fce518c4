"""What several commands take, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from msgspec import json

FAILED = 1

IDS = click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
JSON = click.option("--json", "is_json", is_flag=True, help="For programs.")
SIGNAL = click.option(
    "-signal", "warning", metavar="[B:]SIG@S", help="Before its time is over: to steps; B: to it."
)
PARTITION = click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)


def print_lines(lines: Sequence[str]) -> None:
    """To standard output."""
    sys.stdout.write("".join(line + "\n" for line in lines))


def print_json(value: object) -> None:
    """To standard output, for programs."""
    sys.stdout.write(json.format(json.encode(value), indent=1).decode() + "\n")
