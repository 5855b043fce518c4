"""Compiles and runs one small program per promise, under sanitizers.

A line " * link: ..." in the comment at a program's head gives flags for the linker. Programs
named test_threads_* run under the thread sanitizer as well. "kinds: all" in a head builds the
program for the four kinds of interface, "kinds: matching" for the two with matching (kinds.h).
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.c.build import ADDRESS, ENVIRONMENT, FLAGS, HERE, NATIVE, THREAD, shared
from tests.support.wait import LIMIT_S

SANITIZERS = {"address": ADDRESS, "thread": THREAD}
PROGRAMS = sorted(HERE.glob("test_*.c"))
KINDS = {"all": range(4), "matching": range(2)}


def kinds_of(program: Path) -> list[str]:
    """Flags of each build of a program."""
    found = re.search(r"kinds: (all|matching)\b", program.read_text()[:1000])
    return [f"-DKIND={kind}" for kind in KINDS[found.group(1)]] if found else [""]


CASES = [(program, "address", kind) for program in PROGRAMS for kind in kinds_of(program)]
CASES += [(program, "thread", "") for program in PROGRAMS if "test_threads_" in program.name]


def name_of(value: Path | str) -> str:
    return value if isinstance(value, str) else value.stem.removeprefix("test_")


@pytest.mark.parametrize(("program", "sanitizer", "kind"), CASES, ids=name_of)
def test_promise(
    program: Path,
    sanitizer: str,
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> None:
    flags = SANITIZERS[sanitizer]
    library = shared(tmp_path_factory, sanitizer, flags)
    link = re.findall(r"^ \* link: (.*)$", program.read_text(), re.MULTILINE)
    extra = " ".join(link).split()
    extra += [kind] if kind else []
    binary = tmp_path / program.stem
    subprocess.run(["gcc", *FLAGS, *flags, program, library, *extra, "-o", binary], check=True)
    run = subprocess.run(
        [binary], env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_S, check=False
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
    subprocess.run([tmp_path / "program"], check=True, timeout=LIMIT_S)


@pytest.mark.skipif(not LIBRARY.exists(), reason="make -C native has not been run")
def test_the_library_exports_the_interface_and_nothing_else() -> None:
    run = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in run.stdout.splitlines()}
    assert {"PtlInit", "PtlPut", "PtlxForward"} <= names
    assert {name for name in names if not name.startswith("Ptl")} == set()
