"""The state of a partition as OpenMetrics text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from native.wire.base import State
from native.wire.batch import Row
from native.wire.status import NodeRow, NodeState

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_RUNNING = "running"


def text(
    rows: Iterable[NodeRow],
    jobs: Sequence[Row],
    *,
    is_up: bool,
    changed_at: float,
    clients: int,
    release: str,
) -> str:
    """All metrics.

    Args:
        is_up: bebopd answers; else all is as it was when it did.
        changed_at: unix time of the last change; 0: never.
        clients: browsers that watch.
    """
    rows = list(rows)
    states = Counter(row.state for row in rows)
    held = {job.job_id: job.is_pending for row in rows for job in row.jobs}
    waiting = Counter(row.state for row in jobs if not row.state.is_final)
    pending = sum(held.values())
    up = [row for row in rows if row.state is not NodeState.DOWN]
    free = sum(max(0, r.slots - r.slots_used) for r in up if r.drain is None and not r.why)
    lines = [
        *_gauge("yod_bebopd_up", "1 while bebopd answers", [("", int(is_up))]),
        *_info("yod_build", "the release of pingd", [("version", release)]),
        *_gauge(
            "yod_nodes",
            "nodes by state",
            [(f'{{state="{state.value}"}}', states[state]) for state in NodeState],
        ),
        *_gauge("yod_slots", "slots of all nodes", [("", sum(row.slots for row in rows))]),
        *_gauge("yod_slots_used", "slots that jobs hold", [("", sum(r.slots_used for r in rows))]),
        *_gauge("yod_slots_free", "slots that can be given now", [("", free)]),
        *_gauge(
            "yod_jobs",
            "jobs that hold slots, or wait for them",
            [
                (f'{{state="{_RUNNING}"}}', len(held) - pending),
                ('{state="pending"}', pending),
                ('{state="waiting"}', waiting[State.PENDING]),
            ],
        ),
        *_gauge("yod_pingd_clients", "browsers that watch", [("", clients)]),
        *_gauge(
            "yod_change_timestamp_seconds",
            "when something has changed last",
            [("", changed_at)],
            unit="seconds",
        ),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _gauge(name: str, help: str, samples: Iterable[tuple[str, float]], unit: str = "") -> list[str]:
    head = [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
    return [*head, f"# HELP {name} {help}", *(f"{name}{labels} {n}" for labels, n in samples)]


def _info(name: str, help: str, labels: Iterable[tuple[str, str]]) -> list[str]:
    said = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
    return [f"# TYPE {name} info", f"# HELP {name} {help}", f"{name}_info{{{said}}} 1"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
