"""Compiles and runs one small program per promise of the PMI client, under sanitizers."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S

HERE = Path(__file__).parent
PMI = HERE.parent.parent.parent / "native" / "pmi"
PROGRAMS = sorted(HERE.glob("test_*.c"))
FLAGS = [
    *("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread"),
    *("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *(f"-I{PMI}", f"-I{HERE}"),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem.removeprefix("test_"))
def test_promise(program: Path, tmp_path: Path) -> None:
    binary = tmp_path / program.stem
    subprocess.run(["gcc", *FLAGS, program, *sorted(PMI.glob("*.c")), "-o", binary], check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PMI_")},
        "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    run = subprocess.run(
        [binary], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
