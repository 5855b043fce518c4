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


LIBRARY = NATIVE / "libportals.so"
PROGRAM = """
#include <portals4.h>
int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t id;

    return PtlInit () || PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                                    PTL_PID_ANY, 0, 0, &ni)
        || PtlGetPhysId (ni, &id) || id.phys.pid == 0 || PtlNIFini (ni);
}
"""


@pytest.mark.skipif(not LIBRARY.exists(), reason="make -C native has not been run")
def test_a_program_links_against_the_library(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    library = [f"-L{NATIVE}", "-lportals", f"-Wl,-rpath,{NATIVE}"]
    command = ["gcc", "-std=c99", "-pedantic-errors", "-Wall", "-Werror", "program.c"]
    command += [f"-I{NATIVE / 'include'}", "-o", "program", *library]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "program"], check=True, timeout=20)


@pytest.mark.skipif(not LIBRARY.exists(), reason="make -C native has not been run")
def test_the_library_exports_the_interface_and_nothing_else() -> None:
    run = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in run.stdout.splitlines()}
    assert {"PtlInit", "PtlPut", "PtlxForward"} <= names
    assert {name for name in names if not name.startswith("Ptl")} == set()
