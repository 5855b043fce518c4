"""Files that a launch leaves when it has ended, if asked to: a line of JSON, a trace. Pure."""

from __future__ import annotations

from yod.launch.closing import Append, Timing
from yod.launch.machine import Launch
from yod.plan.prepared import Records


def of_launch(
    records: Records,
    launch: Launch,
    timing: Timing,
    began_unix_s: float,
    elapsed_s: float,
    now: float,
) -> list[Append]:
    """What is added to which files.

    Args:
        timing: of the phases; the first is the preparation.
        now: by the clock of the launch.
    """
    found = []
    if records.json_file:
        from yod.ranks import record

        line = record(launch.report, records.command, timing, began_unix_s, elapsed_s)
        found.append(Append(records.json_file, line, is_log=False))
    if records.trace_file:
        from yod import trace

        resolve_s = timing[0][1]
        known = launch.began, launch.slowest, launch.node_times
        events = trace.of_launch(launch.report, *known, resolve_s, now)
        about = trace.about(launch.report, records.command, began_unix_s - resolve_s)
        data = trace.encode(events, **about)
        found.append(Append(records.trace_file, data, is_log=False, empties=True))
    return found
