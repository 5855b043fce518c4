"""The environment of a rank: the user's, our variables, the wire-up's.

Variables of an outer launcher (mpirun around yod, a batch step, another yod) are left out,
see :mod:`native.outer`. A user's settings of a library (``OMPI_MCA_*``, ``PMIX_MCA_*``,
``I_MPI_*``) stay; a setting of ours is added only where the user has set none. Entries are
``NAME=value``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from native import outer
from native.nodelist import format_cpus
from native.wire.load import Protocol

if TYPE_CHECKING:
    from native.wire.alloc import Needs
    from native.wire.group import Checkpoints
    from pct.account import Gpu

# Settings with which libraries do not bind ranks to processors. Open MPI needs none when it is
# started directly (as seen with 4.1 and 5.0), and MPICH never binds.
UNBOUND = (b"I_MPI_PIN=off", b"MV2_ENABLE_AFFINITY=0", b"MVP_ENABLE_AFFINITY=0")

# Settings with which Open MPI does not search for fabrics; names that choose a fabric.
_NO_FABRIC = (b"OMPI_MCA_mtl=^ofi,psm,psm2", b"OMPI_MCA_btl=^ofi")
_ABOUT_FABRICS = (
    b"FI_",
    b"PSM",
    b"OMPI_MCA_btl_ofi_",
    b"OMPI_MCA_mtl_",
    b"OMPI_MCA_opal_common_ofi_",
    b"OMPI_MCA_mca_base_",  # files of settings
)

# Settings with which hwloc does not search for devices (it loads even plugins that it may not
# use), and UCX does not hook into libc to learn of freed memory; with the prefix of each
# library's settings. The PMIx server leaves out the same parts without this module.
_SEARCHING = b"-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero,-linuxio,-pci"
_NO_DEVICES = {
    b"HWLOC_": (b"HWLOC_COMPONENTS=" + _SEARCHING, b"HWLOC_PLUGINS_PATH=/dev/null"),
    b"UCX_MEM_": (b"UCX_MEM_EVENTS=no",),
}

# The directory whose sitecustomize a Python rank imports.
_PCT = __file__.rpartition("/")[0].rpartition("/")[0]
_UNCAUGHT = f"{_PCT}/uncaught".encode(errors="surrogateescape")


class Users(NamedTuple):
    """A user's environment as the ranks of a job get it.

    Attributes:
        entries: those of an outer launcher are under other names.
        names: that the user has set, without those of an outer launcher.
    """

    entries: tuple[bytes, ...]
    names: frozenset[bytes]


def of_user(given: Iterable[bytes]) -> Users:
    """Put aside what an outer launcher has set. Takes a while: once for all of a job."""
    users, launchers = outer.split(given)
    names = frozenset([entry.partition(b"=")[0] for entry in users])
    return Users((*users, *outer.put_aside(launchers)), names)


def for_job(users: Users, job_id: str, size: int) -> tuple[bytes, ...]:
    """The variables that all ranks of a job share.

    Args:
        job_id: as users call it: ``17``, or ``17.3`` of a step.
    """
    return (*users.entries, b"YOD_JOB_ID=" + job_id.encode(), b"YOD_SIZE=%d" % size)


def home_of(user: Iterable[bytes]) -> bytes:
    """The user's home as their environment has it, or nothing."""
    return next((entry[5:] for entry in user if entry.startswith(b"HOME=")), b"")


def defaults(names: Collection[bytes], wanted: Iterable[bytes]) -> tuple[bytes, ...]:
    """Our settings for names that the user has not set.

    Call it once for all of a job: the result ends with a list of the names, from
    which a yod started inside tells them from the user's.
    """
    chosen = tuple(entry for entry in wanted if outer.name_of(entry) not in names)
    if not chosen:
        return ()
    return (*chosen, outer.DEFAULTS + b"=" + b" ".join(map(outer.name_of, chosen)))


def without_fabric(names: Collection[bytes]) -> tuple[bytes, ...]:
    """Settings for the ranks of a node that has no fabric.

    Args:
        names: that are set already. Some of them choose a transport, or its device:
            then nothing is added.
    """
    if any(name == b"OMPI_MCA_pml" or name.startswith(_ABOUT_FABRICS) for name in names):
        return ()
    return tuple(entry for entry in _NO_FABRIC if outer.name_of(entry) not in names)


def without_devices(names: Collection[bytes]) -> tuple[bytes, ...]:
    """Settings for the ranks of a node without a device that an MPI library drives.

    Args:
        names: that the user has set. Who has one setting of a kind chooses all of it.
    """
    chosen: tuple[bytes, ...] = ()
    for kind, entries in _NO_DEVICES.items():
        if not any(name.startswith(kind) for name in names):
            chosen += entries
    return chosen


def for_python(program: bytes, given: Iterable[bytes]) -> tuple[bytes, ...]:
    """Have a Python program end at an uncaught exception, also where its exit would hang.

    Args:
        program: its first argument: what is named so is a Python program.
        given: the environment that it has, the last entry of a name counts.
    """
    name = program.rpartition(b"/")[2]
    if not (name.startswith(b"python") or name.endswith(b".py")):
        return ()
    values = {key: value for key, _, value in (entry.partition(b"=") for entry in given)}
    if values.get(b"YOD_UNCAUGHT_S") == b"none":
        return ()
    others = values.get(b"PYTHONPATH")
    return (b"PYTHONPATH=" + _UNCAUGHT + (b":" + others if others else b""),)


def for_node(node: int, name: str, local_size: int) -> tuple[bytes, ...]:
    """The variables that the ranks of one node share."""
    return (
        b"YOD_NODE=%d" % node,
        b"YOD_NODE_NAME=" + name.encode(),
        b"YOD_LOCAL_SIZE=%d" % local_size,
        b"MPI_LOCALNRANKS=%d" % local_size,
    )


def for_rank(rank: int, local_rank: int, member: int, cores: int = 1) -> tuple[bytes, ...]:
    """The variables of one rank.

    Args:
        cores: slots that it has.
    """
    return (
        b"YOD_RANK=%d" % rank,
        b"YOD_LOCAL_RANK=%d" % local_rank,
        b"YOD_MEMBER=%d" % member,
        b"YOD_CORES_PER_RANK=%d" % cores,
        b"MPI_LOCALRANKID=%d" % local_rank,
    )


def for_needs(needs: Needs, gpus: tuple[Gpu, ...]) -> tuple[bytes, ...]:
    """The variables of a rank of a job that has memory or GPUs of its node."""
    entries = for_gpus(gpus)
    if needs.rank_memory:
        entries += (b"YOD_MEMORY_PER_RANK=%d" % needs.rank_memory,)
    return entries


def for_cores(cpus: tuple[int, ...]) -> tuple[bytes, ...]:
    """Tell a rank which processors it is bound to."""
    return (b"YOD_RANK_CPUS=" + format_cpus(cpus).encode(),)


def for_gpus(gpus: tuple[Gpu, ...]) -> tuple[bytes, ...]:
    """Show a rank these GPUs and no others, whoever has made them.

    HIP counts within what ROCR_VISIBLE_DEVICES leaves; the others count from all of the host.
    """
    names = b",".join([gpu.name.encode() for gpu in gpus])
    nth = b",".join([b"%d" % number for number in range(len(gpus))])
    return (
        b"CUDA_DEVICE_ORDER=PCI_BUS_ID",
        b"CUDA_VISIBLE_DEVICES=" + names,
        b"ROCR_VISIBLE_DEVICES=" + names,
        b"HIP_VISIBLE_DEVICES=" + nth,
        b"ZE_AFFINITY_MASK=" + names,
        b"YOD_RANK_GPUS=" + ",".join([f"{gpu.name}:{gpu.kind}" for gpu in gpus]).encode(),
    )


def for_checkpoints(where: Checkpoints, place: int, rank: int) -> tuple[bytes, ...]:
    """Tell a rank where it saves itself, and where it has, if it goes on from there."""
    own = b"/rank.%d" % rank
    here = b"/".join(where.saved_in(place))
    found: tuple[bytes, ...] = (b"YOD_CHECKPOINT_DIR=" + here + own,)
    if where.restart:
        found += (b"YOD_RESTART_DIR=" + where.restart + own,)
    return found


def for_protocols(
    offered: Collection[Protocol],
    world_rank: int,
    world_size: int,
    rank: int,
    pmi_port: bytes,
    names: Collection[bytes] = (),
    libpmi2: bytes = b"",
) -> tuple[bytes, ...]:
    """The variables by which a rank's MPI library finds its world.

    PMI_FD is the keeper's to add, as it opens the socket; PMI_SPAWNED and what a
    PMIx server wants in the environment are the caller's.

    Args:
        world_rank, world_size: in the rank's own world.
        rank: of the job, by which a client is known at the port.
        pmi_port: ``host:port`` of the node's PMI-1 listener; empty: there is none.
        names: that the user has set, which are not set again.
        libpmi2: path of the library through which Intel MPI speaks PMI-2. Only for
            a user who asks for PMI-2: without it Intel MPI speaks PMI-1, and the
            library that a site wants is not known.
    """
    own: tuple[bytes, ...] = ()
    if Protocol.PMI1 in offered and pmi_port:
        own += (b"PMI_PORT=" + pmi_port, b"PMI_ID=%d" % rank)
    if Protocol.PMI1 in offered or Protocol.PMI2 in offered:
        own += (b"PMI_RANK=%d" % world_rank, b"PMI_SIZE=%d" % world_size)
    wanted: tuple[bytes, ...] = ()
    if Protocol.PMI2 in offered and libpmi2:
        wanted += (b"I_MPI_PMI=pmi2", b"I_MPI_PMI_LIBRARY=" + libpmi2)
    if Protocol.PMIX in offered:
        # Open MPI 4.1 looks for a launcher that it knows before it looks for PMIx.
        wanted += (b"JSM_JSRUN_PORT=1",)
        if Protocol.PMI1 in offered:
            # MPICH 5 ends itself when it finds both and is not told.
            wanted += (b"MPICH_PMI_VERSION=1",)
    return own + tuple(entry for entry in wanted if outer.name_of(entry) not in names)
