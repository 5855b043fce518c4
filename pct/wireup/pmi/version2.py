"""PMI-2 as one rank's client speaks it: a frame in, a frame out.

Wire: six characters with a decimal number of bytes, then that many bytes of
``name=value;``, ``cmd`` first; a ``;`` in a value is doubled. An answer repeats its
request's ``thrid``, so that several threads may ask at once.
Reference: MPICH's PMI-2 wire protocol, and what Slurm's libpmi2 was seen to send.
"""

from __future__ import annotations

from collections.abc import Callable

from native.wire.pmi import COMMANDS_MAX, KEYS_MAX
from pct.wireup.pmi import spawn
from pct.wireup.pmi.requests import (
    VALLEN_MAX,
    Fence,
    Get,
    GetNode,
    Heard,
    Identity,
    Joined,
    Left,
    Lookup,
    PmiError,
    Publish,
    Put,
    PutNode,
    Request,
    SpawnMultiple,
    Unpublish,
    abort,
    key_fault,
    number,
    pair_fault,
    service_fault,
)
from pct.wireup.pmi.version1 import ARGUMENTS_MAX, MAPPING

Answer = list[tuple[bytes, bytes | None]]

HEADER_BYTES = 6
FRAME_MAX = 64 * 1024  # bytes behind the header; more ends the conversation
_COMMAND_MAX = 64  # bytes of a command's name
_THREAD_MAX = 64  # bytes of what a request is called


def frame_length(header: bytes) -> int:
    """Bytes of the frame behind its header.

    Raises:
        PmiError: that is no length, or too much.
    """
    text = header.strip(b" ")
    if not text.isdigit():
        raise PmiError(f"the length of a frame is {header!r}, not a number")
    length = int(text)
    if not 0 < length <= FRAME_MAX:
        raise PmiError(f"a frame of {length} bytes; 1 to {FRAME_MAX} are allowed")
    return length


def parse(frame: bytes) -> spawn.Words:
    """The words of one frame, ``cmd`` first.

    Raises:
        PmiError: a word without ``=``, or no ``cmd`` at the beginning.
    """
    words: spawn.Words = []
    start = 0
    while start < len(frame):
        equals = frame.find(b"=", start)
        if equals <= start or b";" in frame[start:equals]:
            raise PmiError(f"a word without a value: {frame[start : start + 80]!r}")
        end = _end_of_value(frame, equals + 1)
        value = frame[equals + 1 : end].replace(b";;", b";")
        words.append((frame[start:equals], value))
        start = end + 1
    if not words or words[0][0] != b"cmd":
        raise PmiError(f"no command in {frame[:80]!r}")
    if not 0 < len(words[0][1]) <= _COMMAND_MAX:
        raise PmiError(f"a command of {len(words[0][1])} bytes")
    return words


def build(command: bytes, words: Answer) -> bytes:
    """One frame. Words whose value is None are left out."""
    body = b"cmd=%s;" % command + b"".join(
        b"%s=%s;" % (name, value.replace(b";", b";;")) for name, value in words if value is not None
    )
    return b"%-6d" % len(body) + body


class Speaker:
    """One client's PMI-2, from init to finalize.

    Args:
        claim: gives the identity of a client that claims to be a rank; None: it is another.
    """

    held_bytes = 0  # between frames nothing is kept

    def __init__(self, claim: Callable[[int], Identity | None]) -> None:
        self._claim = claim
        self._identity: Identity | None = None

    def hear(self, frame: bytes) -> Heard:
        """One frame of the client, without its header.

        Raises:
            PmiError: the conversation must end.
        """
        listed = parse(frame)
        words = dict(reversed(listed))
        command, thread = words[b"cmd"], words.get(b"thrid", b"")
        if len(thread) > _THREAD_MAX:
            raise PmiError(f"a thrid of {len(thread)} bytes")
        if command == b"abort":
            text = words.get(b"msg", words.get(b"message", b""))
            return Heard(b"", abort(thread, words.get(b"exitcode"), text))
        if command == b"fullinit":
            return self._fullinit(words, thread)
        if self._identity is None:
            raise PmiError(f"{command[:80]!r} before fullinit")
        heard = self._about_keys(self._identity, command, words, thread)
        heard = heard or self._about_others(command, words, listed, thread)
        return heard or _refused(command, thread, "not_supported")

    def found(self, command: bytes, request: Request, value: bytes | None) -> bytes:
        """The answer to a get."""
        is_there = b"FALSE" if value is None else b"TRUE"
        words: Answer = [(b"found", is_there), (b"flag", is_there), (b"value", value)]
        return _done(command, request.thread, words)

    def stored(self, command: bytes, request: Request, error: str) -> bytes:
        """The answer to a put."""
        return _done(command, request.thread, error=error)

    def fenced(self, command: bytes, request: Request) -> bytes:
        """The answer to a fence."""
        return _done(command, request.thread)

    def published(self, command: bytes, request: Request, error: str) -> bytes:
        """The answer to a publication, and to its end."""
        return _done(command, request.thread, error=error)

    def looked_up(self, command: bytes, request: Request, port: bytes | None) -> bytes:
        """The answer to a lookup. Slurm's library reads ``value``, MPICH's ``port``."""
        error = "service_not_found" if port is None else ""
        return _done(command, request.thread, [(b"value", port), (b"port", port)], error)

    def spawned(self, command: bytes, request: Request, error: str, job: bytes) -> bytes:
        """The answer to a spawn. It has no code for each process, so all count as started."""
        return _done(command, request.thread, [(b"jobid", job), (b"nerrs", b"0")], error)

    def _fullinit(self, words: dict[bytes, bytes], thread: bytes) -> Heard:
        # Slurm's library words it so when it has come by PMI_PORT.
        rank = number(words.get(b"pmirank", words.get(b"srcid")))
        own = None if rank is None else self._claim(rank)
        if own is None:
            return _refused(b"fullinit", thread, "wrong_rank")
        self._identity = own
        answer: Answer = [
            (b"pmi-version", b"2"),
            (b"pmi-subversion", b"0"),
            (b"rank", b"%d" % own.rank),
            (b"size", b"%d" % own.size),
            (b"appnum", b"%d" % own.application),
            (b"spawner-jobid", b"unknown" if own.is_spawned else None),
            (b"debugged", b"FALSE"),
            (b"pmiverbose", b"FALSE"),
        ]
        return Heard(_done(b"fullinit", thread, answer), Joined(thread))

    def _about_keys(
        self, own: Identity, command: bytes, words: dict[bytes, bytes], thread: bytes
    ) -> Heard | None:
        key, value = words.get(b"key", b""), words.get(b"value")
        match command:
            case b"job-getid":
                return Heard(_done(command, thread, [(b"jobid", own.key_space)]))
            case b"info-getjobattr":
                request = Get(thread, key=key)
                if key == MAPPING:
                    return Heard(self.found(command, request, own.mapping or None))
                return self._get(command, request)
            case b"kvs-get":
                request = Get(thread, key=key)
                if words.get(b"jobid", b"") not in (b"", own.key_space):
                    return Heard(self.found(command, request, None))
                return self._get(command, request)
            case b"info-getnodeattr":
                is_waiting = words.get(b"wait", b"FALSE").upper() == b"TRUE"
                return self._get(command, GetNode(thread, key=key, is_waiting=is_waiting))
            case b"kvs-put" | b"info-putnodeattr":
                fault = pair_fault(key, value)
                if fault or value is None:
                    return _refused(command, thread, fault)
                kind = Put if command == b"kvs-put" else PutNode
                return Heard(b"", kind(thread, key=key, value=value), command)
        return None

    def _get(self, command: bytes, request: Get | GetNode) -> Heard:
        if fault := key_fault(request.key):
            return _refused(command, request.thread, fault)
        return Heard(b"", request, command)

    def _about_others(
        self, command: bytes, words: dict[bytes, bytes], listed: spawn.Words, thread: bytes
    ) -> Heard | None:
        name, port = words.get(b"name", b""), words.get(b"port", b"")
        match command:
            case b"kvs-fence":
                return Heard(b"", Fence(thread), command)
            case b"finalize":
                return Heard(_done(command, thread), Left(thread))
            case b"name-publish" | b"name-lookup" | b"name-unpublish" if service_fault(name):
                return _refused(command, thread, service_fault(name))
            case b"name-publish" if not 0 < len(port) <= VALLEN_MAX:
                return _refused(command, thread, "invalid_port")
            case b"name-publish":
                return Heard(b"", Publish(thread, name=name, port=port), command)
            case b"name-lookup":
                return Heard(b"", Lookup(thread, name=name), command)
            case b"name-unpublish":
                return Heard(b"", Unpublish(thread, name=name), command)
            case b"spawn":
                return _spawn(listed, thread)
        return None


def _spawn(listed: spawn.Words, thread: bytes) -> Heard:
    starts = [index for index, (name, _) in enumerate(listed) if name == b"subcmd"]
    head = dict(listed[: starts[0]] if starts else listed)
    if number(head.get(b"ncmds")) != len(starts) or not 1 <= len(starts) <= COMMANDS_MAX:
        raise PmiError(f"spawn: ncmds is {head.get(b'ncmds', b'')[:80]!r}, {len(starts)} sent")
    preputs = spawn.count_of(head, b"preputcount", KEYS_MAX)
    keys = spawn.listed(list(head.items()), b"ppkey", preputs)
    values = spawn.listed(list(head.items()), b"ppval", preputs)
    commands, fault = [], ""
    for start, end in zip(starts, [*starts[1:], len(listed)], strict=True):
        words = listed[start:end]
        first = dict(reversed(words))
        infos = spawn.count_of(first, b"infokeycount", KEYS_MAX)
        arguments = spawn.count_of(first, b"argc", ARGUMENTS_MAX)
        numbered = [(name, value) for name, value in words if name != b"infokeycount"]
        info = zip(
            spawn.listed(numbered, b"infokey", infos),
            spawn.listed(numbered, b"infoval", infos),
            strict=True,
        )
        argv = spawn.listed(words, b"argv", arguments)
        try:
            program, count = first[b"subcmd"], first.get(b"maxprocs")
            commands.append(spawn.command(program, count, argv, list(info)))
        except spawn.Refused as refused:
            fault = fault or str(refused)
    try:
        pairs = spawn.pairs(keys, values)
    except spawn.Refused as refused:
        fault = fault or str(refused)
    if fault:
        return _refused(b"spawn", thread, fault)
    return Heard(b"", SpawnMultiple(thread, commands=tuple(commands), pairs=pairs), b"spawn")


def _done(command: bytes, thread: bytes, words: Answer | None = None, error: str = "") -> bytes:
    result = [*(words or []), (b"rc", b"0")]
    if error:
        result = [(b"rc", b"-1"), (b"errmsg", error.encode(errors="backslashreplace")[:200])]
    return build(command + b"-response", [(b"thrid", thread or None), *result])


def _refused(command: bytes, thread: bytes, fault: str) -> Heard:
    return Heard(_done(command, thread, error=fault))


def _end_of_value(frame: bytes, start: int) -> int:
    """Where the value that begins at ``start`` ends: at a ``;`` that is not doubled."""
    while (end := frame.find(b";", start)) >= 0:
        if frame[end + 1 : end + 2] != b";":
            return end
        start = end + 2
    return len(frame)
