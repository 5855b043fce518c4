"""Host files as batch systems write them: a name on each line, repeated for each slot. Pure."""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown
from partition.hosts import names

SLOTS_MAX = 65536


def parse(text: str, path: str) -> dict[str, int]:
    """The hosts of a file in its order, with the number of slots of each.

    A line has the name of a host, or a list of hosts such as ``n[1-8]``; further words, and what
    follows ``#``, say nothing here. A host that is named once has 0 slots: nobody has said it.

    Raises:
        UsageError: a line names no host; the text says which one.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            found = names.parse(words[0])
        except UsageError as error:
            raise UsageError(f"{shown(path)}:{number}: {error}") from None
        for name in found:
            counts[name] = min(counts.get(name, 0) + 1, SLOTS_MAX)
    if not counts:
        raise UsageError(f"{shown(path)}: names no host")
    return {name: count if count > 1 else 0 for name, count in counts.items()}
