"""What is told of a program's MPI: real files, loaders that are scripts."""

import itertools
import os
from pathlib import Path

import pytest

from native.errors import UsageError
from native.wire.load import Mpi, Protocol
from tests.unit.yod.elf_of import POWER64, elf_of
from yod.program import linked
from yod.program.speech import Program, mpi_of

PMI1, PMI2, PMIX = Protocol
NOT_KNOWN = (PMI1, PMIX)
RELEASE = "python3.11"


class Files:
    """A directory with programs, libraries and loaders.

    Attributes:
        environment: of the ranks.
    """

    def __init__(self, directory):
        self.directory = directory
        self.environment = {b"HOME": os.fsencode(directory / "home")}

    def write(self, name, data, mode=0o755):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        return path

    def library(self, path, *needed, **more):
        return self.write(path, elf_of(needed, **{"name": os.path.basename(path), **more}))

    def loader(self, script):
        """A loader: it gets ``--list`` and the program's path."""
        return str(self.write("ld-own.so", "#!/bin/sh\n" + script))

    def loader_of(self, found):
        """A loader that finds these libraries for every program."""
        lines = "".join(f"\t{name} => {path} (0x7f00)\n" for name, path in found.items())
        return self.loader(f"cat <<'END'\n\tlinux-vdso.so.1 (0x7f)\n{lines}END\n")

    def program(self, *needed, found=None, name="program"):
        """A program that needs these libraries, with a loader that finds those."""
        return self.write(name, elf_of(needed, loader=self.loader_of(found or {})))

    def venv(self, *, home=None, settings="", extensions=("mpich", "openmpi")):
        """An environment with mpi4py's wheel; returns its interpreter."""
        home = home or self.directory / "base/bin"
        self.write("venv/pyvenv.cfg", f"home = {home}\nversion = 3.11.7\n{settings}")
        for each in extensions:
            name = f"MPI.{each}.cpython-311-x86_64-linux-gnu.so".replace("..", ".")
            self.library(f"venv/lib/{RELEASE}/site-packages/mpi4py/{name}")
        return self.program("libc.so.6", name="venv/bin/python")

    def told(self, *programs, **options):
        return mpi_of(
            [each if isinstance(each, Program) else Program(str(each)) for each in programs],
            self.environment,
            **options,
        )[:2]


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.mark.parametrize(
    ("name", "needs", "spoken"),
    [
        ("libmpich.so.12", (), PMI1),
        ("libmpi.so.12", (), PMI1),
        ("libmpi.so.12", ("libpmi2.so.0",), PMI2),
        ("libmpi.so.12", ("libopen-rte.so.12",), PMIX),  # Open MPI 1.10
        ("libmpi.so.40", (), PMIX),
        ("libmpi.so.20", (), PMIX),
        ("libmpi_abi.so.1", ("libopen-pal.so.90",), PMIX),
        ("libpmi.so.1", (), PMI1),
        ("libpmi2.so.0", (), PMI2),
        ("libpmix.so.2", (), PMIX),
    ],
)
def test_a_program_that_is_linked_to_an_mpi_tells_for_certain(files, name, needs, spoken):
    library = files.library(f"lib/{name}", *needs)
    mpi, reason = files.told(files.program(name, found={name: library}))
    assert (mpi.offered, mpi.is_certain) == ((spoken,), True)
    assert mpi.library == os.fsencode(library)
    assert reason == f"linked to {library}"


@pytest.mark.parametrize(
    ("linked_to", "has_portals"),
    [
        (("libportals.so.4",), True),
        (("libmpi.so.40", "libportals.so.4"), True),
        (("libmpi.so.40",), False),
        ((), False),
    ],
)
def test_ranks_get_what_portals_needs_when_a_program_is_linked_to_it(files, linked_to, has_portals):
    found = {name: files.library(f"lib/{name}") for name in linked_to}
    program = files.program(*linked_to, "libc.so.6", found=found)
    assert files.told(program)[0].has_portals == has_portals
    other = files.program(name="other", found=found)
    assert files.told(other, program)[0].has_portals == has_portals
    assert files.told(program, has_portals=True)[0].has_portals


def test_a_program_of_portals_alone_needs_no_pmix_server(files):
    found = {"libportals.so.4": files.library("lib/libportals.so.4"), "libc.so.6": "/lib/libc.so.6"}
    loader = files.loader_of(found)
    program = files.write("program", elf_of(tuple(found), loader=loader, imports=("PtlInit",)))
    assert files.told(program)[0].offered == (PMI1,)


def test_an_mpi_behind_another_library_is_found(files):
    library = files.library("lib/libmpi.so.40")
    found = {"libfoo.so": files.library("lib/libfoo.so"), "libmpi.so.40": library}
    assert files.told(files.program("libfoo.so", found=found))[0].offered == (PMIX,)


def test_an_mpi_that_is_preloaded_counts(files):
    library = files.library("lib/libmpi.so.40")
    files.environment[b"LD_PRELOAD"] = b"libmpi.so.40"
    assert files.told(files.program("libc.so.6", found={"libmpi.so.40": library}))[0].offered == (
        PMIX,
    )


@pytest.mark.parametrize("neighbour", ["libmpich.so.12", "libmpi.so.12"])
def test_a_standard_interface_is_of_the_mpi_beside_it(files, neighbour):
    library = files.library("lib/libmpi_abi.so.1")
    files.library(f"lib/{neighbour}")
    program = files.program("libmpi_abi.so.1", found={"libmpi_abi.so.1": library})
    assert files.told(program)[0].offered == (PMI1,)
    files.library("lib/libopen-pal.so.80")
    mpi, _ = files.told(program)
    assert (mpi.offered, mpi.is_certain) == (NOT_KNOWN, False)  # two it could be of


def test_an_mpich_for_pmix_is_offered_both_with_its_libpmix(files):
    libpmix = files.library("pmix/libpmix.so.2")
    library = files.library("lib/libmpich.so.12", "libpmix.so.2")
    found = {"libmpich.so.12": library, "libpmix.so.2": libpmix}
    mpi, _ = files.told(files.program("libmpich.so.12", found=found))
    assert (mpi.offered, mpi.libpmix) == (NOT_KNOWN, (os.fsencode(libpmix),))


def test_an_mpi_of_unknown_kind_is_named_and_offered_both(files):
    library = files.library("lib/libmpi.so.1")
    mpi, _ = files.told(files.program("libmpi.so.1", found={"libmpi.so.1": library}))
    assert (mpi.offered, mpi.is_certain) == (NOT_KNOWN, False)
    assert mpi.library == os.fsencode(library)


def test_libpmix_of_an_open_mpi_is_taken_from_its_closure_its_search_and_beside_it(files):
    files.library("lib/libmpi.so.40", runpath="$ORIGIN/../own")
    places = ["pmix", "own", "lib", "lib/openmpi"]
    libpmix = [files.library(f"{place}/libpmix.so.2") for place in places]
    found = {"libmpi.so.40": files.directory / "lib/libmpi.so.40", "libpmix.so.2": libpmix[0]}
    mpi, _ = files.told(files.program("libmpi.so.40", found=found))
    assert mpi.libpmix == tuple(map(os.fsencode, libpmix))


def test_a_library_that_is_not_found_still_tells_by_its_name(files):
    program = files.write("program", elf_of(["libmpi.so.40"], loader=files.loader("exit 127")))
    mpi, _ = files.told(program)
    assert (mpi.offered, mpi.library) == ((PMIX,), b"libmpi.so.40")


@pytest.mark.parametrize(
    "data",
    [
        elf_of(["libc.so.6"], loader="/lib64/ld-linux-x86-64.so.2"),
        elf_of(["libstrange.so"], loader="/nonexistent/ld.so"),
        elf_of(["libstrange.so"], loader="/bin/sh"),  # no loader: not asked
        elf_of(["libstrange.so"], loader="/lib64/ld64.so.2", machine=POWER64, order=">"),
        elf_of(),
        elf_of(["libc.so.6"], loader="/lib64/ld-linux-x86-64.so.2")[:80],
        b"\x7fELF",
        b"no script",
        b"#!\n",
        b"#!/nonexistent/interpreter\n",
        b"#!/usr/bin/env no-such-program\n",
        b"#!/usr/bin/env\n",
    ],
)
def test_what_does_not_tell_is_offered_both(files, data):
    mpi, reason = files.told(files.write("program", data))
    assert (mpi.offered, mpi.is_certain, mpi.library) == (NOT_KNOWN, False, b"")
    assert reason.startswith("not known: ")


def test_a_script_that_is_its_own_interpreter_does_not_tell(files):
    path = files.directory / "program"
    files.write("program", f"#!{path}\n")
    assert files.told(path)[0].offered == NOT_KNOWN


@pytest.mark.parametrize(
    "script",
    ["read line <&3", "yes", "printf '\\377\\376 => \\377 (\\n'", "kill -9 $$", "exit 1"],
    ids=["hangs", "never ends", "writes nonsense", "is killed", "fails"],
)
def test_a_loader_that_misbehaves_is_ended_and_not_believed(files, monkeypatch, script):
    monkeypatch.setattr(linked, "LOADER_S", 0.2)
    pipe = files.directory / "pipe"
    os.mkfifo(pipe)
    loader = files.loader(f"exec 3<>{pipe}\n{script}")
    before = children()
    mpi, _ = files.told(files.write("program", elf_of(["libstrange.so"], loader=loader)))
    assert mpi.offered == NOT_KNOWN
    assert children() <= before


def children() -> set[str]:
    """Process ids of those that this process has not reaped."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_scripts_are_followed_to_their_interpreter(files):
    library = files.library("lib/libmpi.so.40")
    program = files.program("libmpi.so.40", found={"libmpi.so.40": library}, name="bin/engine")
    files.environment[b"PATH"] = os.fsencode(program.parent)
    first = files.write("first", f"#! {program} -q\n")
    for text in (f"#!{program}\n", "#!/usr/bin/env engine\n", f"#!{first}\n"):
        assert files.told(files.write("script", text))[0].offered == (PMIX,)
    for text in ("#!/usr/bin/env -S engine -x\n", "#!/usr/bin/env A=1 engine\n"):
        assert files.told(files.write("script", text))[0].offered == (PMIX,)


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


def test_what_several_members_speak_is_offered_together(files):
    open_mpi, mpich = files.library("a/libmpi.so.40"), files.library("b/libmpich.so.12")
    found = {"libmpi.so.40": open_mpi, "libmpich.so.12": mpich}
    first = files.program("libmpi.so.40", name="first", found={"libmpi.so.40": open_mpi})
    mpi, _ = files.told(first, first)
    assert (mpi.offered, mpi.is_certain) == ((PMIX,), True)
    second = files.write("second", elf_of(["libmpich.so.12"], loader=str(_loader(files, found))))
    mpi, reason = files.told(first, second)
    assert (mpi.offered, mpi.is_certain) == ((PMI1, PMIX), True)
    assert reason == f"linked to {open_mpi}; linked to {mpich}"
    mpi, _ = files.told(files.write("unknown", elf_of()), first)
    assert (mpi.offered, mpi.is_certain, mpi.library) == (NOT_KNOWN, False, os.fsencode(open_mpi))


def _loader(files, found):
    lines = "".join(f"\t{n} => {p} (0x7f)\n" for n, p in found.items() if "mpich" in n)
    return files.write("ld-other.so", f"#!/bin/sh\ncat <<'END'\n{lines}END\n")


def test_what_a_program_is_linked_to_is_named_before_what_another_will_load(files):
    python = files.venv()
    files.library("venv/lib/libmpi.so.12")
    library = files.library("system/libmpi.so.40")
    program = files.write(
        "program",
        elf_of(["libmpi.so.40"], loader=files.loader_of({"libmpi.so.40": library})),
    )
    mpi, _ = files.told(python, program)
    assert (mpi.offered, mpi.is_certain, mpi.library) == (NOT_KNOWN, False, os.fsencode(library))


@pytest.mark.parametrize(
    ("choice", "offered"), [("pmi1", (PMI1,)), ("pmi2", (PMI2,)), ("pmix", (PMIX,)), ("none", ())]
)
def test_a_choice_is_certain_and_the_library_is_still_told(files, choice, offered):
    library = files.library("lib/libmpi.so.40")
    program = files.program("libmpi.so.40", found={"libmpi.so.40": library})
    mpi, reason = files.told(program, choice=choice)
    assert (mpi.offered, mpi.is_certain, mpi.library) == (offered, True, os.fsencode(library))
    assert reason == f"chosen by --mpi={choice}"


def test_a_chosen_libpmix_is_the_only_one(files):
    library = files.library("lib/libmpi.so.40")
    files.library("lib/libpmix.so.2")
    program = files.program("libmpi.so.40", found={"libmpi.so.40": library})
    mpi, _ = files.told(program, libpmix="/opt/pmix/libpmix.so")
    assert (mpi.libpmix, mpi.is_libpmix_chosen) == ((b"/opt/pmix/libpmix.so",), True)


def test_a_choice_that_there_is_not_is_an_error_that_says_which_there_are(files):
    with pytest.raises(UsageError) as error:
        files.told(files.write("program", elf_of()), choice="pmi3")
    assert str(error.value) == "--mpi=pmi3: must be auto, pmi1, pmi2, pmix or none"


def test_a_libpmix_that_nothing_would_use_is_an_error(files):
    with pytest.raises(UsageError, match="--libpmix is for --mpi=pmix or auto, not pmi1"):
        files.told(files.write("program", elf_of()), choice="pmi1", libpmix="/x")


def test_there_is_work_to_do_while_a_loader_has_not_answered(files):
    os.mkfifo(files.directory / "wait")
    library = files.library("lib/libmpi.so.40")
    answer = f"echo 'libmpi.so.40 => {library} (0x7f00)'"
    loader = files.loader(f"read line < {files.directory}/wait\n{answer}\n")
    program = files.write("program", elf_of(("libmpi.so.40",), loader=loader))
    done = []

    def work():
        done.append("first piece")
        yield
        done.append("second piece")
        (files.directory / "wait").write_text("go on\n")

    mpi, _ = files.told(program, meanwhile=work())
    assert done == ["first piece", "second piece"]
    assert mpi.library == os.fsencode(library)


def test_work_is_left_undone_once_a_loader_has_answered(files):
    library = files.library("lib/libmpi.so.40")
    program = files.program("libmpi.so.40", found={"libmpi.so.40": library})
    pieces = itertools.repeat(None)  # would keep us for ever
    mpi, _ = files.told(program, meanwhile=pieces)
    assert mpi.offered == (PMIX,)
