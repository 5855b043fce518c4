"""How file names and other words from outside, which may be any bytes, appear in messages."""

from __future__ import annotations

import errno as errno_names


def shown(name: str | bytes) -> str:
    """A name as a shell shows it: as it is, or quoted where it is no line of text.

    Bytes that are not UTF-8, and characters that would move the cursor or end the line,
    are written as in ``$'caf\\351'``, which a shell reads back.
    """
    text = name if isinstance(name, str) else name.decode(errors="surrogateescape")
    if text.isprintable():
        return text
    return "$'" + "".join(map(_escaped, text)) + "'"


_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="surrogateescape"))


def plural(count: int, what: str) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


# What is wrong, by errno, where something of the user's could not be used.
REASONS = {
    errno_names.ENOENT: "no such file or directory",
    errno_names.EACCES: "permission denied",
    errno_names.ENOEXEC: "neither a binary of this machine nor a script that starts with #!",
    errno_names.E2BIG: "arguments and environment are too long",
    errno_names.ENOMEM: "out of memory",
    errno_names.ETXTBSY: "the file is open for writing",
    errno_names.ELOOP: "too many links or interpreters",
    errno_names.ENOTDIR: "not a directory",
    errno_names.EAGAIN: "the limit of processes is reached (ulimit -u)",
    errno_names.EMFILE: "the limit of open files is reached (ulimit -n)",
    errno_names.ENFILE: "the node has no more open files",
    errno_names.EIO: "input/output error",
    errno_names.EPERM: "not permitted",
}
