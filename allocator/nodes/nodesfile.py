"""The nodes file: the number of each node, by name.

Either line n, counted from 0, is the name of node n, as in Cplant's ``cplant-map``, or
every line is ``number name``. Blank lines and comments after ``#`` are not counted; the
two forms cannot be mixed.
"""

from __future__ import annotations

from native.errors import UsageError
from native.wire.base import NAME_MAX, NODE_MAX


def parse(text: str, path: str) -> dict[str, int]:
    """Number by name.

    Args:
        path: for the errors.

    Raises:
        UsageError: names the line.
    """
    numbers: dict[str, int] = {}
    taken: dict[int, str] = {}
    width = 0  # words of a line; 0: none seen yet
    for line_number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{line_number}"
        width = width or len(words)
        if len(words) != width or width > 2:
            raise UsageError(f"{where}: lines are either `name` or `number name`, all alike")
        name = words[-1]
        number = len(numbers) if width == 1 else _number(words[0], where)
        if len(name) > NAME_MAX:
            raise UsageError(f"{where}: a name has at most {NAME_MAX} characters")
        if name in numbers:
            raise UsageError(f"{where}: {name} is node {numbers[name]} already")
        if number in taken:
            raise UsageError(f"{where}: node {number} is {taken[number]} already")
        numbers[name], taken[number] = number, name
    return numbers


def _number(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 18 or int(word) > NODE_MAX:
        raise UsageError(f"{where}: `{word}` is no node number (0 to {NODE_MAX})")
    return int(word)
