"""The libraries that a program is linked to, as its own loader finds them.

The headers of most programs name only libraries that need no MPI library; reading them
takes 0.1 ms. For any other program its loader is asked, which takes 2 ms.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from collections.abc import Mapping, Sequence

from yod.program import elf
from yod.program.elf import Elf
from yod.program.known import Known

LOADER_S = 5.0  # libraries may lie on a slow file system
LIST_MAX_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_MARK = b"YOD_LISTS_LIBRARIES"  # a keeper that looks at this loader then sees no program

# Libraries that need only one another.
_PLAIN_NAMES = """
libacl libanl libattr libaudit libblkid libbsd libbz2 libc libcap libcap-ng libcom_err libcrypt
libcrypto libdl libedit libexpat libffi libform libgcc_s libgfortran libgmp libgomp libhistory
liblz4 liblzma libm libmd libmenu libmount libmpfr libmvec libncurses libncursesw libnsl libpanel
libpcre libpcre2-8 libpthread libquadmath libreadline libresolv librt libselinux libsqlite3 libssl
libstdc++ libsystemd libtinfo libtinfow libtirpc libutil libuuid libz libzstd linux-vdso
"""
_PLAIN = frozenset(_PLAIN_NAMES.split())

# Libraries that load no library and start no program unless the caller tells them to.
_INERT_NAMES = """
libc libdl libgcc_s libgfortran libgomp libm libmvec libportals libpthread libquadmath librt
libstdc++ linux-vdso
"""
_INERT = frozenset(_INERT_NAMES.split())


def read(path: str) -> Elf | None:
    """The headers of a file; None: it is no ELF file, is damaged or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return _headers.of(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def _parse_headers(fd: int) -> Elf | None:
    return elf.parse(lambda count, offset: os.pread(fd, count, offset))


_headers = Known(_parse_headers)


def libraries(path: str, file: Elf, environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """All libraries that a program or library needs, if one may be an MPI library.

    Args:
        path: of the file.
        file: its headers.
        environment: that it will run with.

    Returns:
        Name -> path, in the order of the search; the path is empty if the library was not
        found. Empty: none can be an MPI library.
    """
    preloaded = environment.get(b"LD_PRELOAD", b"").decode(errors="surrogateescape")
    names = (*file.needed, *preloaded.replace(":", " ").split())
    if all(is_plain(name) for name in names):
        return {}
    if any("/" in name and not os.path.isfile(name) for name in names):
        return dict.fromkeys(file.needed, "")  # missing, or a FIFO, where the loader would wait
    listed = ask(file.interpreter, path, environment)
    return listed or dict.fromkeys(file.needed, "")


def stem(name: str) -> str:
    """A library's name without directory and version: ``libmpi`` of ``/lib/libmpi.so.40``."""
    return os.path.basename(name).partition(".so")[0]


def is_plain(name: str) -> bool:
    """Whether a library of this name needs no MPI library."""
    base = stem(name)
    return base in _PLAIN or base.startswith(("ld-", "ld64", "libpython"))


def is_inert(name: str) -> bool:
    """Whether a library of this name loads and starts nothing unless it is told to."""
    base = stem(name)
    return base in _INERT or base.startswith(("ld-", "ld64"))


def ask(
    loader: str,
    path: str,
    environment: Mapping[bytes, bytes],
    extra: Sequence[str] = (),
) -> dict[str, str]:
    """Ask a loader for all libraries that a program or library needs.

    The program does not run. Links are resolved first, so that ``$ORIGIN`` is the directory
    that it has when the kernel starts the program.

    Args:
        loader: the program's interpreter.
        extra: names of further libraries, to be found as dlopen finds them.

    Returns:
        As :func:`libraries`; empty: no answer.
    """
    if not os.path.basename(loader).startswith("ld"):
        return {}
    wanted = {**environment, _MARK: b"1"}
    if extra:
        given = wanted.get(b"LD_PRELOAD", b"")
        wanted[b"LD_PRELOAD"] = b" ".join([given, *map(os.fsencode, extra)]).strip()
    answer = _output_of([loader, "--list", os.path.realpath(path)], wanted)
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


def _output_of(command: list[str], environment: Mapping[bytes, bytes]) -> bytes:
    """The output of a command; empty if it fails, takes too long or writes too much."""
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
    data, is_whole = _read_all(reader, time.monotonic() + LOADER_S)
    os.close(reader)
    try:
        if not is_whole:
            os.kill(child_pid, signal.SIGKILL)
        _, status = os.waitpid(child_pid, 0)
    except (ChildProcessError, ProcessLookupError):  # the process that started yod ignores SIGCHLD
        status = 0
    return data if is_whole and status == 0 else b""


def _read_all(fd: int, until: float) -> tuple[bytes, bool]:
    """Read to the end of file; also whether it was reached in time."""
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
