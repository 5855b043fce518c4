"""PMI-1 as one rank's client speaks it: a line in, a line out.

Wire: lines of words ``name=value`` separated by blanks, ``cmd`` first. The last value of
some commands runs to the end of the line. A spawn is a block of lines, with one word on each line.
Reference: MPICH's simple PMI; what the libraries do with it was found by running them.
"""

from __future__ import annotations

from native.wire.pmi import COMMANDS_MAX, KEYS_MAX, KeyValue, SpawnCommand
from pct.account import WORD_BYTES
from pct.wireup.pmi import spawn
from pct.wireup.pmi.requests import (
    KEYLEN_MAX,
    KVSNAME_MAX,
    VALLEN_MAX,
    Fence,
    Get,
    Heard,
    Identity,
    Left,
    Lookup,
    PmiError,
    Publish,
    Put,
    Request,
    SpawnMultiple,
    Unpublish,
    abort,
    key_fault,
    number,
    pair_fault,
    service_fault,
)

LINE_MAX = 16 * 1024  # bytes of one line; more ends the conversation
SPAWN_MAX_BYTES = 128 * 1024  # of all lines of one spawn
ARGUMENTS_MAX = 4096  # of one program of a spawn
MAPPING = b"PMI_process_mapping"

# The value that runs to the end of the line: it may have blanks and `=` in it.
_TAILS = {
    b"put": b"value",
    b"abort": b"message",
    b"lookup_name": b"service",
    b"unpublish_name": b"service",
}
# Commands of PMI 1.0 that no library sends any more, and how they are refused.
_OBSOLETE = {
    b"getbyidx": b"getbyidx_results",
    b"create_kvs": b"newkvs",
    b"destroy_kvs": b"kvs_destroyed",
}


def parse(line: bytes) -> dict[bytes, bytes]:
    """The words of one line, ``cmd`` among them. Of two words of one name the first counts.

    Raises:
        PmiError: a word without ``=``, or no ``cmd`` at the beginning.
    """
    head, equals, rest = line.lstrip(b" ").partition(b"=")
    if head != b"cmd" or not equals:
        raise PmiError(f"no command in {line[:80]!r}")
    command, _, rest = rest.partition(b" ")
    words = {b"cmd": command}
    if command == b"publish_name":  # both of its values may have blanks in them
        start, _, port = rest.partition(b" port=")
        words[b"service"] = start.lstrip(b" ").removeprefix(b"service=")
        words[b"port"] = port
        return words
    rest = b" " + rest
    if (tail := _TAILS.get(command)) is not None:
        rest, equals, value = rest.partition(b" %s=" % tail)
        if equals:
            words[tail] = value
    for word in filter(None, rest.split(b" ")):
        name, equals, value = word.partition(b"=")
        if not equals:
            raise PmiError(f"a word without a value: {name[:80]!r}")
        words.setdefault(name, value)
    return words


def welcome(identity: Identity) -> bytes:
    """The answer to ``initack``: four lines."""
    return b"cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n" % (
        identity.size,
        identity.rank,
    )


def response_to_init(version: int, subversion: int, rc: int = 0) -> bytes:
    """The answer to ``init``, in both protocols."""
    return b"cmd=response_to_init pmi_version=%d pmi_subversion=%d rc=%d\n" % (
        version,
        subversion,
        rc,
    )


class Speaker:
    """One client's PMI-1, from init to finalize."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._spawn: _SpawnBlocks | None = None
        self._fixed = {
            b"get_maxes": b"cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n"
            % (KVSNAME_MAX, KEYLEN_MAX, VALLEN_MAX),
            b"get_appnum": b"cmd=appnum appnum=%d\n" % identity.application,
            b"get_universe_size": b"cmd=universe_size size=-1\n",  # not known
            b"get_my_kvsname": b"cmd=my_kvsname kvsname=%s\n" % identity.key_space,
        }

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept of a spawn whose end has not come yet."""
        return self._spawn.held_bytes if self._spawn is not None else 0

    def hear(self, line: bytes) -> Heard:
        """One line of the client.

        Raises:
            PmiError: the conversation must end.
        """
        if self._spawn is not None or line.startswith(b"mcmd="):
            return self._hear_spawn(line)
        words = parse(line)
        command = words[b"cmd"]
        if (answer := self._fixed.get(command)) is not None:
            return Heard(answer)
        match command:
            case b"put":
                return self._put(words)
            case b"get":
                return self._get(words)
            case b"barrier_in":
                if words.get(b"group", b"WORLD") != b"WORLD":
                    return Heard(b"cmd=barrier_out rc=-1 msg=no_groups\n")
                return Heard(b"", Fence(), command)
            case b"finalize":
                return Heard(b"cmd=finalize_ack rc=0\n", Left())
            case b"abort":
                return Heard(b"", aborted(words))
            case b"publish_name" | b"lookup_name" | b"unpublish_name":
                return self._name(command, words)
        if (name := _OBSOLETE.get(command)) is not None:
            return Heard(b"cmd=%s rc=-1 msg=obsolete\n" % name)
        raise PmiError(f"unknown command {command[:80]!r}")

    def stored(self, command: bytes, request: Request, error: str) -> bytes:
        """The answer to a put."""
        if error:
            return b"cmd=put_result rc=-1 msg=%s\n" % _word(error)
        return b"cmd=put_result rc=0 msg=success\n"

    def found(self, command: bytes, request: Request, value: bytes | None) -> bytes:
        """The answer to a get."""
        if value is None or b"\n" in value:  # a client of PMI-2 may put it
            key = request.key if isinstance(request, Get) else b""
            return b"cmd=get_result rc=-1 msg=key_%s_not_found value=unknown\n" % key[:KEYLEN_MAX]
        return b"cmd=get_result rc=0 msg=success value=%s\n" % value

    def fenced(self, command: bytes, request: Request) -> bytes:
        """The answer to a barrier."""
        return b"cmd=barrier_out rc=0\n"

    def published(self, command: bytes, request: Request, error: str) -> bytes:
        """The answer to a publication, and to its end."""
        name = command.removesuffix(b"_name")
        if error:
            return b"cmd=%s_result rc=-1 msg=%s\n" % (name, _word(error))
        return b"cmd=%s_result info=ok rc=0 msg=success\n" % name

    def looked_up(self, command: bytes, request: Request, port: bytes | None) -> bytes:
        """The answer to a lookup."""
        if port is None or b"\n" in port:
            return b"cmd=lookup_result rc=-1 msg=service_not_found\n"
        return b"cmd=lookup_result port=%s info=ok rc=0 msg=success\n" % port

    def spawned(self, command: bytes, request: Request, error: str, job: bytes) -> bytes:
        """The answer to a spawn. It has no code for each process, so all count as started."""
        if error:
            return b"cmd=spawn_result rc=-1 msg=%s\n" % _word(error)
        return b"cmd=spawn_result rc=0\n"

    def _put(self, words: dict[bytes, bytes]) -> Heard:
        key, value = words.get(b"key"), words.get(b"value")
        fault = self._space_fault(words) or pair_fault(key, value)
        if fault or key is None or value is None:
            return Heard(self.stored(b"put", Request(), fault))
        return Heard(b"", Put(key=key, value=value), b"put")

    def _get(self, words: dict[bytes, bytes]) -> Heard:
        key = words.get(b"key", b"")
        request = Get(key=key)
        if self._space_fault(words) or key_fault(key):
            return Heard(self.found(b"get", request, None))
        if key == MAPPING:
            return Heard(self.found(b"get", request, self._identity.mapping or None))
        return Heard(b"", request, b"get")

    def _name(self, command: bytes, words: dict[bytes, bytes]) -> Heard:
        name, port = words.get(b"service", b""), words.get(b"port", b"")
        if fault := service_fault(name):
            return Heard(self.published(command, Request(), fault))
        if command == b"publish_name":
            if not 0 < len(port) <= VALLEN_MAX:
                return Heard(self.published(command, Request(), "invalid_port"))
            return Heard(b"", Publish(name=name, port=port), command)
        request = Lookup(name=name) if command == b"lookup_name" else Unpublish(name=name)
        return Heard(b"", request, command)

    def _space_fault(self, words: dict[bytes, bytes]) -> str:
        return "" if words.get(b"kvsname") == self._identity.key_space else "unknown_kvsname"

    def _hear_spawn(self, line: bytes) -> Heard:
        if self._spawn is None:
            self._spawn = _SpawnBlocks()
        if not self._spawn.hear(line):
            return Heard()
        blocks, self._spawn = self._spawn, None
        if blocks.fault:
            return Heard(self.spawned(b"spawn", Request(), blocks.fault, b""))
        return Heard(
            b"", SpawnMultiple(commands=tuple(blocks.commands), pairs=blocks.pairs), b"spawn"
        )


class _SpawnBlocks:
    """The blocks of one spawn: one for each program, from ``mcmd=spawn`` to ``endcmd``.

    Attributes:
        fault: the reason to refuse the spawn; empty: it is accepted.
    """

    def __init__(self) -> None:
        self.commands: list[SpawnCommand] = []
        self.pairs: tuple[KeyValue, ...] = ()
        self.fault = ""
        self._total = 0  # programs announced; 0: nothing yet
        self._done = 0
        self._words: spawn.Words = []
        self._is_inside = False
        self._bytes = 0
        self._lines = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept of the blocks so far."""
        return self._bytes + self._lines * 2 * WORD_BYTES

    def hear(self, line: bytes) -> bool:
        """One line. True: that was the end of the last block.

        Raises:
            PmiError: it belongs to no spawn, or contradicts what was said before.
        """
        self._bytes += len(line) + 1
        self._lines += 1
        if self._bytes > SPAWN_MAX_BYTES:
            raise PmiError(f"a spawn of more than {SPAWN_MAX_BYTES} bytes")
        if not self._is_inside:
            if line != b"mcmd=spawn":
                raise PmiError(f"expected mcmd=spawn, got {line[:80]!r}")
            self._is_inside = True
            return False
        if line == b"endcmd":
            self._end()
            return self._done == self._total
        name, equals, value = line.partition(b"=")
        if not equals or not name or name in (b"cmd", b"mcmd"):
            raise PmiError(f"a line that belongs to no spawn: {line[:80]!r}")
        self._words.append((name, value))
        return False

    def _end(self) -> None:
        words, first = self._words, dict(reversed(self._words))
        total = number(first.get(b"totspawns", b"1"))
        if total is None or not 1 <= total <= COMMANDS_MAX or total != (self._total or total):
            raise PmiError(f"spawn: totspawns is {first.get(b'totspawns', b'')[:80]!r}")
        self._total = total
        self._done += 1
        if number(first.get(b"spawnssofar", b"%d" % self._done)) != self._done:
            raise PmiError(f"spawn: spawnssofar is {first[b'spawnssofar'][:80]!r}")
        arguments = spawn.count_of(first, b"argcnt", ARGUMENTS_MAX)
        infos = spawn.count_of(first, b"info_num", KEYS_MAX)
        preputs = spawn.count_of(first, b"preput_num", KEYS_MAX)
        keys = spawn.listed(words, b"preput_key_", preputs)
        values = spawn.listed(words, b"preput_val_", preputs)
        info = list(
            zip(
                spawn.listed(words, b"info_key_", infos),
                spawn.listed(words, b"info_val_", infos),
                strict=True,
            )
        )
        numbered = [(name, value) for name, value in words if name != b"argcnt"]
        argv = spawn.listed(numbered, b"arg", arguments)
        try:
            if preputs:  # older clients repeat them in every block
                self.pairs = spawn.pairs(keys, values)
            program, count = first.get(b"execname", b""), first.get(b"nprocs")
            self.commands.append(spawn.command(program, count, argv, info))
        except spawn.Refused as refused:
            self.fault = self.fault or str(refused)
        self._words = []
        self._is_inside = False


def aborted(words: dict[bytes, bytes]) -> Request:
    """A client's request to end the job."""
    return abort(b"", words.get(b"exitcode"), words.get(b"message", b""))


def _word(text: str) -> bytes:
    """A text as one word of an answer."""
    return "_".join(text.split())[:200].encode(errors="backslashreplace") or b"failed"
