"""Reads a session as RADICAL-Analytics and RADICAL-Pilot's own utilities do; run by a Python that
has them. Prints what they make of it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any


def main() -> None:
    with contextlib.redirect_stdout(sys.stderr):
        told = read(sys.argv[1])
    print(json.dumps(told))


def core_s(boxes: dict[str, list[list[float]]]) -> float:
    return sum((t1 - t0) * (r1 - r0 + 1) for each in boxes.values() for t0, t1, r0, r1 in each)


def read(path: str) -> dict[str, Any]:
    import radical.analytics as ra
    import radical.pilot.utils as rpu
    import radical.utils as ru

    found = [
        os.path.join(directory, name)
        for directory, _, names in os.walk(path)
        for name in names
        if name.endswith(".prof")
    ]
    _, accuracy = ru.combine_profiles(ru.read_profiles(found, sid=os.path.basename(path)))
    session = ra.Session(path, "radical.pilot")
    tasks = session.filter(etype="task", inplace=False)
    consumed = rpu.get_consumed_resources(session)
    provided = rpu.get_provided_resources(session)
    return {
        "accuracy": accuracy,
        "states": {task.uid: sorted(task.states) for task in tasks.get()},
        "consistent": {kind: session.consistency(kind) for kind in ("state_model", "timestamps")},
        "running": tasks.duration(event=[{ru.EVENT: "exec_start"}, {ru.EVENT: "exec_stop"}]),
        "most": max(
            level
            for _, level in tasks.concurrency(
                event=[{ru.EVENT: "exec_start"}, {ru.EVENT: "exec_stop"}], sampling=0.001
            )
        ),
        "provided": core_s(provided["total"]),
        "consumed": {metric: core_s(boxes) for metric, boxes in consumed.items()},
    }


if __name__ == "__main__":
    main()
