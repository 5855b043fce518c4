"""The identity guard: detects MPI ranks that did not find each other."""

from __future__ import annotations

from native import mpi
from native.wire.base import clipped
from native.wire.load import Mpi, Protocol


def why_alone(library: str, load: Mpi, offered: tuple[Protocol, ...], why_no_pmix: str) -> str:
    """One line about ranks that have an MPI library and have joined no world.

    Args:
        library: the path of the one they had mapped.
        load: what the load says about MPI.
        offered: what this node offered of it.
        why_no_pmix: why this node could not offer PMIx; empty: it could, or did not have to.

    Returns:
        The library that the program had, what it was offered and speaks, and what to do.
    """
    family = mpi.family(library)
    expected = load.library.decode(errors="replace")
    is_expected = _is_file_of(_plain(library), _plain(expected))
    speaks = load.speaks if is_expected and load.speaks else mpi.protocols_of(family)
    name = f"{library} ({family})" if family else library
    text = f"the program had {name} and joined no world:"
    text += " each rank that called MPI_Init was a world of one"
    if expected and not is_expected:
        text += f"; expected was {expected}"
    text += f"; offered was {mpi.names(offered)}"
    if not speaks:
        text += "; --mpi=pmi1, pmi2 or pmix offers another"
    elif set(speaks) & set(offered):
        text += ", which it speaks: its environment was changed, it ran as another user"
        text += ", or it never called MPI_Init"
    elif Protocol.PMIX in speaks and why_no_pmix:
        text += f", it speaks PMIx: {why_no_pmix}; --libpmix PATH names a libpmix.so.2"
    else:
        said = mpi.names(speaks)
        text += f", it speaks {said}: use --mpi={speaks[0].value}"
    return clipped(text)


def _is_file_of(library: str, expected: str) -> bool:
    """Whether a library is the expected one, or the file that a link of that name leads to.

    Of a running program the file is known, as .../openmpi/lib/libmpi.so.40.30.4, or
    Intel's libmpi.so for libmpi.so.12.
    """
    if library == expected:
        return True
    directory, _, name = expected.rpartition("/")
    own_directory, _, own_name = library.rpartition("/")
    is_below = f"{own_directory}/".startswith(f"{directory}/")
    is_alike = own_name.startswith(f"{name}.") or name.startswith(f"{own_name}.")
    return bool(expected) and is_below and is_alike


def _plain(library: str) -> str:
    """A path as it is where /lib is a link to /usr/lib, as on most systems."""
    return library.removeprefix("/usr")
