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
