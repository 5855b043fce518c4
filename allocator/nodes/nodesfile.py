"""The nodes file: the number of each node, by name, and where it is in the machine.

Either line n, counted from 0, is the name of node n, as in Cplant's ``cplant-map``, or
every line is ``number name``. Blank lines and comments after ``#`` are not counted; the
two forms cannot be mixed. Behind the name words ``key=value`` say more of a node:
``at=X,Y,Z`` its coordinates, ``for=batch`` or ``for=interactive`` which jobs it is for,
``share=no`` that one job at a time has it, ``features=gpu,ib`` what jobs may ask of it.

The file of an order has the numbers of nodes in their order, as node lists.
"""

from __future__ import annotations

from msgspec import Struct, field

from allocator.nodes.features import NAME
from native import nodelist
from native.errors import UsageError
from native.wire.base import NAME_MAX, NODE_MAX
from native.wire.status import Portion

BITS_MAX = 60  # of all coordinates of a node together

Coordinates = tuple[int, ...]
_PORTIONS = (Portion.BATCH.value, Portion.INTERACTIVE.value)


class NodesFile(Struct):
    """What a nodes file says.

    Attributes:
        numbers: by name.
        at: coordinates by number, of all nodes or none.
        portions: which jobs nodes are for, by number, of those that are not for any.
        exclusive: nodes that one job at a time has.
        features: the nodes that have each.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    at: dict[int, Coordinates] = field(default_factory=dict)
    portions: dict[int, Portion] = field(default_factory=dict)
    exclusive: set[int] = field(default_factory=set)
    features: dict[str, frozenset[int]] = field(default_factory=dict)


def parse(text: str, path: str) -> NodesFile:
    """Read a nodes file.

    Args:
        path: for the errors.

    Raises:
        UsageError: names the line.
    """
    found = NodesFile()
    taken: dict[int, str] = {}
    width = 0  # words of a line; 0: none seen yet
    where = path
    for line_number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{line_number}"
        said = [word for word in words if "=" in word]
        words = [word for word in words if "=" not in word]
        width = width or len(words)
        if len(words) != width or not 0 < width <= 2:
            raise UsageError(f"{where}: lines are either `name` or `number name`, all alike")
        name, numbers = words[-1], found.numbers
        number = len(numbers) if width == 1 else _number(words[0], where)
        if len(name) > NAME_MAX:
            raise UsageError(f"{where}: a name has at most {NAME_MAX} characters")
        if name in numbers:
            raise UsageError(f"{where}: {name} is node {numbers[name]} already")
        if number in taken:
            raise UsageError(f"{where}: node {number} is {taken[number]} already")
        numbers[name], taken[number] = number, name
        for word in said:
            _take(found, number, word, where)
    if found.at and len(found.at) < len(taken):
        lacking = min(taken.keys() - found.at.keys())
        raise UsageError(f"{path}: node {lacking} has no `at=`, and others have")
    return found


def parse_order(text: str, path: str) -> list[int]:
    """Read the file of an order.

    Raises:
        UsageError: names the line.
    """
    line: list[int] = []
    seen: set[int] = set()
    for line_number, each in enumerate(text.splitlines(), 1):
        for word in each.partition("#")[0].split():
            where = f"{path}:{line_number}"
            try:
                numbers = nodelist.parse(word)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
            if twice := seen.intersection(numbers):
                raise UsageError(f"{where}: node {min(twice)} is there twice")
            line += numbers
            seen.update(numbers)
    return line


def _take(found: NodesFile, number: int, word: str, where: str) -> None:
    """Take a word that says more of a node."""
    key, _, value = word.partition("=")
    if key == "for":
        if value not in _PORTIONS or number in found.portions:
            raise UsageError(f"{where}: `{word}`: one of for=batch and for=interactive is meant")
        found.portions[number] = Portion(value)
        return
    if word == "share=no":
        found.exclusive.add(number)
        return
    if key == "features":
        for name in value.split(","):
            if not NAME.fullmatch(name):
                raise UsageError(f"{where}: `{word}`: features are names, as in features=gpu,ib")
            found.features[name] = found.features.get(name, frozenset()) | {number}
        return
    if key != "at":
        known = "`at=X,Y,Z`, `for=batch`, `share=no`, `features=gpu`"
        raise UsageError(f"{where}: `{word}` is none of {known}")
    if number in found.at:
        raise UsageError(f"{where}: node {number} has `at=` twice")
    found.at[number] = _coordinates(value, where)
    first = next(iter(found.at.values()))
    if len(first) != len(found.at[number]):
        raise UsageError(f"{where}: `{word}`: node {min(found.at)} has {len(first)} coordinates")


def _coordinates(value: str, where: str) -> Coordinates:
    words = value.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) <= 9 for word in words):
        raise UsageError(f"{where}: `at={value}`: coordinates are numbers from 0, as in at=3,0,7")
    at = tuple(map(int, words))
    if (most := BITS_MAX // len(at)) < max(at).bit_length():
        raise UsageError(f"{where}: `at={value}`: {len(at)} coordinates have at most {most} bits")
    return at


def _number(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 18 or int(word) > NODE_MAX:
        raise UsageError(f"{where}: `{word}` is no node number (0 to {NODE_MAX})")
    return int(word)
