"""Finds resources: those that are built in, and those of configuration files."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import DecodeError, json

from native.errors import UsageError
from yod.pilot.model.resources import BUILT_IN, Resource, lines_of, resource_of_entries

_VARIABLE = "YOD_PILOT_RESOURCES"  # directories, with colons between
_BEGIN, _END = "resource_", ".json"


def directories() -> list[str]:
    """Where the files are looked for; the first that has a site counts."""
    home = os.path.expanduser("~")
    named = [each for each in os.environ.get(_VARIABLE, "").split(":") if each]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    reference = os.path.join(home, ".radical", "pilot", "configs")
    return [*named, os.path.join(config, "yod", "pilot"), reference]


def resource_of(name: str, schema: str = "") -> Resource:
    """A resource by its name, ``SITE.LABEL``.

    Args:
        schema: how it is reached; empty: by its default.

    Raises:
        UsageError: there is none, or its file is wrong.
    """
    if name in BUILT_IN:
        if schema not in ("", "local", "interactive", "batch"):
            raise UsageError(f"{name}: there is no schema {schema!r}: pilots start from here")
        return BUILT_IN[name]
    site, _, label = name.partition(".")
    path = _files().get(site, "")
    entries = _read(path) if path else {}
    if label not in entries:
        known = ", ".join(names())
        raise UsageError(f"there is no resource {name!r}; known are {known}")
    return resource_of_entries(name, entries[label], schema, path)


def names() -> list[str]:
    """The names of all. Files that cannot be read have none."""
    found = list(BUILT_IN)
    for site, path in _files().items():
        try:
            found += [f"{site}.{label}" for label in _read(path)]
        except UsageError:
            continue
    return found


def _files() -> dict[str, str]:
    """The file of each site."""
    found: dict[str, str] = {}
    for directory in directories():
        for name in _listed(directory):
            site = name[len(_BEGIN) : -len(_END)]
            found.setdefault(site, os.path.join(directory, name))
    return found


def _listed(directory: str) -> Iterator[str]:
    try:
        each = sorted(os.listdir(directory))
    except OSError:  # it need not be there
        return
    yield from (name for name in each if name.startswith(_BEGIN) and name.endswith(_END))


def _read(path: str) -> dict[str, dict[str, object]]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return json.decode(lines_of(text), type=dict[str, dict[str, object]])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
