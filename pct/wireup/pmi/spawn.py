"""A spawn in the words of PMI clients: numbered arguments, numbered pairs of info.

A count that differs from what was sent breaks the protocol. A command that cannot be
started (no program, too many ranks) is refused, which the application can handle.
"""

from __future__ import annotations

from native.wire.base import PATH_MAX, SIZE_MAX
from native.wire.pmi import KeyValue, SpawnCommand
from pct.wireup.pmi.requests import PmiError, number, pair_fault

Words = list[tuple[bytes, bytes]]


class Refused(Exception):
    """The spawn is refused; the text gives the reason in one word."""


def count_of(words: dict[bytes, bytes], name: bytes, most: int) -> int:
    """A count of things that follow; 0 where it is missing.

    Raises:
        PmiError: it is no number from 0 to ``most``.
    """
    value = number(words.get(name, b"0"))
    if value is None or not 0 <= value <= most:
        raise PmiError(f"spawn: {_name(name)} is {words[name][:80]!r}, not a number to {most}")
    return value


def listed(words: Words, prefix: bytes, count: int) -> list[bytes]:
    """The values of ``prefix`` with a number behind it, in order.

    Raises:
        PmiError: they are not ``count``, or their numbers do not ascend one by one.
    """
    found = [(name[len(prefix) :], value) for name, value in words if name.startswith(prefix)]
    numbers = [number(index) for index, _ in found if index.isdigit()]
    first = numbers[0] if numbers else 0
    if len(found) != count or numbers != [(first or 0) + index for index in range(count)]:
        raise PmiError(f"spawn: {count} {_name(prefix)} announced, {len(found)} sent")
    return [value for _, value in found]


def pairs(keys: list[bytes], values: list[bytes]) -> tuple[KeyValue, ...]:
    """Pairs for the new world's space.

    Raises:
        Refused: a key or a value is beyond its limit.
    """
    for key, value in zip(keys, values, strict=True):
        if fault := pair_fault(key, value):
            raise Refused(fault)
    return tuple(map(KeyValue, keys, values))


def command(
    program: bytes, count: bytes | None, arguments: list[bytes], info: Words
) -> SpawnCommand:
    """One program of a spawn.

    Known keys of info: ``host`` and ``hosts`` (names with commas), ``wdir``, ``path`` (one
    directory), ``env`` (NAME=value, one a line). MPI permits to ignore other keys.

    Raises:
        PmiError: the count is no number.
        Refused: there is no such program or count.
    """
    size = number(count)
    if size is None:
        raise PmiError(f"spawn: the number of processes is {(count or b'')[:80]!r}")
    if not 1 <= size <= SIZE_MAX:
        raise Refused("invalid_number_of_processes")
    directory = b""
    hosts: list[bytes] = []
    environment: list[bytes] = []
    for key, value in info:
        match key:
            case b"host" | b"hosts":
                hosts += [name.strip() for name in value.split(b",") if name.strip()]
            case b"wdir":
                directory = value
            case b"path" if b"/" not in program and b":" not in value:
                program = value.rstrip(b"/") + b"/" + program
            case b"env":
                environment += [line for line in value.split(b"\n") if line.find(b"=") > 0]
    if not 0 < len(program) <= PATH_MAX or len(directory) > PATH_MAX:
        raise Refused("invalid_path")
    words = program, tuple(arguments), size, directory, tuple(environment), tuple(hosts)
    try:
        return SpawnCommand(*words)
    except ValueError:  # a NUL, which C strings have not
        raise Refused("invalid_argument") from None


def _name(name: bytes) -> str:
    return name.decode(errors="backslashreplace")
