"""How file names and other words from outside, which may be any bytes, appear in messages."""

from __future__ import annotations


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
