"""Shared memory that the killed ranks of a job have left behind.

MPI libraries and their transports make files in ``/dev/shm`` and unlink them as soon
as every rank has opened them, or at finalize. A rank that is killed earlier leaves its files,
which hold memory until the node is booted. A file is removed here when it

* has a name that those libraries use (all were seen with killed jobs, but those of PSM),
* is a plain file of the job's owner that no other user may open,
* was made or changed since the job began, and
* is neither open nor mapped by any process.

The kernel answers the last point: it gives a write lease only on a file that no other
process has open, and a mapping counts as an open file. This covers all processes, in any
namespace, and costs nothing where there is nothing to remove. While the lease is held, an
open by another process waits, so a file that is unlinked cannot be in use. Where the kernel
gives no lease, the file stays: for a file of another user the lease needs CAP_LEASE, which
root has except in some containers.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat

from native.loop.slices import Work
from pct.host.removal import give_back

DIRECTORY = "/dev/shm"

PREFIXES = (
    "mpich_shm_",  # MPICH, and relatives
    "mpich_shar_tmp",
    "Intel_MPI_",
    "vader_segment.",  # Open MPI 4
    "sm_segment.",  # Open MPI 5
    "osc_rdma.",  # both
    "osc_sm.",
    "ucx_shm_posix_",
    "psm2_shm.",
    "psm3_shm.",
)

_OF_CRIU = ".ghost"  # files of ranks that are being brought back, until they are open again

SCANNED = 4096  # entries of the directory in one slice
LOOKED_AT = 256  # files with such a name in one slice

# A file's times are those of the last tick of the kernel's clock.
_TICK_S = 0.02


def remove(uid: int, since: float, directory: str = DIRECTORY) -> Work[list[str]]:
    """Remove the files that a job has left.

    Args:
        uid: of the job's owner.
        since: when the job began here, seconds since the epoch.

    Returns:
        The names of the files that have been removed.
    """
    found: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for number, entry in enumerate(entries, 1):
                if entry.name.startswith(PREFIXES) and not entry.name.endswith(_OF_CRIU):
                    found.append(entry.name)
                if number % SCANNED == 0:
                    yield
    except OSError:
        return []
    removed = []
    for number, name in enumerate(sorted(found), 1):
        fd = _remove(os.path.join(directory, name), uid, since)
        if fd >= 0:
            removed.append(name)
            yield from give_back(fd)
        if number % LOOKED_AT == 0:
            yield
    return removed


def _remove(path: str, uid: int, since: float) -> int:
    """Unlink a file; its descriptor, to give its memory back with; -1: the file stays."""
    try:
        status = os.lstat(path)
        if not _is_candidate(status, uid, since):
            return -1
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags)
    except OSError:
        return -1
    try:
        # If it is opened now, the kernel signals us: by default with SIGIO, which would kill.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            os.unlink(path)
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def _is_candidate(status: os.stat_result, uid: int, since: float) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and not stat.S_IMODE(status.st_mode) & 0o077
        and status.st_uid == uid
        and status.st_nlink == 1
        and status.st_ctime >= since - _TICK_S
    )
