"""Whose rank variables there are beside yod's own. Pure; imported when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from native.errors import UsageError
from native.text import shown
from native.wire.group import Dialect


def parse(texts: Sequence[str]) -> tuple[Dialect, ...]:
    """What ``--as`` says, each time that it is given.

    Raises:
        UsageError: it names a launcher whose variables are not known.
    """
    words = dict.fromkeys(word for text in texts for word in text.split(","))
    known = {dialect.value: dialect for dialect in Dialect}
    if strange := next((word for word in words if word not in known), None):
        raise UsageError(f"--as {shown(strange)}: {', '.join(known)}, or several with commas")
    return tuple(known[word] for word in words)
