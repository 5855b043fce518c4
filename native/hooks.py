"""A site's hooks: programs that run on a node around a job, and options that the site adds.

The manifest is a TOML file (docs/hooks.md)::

    [[hook]]
    name = "scratch"
    program = "/etc/yod/hooks/scratch"
    points = ["prolog", "epilog"]
    timeout_s = 4

    [[option]]
    name = "scratch-size"
    argument = "SIZE"
    help = "scratch on each node"

Pure. Source: Slurm's prolog and epilog programs, and the options of its SPANK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from msgspec import Struct

from native.errors import UsageError
from native.tables import demand_known, of_kind
from native.text import shown

HOOKS_MAX = 32
OPTIONS_MAX = 64
TIMEOUT_S = 5.0
OPTION_VARIABLE = "YOD_OPTION_"  # before the name of a site's option, as a variable
_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}")
_NAME_RULE = "name must be 2 to 31 small letters, digits and dashes, a letter first"


class Point(Enum):
    """Where a hook runs. The values are the words of the manifest, and of YOD_HOOK."""

    PROLOG = "prolog"
    STEP_NETWORK = "step_network"
    STEP_PROLOG = "step_prolog"
    RANK_PROLOG = "rank_prolog"
    STEP_EPILOG = "step_epilog"
    STEP_NETWORK_END = "step_network_end"
    EPILOG = "epilog"
    HEALTH = "health"

    __hash__ = object.__hash__

    @property
    def is_of_node(self) -> bool:
        """It runs with the rights of the PCT; others with those of the job's owner."""
        return self in _OF_NODE


_OF_NODE = (
    *(Point.PROLOG, Point.STEP_NETWORK, Point.STEP_NETWORK_END, Point.EPILOG),
    Point.HEALTH,  # of no job
)
BEFORE = (Point.PROLOG, Point.STEP_NETWORK, Point.STEP_PROLOG, Point.RANK_PROLOG)
# What undoes a point, in the order in which that is done.
AFTER = {
    Point.STEP_EPILOG: Point.STEP_PROLOG,
    Point.STEP_NETWORK_END: Point.STEP_NETWORK,
    Point.EPILOG: Point.PROLOG,
}


class Hook(Struct, frozen=True):
    """One program.

    Attributes:
        program: its absolute path.
        timeout_s: then it is killed, and has failed.
    """

    name: str
    program: str
    points: tuple[Point, ...]
    timeout_s: float = TIMEOUT_S


class SiteOption(Struct, frozen=True):
    """An option that the site adds to yod.

    Attributes:
        argument: what its value is called; empty: it takes none.
    """

    name: str
    argument: str = ""
    help: str = ""

    @property
    def variable(self) -> str:
        """The variable in which hooks and ranks find its value; of an option without one, 1."""
        return OPTION_VARIABLE + self.name.upper().replace("-", "_")


class Hooks(Struct, frozen=True):
    """All that a manifest says.

    Attributes:
        path: of the manifest.
    """

    path: str
    hooks: tuple[Hook, ...] = ()
    options: tuple[SiteOption, ...] = ()

    def at(self, point: Point) -> tuple[Hook, ...]:
        """The hooks of a point in the order in which they run: what undoes, the last first."""
        found = tuple(hook for hook in self.hooks if point in hook.points)
        return found[::-1] if point in AFTER else found

    def longest_s(self, points: Iterable[Point]) -> float:
        """How long the hooks of these points may take together."""
        return sum(hook.timeout_s for point in points for hook in self.at(point))


def parse(text: str, path: str) -> Hooks:
    """Read a manifest.

    Args:
        path: of the file, for the error.

    Raises:
        UsageError: it is no manifest; says what, and where.
    """
    import tomllib  # few sites have hooks

    try:
        tables = tomllib.loads(text)
        if unknown := sorted(tables.keys() - {"hook", "option"}):
            raise UsageError(f"no {shown(unknown[0])} here; known are [[hook]] and [[option]]")
        hooks = [_hook(*table) for table in of_kind(tables, "hook", HOOKS_MAX)]
        options = [_option(*table) for table in of_kind(tables, "option", OPTIONS_MAX)]
        _demand_different("hook", [hook.name for hook in hooks])
        _demand_different("option", [option.name for option in options])
    except (tomllib.TOMLDecodeError, UsageError) as error:
        raise UsageError(f"{shown(path)}: {error}") from None
    return Hooks(path, tuple(hooks), tuple(options))


def demand_in_time(hooks: Hooks, phase_s: float, end_s: float) -> None:
    """Refuse hooks for which a launch, or its end, would not wait.

    Raises:
        UsageError: says how long they may take, and how long is waited.
    """
    before, after = (phase_s, "YOD_PHASE_S"), (end_s, "YOD_END_S")
    for points, (limit_s, variable) in ((BEFORE, before), (AFTER, after)):
        longest_s = hooks.longest_s(points)
        if longest_s >= limit_s:
            when = "before the start" if points is BEFORE else "after the end"
            raise UsageError(
                f"{shown(hooks.path)}: the hooks {when} of a job may take {longest_s:g} s together"
                f" (timeout_s): must be below {limit_s:g} ({variable})"
            )


def _demand_different(kind: str, names: list[str]) -> None:
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            raise UsageError(f"[[{kind}]] {number} ({name}): there are two of this name")


def _hook(table: dict[str, Any], where: str) -> Hook:
    name = _name(table, where, ("name", "program", "points", "timeout_s"))
    program, points = table.get("program"), table.get("points")
    timeout_s = table.get("timeout_s", TIMEOUT_S)
    if not isinstance(program, str) or not program.startswith("/") or "\0" in program:
        raise UsageError(f"{where}: program must be an absolute path")
    if not isinstance(points, list) or not points:
        raise UsageError(f'{where}: points must be a list, as in ["prolog", "epilog"]')
    known = {point.value: point for point in Point}
    for word in points:
        if not isinstance(word, str) or word not in known:
            raise UsageError(f"{where}: no point {shown(str(word))}; known are {', '.join(known)}")
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s < float("inf"):
        raise UsageError(f"{where}: timeout_s must be a number of seconds above 0")
    return Hook(name, program, tuple(known[word] for word in points), float(timeout_s))


def _option(table: dict[str, Any], where: str) -> SiteOption:
    name = _name(table, where, ("name", "argument", "help"))
    argument, line = table.get("argument", ""), table.get("help", "")
    for each in (argument, line):
        if not isinstance(each, str) or not each.isprintable():
            raise UsageError(f"{where}: argument and help must be texts of one line")
    return SiteOption(name, argument, line)


def _name(table: dict[str, Any], where: str, known: tuple[str, ...]) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: {_NAME_RULE}")
    demand_known(table, known, where)
    return name
