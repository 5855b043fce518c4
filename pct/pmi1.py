"""PMI-1 as one rank's client speaks it: a line in, lines out.

Wire: one line each way, words ``name=value`` separated by blanks; the value of
``value`` in a put runs to the end of the line. Reference: MPICH's simple PMI; what
the libraries do with it was found by running them.
"""

from __future__ import annotations

from enum import Enum

KVSNAME_MAX = 256
KEYLEN_MAX = 64
VALLEN_MAX = 4096
LINE_MAX = 16 * 1024  # bytes of one line; more ends the conversation


class Request(Enum):
    """What the client wants that its own node cannot answer from the line alone."""

    PUT = "put"
    GET = "get"
    BARRIER = "barrier_in"
    FINALIZE = "finalize"
    ABORT = "abort"


class PmiError(Exception):
    """The client broke the protocol; the text says how."""


def parse(line: bytes) -> dict[bytes, bytes]:
    """The words of one line.

    Raises:
        PmiError: a word without ``=``, or no ``cmd``.
    """
    words: dict[bytes, bytes] = {}
    rest = line.strip()
    while rest:
        name, equals, rest = rest.partition(b"=")
        if not equals:
            raise PmiError(f"a word without a value: {name[:80]!r}")
        if name == b"value":
            words[name] = rest
            break
        value, _, rest = rest.partition(b" ")
        words[name] = value
        rest = rest.lstrip(b" ")
    if b"cmd" not in words and b"mcmd" not in words:
        raise PmiError(f"no command in {line[:80]!r}")
    return words


def process_mapping(places: list[int]) -> bytes:
    """PMI_process_mapping of ranks 0, 1, ... given the place of each.

    Equal consecutive blocks fold: ``(vector,(first place, places, ranks on each))``.
    """
    blocks: list[list[int]] = []  # [first place, number of places, ranks on each]
    index = 0
    while index < len(places):
        place = places[index]
        count = 1
        while index + count < len(places) and places[index + count] == place:
            count += 1
        index += count
        last = blocks[-1] if blocks else None
        if last and last[2] == count and last[0] + last[1] == place:
            last[1] += 1
        else:
            blocks.append([place, 1, count])
    body = ",".join(f"({first},{number},{count})" for first, number, count in blocks)
    return f"(vector,{body})".encode()


class Client:
    """One rank's conversation.

    Attributes:
        has_joined: it has said ``init`` at least once.
    """

    def __init__(self, rank: int, size: int, app_number: int, kvsname: bytes) -> None:
        self.has_joined = False
        self._rank = rank
        self._fixed = {
            b"get_maxes": b"cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d"
            % (KVSNAME_MAX, KEYLEN_MAX, VALLEN_MAX),
            b"get_appnum": b"cmd=appnum appnum=%d" % app_number,
            b"get_universe_size": b"cmd=universe_size size=%d" % size,
            b"get_my_kvsname": b"cmd=my_kvsname kvsname=" + kvsname,
        }
        self._kvsname = kvsname

    def handle(self, line: bytes) -> tuple[bytes, Request | None, dict[bytes, bytes]]:
        """One line from the client.

        Returns:
            What to answer now (may be empty), what else is to be done, and the
            line's words.

        Raises:
            PmiError: the conversation must end.
        """
        words = parse(line)
        command = words.get(b"cmd", words.get(b"mcmd", b""))
        if command == b"init":
            return self._init(words), None, words
        if (answer := self._fixed.get(command)) is not None:
            return answer + b"\n", None, words
        match command:
            case b"put":
                if (fault := self._fault(words)) is not None:
                    return b"cmd=put_result rc=-1 msg=" + fault + b"\n", None, words
                return b"cmd=put_result rc=0 msg=success\n", Request.PUT, words
            case b"get":
                if self._fault(words) is not None:
                    return self.absent(words.get(b"key", b"")), None, words
                return b"", Request.GET, words
            case b"barrier_in":
                return b"", Request.BARRIER, words
            case b"finalize":
                return b"cmd=finalize_ack rc=0\n", Request.FINALIZE, words
            case b"abort":
                return b"", Request.ABORT, words
            case b"publish_name" | b"unpublish_name" | b"lookup_name":
                name = command.partition(b"_")[0]
                return b"cmd=%s_result rc=-1 msg=not_supported\n" % name, None, words
            case b"spawn":
                return b"cmd=spawn_result rc=-1\n", None, words
        if b"mcmd" in words or command in (b"endcmd",):
            return b"", None, words
        raise PmiError(f"unknown command {command[:80]!r}")

    def found(self, value: bytes) -> bytes:
        """The answer to a get."""
        return b"cmd=get_result rc=0 msg=success value=" + value + b"\n"

    def absent(self, key: bytes) -> bytes:
        """The answer to a get of a key that nobody has put."""
        return b"cmd=get_result rc=-1 msg=key_" + key[:KEYLEN_MAX] + b"_not_found value=unknown\n"

    def _init(self, words: dict[bytes, bytes]) -> bytes:
        if words.get(b"pmi_version") != b"1":
            return b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"
        self.has_joined = True
        return b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"

    def _fault(self, words: dict[bytes, bytes]) -> bytes | None:
        if words.get(b"kvsname") != self._kvsname:
            return b"unknown_kvsname"
        key = words.get(b"key", b"")
        if not 0 < len(key) <= KEYLEN_MAX:
            return b"invalid_key"
        if len(words.get(b"value", b"")) > VALLEN_MAX:
            return b"value_too_long"
        return None
