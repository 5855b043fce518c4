"""The file of a site's queues (docs/queues.md)::

    default = "day"

    [[queue]]
    name = "day"
    max_time = "1-0"
    per_user = { jobs = 20, slots = 256 }

    [[account]]
    name = "physics"
    share = 60
    groups = ["physics"]

    [priority]
    age = 1000
    fair_share = 10000

    [licences]
    matlab = 4

    [[reservation]]
    name = "course"
    nodes = "0..3"
    users = ["alice"]
    start = 2026-12-24T08:00:00
    duration = "4:00:00"

Pure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from enum import Enum

from allocator.queue.rules import (
    NO_BOUNDS,
    Account,
    Bounds,
    Members,
    PreemptMode,
    Queue,
    QueueState,
    Reserved,
    Rules,
    Weights,
    tiers,
)
from native import duration, nodelist, tables
from native.errors import UsageError
from native.tables import Table
from native.text import shown
from native.wire.base import LICENCE_MAX

QUEUES_MAX = 256
ACCOUNTS_MAX = 10_000
RESERVATIONS_MAX = 256
KINDS_MAX = 1000  # of licences
NUMBER_MAX = 1 << 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_NAME_RULE = "must be letters, digits, `_`, `.` and `-`, at most 63, a letter or digit first"
_BOUNDS = {
    "per_job": ("slots", "nodes"),
    "per_user": ("jobs", "slots", "nodes", "submitted"),
    "total": ("jobs", "slots", "nodes", "submitted"),
}
_OF_QUEUE = (
    *("name", "state", "priority", "users", "groups", "accounts", "nodes", "launches"),
    *("default_time", "max_time", "preempts", "preempt_mode", "preempt_grace", *_BOUNDS),
)
_OF_RESERVATION = ("name", "nodes", "users", "groups", "start", "duration")
_OF_ACCOUNT = ("name", "parent", "share", "users", "groups")
_WEIGHTS = ("age", "size", "queue", "fair_share")
_OF_PRIORITY = (*_WEIGHTS, "max_age", "size_favors", "half_life")
_TOP = ("default", "queue", "account", "priority", "licences", "reservation")


def parse(text: str, path: str) -> Rules:
    """Read a file.

    Args:
        path: of the file, for the error.

    Raises:
        UsageError: it is no such file; says where, and why.
    """
    try:
        table = tomllib.loads(text)
        tables.demand_known(table, _TOP, "the file")
        accounts = _accounts(table)
        weights = _weights(_table(table, "priority"))
        licences = _licences(_table(table, "licences"))
        queues = _queues(table, accounts, weights)
        default = _default(table, queues)
        reserved = _reserved(table)
    except (tomllib.TOMLDecodeError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from None
    return Rules(queues, default, accounts, licences, weights, reserved)


def _queues(table: Table, accounts: Table, weights: Weights) -> dict[str, Queue]:
    found: dict[str, Queue] = {}
    for each, where in _named(table, "queue", QUEUES_MAX):
        queue = _queue(each, where)
        if queue.name in found:
            raise UsageError(f"{where}: there are two of this name")
        if unknown := sorted(set(queue.accounts) - accounts.keys()):
            raise UsageError(f"{where}: accounts: there is no [[account]] {unknown[0]}")
        if queue.priority and not weights.queue:
            raise UsageError(f"{where}: priority has no effect: [priority] queue is 0")
        found[queue.name] = queue
    if not found:
        raise UsageError("there is no [[queue]]")
    _demand_preemptable(found)
    return found


def _demand_preemptable(queues: dict[str, Queue]) -> None:
    for queue in queues.values():
        for name in sorted(queue.preempts):
            where = f"[[queue]] {queue.name}: preempts"
            if name not in queues:
                raise UsageError(f"{where}: there is no [[queue]] {shown(name)}")
            if queues[name].preempt_mode is PreemptMode.OFF:
                modes = ", ".join(each.value for each in PreemptMode if each is not PreemptMode.OFF)
                raise UsageError(f"{where}: queue {name} must have a preempt_mode, of {modes}")
    try:
        tiers(queues)
    except ValueError as error:
        raise UsageError(f"[[queue]] {error}: preempts: it would preempt itself") from None


def _queue(table: Table, where: str) -> Queue:
    tables.demand_known(table, _OF_QUEUE, where)
    state = QueueState(_one_of(table, "state", where, QueueState))
    preempt_mode = PreemptMode(_one_of(table, "preempt_mode", where, PreemptMode))
    default_s, most_s = (_time(table, key, where) for key in ("default_time", "max_time"))
    if most_s and default_s > most_s:
        text = f"default_time is longer than max_time, {duration.written(most_s)}"
        raise UsageError(f"{where}: {text}")
    launches = table.get("launches", True)
    if not isinstance(launches, bool):
        raise UsageError(f"{where}: launches must be true or false")
    bounds = {key: _bounds(table, key, where) for key in _BOUNDS}
    if preempt_mode is PreemptMode.SUSPEND and "preempt_grace" in table:
        raise UsageError(f"{where}: preempt_grace: a job that is suspended does not end")
    return Queue(
        _text(table, "name", where),
        state,
        _number(table, "priority", where, 0, 0, NUMBER_MAX),
        _members(table, where),
        _names(table, "accounts", where),
        _nodes(table, where),
        launches,
        default_s or most_s,
        most_s,
        preempts=frozenset(_names(table, "preempts", where)),
        preempt_mode=preempt_mode,
        preempt_grace_s=_time(table, "preempt_grace", where),
        **bounds,
    )


def _nodes(table: Table, where: str) -> tuple[int, ...]:
    nodes = _text(table, "nodes", where)
    try:
        return tuple(nodelist.parse(nodes)) if nodes else ()
    except UsageError as error:
        raise UsageError(f"{where}: nodes: {error}") from None


def _reserved(table: Table) -> tuple[Reserved, ...]:
    found: dict[str, Reserved] = {}
    for each, where in _named(table, "reservation", RESERVATIONS_MAX):
        tables.demand_known(each, _OF_RESERVATION, where)
        name, duration_s = _text(each, "name", where), _time(each, "duration", where)
        if name in found:
            raise UsageError(f"{where}: there are two of this name")
        timestamp = getattr(each.get("start"), "timestamp", None)  # a date alone has none
        if timestamp is None:
            raise UsageError(f"{where}: start must be a time, as 2026-12-24T08:00:00")
        if not duration_s:
            raise UsageError(f'{where}: duration must be a time in quotes, as "1:30:00"')
        start, members = float(timestamp()), _members(each, where)
        found[name] = Reserved(name, _nodes(each, where), start, start + duration_s, members)
    return tuple(found.values())


def _bounds(table: Table, key: str, where: str) -> Bounds:
    if key not in table:
        return NO_BOUNDS
    inner = table[key]
    if not isinstance(inner, dict):
        raise UsageError(f"{where}: {key} must be a table, as in {{ slots = 64 }}")
    tables.demand_known(inner, _BOUNDS[key], f"{where}: {key}")
    here = f"{where}: {key}"
    return Bounds(**{name: _number(inner, name, here, 0, 1, NUMBER_MAX) for name in inner})


def _accounts(table: Table) -> dict[str, Account]:
    found: dict[str, Account] = {}
    places: dict[str, str] = {}
    for each, where in _named(table, "account", ACCOUNTS_MAX):
        tables.demand_known(each, _OF_ACCOUNT, where)
        name, parent = _text(each, "name", where), _text(each, "parent", where)
        if name in found:
            raise UsageError(f"{where}: there are two of this name")
        share = _number(each, "share", where, 1, 1, NUMBER_MAX)
        found[name] = Account(name, parent, share, _members(each, where))
        places[name] = where
    for name, account in found.items():
        if not account.parent:
            continue
        if account.parent not in found:
            text = f"parent: there is no [[account]] {shown(account.parent)}"
            raise UsageError(f"{places[name]}: {text}")
        if not found[account.parent].members.is_empty:
            text = f"its parent {account.parent} has users or groups, and may have no parts then"
            raise UsageError(f"{places[name]}: {text}")
        seen, at = {name}, account.parent
        while at in found:
            if at in seen:
                raise UsageError(f"{places[name]}: parent: it would be a part of itself")
            seen.add(at)
            at = found[at].parent
    return found


def _weights(table: Table) -> Weights:
    where = "[priority]"
    tables.demand_known(table, _OF_PRIORITY, where)
    favors = _text(table, "size_favors", where, "large")
    if favors not in ("large", "small"):
        raise UsageError(f"{where}: size_favors must be large or small, not {shown(favors)}")
    numbers = (_number(table, name, where, 0, 0, NUMBER_MAX) for name in _WEIGHTS)
    age, size, queue, fair_share = numbers
    default = Weights()
    most_age_s = _time(table, "max_age", where) or default.most_age_s
    half_life_s = _time(table, "half_life", where) or default.half_life_s
    times = (most_age_s, favors == "small", half_life_s)
    return Weights(age, size, queue, fair_share, *times)


def _licences(table: Table) -> dict[str, int]:
    where = "[licences]"
    if len(table) > KINDS_MAX:
        raise UsageError(f"{where}: there are {len(table)}, at most {KINDS_MAX} may be")
    for name in table:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{where}: {shown(name)}: {_NAME_RULE}")
    return {name: _number(table, name, where, 0, 0, LICENCE_MAX) for name in table}


def _default(table: Table, queues: Table) -> str:
    name = _text(table, "default", "the file") or next(iter(queues))
    if name not in queues:
        raise UsageError(f"default: there is no [[queue]] {shown(name)}")
    return name


def _members(table: Table, where: str) -> Members:
    return Members(*(_names(table, key, where) for key in ("users", "groups")))


def _table(table: Table, key: str) -> Table:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise UsageError(f"{key} must be written as [{key}]")
    return found


def _named(table: Table, kind: str, most: int) -> Iterable[tuple[Table, str]]:
    """The tables of a kind, each with how an error names it; each has a name."""
    for each, where in tables.of_kind(table, kind, most):
        name = each.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{where}: name {_NAME_RULE}")
        yield each, where


def _text(table: Table, key: str, where: str, default: str = "") -> str:
    found = table.get(key, default)
    if not isinstance(found, str):
        raise UsageError(f"{where}: {key} must be a text")
    return found


def _one_of(table: Table, key: str, where: str, kind: type[Enum]) -> str:
    """A value of a kind; the first where nothing is said."""
    values = [str(each.value) for each in kind]
    found = _text(table, key, where, values[0])
    if found not in values:
        raise UsageError(f"{where}: {key} must be one of {', '.join(values)}, not {shown(found)}")
    return found


def _names(table: Table, key: str, where: str) -> tuple[str, ...]:
    found = table.get(key, [])
    is_list = isinstance(found, list) and all(isinstance(each, str) and each for each in found)
    if not is_list or (key in table and not found):
        raise UsageError(f'{where}: {key} must be a list of names, as in ["alice"]')
    return tuple(found)


def _number(table: Table, key: str, where: str, default: int, least: int, most: int) -> int:
    """The number of a key; ``default`` where it is not there."""
    found = table.get(key, least)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise UsageError(f"{where}: {key} must be a whole number from {least} to {most}")
    return found if key in table else default


def _time(table: Table, key: str, where: str) -> float:
    """Seconds; 0: nothing is said."""
    if key not in table:
        return 0.0
    found = table[key]
    if not isinstance(found, str):
        raise UsageError(f'{where}: {key} must be a time in quotes, as "1:30:00"')
    try:
        return float(duration.parse(found, key))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
