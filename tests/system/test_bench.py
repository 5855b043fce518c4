"""The measurements under bench/ build against what is here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.system


def test_the_programs_of_the_transport_measurement_compile_and_link(tmp_path):
    code = f"import pathlib, transport; transport.build(pathlib.Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=BENCH, check=True)
    assert {"socket", "transport", "key"} <= {path.name for path in tmp_path.iterdir()}


def test_placements_are_compared_on_a_trace(tmp_path):
    sys.path.insert(0, str(BENCH))
    try:
        from support import swf
    finally:
        sys.path.remove(str(BENCH))
    trace = tmp_path / "small.swf"
    trace.write_text("\n".join(swf.made(64, 40, 0.7, 1)))
    jobs = list(swf.read(trace.read_text().splitlines()))
    assert len(jobs) == 40 and all(0 < job.size <= 32 for job in jobs)
    words = [sys.executable, "placement.py", "--trace", trace, "--mesh", "4x4x4"]
    done = subprocess.run(words, cwd=BENCH, check=True, capture_output=True, text=True)
    assert "40 jobs of small.swf, on a mesh of 4 x 4 x 4 nodes" in done.stdout
    assert done.stdout.count("| Hilbert |") == 5


def test_queue_policies_are_compared_and_drawn(tmp_path):
    picture = tmp_path / "queues.png"
    size = ["--jobs", "20", "--nodes", "32", "--faults", "3"]
    words = [sys.executable, "queueing.py", *size, "--plot", picture]
    done = subprocess.run(words, cwd=BENCH, check=True, capture_output=True, text=True)
    assert done.stdout.count("starts are kept |") == 2
    heads, _, *rows = [line for line in done.stdout.splitlines() if line.startswith("|")][:6]
    fairness, lost = (heads.split("|").index(f" {name} ") for name in ("fairness", "lost"))
    assert all(0 < float(each.split("|")[fairness]) <= 1 for each in rows)
    assert all(int(each.split("|")[lost]) > 0 for each in rows)
    assert picture.read_bytes().startswith(b"\x89PNG")
