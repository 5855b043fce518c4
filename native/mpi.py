"""MPI libraries by their names, and the protocols that they speak."""

from __future__ import annotations

from native.wire.load import Protocol

_SPEAKS = {
    "Open MPI": (Protocol.PMIX,),
    "MPICH": (Protocol.PMI1,),
    "Intel MPI": (Protocol.PMI1,),
}
NAMES = {Protocol.PMI1: "PMI-1", Protocol.PMI2: "PMI-2", Protocol.PMIX: "PMIx"}


def family(library: str) -> str:
    """The family of an MPI library, from its path; empty: unknown."""
    directory, _, name = library.rpartition("/")
    if name.startswith("libmpi_cray"):
        return "Cray MPICH"
    if name.startswith("libmpi.so.40") or "openmpi" in directory:
        return "Open MPI"
    if name.startswith("libmpi.so") and ("intel" in directory or "impi" in directory):
        return "Intel MPI"
    if name.startswith(("libmpich", "libmpi.so.12")):
        return "MPICH"
    return ""


def protocols_of(family_name: str) -> tuple[Protocol, ...]:
    """The protocols that a family's libraries speak by default; empty: unknown."""
    return _SPEAKS.get(family_name, ())


def names(protocols: tuple[Protocol, ...]) -> str:
    """Protocols, for people: ``PMI-1 and PMIx``."""
    return " and ".join(NAMES[protocol] for protocol in protocols) or "nothing"
