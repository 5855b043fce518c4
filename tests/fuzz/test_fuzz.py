"""Whatever bytes come, before proof and after: no crash, no leak, no neighbour harmed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.c.build import ADDRESS, ENVIRONMENT, shared
from tests.fuzz import seeds, targets
from tests.support.wait import LIMIT_S

# Enough for a finding that is easy to make; `make fuzz` looks longer.
RUNS = {"wire": 50_000, "frames": 2_000, "shake": 1_500, "near": 1_000}


def run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def inputs(target: str, tmp_path: Path) -> Path:
    seeds.write(target, tmp_path / "seeds")
    return tmp_path / "seeds"


@pytest.mark.parametrize("target", targets.TARGETS)
def test_what_was_found_once_stays_harmless(
    target: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = shared(tmp_path_factory, "address", ADDRESS)
    binary = targets.link(target, library, tmp_path, is_fuzzer=False)
    run([binary, *sorted(inputs(target, tmp_path).iterdir()), *targets.corpus(target)])


@pytest.mark.skipif(not targets.has_clang(), reason="clang with libFuzzer is not installed")
@pytest.mark.parametrize("target", targets.TARGETS)
def test_what_is_made_of_it_is_harmless(
    target: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = shared(tmp_path_factory, "covered", targets.COVERED, "clang")
    binary = targets.link(target, library, tmp_path, is_fuzzer=True)
    options = ["-seed=1", f"-runs={RUNS[target]}", f"-max_len={targets.LONGEST_BYTES[target]}"]
    new = tmp_path / "new"
    new.mkdir()
    run([binary, *options, f"-artifact_prefix={tmp_path}/", new, inputs(target, tmp_path)])
