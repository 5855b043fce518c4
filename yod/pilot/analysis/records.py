"""Records of profiles, and profiles of several clocks as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from native.errors import YodError

FIELDS = 7
SYNC_FIELDS = 5  # host, address, its clock, the time of day by NTP, which of both counts


class Record(Struct, frozen=True, gc=False):
    """One line of a profile; times are seconds of day."""

    time: float
    event: str
    comp: str
    uid: str
    state: str
    msg: str


def plain(text: str) -> str:
    """A text as a field has it."""
    return text.replace(",", ";").replace("\n", " ")


def parse(
    lines: Iterable[str], where: str, wanted: frozenset[str] | None = None
) -> Iterator[Record]:
    """The records of a profile. A last line without an end is left out: it was being written.

    Args:
        where: the name of the file, for errors.
        wanted: the events of which there are to be records; None: all.

    Raises:
        YodError: a line is no record.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        if line.startswith("#"):
            continue
        fields = line[:-1].split(",")
        if wanted is not None and len(fields) == FIELDS and fields[1] not in wanted:
            continue
        if len(fields) != FIELDS:
            raise YodError(f"{where}: line {number}: {len(fields)} fields; a record has {FIELDS}")
        try:
            at = float(fields[0])
        except ValueError:
            raise YodError(f"{where}: line {number}: {fields[0]!r} is no time") from None
        yield Record(at, fields[1], fields[2], fields[4], fields[5], fields[6])


def offset_of(sync: Record) -> float:
    """How far the clock of a profile is ahead of the time of day.

    Raises:
        YodError: the record does not say it.
    """
    fields = sync.msg.split(":")
    if len(fields) != SYNC_FIELDS:
        raise YodError(f"{sync.comp}: sync_abs is {sync.msg!r}, not host:address:time:time:mode")
    try:
        return float(fields[2]) - float(fields[3]) if fields[4] != "sys" else 0.0
    except ValueError:
        raise YodError(f"{sync.comp}: sync_abs has no times: {sync.msg!r}") from None


def in_time_of_day(records: Iterable[Record]) -> Iterator[Record]:
    """The records of a profile that begins with ``sync_abs``, as each of these says."""
    offset = 0.0
    for record in records:
        if record.event == "sync_abs":
            offset = offset_of(record)
        yield _moved(record, offset) if offset else record


def aligned(files: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
    """All profiles in the time of day.

    One without ``sync_abs`` is related to one that has the same ``sync_rel``: both were written at
    the same moment.
    """
    offsets: dict[str, float] = {}
    moments: dict[tuple[str, str], float] = {}  # of sync_rel, by pilot and text
    for name, records in files.items():
        sync = next((one for one in records if one.event == "sync_abs"), None)
        if sync is not None:
            offsets[name] = offset_of(sync)
            for one in records:
                if one.event == "sync_rel":
                    moments[one.uid, one.msg] = one.time - offsets[name]
    for name, records in files.items():
        if name in offsets:
            continue
        for one in records:
            if one.event == "sync_rel" and (one.uid, one.msg) in moments:
                offsets[name] = one.time - moments[one.uid, one.msg]
                break
    return {
        name: [_moved(one, offsets[name]) for one in records] if offsets.get(name) else records
        for name, records in files.items()
    }


def _moved(record: Record, offset: float) -> Record:
    at = record.time - offset
    return Record(at, record.event, record.comp, record.uid, record.state, record.msg)
