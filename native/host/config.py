"""A site's configuration file: the limits and the options of its daemons (TOML).

::

    [limits]
    phase_s = 60.0

    [bebopd]
    listen = "0.0.0.0:7117"
    nodes-file = "/etc/yod/nodes"

    [pct]
    bebopd = "head:7117"

A daemon reads it where ``--config`` names it, and nobody else does: a user's own partition on the
same host has nothing to do with it. A command line, or a variable for a limit, goes before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from native.errors import UsageError
from native.limits import Limits, check, load
from native.text import shown

PATH = "/etc/yod/yod.conf"
SECTIONS = ("limits", "bebopd", "pct")
FOR_STARTERS = (  # not in a file
    *("config", "ready-fd", "until-fd", "starter-fd", "tag", "expect", "in-job", "help", "version"),
    "job-secret",
)


class Config(Struct, frozen=True):
    """What a file says; each value is what TOML makes of it.

    Attributes:
        path: the file; empty: there is none.
        limits: by name.
        options: by daemon and by the option's long name, without dashes.
    """

    path: str = ""
    limits: dict[str, float] = {}
    options: dict[str, dict[str, Any]] = {}

    def in_force(self, environment: Mapping[str, str]) -> Limits:
        """The limits, of which an environment may set any otherwise."""
        return load(environment, self.limits)

    def defaults(self, daemon: str, parameters: Sequence[Any]) -> dict[str, Any]:
        """The options of a daemon, for click: what they are where its command line has none.

        Args:
            parameters: of its click command.

        Raises:
            UsageError: there is no such option, or its value is none; the text names the place.
        """
        known = {name: each for each in parameters for name in _names(each)}
        found = {}
        for name, value in self.options.get(daemon, {}).items():
            where = f"{shown(self.path)}: [{daemon}] {name}"
            if name not in known or name in FOR_STARTERS:
                raise UsageError(f"{where}: no such option in a file{_near(name, known)}")
            found[known[name].name] = _checked(known[name], value, where)
        return found


def read(path: str) -> Config:
    """Read a file, and check its sections and limits.

    Raises:
        UsageError: says what is wrong in which place.
    """
    import tomllib  # few daemons have a file

    where = shown(path)
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: {error}") from None
    for name, table in tables.items():
        if name not in SECTIONS or not isinstance(table, dict):
            raise UsageError(f"{where}: {name}: no such section{_near(name, SECTIONS)}")
    chosen = tables.pop("limits", {})
    for name, value in chosen.items():
        try:
            check(name, value)
        except UsageError as error:
            raise UsageError(f"{where}: [limits] {error}") from None
    return Config(os.path.abspath(path), chosen, tables)


def of_words(words: Sequence[str]) -> Config:
    """The file that a command line names, with its options written out.

    Raises:
        UsageError: as :func:`read`.
    """
    places = [at for at, word in enumerate(words[:-1]) if word == "--config"]
    return read(words[places[-1] + 1]) if places else Config()


def _names(parameter: Any) -> list[str]:
    """The long names of an option, without dashes."""
    return [each.lstrip("-") for each in parameter.opts if len(each.lstrip("-")) > 1]


def _checked(parameter: Any, value: Any, where: str) -> Any:
    """The value, if the option may have it."""
    import click  # few daemons have a file

    takes = "true or false" if parameter.is_flag else "a text or a number"
    values = value if isinstance(value, list) and parameter.multiple else [value]
    if any(isinstance(each, bool) != parameter.is_flag for each in values) or any(
        not isinstance(each, (bool, int, float, str)) for each in values
    ):
        raise UsageError(f"{where}: takes {takes}")
    texts = [each if parameter.is_flag else str(each) for each in values]
    try:
        for each in texts:
            parameter.type.convert(each, parameter, None)
    except click.BadParameter as error:
        raise UsageError(f"{where}: {error.message}") from None
    return tuple(texts) if parameter.multiple else texts[0]


def _near(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    from difflib import get_close_matches  # slow to import

    near = get_close_matches(name, list(known), n=1)
    return f"; there is {near[0]}" if near else ""
