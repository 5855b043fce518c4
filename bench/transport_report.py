"""The figures of bench/transport.py as a section of Markdown."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence

from launch import machine, table
from transport_cases import (
    AS_LIBFABRIC,
    BANDWIDTHS,
    BARE,
    LATENCIES,
    LIBFABRIC,
    OURS,
    PEERS,
    PING_1M,
    PING_64K,
    PUT,
    RATES,
    STREAM_1M,
    UCX,
    WAITS,
    WAY_NAMES,
    Case,
    Figures,
    Test,
    name_of,
)


class Summary:
    """Figures, read as medians and as ratios."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def ns(self, name: str, case: Case) -> float | None:
        """Nanoseconds per message; None: not measured."""
        values = self._figures.get((name, case))
        return statistics.median(values) if values else None

    def times(self, name: str, case: Case) -> float | None:
        """How many times as long as the other we take."""
        ours, theirs = self._figures.get((OURS, case)), self._figures.get((name, case))
        if not ours or not theirs:
            return None
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _section(
    summary: Summary,
    tests: Sequence[Test],
    places: Sequence[tuple[str, str]],
    show: Callable[[Test, float], str],
    *,
    is_rate: bool,
) -> list[str]:
    """A table of some tests: each one's figure, and ours in terms of it."""
    others = [
        name
        for name in (BARE, LIBFABRIC, UCX)
        if any(summary.ns(name, Case(*place, test)) for place in places for test in tests)
    ]
    head = ["", OURS]
    for name in others:
        head += [name, f"{OURS} / {name}"]
    rows = []
    for test in tests:
        for way, wait in places:
            case = Case(way, wait, test)
            ours = summary.ns(OURS, case)
            if ours is None:
                continue
            row = [f"{test.name}: {name_of(case)}", f"**{show(test, ours)}**"]
            for name in others:
                ns, ratio = summary.ns(name, case), summary.times(name, case)
                row.append("" if ns is None else show(test, ns))
                row.append(_cell(1 / ratio if ratio and is_rate else ratio, ".2f"))
            rows.append(row)
    return table(head, rows)


def _us(_: Test, ns: float) -> str:
    return f"{ns / 1000:.2f}"


def _per_us(_: Test, ns: float) -> str:
    return f"{1000 / ns:.2f}"


def _gb(test: Test, ns: float) -> str:
    return f"{test.size / ns:.2f}"


def goals(summary: Summary, peers: Mapping[str, float]) -> list[str]:
    """Each goal beside what was measured."""

    def latency(way: str, wait: str, most: float) -> list[str]:
        case = Case(way, wait, PUT)
        return [
            f"8-byte put, {name_of(case)}, by the bare one",
            f"at most {most}",
            _cell(summary.times(BARE, case), ".2f"),
        ]

    def bandwidth(way: str, wait: str) -> list[str]:
        case = Case(way, wait, STREAM_1M)
        ratio = summary.times(BARE, case)
        return [
            f"bandwidth at 1 MB, {name_of(case)}, by the bare one",
            "at least 0.9",
            _cell(1 / ratio if ratio else None, ".2f"),
        ]

    def fabric(test: Test) -> list[str]:
        ratio = summary.times(LIBFABRIC, Case("tcp", "spin", test))
        return [f"{test.name}, time by that of libfabric tcp", "at most 1", _cell(ratio, ".2f")]

    shared = summary.ns(OURS, Case("shm", "spin", PUT))
    rows = [
        latency("tcp", "spin", 1.3),
        latency("tcp", "block", 1.3),
        latency("unix", "spin", 1.6),
        latency("unix", "block", 1.3),
        *(bandwidth(way, wait) for way in ("tcp", "unix") for wait in WAITS),
        *(fabric(test) for test in (PUT, PING_64K, PING_1M)),
        [
            "8-byte put, shared memory, spinning, us",
            "below 1",
            _cell(shared / 1000 if shared else None, ".2f"),
        ],
        *(
            [f"memory of an idle peer, {WAY_NAMES[way]}, bytes", "at most 1024", f"{size:.0f}"]
            for way, size in peers.items()
        ),
    ]
    return table(["goal", "", "measured"], rows)


def _versions() -> list[str]:
    """The others, as a Markdown list."""
    found = []
    for words, mark, name in (
        (["fi_info", "--version"], "libfabric", "libfabric"),
        (["ucx_info", "-v"], "[Vv]ersion", "UCX"),
    ):
        if not shutil.which(words[0]):
            continue
        text = subprocess.run(words, capture_output=True, text=True).stdout
        if version := re.search(rf"{mark}[ =:]*([0-9.]+)", text):
            found.append(f"- {name} {version[1]}")
    return found


def report(
    figures: Figures,
    peers: Mapping[str, float],
    absent: Mapping[str, str],
    ways: Sequence[str],
    busy: Sequence[float],
    command: str,
) -> str:
    """The results as a section of Markdown."""
    summary = Summary(figures)
    places = [(way, wait) for way in ways for wait in WAITS]
    lines = [
        "# Transport",
        "",
        "Two processes of one host, bound to a processor each where there are two; puts without",
        f"acknowledgement on a matching interface. Medians of {len(busy)} rounds; ratios",
        "are those of the rounds' ratios. Bare is a socket with the same traffic and wait",
        "mode: spinning on MSG_DONTWAIT or blocking in recv; for shared memory a word to spin on,",
        "or an eventfd. libfabric is `fi_pingpong -p tcp -e msg`, which spins; UCX is",
        "`ucx_perftest` with tagged messages, polling or sleeping, over TCP or posix and sysv.",
        "",
        *goals(summary, peers),
        "",
        "## Latency of 8 bytes",
        "",
        "Microseconds of half a round trip. Waiting for counters, for event queues, and for",
        "counters with each put triggered by the arrival before it.",
        "",
        *_section(summary, LATENCIES, places, _us, is_rate=False),
        "",
        "## Rate of 8-byte messages",
        "",
        "Millions per second; windows of 64, at most two of them on their way. Bare: a send for",
        "each message.",
        "",
        *_section(summary, RATES, places, _per_us, is_rate=True),
        "",
        "## Bandwidth",
        "",
        "10^9 bytes per second, from one buffer into one buffer, both used before; one way, or",
        "there and back as `fi_pingpong` measures it.",
        "",
        *_section(summary, (*BANDWIDTHS, *AS_LIBFABRIC), places, _gb, is_rate=True),
        "",
        f"Memory of an idle peer: growth of the heap by {PEERS} processes that have put once. The",
        "rings that shared memory maps for each peer are not in it.",
    ]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    load = f"- other work took {max(busy):.0%} of the processors at most, before a round"
    lines += ["", "## Machine and command", "", *machine(), *_versions(), load]
    lines += ["", f"    {command}", ""]
    return "\n".join(lines)
