"""Which protocols the MPI library of a program speaks, without running the program.

What is known depends on the program:

    linked to an MPI library    certain: the library tells
    Python, or a Python script  predicted: the library that its mpi4py will load tells
    any other program           not known: it may load a library or start a program
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from native.errors import UsageError
from native.text import shown
from native.wire.load import Mpi, Protocol
from yod.program import linked

if TYPE_CHECKING:
    from yod.program.pythons import Prediction

CHOICES = ("auto", "pmi1", "pmi2", "pmix", "none")
SCRIPTS_MAX = 5  # an interpreter may be a script, too; the kernel follows so many
LIBPMIX_MAX = 16
_LINE_BYTES = 256  # of a script's first line, as the kernel reads it
_ANY = (Protocol.PMI1, Protocol.PMIX)  # both are offered if nothing is known


class Program(Struct, frozen=True):
    """One member's program.

    Attributes:
        path: absolute.
        arguments: those after its name.
    """

    path: str
    arguments: tuple[str, ...] = ()


class Speech(Struct, frozen=True):
    """The protocols that a program speaks.

    Attributes:
        protocols: empty: not known.
        reason: how that is known, for people.
        library: the MPI library, by the path that its loader uses; empty: not known.
        libpmix: paths of the PMIx library that comes with it, the most likely first.
        is_certain: the program is linked to the library.
        uses_portals: the program is linked to libportals, or is a Python script that imports
            native.portals.
    """

    protocols: tuple[Protocol, ...]
    reason: str
    library: str = ""
    libpmix: tuple[str, ...] = ()
    is_certain: bool = False
    uses_portals: bool = False


def mpi_of(
    programs: Sequence[Program],
    environment: Mapping[bytes, bytes],
    choice: str = "auto",
    libpmix: str = "",
    universe_size: int = 0,
    has_portals: bool = False,
) -> tuple[Mpi, str, tuple[str, ...]]:
    """The protocols to offer to the ranks of a job.

    Args:
        programs: of all members, in rank order.
        environment: that the ranks will have.
        choice: one of :data:`CHOICES`.
        libpmix: the PMIx library that the user has chosen; empty: none.
        has_portals: the user says that the ranks use Portals; else their programs tell.

    Returns:
        The part of the load message; the reason, for people; the MPI library of each
        program, empty where it is not known.

    Raises:
        UsageError: an unknown choice.
    """
    if choice not in CHOICES:
        raise UsageError(
            f"--mpi={shown(choice)}: must be {', '.join(CHOICES[:-1])} or {CHOICES[-1]}"
        )
    if libpmix and choice not in ("auto", "pmix"):
        raise UsageError(f"--libpmix is for --mpi=pmix or auto, not {choice}")
    speech_by_program = {each: speech_of(each, environment) for each in dict.fromkeys(programs)}
    speeches = list(speech_by_program.values())
    by_certainty = sorted(speeches, key=lambda speech: not speech.is_certain)
    predicted = {speech.library: () for speech in speeches if speech.library}
    linked_to = {speech.library: speech.protocols for speech in speeches if speech.is_certain}
    known = list((linked_to or predicted).items())
    library, speaks = known[0] if len(known) == 1 else ("", ())
    if choice == "auto":
        spoken = {protocol for speech in speeches for protocol in speech.protocols or _ANY}
        offered = tuple(protocol for protocol in Protocol if protocol in spoken)
        is_certain = all(speech.is_certain for speech in speeches)
        reason = "; ".join(dict.fromkeys(speech.reason for speech in speeches))
    else:
        offered = () if choice == "none" else (Protocol(choice),)
        is_certain, reason = True, f"chosen by --mpi={choice}"
    beside = dict.fromkeys(path for speech in by_certainty for path in speech.libpmix)
    tried = (os.path.abspath(libpmix),) if libpmix else tuple(beside)[:LIBPMIX_MAX]
    mpi = Mpi(
        offered=offered,
        is_certain=is_certain,
        library=os.fsencode(library),
        speaks=speaks,
        libpmix=tuple(map(os.fsencode, tried)),
        is_libpmix_chosen=bool(libpmix),
        universe_size=universe_size,
        has_portals=has_portals or any(speech.uses_portals for speech in speeches),
    )
    return mpi, reason, tuple(speech_by_program[each].library for each in programs)


def speech_of(program: Program, environment: Mapping[bytes, bytes]) -> Speech:
    """The protocols that one program speaks."""
    path, arguments = program.path, program.arguments
    for _ in range(SCRIPTS_MAX):
        first_line = _first_line(path)
        if not first_line:
            break
        path, *options = _interpreter(first_line, environment)
        if not path:
            return Speech((), f"not known: {program.path} runs under {first_line}")
        arguments = (*options, program.path, *program.arguments)
    file = linked.read(path)
    if file is None:
        return Speech((), f"not known: {path} is not a program that can be read")
    if not file.interpreter:
        return Speech((), f"not known: {path} is linked statically")
    found = linked.libraries(path, file, environment)
    uses_portals = _has(found, "libportals.so")
    speech = _linked(found, environment)
    if speech is not None:
        return replace(speech, uses_portals=uses_portals)
    if not file.reaches_out and all(map(linked.is_inert, (*file.needed, *found))):
        reason = f"{path} loads no library and starts no program"
        return Speech((Protocol.PMI1,), reason, uses_portals=uses_portals)
    from yod.program import pythons

    if pythons.is_python(path):
        prediction = pythons.predict(path, file, arguments, environment)
        speech = _predicted(prediction, path, environment)
        return replace(speech, uses_portals=uses_portals or pythons.imports_portals(arguments))
    reason = f"not known: {path} is linked to no MPI library"
    return Speech((), reason, uses_portals=uses_portals)


def _predicted(
    prediction: Prediction | None, path: str, environment: Mapping[bytes, bytes]
) -> Speech:
    if prediction is None:
        return Speech((), f"not known: {path} has no mpi4py")
    if not prediction.library:
        return Speech((), f"not known: {prediction.mpi4py} will find no MPI library")
    reason = f"{prediction.mpi4py} will load {prediction.library}"
    return _speech(prediction.library, prediction.libraries, environment, reason)


def _linked(libraries: Mapping[str, str], environment: Mapping[bytes, bytes]) -> Speech | None:
    """What a program with these libraries speaks; None: none is an MPI or PMI library."""
    for is_one in (is_mpi, _is_pmi):
        for name, path in libraries.items():
            if not is_one(name) or (is_one is _is_pmi and _has(libraries, "libprrte")):
                continue
            place = path or name
            speech = _speech(place, libraries, environment, f"linked to {place}")
            return replace(speech, is_certain=len(speech.protocols) == 1)
    return None


def _speech(
    library: str, libraries: Mapping[str, str], environment: Mapping[bytes, bytes], reason: str
) -> Speech:
    """What an MPI library speaks, and by which PMI library: the user's or its own."""
    protocols = _protocols(library, libraries)
    libpmix = _libpmix_of(protocols, library, libraries)
    chosen = os.fsdecode(environment.get(b"I_MPI_PMI_LIBRARY", b""))
    if chosen and protocols == (Protocol.PMI1,) and is_intel(library):
        if _has([chosen], "libpmi2."):
            protocols, reason = (Protocol.PMI2,), f"{reason}, with {chosen}"
        elif _has([chosen], "libpmix."):
            protocols, reason = (Protocol.PMIX,), f"{reason}, with {chosen}"
            libpmix = (chosen,) if "/" in chosen else ()
    return Speech(protocols, reason, library, libpmix)


def _protocols(library: str, libraries: Mapping[str, str]) -> tuple[Protocol, ...]:
    """What an MPI library speaks; empty: not known.

    Its name tells, the libraries that it needs, or those in its directory.
    """
    file = linked.read(library)
    needed = file.needed if file is not None else ()
    name = (file.name if file is not None else "") or os.path.basename(library)
    base, _, version = name.partition(".so")
    version = version.lstrip(".").partition(".")[0]
    if base == "libpmi2":
        return (Protocol.PMI2,)
    if base == "libpmi" and version == "1":  # Slurm's libpmi.so.0 talks to Slurm
        return (Protocol.PMI1,)
    if base == "libpmix" or _has((*needed, *libraries), "libopen-pal", "libopen-rte"):
        return (Protocol.PMIX,)
    if base == "libmpi" and version in ("20", "40"):
        return (Protocol.PMIX,)
    if base == "libmpich" or (base == "libmpi" and version == "12"):
        if _has(needed, "libpmi2."):
            return (Protocol.PMI2,)
        return _ANY if _has(needed, "libpmix.") else (Protocol.PMI1,)
    if base == "libmpi_abi" and "/" in library:
        return _neighbours(os.path.dirname(library))
    return ()


def is_intel(library: str) -> bool:
    """Whether a library with MPICH's ABI is Intel's: a library that only Intel has is near it."""
    directory = os.path.dirname(library)
    beside = "libmpi_shm_heap_proxy.so"
    return any(os.path.exists(os.path.join(directory, up, beside)) for up in ("", ".."))


def _neighbours(directory: str) -> tuple[Protocol, ...]:
    """What a libmpi_abi speaks whose own headers do not tell: as the only MPI beside it."""
    try:
        names = os.listdir(directory)
    except OSError:
        return ()
    is_open_mpi = _has(names, "libopen-pal.", "libmpi.so.40")
    is_mpich = _has(names, "libmpich.", "libmpi.so.12")
    if is_open_mpi == is_mpich:
        return ()
    return (Protocol.PMIX,) if is_open_mpi else (Protocol.PMI1,)


def _libpmix_of(
    protocols: tuple[Protocol, ...], library: str, libraries: Mapping[str, str]
) -> tuple[str, ...]:
    """Paths of the libpmix that comes with an MPI library, the most likely first."""
    if Protocol.PMIX not in protocols:
        return ()
    found = [path for name, path in libraries.items() if name.startswith("libpmix.so") and path]
    directory = os.path.dirname(os.path.realpath(library)) if "/" in library else ""
    file = linked.read(library) if directory else None
    for place in (*(file.search if file is not None else ()), "$ORIGIN", "$ORIGIN/openmpi"):
        expanded = place.replace("${ORIGIN}", directory).replace("$ORIGIN", directory)
        path = os.path.join(expanded, "libpmix.so.2")
        if directory and os.path.isfile(path):
            found.append(path)
    return tuple(dict.fromkeys(map(_without_links, found)))


def is_mpi(name: str) -> bool:
    """Whether a file name is that of an MPI library."""
    base = linked.stem(name)
    vendors = ("libmpi_cray", "libmpi_gnu", "libmpi_intel", "libmpi_amd", "libmpi_nvidia")
    return base in ("libmpi", "libmpich", "libmpi_abi") or base.startswith(vendors)


def _is_pmi(name: str) -> bool:
    return os.path.basename(name).startswith(("libpmi.so", "libpmi2.so", "libpmix.so"))


def _has(names: Sequence[str] | Mapping[str, str], *starts: str) -> bool:
    return any(os.path.basename(name).startswith(starts) for name in names)


def _without_links(path: str) -> str:
    """A library's path with the links of its directory resolved, but not its own."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _first_line(path: str) -> str:
    """The rest of a script's first line after ``#!``; empty: not a script."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        start = os.read(fd, _LINE_BYTES)
    except OSError:
        return ""
    finally:
        os.close(fd)
    if not start.startswith(b"#!"):
        return ""
    return start[2:].partition(b"\n")[0].strip().decode(errors="surrogateescape")


def _interpreter(line: str, environment: Mapping[bytes, bytes]) -> list[str]:
    """A script's interpreter and its options; the interpreter is empty if none is found."""
    path, *words = line.split()
    if os.path.basename(path) != "env":
        return [path, *words]
    while words and (words[0].startswith("-") or "=" in words[0]):
        words.pop(0)
    if not words:
        return [""]
    for directory in os.fsdecode(environment.get(b"PATH", os.fsencode(os.defpath))).split(":"):
        candidate = os.path.join(directory or ".", words[0])
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return [os.path.abspath(candidate), *words[1:]]
    return [""]
