"""Names of hosts as people write them, folded: ``n[1-8],gpu1``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from native.errors import UsageError
from native.text import shown

HOSTS_MAX = 16384
# What ssh takes for a host, and a node may be called. The first character is none of an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}")


def parse(text: str) -> tuple[str, ...]:
    """The hosts of a list, in its order, each once.

    Ranges, steps, padding, groups and the operators of ClusterShell's node sets may be in it.

    Raises:
        UsageError: it is no such list, or a name is none that a host can have.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # takes 30 ms to import

    found: dict[str, None] = {}
    for item in _items(text):
        try:
            nodes = NodeSet(item)
            if len(nodes) + len(found) > HOSTS_MAX:
                raise UsageError(f"hosts {shown(text)}: more than {HOSTS_MAX}")
            found.update(dict.fromkeys(nodes))
        except (NodeSetException, ValueError) as error:
            raise UsageError(f"hosts {shown(text)}: {shown(str(error))}") from None
    if not found:
        raise UsageError(f"hosts {shown(text)}: no host; n[1-8],gpu1 is a list of nine")
    for name in found:
        if not _NAME.fullmatch(name):
            raise UsageError(f"hosts {shown(text)}: {shown(name)} is no name of a host")
    return tuple(found)


def fold(names: Iterable[str]) -> str:
    """Names as a folded list: ``n[3-5]``."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    names = list(names)
    try:
        return str(NodeSet.fromlist(names))
    except NodeSetException:  # of a name that is none of ours
        return ",".join(names)


def folded(texts: Iterable[tuple[str, str]]) -> list[str]:
    """``n[3-5]: Connection refused``: a line for each text, of all hosts that have it.

    Args:
        texts: a host and its text.
    """
    hosts: dict[str, list[str]] = {}
    for host, text in texts:
        hosts.setdefault(text, []).append(host)
    return [f"{fold(names)}: {text}" for text, names in hosts.items()]


def taking_back(hosts: Iterable[str], limit_s: float, is_interrupted: bool) -> str:
    """What is waited for when hosts come up no further, and how not to."""
    press = "interrupt again" if is_interrupted else "interrupt"
    return (
        f"ends what has begun on {fold(hosts)}, and waits up to {limit_s:g} s for each host that"
        f" does not answer; {press} to leave at once"
    )


def may_be_left(hosts: Iterable[str]) -> str:
    """Where a PCT may go on, and what ends it or takes it in."""
    folded = fold(hosts)
    return (
        f"a pct may be left on {folded}: `yodctl up --ssh {folded}` takes it in again,"
        " `yodctl down --force` ends it with all others"
    )


def _items(text: str) -> Iterator[str]:
    """The parts of a list between commas outside of brackets; all of it if it has operators."""
    if set("!&^") & set(text):
        yield text
        return
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
