"""Is a session's profile right? What is wrong is said in sentences.

Held to the partial orders of :mod:`yod.pilot.analysis.orders`: the order of the records of an
entity within a file, and their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from native.errors import YodError
from yod.pilot.analysis.orders import ALL, PAIRS, PASSAGE, Chain, chains_of
from yod.pilot.analysis.records import Record, aligned, offset_of
from yod.pilot.model import states

_EPSILON_S = 1e-6  # times are written with seven digits


def check(
    files: Mapping[str, Sequence[Record]], session_uid: str, *, skew_s: float = 0.0
) -> list[str]:
    """What is wrong with the profiles of a session; empty: nothing is.

    Args:
        files: by their names: ``tmgr.0000.prof``, ``pilot.0000/agent_0.prof``.
        skew_s: by how much clocks of different hosts may differ.
    """
    wrong: list[str] = []
    has_gone_on = False
    for name, records in files.items():
        clients = list(_by_writer(records))
        has_gone_on |= len(clients) > 1
        for one in clients:
            wrong += check_file(name, one, session_uid)
    if not wrong and not has_gone_on:  # what a client has not written is not known
        wrong += _states({name: list(records) for name, records in files.items()}, skew_s)
    return wrong


def check_file(name: str, records: Sequence[Record], session_uid: str) -> list[str]:
    """What is wrong with what one process has written into a profile."""
    component = name.rpartition("/")[2].removesuffix(".prof")
    chains = chains_of("session" if component == session_uid else component)
    if chains is None:
        return [f"{name}: there is no such component"]
    if not records:
        return []  # its process was killed as it began
    if records[0].event != "sync_abs":
        return [f"{name}: it does not begin with sync_abs"]
    wrong: list[str] = []
    try:
        for record in records:
            if record.event == "sync_abs":
                offset_of(record)
    except YodError as error:
        wrong.append(str(error))
    known = {event for chain in (*chains, *ALL) for event in chain.events} | PASSAGE
    by_entity: dict[str, list[Record]] = {}
    whole = set(ALL[0].events)
    last = records[0]
    for record in records:
        if record.comp != component:
            wrong.append(f"{name}: a record of {record.comp}")
        if record.event not in known:
            wrong.append(f"{name}: {record.event} is no event of {component}")
        if record.event not in whole:
            if last.event in ("END", "component_final"):
                wrong.append(f"{name}: {record.event} of {record.uid} comes behind {last.event}")
            by_entity.setdefault(record.uid, []).append(record)
        last = record
    wrong += _in_order(name, "", [one for one in records if one.event in whole], ALL[0])
    for uid, own in by_entity.items():
        for chain in chains:
            for part in _parts(own, chain):
                wrong += _in_order(name, uid, part, chain)
        wrong += _passage(name, uid, own)
        wrong += _pairs(name, uid, own)
    return wrong


def _by_writer(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """What each process has written: a later client of a session goes on behind an earlier one."""
    begins = [n for n, record in enumerate(records) if record.event == "sync_abs" and n]
    for start, end in pairwise([0, *begins, len(records)]):
        yield records[start:end]


def _parts(own: Iterable[Record], chain: Chain) -> list[list[Record]]:
    """The records of a chain: all, or those of each message."""
    parts: dict[str, list[Record]] = {}
    events = frozenset(chain.events)
    for record in own:
        if record.event in events:
            parts.setdefault(record.msg if chain.by_message else "", []).append(record)
    return list(parts.values())


def _in_order(name: str, uid: str, records: Sequence[Record], chain: Chain) -> list[str]:
    """The records of one entity follow a chain, in their order and times."""
    wrong: list[str] = []
    places = {event: n for n, event in enumerate(chain.events)}
    starts = 0  # the first place that a run may begin at
    while chain.events[starts] in chain.optional:
        starts += 1
    at = -1
    before: Record | None = None
    for record in records:
        place = places[record.event]
        begins_again = place <= starts and place <= at
        if place == at and record.event in chain.many:
            pass
        elif begins_again or before is None:
            at = -1
        elif place <= at:
            wrong.append(f"{name}: {uid}: {record.event} comes behind {before.event}")
        if place != at:
            lacking = [e for e in chain.events[at + 1 : place] if e not in chain.optional]
            if lacking:
                wrong.append(f"{name}: {uid}: {record.event} comes without {lacking[0]}")
        if before is not None and at >= 0 and record.time < before.time - _EPSILON_S:
            wrong.append(f"{name}: {uid}: {record.event} is earlier than {before.event}")
        at, before = place, record
    return wrong


def _passage(name: str, uid: str, own: Sequence[Record]) -> list[str]:
    """get, advance, publish, put: what is published or put has advanced to that state."""
    wrong: list[str] = []
    now = ""
    at = 0.0
    is_put = False
    for record in own:
        if record.event in ("unschedule_stop", "lost"):
            now, is_put = "", False  # it may run again
        if record.event not in PASSAGE:
            continue
        if record.time < at - _EPSILON_S and record.event != "get":
            wrong.append(f"{name}: {uid}: {record.event} {record.state} goes back in time")
        at = record.time
        match record.event:
            case "get":
                now, is_put = record.state, False
            case "advance":
                if is_put and now == record.state:
                    wrong.append(f"{name}: {uid}: it advances to {now} again")
                now, is_put = record.state, False
            case "publish":
                if now != record.state:
                    wrong.append(f"{name}: {uid}: {record.state} is published, and it is {now}")
            case "put":
                if now != record.state or is_put:
                    wrong.append(f"{name}: {uid}: {record.state} is put, and it is {now}")
                is_put = True
    return wrong


def _pairs(name: str, uid: str, own: Sequence[Record]) -> list[str]:
    if "agent_executing" not in name or not any(one.event == "task_run_stop" for one in own):
        return []
    count: dict[str, int] = {}
    for record in own:
        count[record.event] = count.get(record.event, 0) + 1
    return [
        f"{name}: {uid}: {first} is there, and {second} is not"
        for first, second in PAIRS
        if count.get(first, 0) > count.get(second, 0)
    ]


def _states(files: Mapping[str, list[Record]], skew_s: float) -> list[str]:
    """Over all files: the states of each entity, in the order of their times, are in theirs.

    A state may be written by several components; a task that runs again goes back.
    """
    found: dict[str, list[tuple[float, int, str]]] = {}
    again: dict[str, int] = {}
    for records in aligned(files).values():
        for record in records:
            if record.event == "advance":
                course = states.PILOT if record.state in states.PILOT.states[1:] else states.TASK
                value = course.values.get(record.state)
                if value is None:
                    return [f"{record.comp}: {record.uid}: there is no state {record.state}"]
                if record.state in states.FINAL:
                    value = len(states.TASK.states)
                own = found.setdefault(record.uid, [])
                own.append((record.time, value, record.state))
            elif record.event == "schedule_ok":
                again[record.uid] = again.get(record.uid, 0) + 1
    wrong: list[str] = []
    for uid, passed in found.items():
        news = sum(state == states.NEW for _, _, state in passed)
        if again.get(uid, 0) > 1 or news > 1:
            continue
        finals = [state for _, _, state in passed if state in states.FINAL]
        if len(finals) > 1:
            wrong.append(f"{uid}: it has ended {len(finals)} times: {', '.join(finals)}")
        first: dict[int, tuple[float, str]] = {}
        for at, value, state in passed:
            first[value] = min(first.get(value, (at, state)), (at, state))
        latest, which = 0.0, ""
        for _, (at, state) in sorted(first.items()):
            if at < latest - skew_s - _EPSILON_S:
                wrong.append(f"{uid}: {state} is earlier than {which}")
            if at > latest:
                latest, which = at, state
    return wrong
