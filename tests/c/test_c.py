"""Compiles and runs one small program per promise, under sanitizers.

A line " * link: ..." in the comment at a program's head gives flags for the linker. Programs
named test_threads_* run under the thread sanitizer as well. "kinds: all" in a head runs the
program for the four kinds of interface, "kinds: matching" for the two with matching (kind.h);
it is compiled once for all.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.c.build import ADDRESS, ENVIRONMENT, HERE, NATIVE, THREAD, program
from tests.support.wait import LIMIT_S

SANITIZERS = {"address": ADDRESS, "thread": THREAD}
PROGRAMS = sorted(HERE.glob("test_*.c"))
KINDS = {"all": range(4), "matching": range(2)}


def kinds_of(source: Path) -> list[str]:
    """What KIND is in each run of a program."""
    found = re.search(r"kinds: (all|matching)\b", source.read_text()[:1000])
    return [str(kind) for kind in KINDS[found.group(1)]] if found else [""]


CASES = [(source, "address", kind) for source in PROGRAMS for kind in kinds_of(source)]
CASES += [(source, "thread", "") for source in PROGRAMS if "test_threads_" in source.name]


def name_of(value: Path | str) -> str:
    return value if isinstance(value, str) else value.stem.removeprefix("test_")


@pytest.mark.parametrize(("source", "sanitizer", "kind"), CASES, ids=name_of)
def test_promise(
    source: Path, sanitizer: str, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    binary = program(tmp_path_factory, source, sanitizer, SANITIZERS[sanitizer])
    env = {**ENVIRONMENT, "KIND": kind or "0"}
    run = subprocess.run(
        [binary], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
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
    command += [f"-I{NATIVE / 'transport/include'}", "-o", "program", *library]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "program"], check=True, timeout=LIMIT_S)


@pytest.mark.skipif(not LIBRARY.exists(), reason="make -C native has not been run")
def test_the_library_exports_the_interface_and_nothing_else() -> None:
    run = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in run.stdout.splitlines()}
    assert {"PtlInit", "PtlPut", "PtlxForward"} <= names
    assert {name for name in names if not name.startswith("Ptl")} == set()
