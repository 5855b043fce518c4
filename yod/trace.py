"""Traces for Perfetto and chrome://tracing: their shape, and that of a launch. Pure.

A trace is a list of events in JSON. Times are microseconds; a process is drawn as a group of
tracks, a thread as one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import json

from native.nodelist import format_nodes
from native.wire.group import NodeTimes
from native.wire.load import Slowest
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.ranks import rank_of

Event = dict[str, Any]

_MICRO = 1e6
_YOD = 1  # the process whose track is yod's own; nodes follow
_OF_NODE = 0  # the track of a node itself; those of its ranks follow
_MEANS = {
    Phase.FORMING: "joined, and its store looked at",
    Phase.LOADING: "loaded: all objects are there",
    Phase.STARTING: "held: all its ranks are at their entry",
}


def span(
    name: str, category: str, pid: int, tid: int, since_s: float, seconds: float, **args: object
) -> Event:
    """What has lasted."""
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": micros(since_s),
        "dur": micros(max(0.0, seconds)),
        "args": args,
    }


def mark(name: str, category: str, pid: int, tid: int, at_s: float) -> Event:
    """What has happened at one time, on one track."""
    where = {"pid": pid, "tid": tid, "ts": micros(at_s)}
    return {"ph": "i", "s": "t", "name": name, "cat": category, **where}


def level(name: str, pid: int, at_s: float, **args: int) -> Event:
    """A number that is drawn as a curve."""
    return {"ph": "C", "name": name, "pid": pid, "ts": micros(at_s), "args": args}


def name_of(kind: str, pid: int, tid: int, name: str) -> Event:
    """What a process (``process_name``) or a thread (``thread_name``) is called."""
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def micros(seconds: float) -> float:
    """Microseconds, as traces have them."""
    return round(seconds * _MICRO, 1)


def encode(events: Iterable[Event], **about: object) -> bytes:
    """The file."""
    whole = {"traceEvents": list(events), "displayTimeUnit": "ms"}
    return json.encode(whole | ({"otherData": about} if about else {}))


def of_launch(
    report: Report,
    began: Mapping[Phase, float],
    slowest: Mapping[Phase, Slowest],
    times: Mapping[int, NodeTimes],
    resolve_s: float,
    now: float,
) -> Iterator[Event]:
    """The events of a launch that has ended. Times are from when its preparation began.

    What nodes have measured is counted from when their load message came, which for each of them
    has been reckoned (:class:`native.wire.group.Times`). Of a node without times, as of one that is
    lost, it is not known: it is drawn as if it had been when yod sent it.

    Args:
        began: of each phase, by the clock of ``now``.
        times: node -> when it came to the end of its phases.
        resolve_s: before the first of them.
    """
    zero = min(began.values(), default=now) - resolve_s
    yield name_of("process_name", _YOD, 0, f"yod, job {report.job_id}")
    yield name_of("thread_name", _YOD, 0, "launch")
    yield span("resolve", "phase", _YOD, 0, 0.0, resolve_s)
    starts = list(began.items())
    ends = [*(at for _, at in starts[1:]), now]
    for (phase, start), end in zip(starts, ends, strict=True):
        slow = slowest.get(phase)
        args = {"slowest": slow.name, "slowest_s": slow.seconds} if slow else {}
        yield span(phase.value, "phase", _YOD, 0, start - zero, end - start, **args)
    if Phase.RUNNING in began:
        yield mark("go", "launch", _YOD, 0, began[Phase.RUNNING] - zero)
    if Phase.FORMING in began:
        yield from _of_nodes(report, began, slowest, times, zero)


def _of_nodes(
    report: Report,
    began: Mapping[Phase, float],
    slowest: Mapping[Phase, Slowest],
    times: Mapping[int, NodeTimes],
    zero: float,
) -> Iterator[Event]:
    sent = began[Phase.FORMING] - zero
    pids = {node: pid for pid, node in enumerate(dict.fromkeys(report.nodes), _YOD + 1)}
    for node, pid in pids.items():
        yield name_of("process_name", pid, 0, f"{report.node_names[node]} (node {node})")
        yield name_of("thread_name", pid, _OF_NODE, "node")
        if (known := times.get(node)) is not None:
            last = {phase for phase, slow in slowest.items() if slow.node == node}
            yield from _of_node(known, pid, sent + known.came / _MICRO, last)
    # The longest first: one that begins at the same time lies within it.
    for phase, slow in sorted(slowest.items(), key=lambda item: -item[1].seconds):
        if slow.node in pids and slow.node not in times and phase in _MEANS:
            name = f"slowest: {_MEANS[phase]}"
            yield span(name, "slowest", pids[slow.node], _OF_NODE, sent, slow.seconds)
    went = began[Phase.RUNNING] - zero if Phase.RUNNING in began else None
    for rank in range(report.size):
        done = rank_of(report, rank)
        pid = pids.get(done.node_number, 0)
        if not pid or not done.unix_pid:
            continue
        tid = rank + 1
        yield name_of("thread_name", pid, tid, f"rank {rank}")
        if done.phase == "lost":
            continue
        came, since = sent, went
        if (known := times.get(done.node_number)) is not None:
            came = sent + known.came / _MICRO
            since = came + known.went / _MICRO if known.went >= 0 else None
        was_released = done.phase == "run" and since is not None
        if not was_released or since is None:
            since = came
        what = "running" if was_released else "ended before go"
        ended = came + done.elapsed_s
        how = {"unix_pid": done.unix_pid, "exit_code": done.exit_code, "signal": done.signal}
        used = {"user_s": done.user_s, "system_s": done.system_s, "rss": done.max_rss_bytes}
        yield span(what, "rank", pid, tid, since, ended - since, **how, **used)
        yield mark("ended", "rank", pid, tid, max(since, ended))


def _of_node(times: NodeTimes, pid: int, came: float, last: Collection[Phase]) -> Iterator[Event]:
    """The phases of a node, each from the end of the one before it.

    Args:
        came: when its load message came.
        last: phases of the launch in which this node took longest.
    """

    def phase(what: Phase | str, since_us: int, until_us: int, **args: object) -> Event:
        name = what.value if isinstance(what, Phase) else what
        at, seconds = came + since_us / _MICRO, (until_us - since_us) / _MICRO
        return span(name, "node", pid, _OF_NODE, at, seconds, **args)

    ends = (
        (Phase.FORMING, times.joined),
        (Phase.LOADING, times.loaded),
        (Phase.STARTING, times.held),
        (Phase.HELD, times.went),
        (Phase.RUNNING, times.ended),
    )
    until = times.told if times.told >= 0 else max(at for _, at in ends)
    since = 0
    for what, at in ends:
        is_over = 0 <= at <= until
        end = at if is_over else max(since, until)
        args = {"slowest": True} if what in last else {}
        yield phase(what, since, end, **args, **({} if is_over else {"cut_short": True}))
        if what is Phase.STARTING and since <= times.started <= end:
            yield phase("wire-up", since, times.started)
        if not is_over:
            break
        since = at
    if 0 <= times.told <= times.left:
        yield phase(Phase.ENDING, times.told, times.left)


def about(report: Report, command: str, began_unix_s: float) -> dict[str, object]:
    """What a trace says of its launch."""
    return {
        "job": report.job_id,
        "command": command.encode(errors="replace").decode(),
        "exit_status": report.exit_status,
        "began": began_unix_s,
        "nodes": format_nodes(sorted(set(report.nodes))),
    }
