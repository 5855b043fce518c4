"""Programs and load files: found, told apart, measured."""

from __future__ import annotations

import os
import stat
from _blake2 import blake2b

from native.errors import ProgramNotExecutableError, ProgramNotFoundError, UsageError
from native.text import shown
from native.wire.load import ShippedObject
from yod.plan.invocation import Invocation
from yod.plan.plan import Member
from yod.program.known import Known

DIGEST_BYTES = 32
LOAD_FILE_MAX_BYTES = 16 << 20
LINE_MAX_BYTES = 256  # of a script's first line, as Linux reads it
_READ_BYTES = 4 << 20


def find(word: str, invocation: Invocation, directory: str = "") -> str:
    """The absolute path of a program or load file.

    A word with a slash is a path. Else an executable of the current directory
    comes first, then the search path, then any file of the current directory.

    Args:
        directory: used as the current directory; empty: that of the invocation.

    Raises:
        ProgramNotFoundError: there is none; the text says where it was looked for.
        UsageError: the current directory does not exist any more.
    """
    if not word:
        raise ProgramNotFoundError("the program's name is empty")
    directory = directory or invocation.directory
    if not directory:
        raise UsageError("the current directory: no such file or directory; change to another")
    here = os.path.normpath(os.path.join(directory, word))
    if "/" in word:
        if os.path.exists(here):
            return here
        raise ProgramNotFoundError(f"{shown(word)}: no such program or load file")
    if is_executable(here):
        return here
    path = os.fsdecode(invocation.environment.get(b"PATH", os.fsencode(os.defpath)))
    for place in path.split(os.pathsep):
        is_absolute = place.startswith("/")  # as a rule
        candidate = f"{place}/{word}" if is_absolute else os.path.join(directory, place, word)
        if is_executable(candidate):
            return os.path.normpath(candidate)
    if os.path.exists(here):
        return here
    raise ProgramNotFoundError(
        f"{shown(word)}: no such program in PATH, no program or load file in the current directory"
    )


def path_of(member: Member, invocation: Invocation) -> str:
    """The absolute path of a member's program, which may have been found before.

    Raises:
        as :func:`find`.
    """
    return member.path or find(member.words[0], invocation)


def is_executable(path: str) -> bool:
    """Whether a file is regular and we may execute it."""
    return os.access(path, os.X_OK) and os.path.isfile(path)  # most places have no such file


def is_load_file(path: str) -> bool:
    """Whether a file that was named as the program is a load file.

    A load file is readable, regular, and has no execute permission (Cplant's rule). The
    first bytes tell whether it is rather a script or binary without the permission.

    Raises:
        ProgramNotExecutableError: a directory, a script or binary without permission.
    """
    status, name = os.stat(path), shown(path)
    if stat.S_ISDIR(status.st_mode):
        raise ProgramNotExecutableError(f"{name}: a directory")
    if not stat.S_ISREG(status.st_mode):
        raise ProgramNotExecutableError(f"{name}: not a regular file")
    if is_executable(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ProgramNotExecutableError(f"{name}: {(error.strerror or '').lower()}") from None
    if start.startswith((b"#!", b"\x7fELF")):
        kind = "script" if start.startswith(b"#!") else "program"
        raise ProgramNotExecutableError(
            f"{name}: this {kind} has no execute permission; chmod +x {name}"
        )
    if path.endswith(".py"):
        raise ProgramNotExecutableError(
            f"{name}: this script has no execute permission; use python {name}"
        )
    return True


def read_load_file(path: str) -> str:
    """The text of a load file.

    Raises:
        UsageError: too large to be one, or not text.
    """
    with open(path, "rb") as file:
        data = file.read(LOAD_FILE_MAX_BYTES + 1)
    if len(data) > LOAD_FILE_MAX_BYTES:
        raise UsageError(f"{shown(path)}: larger than {LOAD_FILE_MAX_BYTES} bytes: not a load file")
    if b"\0" in data:
        raise UsageError(f"{shown(path)}: neither an executable program nor a load file")
    return os.fsdecode(data)  # names of files are any bytes


def carriage_return(path: str) -> str:
    """A warning if a carriage return ends the ``#!`` line of a script.

    The interpreter gets it as part of its argument. Without an argument, the kernel does not
    find the interpreter, and there is an error instead.

    Returns:
        A line for the user; empty: it is no such script.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            line, end, _ = file.read(LINE_MAX_BYTES).partition(b"\r\n")
    except OSError:
        return ""
    words = line[2:].split(None, 1)
    if not line.startswith(b"#!") or b"\n" in line or not end or len(words) < 2:
        return ""
    return (
        f"{shown(path)}: its first line ends in a carriage return, which "
        f"{shown(words[0])} gets behind `{shown(words[1])}`: convert it with dos2unix"
    )


def measure(path: str, is_shipped: bool) -> ShippedObject:
    """A program as an object of the load message.

    Args:
        path: absolute.
        is_shipped: nodes may lack it, so its contents are hashed; else every node uses
            the file at the same path.

    Raises:
        ProgramNotExecutableError: no regular file, no permission, or unreadable.
    """
    status, name = os.stat(path), shown(path)
    if not stat.S_ISREG(status.st_mode):
        raise ProgramNotExecutableError(f"{name}: not a regular file")
    if status.st_size == 0:
        raise ProgramNotExecutableError(f"{name}: an empty file is no program")
    if not os.access(path, os.X_OK):
        raise ProgramNotExecutableError(f"{name}: no execute permission; chmod +x {name}")
    digest = b""
    if is_shipped:
        try:
            digest = digest_of(path)
        except OSError as error:
            raise ProgramNotExecutableError(
                f"{name}: cannot be read to be shipped: {(error.strerror or '').lower()}"
            ) from None
    mode = stat.S_IMODE(status.st_mode)
    return ShippedObject(os.fsencode(path), status.st_size, digest, mode)


def digest_of(path: str) -> bytes:
    """BLAKE2b-256 of a file."""
    with open(path, "rb", buffering=0) as file:
        return _digests.of(file.fileno())


def _digest(fd: int) -> bytes:
    digest = blake2b(digest_size=DIGEST_BYTES)
    while data := os.read(fd, _READ_BYTES):
        digest.update(data)
    return digest.digest()


_digests = Known(_digest)
