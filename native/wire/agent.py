"""What ``yod-agent`` and a PCT say to one another: a command for another node of a job.

The agent is a remote shell for foreign launchers. It connects to its node's PMI
listener, which serves only processes of the job's owner; the first line tells it
from a PMI client. All text is bytes as the kernel has them, no encoding.

    to the PCT     cmd=agent rank=<R> host=<NAME> bytes=<N>\\n
                   then N bytes: directory, a NUL, command
    to the agent   cmd=started\\n            the command runs
                   cmd=ended wait_status=<W>\\n   the last line; W as of waitid
                   cmd=refused <TEXT>\\n     instead of both; the last line

R is YOD_RANK of the process that asks. The directory is its own; where the other
node lacks it, the command starts in ``/``. The command is one string for ``/bin/sh
-c``; it has the environment of the job there, not that of the asking process. When
the agent's connection ends before the command, the command is killed.

Neither side sends anything else. What breaks a rule or a limit ends the connection.

The agent starts once for each node of each foreign launch: this module imports
nothing.
"""

HEAD_MAX = 1024  # bytes of the first line with its end
BODY_MAX = 1 << 20  # bytes of directory and command
DIRECTORY_MAX = 4096  # bytes of the directory: PATH_MAX
ANSWER_MAX = 4096  # bytes of an answer with its end
FIRST_WORD = b"cmd=agent"  # of the first line, followed by a blank

_DIGITS = 10  # of any number


class AgentError(Exception):
    """The other side broke the protocol; the text says how."""


class Command:
    """What the agent asks for.

    Attributes:
        rank: of the job, whose process asks.
        host: name of the node to use.
        directory: absolute path to start in.
        text: for the shell.
    """

    __slots__ = ("directory", "host", "rank", "text")

    def __init__(self, rank: int, host: bytes, directory: bytes, text: bytes) -> None:
        self.rank = rank
        self.host = host
        self.directory = directory
        self.text = text


class Answer:
    """What the agent is told.

    Attributes:
        is_last: nothing follows.
        wait_status: of the command that has ended; None: it has not.
        refusal: why it was not started; empty: it was.
    """

    __slots__ = ("is_last", "refusal", "wait_status")

    def __init__(self, wait_status: int | None = None, refusal: str = "") -> None:
        self.is_last = wait_status is not None or refusal != ""
        self.wait_status = wait_status
        self.refusal = refusal


def encode_command(command: Command) -> bytes:
    """The bytes to send.

    Raises:
        AgentError: a limit is broken, or a character that cannot be sent.
    """
    body = command.directory + b"\0" + command.text
    if body.count(b"\0") > 1:
        raise AgentError("a null character in the directory or the command")
    if len(body) > BODY_MAX:
        raise AgentError(f"a command of {len(body)} bytes, at most {BODY_MAX} can be sent")
    _demand_short(command.directory)
    if not _is_name(command.host):
        raise AgentError(f"not a host name: {_shown(command.host)}")
    head = b"%s rank=%d host=%s bytes=%d\n" % (FIRST_WORD, command.rank, command.host, len(body))
    if len(head) > HEAD_MAX:
        raise AgentError("the host name is too long")
    return head + body


def decode_head(line: bytes) -> tuple[int, bytes, int]:
    """Rank, host and length of the body, of the first line without its end.

    Raises:
        AgentError: it is no such line, or breaks a limit.
    """
    words = line.split(b" ")
    names = [word.partition(b"=")[0] for word in words]
    if words[0] != FIRST_WORD or names[1:] != [b"rank", b"host", b"bytes"]:
        raise AgentError(f"not the first line of an agent: {_shown(line)}")
    rank, host, length = (word.partition(b"=")[2] for word in words[1:])
    if not _is_name(host):
        raise AgentError(f"not a host name: {_shown(host)}")
    count = _number(length, "bytes")
    if not 0 < count <= BODY_MAX:
        raise AgentError(f"bytes={count} is not 1..{BODY_MAX}")
    return _number(rank, "rank"), host, count


def decode_body(body: bytes) -> tuple[bytes, bytes]:
    """Directory and command.

    Raises:
        AgentError: not two parts, or a directory that is not absolute.
    """
    parts = body.split(b"\0")
    if len(parts) != 2:
        raise AgentError(f"a body of {len(parts)} parts, not a directory and a command")
    _demand_short(parts[0])
    if not parts[0].startswith(b"/"):
        raise AgentError(f"not an absolute directory: {_shown(parts[0])}")
    return parts[0], parts[1]


def encode_started() -> bytes:
    """The line that says that the command runs."""
    return b"cmd=started\n"


def encode_ended(wait_status: int) -> bytes:
    """The line that says how the command has ended."""
    return b"cmd=ended wait_status=%d\n" % wait_status


def encode_refused(text: str) -> bytes:
    """The line that says why the command does not start; cut where it is too long."""
    flat = b" ".join(text.encode("utf-8", "replace").split())
    return b"cmd=refused " + flat[: ANSWER_MAX - 16] + b"\n"


def decode_answer(line: bytes) -> Answer:
    """An answer from its line without the end.

    Raises:
        AgentError: it is none.
    """
    if line == b"cmd=started":
        return Answer()
    name, _, rest = line.partition(b" ")
    if name == b"cmd=refused":
        return Answer(refusal=rest.decode("utf-8", "replace") or "refused")
    if name == b"cmd=ended" and rest.startswith(b"wait_status="):
        return Answer(wait_status=_number(rest.partition(b"=")[2], "wait_status"))
    raise AgentError(f"not an answer: {_shown(line)}")


def _demand_short(directory: bytes) -> None:
    if len(directory) > DIRECTORY_MAX:
        raise AgentError(f"a directory of {len(directory)} bytes, at most {DIRECTORY_MAX}")


def _number(text: bytes, name: str) -> int:
    if not text.isdigit() or len(text) > _DIGITS:
        raise AgentError(f"{name} is not a number: {_shown(text)}")
    return int(text)


def _is_name(host: bytes) -> bool:
    return host != b"" and all(0x20 < byte < 0x7F for byte in host)


def _shown(text: bytes) -> str:
    return repr(text[:80])[1:]
