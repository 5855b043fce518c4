"""What is so with the partition that yod would use here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from native.errors import PartitionError, UsageError
from native.limits import Limits
from native.text import plural
from native.wire.status import NodeRow, NodeState
from partition.doctor import nodes
from partition.doctor.finding import Finding, ok, problem, warning
from partition.find import discover
from partition.status import reached, why

_REMEDIES = {
    NodeState.DOWN: "start its pct again; `yodctl up --ssh` or `yodctl status` say how",
    NodeState.DRAINED: "`yodctl resume` when it is well",
    NodeState.TROUBLE: "mend the cause: the node is given to jobs again when a check finds it well",
    NodeState.DRAINING: "`yodctl resume` when it is well",
}


def findings(
    address: str, environment: Mapping[str, str], limits: Limits, *, is_deep: bool = False
) -> Iterator[Finding]:
    """All of them.

    Args:
        address: of `--partition`; empty: as yod finds it.
        is_deep: have a rank on each node look at it.
    """
    try:
        where = discover.find(address, environment)
        if where.is_embedded:
            yield ok("partition", "none is up here: yod runs jobs on this host by itself")
            return
        yield from _key_file(where.key_file)
        began, asked = time.monotonic(), time.time()
        rows, bebopd_s = reached.rows_and_clock(where, limits)
    except (PartitionError, UsageError) as error:
        yield problem("partition", str(error), "`yodctl status`, or the log of its bebopd")
        return
    took_ms = (time.monotonic() - began) * 1e3
    up = sum(row.state is not NodeState.DOWN for row in rows)
    yield ok("partition", f"{where.name}: {up} of {plural(len(rows), 'node')} up, {took_ms:.0f} ms")
    yield clock(bebopd_s, asked, time.time())
    yield from _nodes(rows, limits)
    if is_deep:
        yield from nodes.findings(rows, address, environment, limits)


def clock(bebopd_s: float, asked: float, answered: float) -> Finding:
    """How far this host's clock is from bebopd's.

    Args:
        bebopd_s: unix time there, between two times of this host's clock.
    """
    late_s = max(0.0, asked - bebopd_s) + min(0.0, answered - bebopd_s)
    if abs(late_s) <= nodes.CLOCKS_S:
        return ok("clock", f"within {nodes.CLOCKS_S:g} s of bebopd's")
    how = "ahead of" if late_s > 0 else "behind"
    text = f"this host's is {abs(late_s):.0f} s {how} bebopd's"
    return problem("clock", text, "have both hosts follow a time server: grants lapse by the clock")


def _key_file(path: str) -> Iterator[Finding]:
    try:
        mode = os.stat(path).st_mode & 0o777 if path else 0
    except OSError:
        return  # who needs it says so
    if mode & 0o077:
        yield problem("key", f"{path} has mode {mode:04o}: others can read it", f"chmod 600 {path}")


def _nodes(rows: list[NodeRow], limits: Limits) -> Iterator[Finding]:
    now, stale_s = time.time(), why.stale_s(limits, len(rows))
    for state, remedy in _REMEDIES.items():
        for text in why.out_of_use([row for row in rows if row.state is state], now, stale_s):
            level = problem if state is NodeState.DOWN else warning
            yield level("nodes", text, remedy)
