"""What Perfetto needs to read a trace in JSON."""

from __future__ import annotations

from typing import Any

_NEEDS = {"X": {"ts", "dur"}, "i": {"ts", "s"}, "C": {"ts", "args"}, "M": {"args"}}
_NAMES = {"process_name", "thread_name"}


def check_trace(events: list[dict[str, Any]]) -> None:
    """Demand the fields of each kind of event, times from 0, and that slices of a track nest."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    named = set()
    for event in events:
        kind = event["ph"]
        assert event.keys() >= {"name", "pid"} | _NEEDS[kind], event
        assert isinstance(event["pid"], int)
        if kind == "M":
            assert event["name"] in _NAMES and isinstance(event["args"]["name"], str)
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        assert event["ts"] >= 0, event
        if kind == "X":
            assert event["dur"] >= 0 and isinstance(event["tid"], int), event
            own = tracks.setdefault((event["pid"], event["tid"]), [])
            own.append((event["ts"], event["ts"] + event["dur"]))
    for pid, tid in tracks:
        assert ("process_name", pid, 0) in named and ("thread_name", pid, tid) in named
    for own in tracks.values():
        _check_nesting(sorted(own, key=lambda each: (each[0], -each[1])))


def _check_nesting(spans: list[tuple[float, float]]) -> None:
    around: list[float] = []
    for since, until in spans:
        while around and around[-1] <= since + 0.2:  # times are rounded
            around.pop()
        assert not around or until <= around[-1] + 0.2, (since, until, around)
        around.append(until)
