"""What each rank has used: the table of ``yod --completions``, and ``--report``."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.warm

SIZE = 6
CPU_S, HELD_BYTES = 0.4, 100_000_000
WORKS = f"""
import os, time
if os.environ["YOD_RANK"] == "1":
    held = b"x" * {HELD_BYTES}
    while time.process_time() < {CPU_S}:
        pass
"""


def test_table_and_report_show_the_processor_time_and_memory_of_each_rank(anywhere, tmp_path):
    report = tmp_path / "report"
    words = ("-sz", str(SIZE), "--completions", "--report", report)
    done = anywhere.yod(*words, sys.executable, "-S", "-c", WORKS)
    assert (done.status, done.out) == (0, ""), done
    heading, *rows = (line.split()[1:] for line in done.err.splitlines())
    assert heading == ["Name", "Rank", "Node", "PID", "Elapsed", "CPU", "s", "MB", "End"]
    assert [(row[1], row[7:]) for row in rows] == [
        (str(rank), ["ended", "normally"]) for rank in range(SIZE)
    ]
    cpu_s, held = [float(row[5]) for row in rows], [int(row[6]) for row in rows]
    assert CPU_S <= cpu_s[1] < 60 and HELD_BYTES / 1e6 <= held[1] < 2 * HELD_BYTES / 1e6
    assert all(0 < held[rank] < 50 for rank in range(SIZE) if rank != 1), held
    for row, rank in zip(rows, json.loads(report.read_text())["ranks"], strict=True):
        assert [row[0], row[2], row[3]] == [
            rank["node"],
            str(rank["node_number"]),
            str(rank["unix_pid"]),
        ]
        assert float(row[5]) == pytest.approx(rank["user_s"] + rank["system_s"], abs=0.006)
        assert int(row[6]) == pytest.approx(rank["max_rss_bytes"] / 1e6, abs=1.0)
