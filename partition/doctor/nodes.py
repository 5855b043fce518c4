"""What is so on each node that takes jobs: a rank there says it, compared with this host."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import DecodeError, json

from native.host.programs import command_line
from native.limits import Limits
from native.nodelist import format_nodes, named_nodes
from native.text import plural, shown
from native.wire.status import NodeRow, NodeState
from partition.doctor import namespaces
from partition.doctor.finding import Finding, ok, problem, warning
from partition.doctor.host import DESCRIPTORS_OF_RANK, RANKS_WANTED
from partition.doctor.node import Place, Said, packed, said

CLOCKS_S = 1.0  # by which clocks may differ
PLACES_MAX = 4096  # of which the addresses fit one argument
_RANK = "from partition.doctor.node import main; main()"
_TAKES_JOBS = (NodeState.FREE, NodeState.PENDING, NodeState.BUSY)


def findings(
    rows: Sequence[NodeRow], address: str, environment: Mapping[str, str], limits: Limits
) -> Iterator[Finding]:
    """All of them.

    Args:
        address: of `--partition`; empty: as yod finds it.
    """
    free = [row for row in rows if row.state in _TAKES_JOBS and row.slots_used < row.slots]
    full = sorted({row.node for row in rows if row.state in _TAKES_JOBS} - {r.node for r in free})
    if full:
        text = f"{named_nodes(full)}: all slots are in use; not looked at"
        yield ok("each node", text)
    if not free:
        return
    chosen = ["--partition", address] if address else []
    at = format_nodes([row.node for row in free])
    words = ["-quiet", *chosen, "-N", str(len(free)), "-list", at]
    heard = [row for row in free if row.nid]
    places = [Place(row.node, row.nid, row.pid) for row in heard]
    if len(places) > PLACES_MAX:
        yield ok("tree", f"more than {PLACES_MAX} nodes: connections between them not looked at")
        places = []
    tree = [packed(places), str(limits.arity_count), f"{limits.connect_s:g}"]
    began = time.time()
    limit_s = limits.allocate_s + limits.phase_s + limits.end_s
    try:
        done = subprocess.run(
            [*command_line("yod"), *words, sys.executable, "-P", "-c", _RANK, *tree],
            env={**environment, "PATH": environment.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield problem("each node", f"no launch there: {error}", "`yod -N 2 hostname` says more")
        return
    found = read(done.stdout.splitlines())
    if places:
        yield from connections(found, len(places))
    yield from compared(found, said(), (began, time.time()))
    if missing := sorted({row.node for row in free} - {each.node for each in found}):
        why = done.stderr.decode(errors="replace").strip().splitlines()[:1]
        text = f"{named_nodes(missing)}: no answer" + "".join(f": {shown(line)}" for line in why)
        remedy = f"`yod -list {format_nodes(missing)} hostname` says more, and the log of its pct"
        yield problem("each node", text, remedy)


def read(lines: Iterable[bytes]) -> list[Said]:
    """What the ranks have written, by node; other lines are nobody's."""
    found = []
    for line in lines:
        try:
            found.append(json.decode(line, type=Said))
        except DecodeError:
            pass
    return sorted(found, key=lambda each: each.node)


def compared(found: Sequence[Said], here: Said, asked: tuple[float, float]) -> Iterator[Finding]:
    """What differs from this host, or between the nodes.

    Args:
        asked: the nodes looked at their clocks between these two times of this host's clock.
    """
    if not found:
        return
    count = plural(len(found), "node")
    others = {each.node: each for each in found if each.build != here.build}
    if others:
        text = f"{named_nodes(list(others))}: another build of yod than on this host"
        yield problem("builds", text, "install the same one there, then `yodctl restart`")
    else:
        yield ok("builds", f"the same on {count} and here")
    is_off = False
    for each in found:
        late_s = _apart(each.unix_time, *asked)
        if abs(late_s) > CLOCKS_S:
            is_off = True
            how = "ahead of" if late_s > 0 else "behind"
            text = f"{named_nodes([each.node])}: {abs(late_s):.0f} s {how} this host's"
            remedy = "have both follow a time server: MUNGE refuses users of such a host"
            yield warning("clocks", text, remedy)
    if not is_off:
        yield ok("clocks", f"within {CLOCKS_S:g} s of this host's on {count}")
    yield from _libraries(found, here)
    yield from _names(found)
    yield from _open_files(found)
    yield from namespaces.compared([_there(each) for each in found], _there(here))
    yield from _alike("Python", [(each.node, each.python) for each in found])
    yield from _alike(
        "MPI", [(each.node, ", ".join(each.mpi) or "no mpiexec in PATH") for each in found]
    )
    yield from _alike(
        "PMIx", [(each.node, ", ".join(each.pmix) or "none of the system's") for each in found]
    )


def connections(found: Sequence[Said], count: int) -> Iterator[Finding]:
    """Edges of the tree that are cut, in either direction.

    Args:
        count: of nodes in the tree.
    """
    cut: dict[tuple[int, str], list[int]] = {}  # by the node that is not reached, and why
    for each in found:
        for off in each.cut_off:
            cut.setdefault((off.node, off.why), []).append(each.node)
    for (node, why), others in sorted(cut.items()):
        text = f"{named_nodes(others)} cannot reach the pct of node {node}: {shown(why)}"
        remedy = "open the ports of pcts between all nodes: a firewall, or another network"
        yield problem("tree", text, remedy)
    if found and not cut:
        yield ok("tree", f"all connections of a job over {plural(count, 'node')}, both ways")


def _there(each: Said) -> namespaces.There:
    return namespaces.There(each.node, each.host, each.namespaces, each.users)


def _libraries(found: Sequence[Said], here: Said) -> Iterator[Finding]:
    """Libraries of which nodes have another build than this host, or than each other."""
    names = sorted({name for each in found for name in each.digests})
    is_alike = True
    for name in names:
        kinds: dict[str, list[int]] = {}
        for each in found:
            kinds.setdefault(each.digests.get(name, ""), []).append(each.node)
        common = here.digests.get(name) or max(kinds, key=lambda kind: len(kinds[kind]))
        for kind, numbers in kinds.items():
            if kind != common:
                is_alike = False
                what = f"another {name} than" if kind else f"no {name}, and there is one on"
                where = "this host" if name in here.digests else "the other nodes"
                text = f"{named_nodes(numbers)}: {what} {'on ' if kind else ''}{where}"
                yield warning("libraries", text, "install the same packages on all nodes")
    if names and is_alike:
        yield ok("libraries", f"{', '.join(names)}: the same on {plural(len(found), 'node')}")


def _names(found: Sequence[Said]) -> Iterator[Finding]:
    troubled = [each for each in found if each.name_trouble]
    for each in troubled:
        text = f"node {each.node}: {shown(each.name_trouble)}"
        remedy = "write its name and address to /etc/hosts there: MPI libraries look it up"
        yield warning("names", text, remedy)
    if not troubled:
        yield ok("names", f"{plural(len(found), 'node')} find their own name")


def _open_files(found: Sequence[Said]) -> Iterator[Finding]:
    few: dict[int, list[int]] = {}
    for each in found:
        if 0 < each.open_files < RANKS_WANTED * DESCRIPTORS_OF_RANK:
            few.setdefault(each.open_files, []).append(each.node)
    for files, numbers in few.items():
        text = f"{named_nodes(numbers)}: {files} for a process"
        yield warning("open files", text, "raise LimitNOFILE= of the pct's unit, or `ulimit -Hn`")
    if not few:
        yield ok("open files", f"enough for a process on {plural(len(found), 'node')}")


def _apart(at: float, first: float, last: float) -> float:
    """How far a time is from a span; 0: within it."""
    return max(0.0, at - last) + min(0.0, at - first)


def _alike(subject: str, texts: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    """A line for all nodes of which the same is true."""
    nodes: dict[str, list[int]] = {}
    for node, text in texts:
        nodes.setdefault(text, []).append(node)
    for text, numbers in nodes.items():
        yield ok(subject, f"{named_nodes(numbers)}: {shown(text)}")
