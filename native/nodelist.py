"""Node lists as users write them: ``5,1..3`` is nodes 5, 1, 2, 3 in this order.

Grammar: ``item[,item]*``; an item is a number or a range ``a..b``, with one or more dots,
which may descend. The order of nodes decides the order of ranks. A repeated number counts
once, at its first place. Source: Cplant's nodeList.c.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from native.errors import UsageError
from native.text import shown

NODE_MAX = (1 << 20) - 1  # highest node number
_DIGITS = frozenset("0123456789")
_ALLOWED = _DIGITS | set(".,")


def parse(text: str) -> tuple[int, ...]:
    """The nodes of a list, in its order, each once.

    Raises:
        UsageError: not a node list; the text names the item and its fault.
    """
    strange = [character for character in text if character not in _ALLOWED]
    if strange:
        first = f"'{strange[0]}'" if strange[0].isprintable() else shown(strange[0])
        raise UsageError(
            f"node list `{shown(text)}`: {first} is not allowed"
            " (digits, dots and commas, as in 5,1..3)"
        )
    nodes: dict[int, None] = {}
    for item in text.split(","):
        nodes.update(dict.fromkeys(numbers_of(item, text)))
    return tuple(nodes)


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each range, ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def format_nodes(nodes: Iterable[int]) -> str:
    """The list as text, runs in either direction collapsed; :func:`parse` reads it."""
    return ",".join(
        str(first) if first == last else f"{first}..{last}" for first, last in _runs(nodes)
    )


def format_cpus(cpus: Iterable[int]) -> str:
    """Processors as the kernel writes them: ``0-3,8``."""
    return format_nodes(cpus).replace("..", "-")


def format_spans(spans: Iterable[tuple[int, int]]) -> str:
    """Nodes as :func:`format_nodes` has them, from the first of each range and a count."""
    texts: list[str] = []
    short: list[int] = []  # nodes that may descend
    begin = end = 0
    for first, count in (*spans, (-1, 0)):
        if first == end:
            end += count
            continue
        if end - begin > 2:
            if short:
                texts.append(format_nodes(short))
                short = []
            texts.append(f"{begin}..{end - 1}")
        else:
            short += range(begin, end)
        begin, end = first, first + count
    return ",".join([*texts, format_nodes(short)] if short else texts)


def named_nodes(nodes: Collection[int]) -> str:
    """``node 3`` or ``nodes 1..4``, for a text."""
    return ("node " if len(nodes) == 1 else "nodes ") + format_nodes(nodes)


def numbers_of(item: str, text: str) -> range:
    """The numbers of one item, in its order.

    Args:
        text: all of the list, for texts.

    Raises:
        UsageError: it is neither a number nor a range.
    """
    first, dots, rest = item.partition(".")
    if not dots:
        number = _number(first, item, text)
        return range(number, number + 1)
    low, high = _number(first, item, text), _number(rest.lstrip("."), item, text)
    step = 1 if high >= low else -1
    return range(low, high + step, step)


def _number(digits: str, item: str, text: str) -> int:
    if not digits or not _DIGITS.issuperset(digits):
        what = (
            f"`{shown(item)}` is neither a number nor a range a..b" if item else "an item is empty"
        )
        raise UsageError(f"node list `{shown(text)}`: {what}")
    # The length first: a number of a million digits takes minutes to convert.
    if len(digits) > 18 or int(digits) > NODE_MAX:
        raise UsageError(f"node list `{shown(text)}`: nodes are numbered from 0 to {NODE_MAX}")
    return int(digits)


def _runs(nodes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbours that keeps its direction."""
    first = last = -1
    step = 0  # of the present run; 0: it has one node yet
    for node in nodes:
        if first >= 0 and node - last in ((step,) if step else (1, -1)):
            step, last = node - last, node
            continue
        if first >= 0:
            yield first, last
        first, last, step = node, node, 0
    if first >= 0:
        yield first, last
