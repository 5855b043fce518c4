"""Builds the transport and programs around it under sanitizers, once per run of the tests."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
TRANSPORT = NATIVE / "transport"
INCLUDED = (TRANSPORT / "include", *sorted(TRANSPORT.glob("src/*/")))
FLAGS = [
    *("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread"),
    *("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *(f"-I{folder}" for folder in (*INCLUDED, HERE)),
]
ADDRESS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# It does not see fences, and says so; those of the ring order what two processes share.
THREAD = ["-fsanitize=thread", "-Wno-tsan"]
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def compile_all(sources: list[Path], into: Path, flags: list[str], compiler: str = "gcc") -> None:
    def compile_one(source: Path) -> subprocess.CompletedProcess[str]:
        words = [compiler, *FLAGS, *flags, "-c", source, "-o", into / f"{source.stem}.o"]
        return subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = list(pool.map(compile_one, sources))
    assert all(job.returncode == 0 for job in jobs), "\n".join(job.stderr for job in jobs)


def build(into: Path, flags: list[str], compiler: str) -> Path:
    """The transport's objects in one archive."""
    into.mkdir(parents=True, exist_ok=True)
    compile_all(sorted(TRANSPORT.glob("src/*/ptl_*.c")), into, flags, compiler)
    archive = into / "libportals.a"
    subprocess.run(["ar", "rc", archive, *into.glob("*.o")], check=True)
    return archive


@contextmanager
def once(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A place of all workers of this run, which one of them at a time has."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of all workers
    place = base / "transport" / name
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def shared(
    factory: pytest.TempPathFactory, name: str, flags: list[str], compiler: str = "gcc"
) -> Path:
    """The archive of that name; the first of all workers that asks builds it."""
    with once(factory, name) as place:
        archive = place / "libportals.a"
        return archive if archive.exists() else build(place, flags, compiler)


def program(factory: pytest.TempPathFactory, source: Path, name: str, flags: list[str]) -> Path:
    """A program around the archive of that name; likewise compiled once."""
    library = shared(factory, name, flags)
    link = re.findall(r"^ \* link: (.*)$", source.read_text(), re.MULTILINE)
    with once(factory, f"{name}-{source.stem}") as place:
        binary = place / source.stem
        if not binary.exists():
            words = ["gcc", *FLAGS, *flags, source, library, *" ".join(link).split()]
            subprocess.run([*words, "-o", place / "new"], check=True)
            (place / "new").rename(binary)
        return binary
