"""What the user is told of a partition of other hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from native.wire.status import NodeRow, NodeState
from partition.find.state import State
from partition.hosts.names import fold, folded
from partition.hosts.ssh.spreading import Lost
from partition.hosts.up import Came


def came(what: Came, took_s: float) -> list[str]:
    """What has come up."""
    found = what.state
    lines = ["bebopd had died and is started again"] if what.has_new_bebopd else []
    at = found.unix_address or found.address
    if what.added:
        lines.append(f"{_count(what.added)} up at {at}: {fold(what.added)} ({took_s:.2f} s)")
        lines.append("yod finds them by itself; `yodctl down` takes them down")
    elif not what.failed:
        lines.append(f"all are up already at {at}")
    return lines


def failed(what: Came) -> list[str]:
    """Which hosts are not up, and why."""
    names = [name for name, _ in what.failed]
    are = "is" if len(names) == 1 else "are"
    return [
        f"{fold(names)} {are} not up; `yodctl up --ssh {fold(names)}` tries again",
        *folded(what.failed),
    ]


def lost(relays: Sequence[Lost]) -> list[str]:
    """Hosts that did not go on to others, though they were to."""
    return [
        f"{each.host} has reached no further host ({each.reason}):"
        f" {fold(each.hosts)} {'was' if len(each.hosts) == 1 else 'were'} reached otherwise"
        for each in relays
    ]


def hosts_up(found: State, rows: Sequence[NodeRow]) -> str:
    """The hosts that bebopd hears from."""
    up = [name for name in _names(found) if name in _heard(rows)]
    return f"hosts up: {fold(up)}" if up else "no host is up"


def hosts_missing(found: State, rows: Sequence[NodeRow]) -> list[str]:
    """The others, and what brings them back."""
    heard = _heard(rows)
    lost = [host.name for host in found.hosts if host.is_started and host.name not in heard]
    never = [host.name for host in found.hosts if not host.is_started]
    lines = [f"{fold(lost)}: lost"] if lost else []
    lines += [f"{fold(never)}: did not come up"] if never else []
    if lines:
        lines[0] += f"; `yodctl up --ssh {fold([*lost, *never])}` brings back"
    return lines


def hosts_ended(found: State, left: Mapping[str, str]) -> str:
    """On which hosts PCTs have been ended."""
    ended = [name for name in found.started if name not in left]
    return f"ended the pcts on {fold(ended)}" if ended else "no pct was ended on a host"


def hosts_left(left: Mapping[str, str]) -> list[str]:
    """On which they have not."""
    names = fold(left)
    return [
        f"a pct may be left on {names}; `yodctl down --force` tries again",
        *folded(left.items()),
    ]


def _names(found: State) -> list[str]:
    return [host.name for host in found.hosts]


def _heard(rows: Sequence[NodeRow]) -> set[str]:
    return {row.name for row in rows if row.state != NodeState.DOWN}


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} host{'' if len(names) == 1 else 's'}"
