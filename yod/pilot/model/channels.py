"""Channels between programs of tasks, by name (``app_comm``): what a pilot is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

QUEUE, PUBSUB = "_queue", "_pubsub"  # how the name of a channel ends, by which it is one
IN, OUT = ".in", ".out"
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]*({QUEUE}|{PUBSUB})", re.ASCII)
_NAME_MAX = 40
PATH_MAX = 107 - len("/") - _NAME_MAX - len(OUT)  # bytes: of the directory of their sockets


def channels_complaint(value: Sequence[object]) -> str:
    """What is wrong with names of channels; empty: nothing."""
    taken: set[str] = set()
    for name in value:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
            return f"has {name!r}, which is no name of a channel, such as work_queue or news_pubsub"
        if name.upper() in taken:
            return f"has {name!r} twice"
        taken.add(name.upper())
    return ""


def addresses(directory: str, names: Sequence[str]) -> dict[str, str]:
    """The variables by which programs find channels whose sockets are in a directory."""
    return {
        f"RP_{name.upper()}_{way}": f"ipc://{directory}/{name}{end}"
        for name in names
        for way, end in (("IN", IN), ("OUT", OUT))
    }
