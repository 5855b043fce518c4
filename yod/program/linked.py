"""The libraries that a program is linked to, as its own loader finds them.

Most programs need only libraries that lead to no MPI, and say so in their own
headers: reading these takes a tenth of a millisecond. Any other is asked of the
program's loader, which takes two: somebody may have work to do meanwhile, in
pieces of about one. The next piece is done while there is no answer.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence

from yod.program import elf
from yod.program.elf import Elf

LOADER_S = 5.0  # libraries may lie on a slow file system
LIST_MAX_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024

NO_WORK: Iterator[None] = iter(())
_DONE = object()

# Libraries that need no library but one of these.
_PLAIN_NAMES = """
libacl libanl libattr libaudit libblkid libbsd libbz2 libc libcap libcap-ng libcom_err libcrypt
libcrypto libdl libedit libexpat libffi libform libgcc_s libgfortran libgmp libgomp libhistory
liblz4 liblzma libm libmd libmenu libmount libmpfr libmvec libncurses libncursesw libnsl libpanel
libpcre libpcre2-8 libpthread libquadmath libreadline libresolv librt libselinux libsqlite3 libssl
libstdc++ libsystemd libtinfo libtinfow libtirpc libutil libuuid libz libzstd linux-vdso
"""
_PLAIN = frozenset(_PLAIN_NAMES.split())

# Those that load and start nothing unless they are asked to.
_INERT_NAMES = """
libc libdl libgcc_s libgfortran libgomp libm libmvec libportals libpthread libquadmath librt
libstdc++ linux-vdso
"""
_INERT = frozenset(_INERT_NAMES.split())


def read(path: str) -> Elf | None:
    """What a file says of itself; None: no ELF file, damaged, or not to be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return elf.parse(lambda count, offset: os.pread(fd, count, offset))
    except OSError:
        return None
    finally:
        os.close(fd)


def libraries(
    path: str, file: Elf, environment: Mapping[bytes, bytes], meanwhile: Iterator[None]
) -> dict[str, str]:
    """What a program or library leads to, where that may be an MPI library.

    Args:
        path: of the file.
        file: what it says of itself.
        environment: that it will run with.
        meanwhile: what can be done while its loader is asked, piece by piece.

    Returns:
        By name the path of each library, in the order of the search; the path is
        empty where none was found. Empty: no library that matters.
    """
    preloaded = environment.get(b"LD_PRELOAD", b"").decode(errors="surrogateescape")
    names = (*file.needed, *preloaded.replace(":", " ").split())
    if all(is_plain(name) for name in names):
        return {}
    if any("/" in name and not os.path.isfile(name) for name in names):
        return dict.fromkeys(file.needed, "")  # not there, or one to wait at
    listed = ask(file.interpreter, path, environment, meanwhile)
    return listed or dict.fromkeys(file.needed, "")


def stem(name: str) -> str:
    """A library's name without directory and version: ``libmpi`` of ``/lib/libmpi.so.40``."""
    return os.path.basename(name).partition(".so")[0]


def is_plain(name: str) -> bool:
    """Whether a library of this name leads to no MPI library."""
    base = stem(name)
    return base in _PLAIN or base.startswith(("ld-", "ld64", "libpython"))


def is_inert(name: str) -> bool:
    """Whether a library of this name loads or starts something only when it is asked to."""
    base = stem(name)
    return base in _INERT or base.startswith(("ld-", "ld64"))


def ask(
    loader: str,
    path: str,
    environment: Mapping[bytes, bytes],
    meanwhile: Iterator[None],
    extra: Sequence[str] = (),
) -> dict[str, str]:
    """Ask a loader for all that a program or library leads to.

    The program does not run. Its directory is that of the file behind all links,
    as it is when the kernel starts it.

    Args:
        loader: that a program asks for.
        meanwhile: as for :func:`libraries`.
        extra: names of libraries to look for as well, as dlopen does.

    Returns:
        As :func:`libraries`; empty: no answer.
    """
    if not os.path.basename(loader).startswith("ld"):
        return {}
    wanted = dict(environment)
    if extra:
        given = wanted.get(b"LD_PRELOAD", b"")
        wanted[b"LD_PRELOAD"] = b" ".join([given, *map(os.fsencode, extra)]).strip()
    answer = _output_of([loader, "--list", os.path.realpath(path)], wanted, meanwhile)
    return dict(_parse(answer.decode(errors="surrogateescape")))


def _parse(text: str) -> list[tuple[str, str]]:
    """Lines such as ``libc.so.6 => /lib/libc.so.6 (0x7f00)``; those without an arrow too."""
    found = []
    for line in text.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if not arrow:
            name = rest = name.partition(" (")[0]
        path = rest.partition(" (")[0]
        found.append((name, path if path.startswith("/") else ""))
    return found


def _output_of(
    command: list[str], environment: Mapping[bytes, bytes], meanwhile: Iterator[None]
) -> bytes:
    """What a command writes; empty where it fails, takes too long or writes too much."""
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        child_pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
    except (OSError, ValueError):
        os.close(reader)
        return b""
    finally:
        os.close(writer)
    until = time.monotonic() + LOADER_S
    while not select.select([reader], [], [], 0.0)[0] and next(meanwhile, _DONE) is not _DONE:
        pass
    data, is_whole = _read_all(reader, until)
    os.close(reader)
    try:
        if not is_whole:
            os.kill(child_pid, signal.SIGKILL)
        _, status = os.waitpid(child_pid, 0)
    except (ChildProcessError, ProcessLookupError):  # our caller ignores SIGCHLD
        status = 0
    return data if is_whole and status == 0 else b""


def _read_all(fd: int, until: float) -> tuple[bytes, bool]:
    """All bytes to the end of file; and whether that came in time."""
    data = b""
    while len(data) <= LIST_MAX_BYTES:
        ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return data, False
        more = os.read(fd, _READ_BYTES)
        if not more:
            return data, True
        data += more
    return data, False
