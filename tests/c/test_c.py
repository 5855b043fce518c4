"""Compiles and runs one small program per promise, under sanitizers."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
PROGRAMS = sorted(HERE.glob("test_*.c"))
FLAGS = [
    *("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread"),
    *("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *(f"-I{NATIVE / 'include'}", f"-I{NATIVE / 'src'}", f"-I{HERE}"),
]


def compile_all(sources: list[Path], into: Path) -> None:
    jobs = [
        subprocess.Popen(
            ["gcc", *FLAGS, "-c", str(source), "-o", str(into / f"{source.stem}.o")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for source in sources
    ]
    errors = [job.communicate()[1] for job in jobs]
    assert all(job.returncode == 0 for job in jobs), "\n".join(errors)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transport's objects in one archive."""
    into = tmp_path_factory.mktemp("objects")
    compile_all(sorted((NATIVE / "src").glob("ptl_*.c")), into)
    archive = into / "libportals.a"
    subprocess.run(["ar", "rc", archive, *into.glob("*.o")], check=True)
    return archive


@pytest.mark.timeout(180)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem.removeprefix("test_"))
def test_promise(program: Path, library: Path, tmp_path: Path) -> None:
    binary = tmp_path / program.stem
    subprocess.run(["gcc", *FLAGS, program, library, "-o", binary], check=True)
    environment = {
        **os.environ,
        "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    run = subprocess.run(
        [binary], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
