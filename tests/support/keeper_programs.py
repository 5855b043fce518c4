"""Programs that tests of the keeper run, compiled once a session."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from native.wire.keeper import (
    HowHeld,
    RankHeld,
)
from tests.support.keeper_job import UNDER_TEST, Job

HERE = Path(__file__).parents[1]
SOURCES = HERE / "c" / "keeper"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

Build = Callable[..., str]


def build_in(folder: Path, name: str, *flags: str, compiler: str = "cc", output: str = "") -> str:
    target = folder / (output or f"{name}{'_'.join(flags).replace('/', '_')}")
    if not target.exists():
        source = next(
            p for p in (SOURCES / f"{name}.c", HERE.parent / f"examples/{name}.c") if p.exists()
        )
        subprocess.run([compiler, "-O1", "-o", target, source, *flags], check=True)
    return str(target)


@pytest.fixture(scope="session")
def build() -> Iterator[Build]:
    """Compile a program of ``tests/c/keeper``; gives its path, which every user can reach."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    with TemporaryDirectory(prefix="keeper-programs-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield partial(build_in, folder)


def write_script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def confined(build: Build, flag: str) -> str:
    return build("confined", flag, f'-DKEEPER="{UNDER_TEST}"', output=f"confined{flag}")


def held_how(job: Job) -> list[HowHeld]:
    return [event.how for event in job.events if isinstance(event, RankHeld)]
