"""Chooses a partition. The first of these that is given decides: ``--partition``,
YOD_PARTITION, the state file of ``yodctl up``, a cplant-host file that CPLANT_HOST_FILE names,
the partition that root runs on this host, the site's cplant-host file; with none of them it is
the embedded one.

An address ``file:PATH`` is that which a file has in its first line, with the path of the key in the
second: a script that is brought back finds where its allocation is now.

A key is in the file that YOD_KEY_FILE names, else where keys are by default.

A chosen partition that does not answer is an error; yod never falls back to another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from native.allocated import (
    ALLOCATION_VARIABLE,
    KEY_VARIABLE,
    PARTITION_VARIABLE,
    REPLACED,
    outer_name,
)
from native.errors import PartitionError
from native.host import sitedirs
from native.text import shown

if TYPE_CHECKING:
    from partition.find.state import State

EMBEDDED = "embedded"
BATCH = "batch"  # the nodes of the batch job that this is
IN_FILE = "file:"  # before the path of a file that has the address
HOST_FILE_VARIABLE = "CPLANT_HOST_FILE"
HOST_FILE_DEFAULT = "/etc/yod/cplant-host"


class Where(Struct, frozen=True):
    """A partition that was chosen.

    Attributes:
        name: text for the user: the address, and the source that named it.
        address: ``host:port`` or ``unix:PATH``; empty: embedded.
        key_file: path of its key; empty: no key is needed, or none is known.
        allocation: the id of the allocation that it is; empty: it is none.
        can_begin: nothing has been chosen, and this process is in a batch job of several nodes,
            which can be a partition.
        slots: of the embedded one, which is a batch job's only node; None: any number.
    """

    name: str
    address: str = ""
    key_file: str = ""
    allocation: str = ""
    can_begin: bool = False
    slots: int | None = None

    @property
    def is_embedded(self) -> bool:
        """Is it the partition inside yod itself?"""
        return not self.address


def find(option: str, environment: Mapping[str, str]) -> Where:
    """Choose a partition.

    Args:
        option: the value of ``--partition``; empty: not given.

    Raises:
        PartitionError: the chosen address is malformed.
    """
    where = _find(option, environment, environment.get(KEY_VARIABLE, ""))
    if where.address and not where.key_file and not where.address.startswith("unix:"):
        from native.host import keyfile

        return replace(where, key_file=keyfile.default(environment))
    return where


def _find(option: str, environment: Mapping[str, str], key_file: str) -> Where:
    if option == BATCH:
        return _batch(environment, key_file, option)
    if option:
        return _where(option, "--partition", key_file)
    if named := environment.get(PARTITION_VARIABLE, ""):
        where = _where(named, PARTITION_VARIABLE, key_file)
        allocation = environment.get(ALLOCATION_VARIABLE, "")
        return replace(where, allocation=allocation) if allocation else where
    from partition.find import state

    if (up := state.load()) is not None:
        return of_state(up, key_file)
    if HOST_FILE_VARIABLE not in environment and (all_users := _for_all(environment)) is not None:
        return all_users
    if (site := _site(environment, key_file)) is not None:
        return site
    return _batch(environment, key_file) if state.may_be_in_job(environment) else Where(EMBEDDED)


def of_state(up: State, key_file: str = "") -> Where:
    """A partition that this user has started."""
    address = up.unix_address or up.address
    source = up.name if up.is_of_job else "yodctl up"
    return Where(f"{shown(address)} ({source})", address, key_file or up.key_file)


def _for_all(environment: Mapping[str, str]) -> Where | None:
    """The partition that root runs on this host; None: there is none."""
    path = sitedirs.socket_path(environment)
    if not sitedirs.has_socket(path):
        return None
    return Where(f"unix:{shown(path)} (this host's)", f"unix:{path}")


def of_one_host(job: str, slots: int) -> Where:
    """The embedded partition, in a batch job that has this host alone."""
    return Where(f"{EMBEDDED} ({job})", slots=slots)


def _batch(environment: Mapping[str, str], key_file: str, option: str = "") -> Where:
    """The partition of this batch job, which may have to be started.

    Raises:
        PartitionError: it was asked for, and there is no batch job, or its hosts are not known.
    """
    from partition.find import batch, state

    job = batch.job(environment)
    if job is None:
        if option:
            raise PartitionError("--partition batch: this is no batch job")
        return Where(EMBEDDED)
    if not job.needs_pcts:
        return of_one_host(str(job), job.slots[0])
    if option and (up := state.load()) is not None:
        return of_state(up, key_file)
    return Where(EMBEDDED, can_begin=True)


def find_outer(option: str, environment: Mapping[str, str]) -> Where:
    """Choose a partition, and of an allocation the one that has granted it.

    Args:
        option: as for :func:`find`.

    Raises:
        PartitionError: the chosen address is malformed.
    """
    return find(option, outside(environment))


def outside(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what an allocation has added or replaced in it."""
    if not environment.get(ALLOCATION_VARIABLE):
        return dict(environment)
    own = (*REPLACED, ALLOCATION_VARIABLE)
    found = {name: value for name, value in environment.items() if name not in own}
    for name in REPLACED:
        if value := found.pop(outer_name(name), ""):
            found[name] = value
    return found


def _where(address: str, source: str, key_file: str, place: str = "") -> Where:
    """A partition by its address.

    Args:
        source: what named the address.
        place: file and line of it, for the error; empty: the source is enough.
    """
    if address == EMBEDDED:
        return Where(EMBEDDED)
    if address.startswith(IN_FILE):
        address, key_file = _read_place(address.removeprefix(IN_FILE), source)
    if not address.startswith("unix:"):
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            why = "no port" if place and not colon else "not an address"
            raise PartitionError(
                f"{place or source} {shown(address)}: {why}; use host:port, unix:PATH or embedded"
            )
    return Where(f"{shown(address)} ({source})", address, key_file)


def _read_place(path: str, source: str) -> tuple[str, str]:
    """The address and the key file that a file names.

    Raises:
        PartitionError: it cannot be read, or names none.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise PartitionError(f"{source} {IN_FILE}{shown(path)}: {error.strerror}") from None
    if len(lines) != 2:
        raise PartitionError(f"{source} {IN_FILE}{shown(path)}: no address and key file")
    return lines[0], lines[1]


def _site(environment: Mapping[str, str], key_file: str) -> Where | None:
    """The address of bebopd in a cplant-host file, from its line ``bebopd host:port``.

    Lines that begin with another word are for other daemons, as in Cplant's file.

    Raises:
        PartitionError: the file was named and cannot be read, or names no bebopd.
    """
    path = environment.get(HOST_FILE_VARIABLE, "")
    name = shown(path or HOST_FILE_DEFAULT)
    try:
        with open(path or HOST_FILE_DEFAULT, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError as error:
        if not path and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        source = HOST_FILE_VARIABLE if path else "site file"
        raise PartitionError(f"{source} {name}: {error.strerror}") from None
    others = []
    for number, (keyword, *words) in ((n, line) for n, line in enumerate(lines, 1) if line):
        if keyword != "bebopd":
            others.append(f"{shown(keyword)} in line {number}")
        elif len(words) == 1:
            return _where(words[0], "cplant-host file", key_file, f"{name}:{number}: bebopd")
        else:
            line = shown(" ".join(("bebopd", *words)))
            raise PartitionError(f"{name}:{number}: `{line}`: must be `bebopd host:port`")
    found = f"; there is {', '.join(others[:3])}" if others else ""
    raise PartitionError(f"{name}: no line `bebopd host:port`{found}")
