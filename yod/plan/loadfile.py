"""Load files: several programs of one job, a line for each.

A line is ``{-sz N} {-list L} {-N N} ... program {args}``. Blank lines and lines whose first
visible character is ``#`` are skipped. Words are split as a shell splits them,
with quotes and backslashes, but nothing is expanded. Ranks run in file order.
"""

from __future__ import annotations

import shlex

from msgspec import Struct

from native import nodelist, options
from native.errors import LoadFileError, UsageError
from native.text import shown
from native.wire.base import MEMBERS_MAX, SIZE_MAX
from yod.plan import shape as shapes
from yod.plan.selectors import OPTIONS as SHAPE_OPTIONS
from yod.plan.shape import ANY, DIGITS_MAX, Shape

OPTIONS = (
    options.Option(("-sz", "-size", "-s"), True),
    options.Option(("-list", "-l"), True),
    *SHAPE_OPTIONS,
)


class Line(Struct, frozen=True):
    """One member as written; None: the line has no size or no list."""

    origin: str
    size: int | None
    nodes: tuple[int, ...] | None
    words: tuple[str, ...]
    shape: Shape = ANY


def parse(text: str, path: str) -> list[Line]:
    """The members of a load file.

    Raises:
        LoadFileError: names the file and the line.
    """
    lines = []
    for number, content in enumerate(text.split("\n"), start=1):
        stripped = content.strip()
        if stripped and not stripped.startswith("#"):
            lines.append(_line(stripped, path, number))
    if not lines:
        raise LoadFileError(
            path, 0, "no program in this load file; each line is {-sz N} {-list L} program {args}"
        )
    if len(lines) > MEMBERS_MAX:
        raise LoadFileError(path, 0, f"{len(lines)} programs, at most {MEMBERS_MAX}")
    return lines


def _line(content: str, path: str, number: int) -> Line:
    if "\0" in content:
        raise LoadFileError(path, number, "a NUL character, which an argument cannot have")
    try:
        words = shlex.split(content)
    except ValueError as error:
        raise LoadFileError(path, number, f"{str(error).lower()} in: {shown(content)}") from None
    size: int | None = None
    nodes: tuple[int, ...] | None = None
    shape = ANY
    try:
        words = options.expand(words, OPTIONS)
        while words and (words[0] in ("-sz", "-list") or shapes.is_about(words[0])):
            name, value, *words = words
            if shapes.is_about(name):
                shape = shapes.with_option(shape, name, value)
            elif name == "-list":
                nodes = tuple(nodelist.parse(value))
            else:
                size = parse_size(name, value)
    except UsageError as error:
        raise LoadFileError(path, number, str(error)) from None
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise LoadFileError(path, number, "no program on this line")
    return Line(f"{path}:{number}", size, nodes, tuple(words), shape)


def parse_size(option: str, value: str) -> int:
    """A size from text.

    Raises:
        UsageError: not a whole number above 0.
    """
    digits = value[1:] if value[:1] in ("+", "-") else value
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"{option} {shown(value)}: not a number of ranks")
    if len(digits) > DIGITS_MAX:
        raise UsageError(f"{option} {value[:DIGITS_MAX]}...: at most {SIZE_MAX} ranks")
    size = int(value)
    if size < 1:
        raise UsageError(f"{option} {value}: at least 1 rank")
    return size
