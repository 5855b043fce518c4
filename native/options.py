"""Single-dash long options and their unambiguous prefixes, as the original had."""

from __future__ import annotations

from collections.abc import Sequence

from native.errors import UsageError


def match(word: str, names: Sequence[str]) -> str:
    """The option that a word such as ``-l`` or ``--list`` stands for.

    Raises:
        UsageError: unknown, or several begin so; lists them.
    """
    text = word.lstrip("-")
    if text in names:
        return text
    found = [name for name in names if text and name.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{word}: could be {', '.join('-' + name for name in found)}")
    raise UsageError(f"{word}: no such option here; known: {', '.join('-' + n for n in names)}")
