"""What is told of a program's MPI: real files, loaders that are scripts."""

import os
from pathlib import Path

import pytest

from native.errors import UsageError
from tests.unit.yod.elf_of import POWER64, elf_of
from tests.unit.yod.speech_of import NOT_KNOWN, PMI1, PMI2, PMIX
from yod.program import linked


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
