"""Staging directives: which file goes where, how, and when.

A directive is a text (``"src > tgt"``, ``"tgt < src"``) or a dictionary. Its source and its target
are places: a schema (``client://``, ``task://`` and so on) and a path below it. A path that would
leave its place is refused before anything is copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from native.errors import UsageError

TRANSFER = "Transfer"
COPY = "Copy"
LINK = "Link"
MOVE = "Move"
DOWNLOAD = "Download"
TARBALL = "Tarball"
ACTIONS = (TRANSFER, COPY, LINK, MOVE, DOWNLOAD, TARBALL)

RECURSIVE = 1
CREATE_PARENTS = 2
NON_FATAL = 4
DEFAULT_FLAGS = CREATE_PARENTS
_ALL_FLAGS = RECURSIVE | CREATE_PARENTS | NON_FATAL

# Schemas whose paths are relative to a directory that the session knows.
EXPANDED = ("client", "endpoint", "resource", "session", "pilot", "task", "pwd")
_KEYS = ("source", "target", "action", "flags", "priority", "uid")
_URLS = ("http", "https", "ftp")


class Place(Struct, frozen=True):
    """One end of a directive.

    Attributes:
        schema: ``client``, ``task`` and so on; ``file``: the path is absolute; ``http`` and so on:
            the path is the whole address.
        path: relative to the schema's directory, normal.
    """

    schema: str
    path: str

    def __str__(self) -> str:
        if self.schema in _URLS:
            return self.path
        return f"{self.schema}://{'' if self.schema == 'file' else '/'}{self.path}"


class Directive(Struct, frozen=True):
    """One file or directory to be staged."""

    source: Place
    target: Place
    action: str = TRANSFER
    flags: int = DEFAULT_FLAGS
    priority: int = 0
    uid: str = ""

    @property
    def is_fatal(self) -> bool:
        """Its failure is the task's."""
        return not self.flags & NON_FATAL

    @property
    def is_clients(self) -> bool:
        """The client's side does it; else the agent's."""
        ends = (self.source.schema, self.target.schema)
        return self.action in (TRANSFER, TARBALL) and "client" in ends


def place_of(text: str, default: str, where: str) -> Place:
    """The place that a text names.

    Args:
        default: the schema of relative paths without one.

    Raises:
        UsageError: no place, or a path that leaves it.
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: {text!r} is no path")
    schema, mark, path = text.strip().partition("://")
    if not mark:
        schema, path = ("file" if text.strip().startswith("/") else default), text.strip()
    elif schema in _URLS:
        return Place(schema, text.strip())
    elif schema == "file":
        if not path.startswith("/"):
            raise UsageError(f"{where}: {text}: a host is named; file:// is followed by /PATH")
    elif schema in EXPANDED:
        if path and not path.startswith("/"):
            raise UsageError(
                f"{where}: {text}: {path.partition('/')[0]!r} would be a host; write {schema}:///"
            )
        path = path.lstrip("/")
    else:
        raise UsageError(
            f"{where}: {text}: there is no place {schema}://; known are file, {', '.join(EXPANDED)}"
        )
    whole = _normal(path)
    if schema != "file" and (whole == ".." or whole.startswith("../")):
        raise UsageError(f"{where}: {text}: the path leaves {schema}://")
    if path.endswith("/") and whole not in (".", "/"):
        whole += "/"  # a directory, into which the source goes
    return Place(schema, whole)


def _normal(path: str) -> str:
    """The path without needless parts; one that leads out begins with ``..``."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part == ".." and path.startswith("/"):
            pass  # above the root is the root
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def _parse(text: str) -> tuple[str, str]:
    for mark in (">>", ">"):
        source, found, target = text.partition(mark)
        if found:
            return source.strip(), target.strip()
    for mark in ("<<", "<"):
        target, found, source = text.partition(mark)
        if found:
            return source.strip(), target.strip()
    return text.strip(), ""


def directive_of(asked: object, is_input: bool, where: str) -> Directive:
    """One directive.

    Args:
        is_input: towards the task; else away from it. Paths without a schema are those of the
            client at one end, and the task's at the other.

    Raises:
        UsageError: it is none.
    """
    entries: dict[str, Any]
    if isinstance(asked, str):
        entries = dict(zip(("source", "target"), _parse(asked), strict=True))
    elif isinstance(asked, dict):
        entries = asked
    else:
        raise UsageError(f"{where}: {asked!r} is neither a text nor a dictionary")
    for name in entries:
        if name not in _KEYS:
            raise UsageError(f"{where}: there is no key {name!r}; known are {', '.join(_KEYS)}")
    action = entries.get("action") or TRANSFER
    if str(action).capitalize() not in ACTIONS:
        raise UsageError(f"{where}: 'action' is {action!r}; known are {', '.join(ACTIONS)}")
    action = str(action).capitalize()
    flags = entries.get("flags")
    flags = DEFAULT_FLAGS if flags is None else _flags(flags, where)
    client = "client" if action in (TRANSFER, TARBALL) else "pilot"
    ends = (client, "task") if is_input else ("task", client)
    source = place_of(entries.get("source") or "", ends[0], where)
    name = source.path.rstrip("/").rpartition("/")[2]
    target = place_of(entries.get("target") or name, ends[1], where)
    if target.path.endswith("/") or target.path == ".":
        target = Place(target.schema, _normal(f"{target.path}/{name}"))
    if action in (COPY, LINK, MOVE) and "client" in (source.schema, target.schema):
        raise UsageError(f"{where}: {action} is done at the target, and client:// is not there")
    if (action == DOWNLOAD) != (source.schema in _URLS):
        raise UsageError(f"{where}: {source}: an address is the source of Download, and no other")
    priority = entries.get("priority") or 0
    return Directive(source, target, action, flags, priority, str(entries.get("uid") or ""))


def _flags(flags: object, where: str) -> int:
    if isinstance(flags, list | tuple):
        whole = 0
        for each in flags:
            whole |= _flags(each, where)
        return whole
    if not isinstance(flags, int) or flags & ~_ALL_FLAGS:
        raise UsageError(f"{where}: 'flags' is {flags!r}; known are 1, 2, 4 and their sums")
    return flags


def directives_of(asked: object, is_input: bool, where: str) -> list[Directive]:
    """All directives of one key of a description, by priority.

    Raises:
        UsageError: one is none.
    """
    if asked is None:
        return []
    each: Iterable[object] = asked if isinstance(asked, list | tuple) else [asked]
    found = [directive_of(one, is_input, where) for one in each]
    found.sort(key=lambda one: -one.priority)
    return found
