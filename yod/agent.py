"""The command yod-agent: what a launcher in a job uses in place of ssh.

It asks the PCT of its node to start a command on another node of the job, waits for the
command, and ends as it did. It is started once for each node of such a launch, so it
imports little.
"""

from __future__ import annotations

import _socket
import os
import sys

from native.host import stdio
from native.wire import agent
from native.wire.agent import AgentError, Answer

FAILED = 255  # as ssh
CANNOT_RUN = 126
NOT_FOUND = 127
USAGE = "usage: yod-agent {options of ssh} HOST COMMAND... | yod-agent -outer COMMAND..."
# Options of ssh that have a value. All options are ignored.
_TAKES_VALUE = ("-l", "-p", "-o", "-i", "-F", "-c", "-e", "-S", "-b", "-m")


def main(argv: list[str] | None = None) -> int:
    """Run a command on a node of the job.

    Returns:
        Exit status: the command's, 128 + its signal, or 255.
    """
    stdio.open_closed()
    return stdio.ended("yod-agent", _main(argv), FAILED)


def _main(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        if words in (["-help"], ["--help"], ["-h"]):
            print(USAGE)
            return 0
        if words[:1] == ["-outer"]:
            return _run_outside(words[1:])
        host, command = _parse(words)
        return _run(host, command)
    except AgentError as error:
        stdio.say(f"yod-agent: {error}")
    except OSError as error:
        stdio.say(f"yod-agent: {error.strerror or error}")
    return FAILED


def _parse(words: list[str]) -> tuple[str, str]:
    """Host and command of a command line as for ssh."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _TAKES_VALUE else 1
    if len(words) - index < 2:
        raise AgentError(USAGE)
    host = words[index].rpartition("@")[2]
    return host, " ".join(words[index + 1 :])


def _run(host: str, text: str) -> int:
    command = agent.Command(_own_rank(), os.fsencode(host), _directory(), os.fsencode(text))
    connection = _connect()
    connection.sendall(agent.encode_command(command))
    received = b""
    while True:
        line, end, rest = received.partition(b"\n")
        if end:
            received = rest
            answer = agent.decode_answer(line)
            if answer.is_last:
                return _status(host, answer)
            continue
        if len(received) >= agent.ANSWER_MAX:
            raise AgentError(f"an answer has more than {agent.ANSWER_MAX} bytes")
        if not (data := connection.recv(agent.ANSWER_MAX)):
            raise AgentError(f"{host}: the job has ended")
        received += data


def _run_outside(words: list[str]) -> int:
    """Execute a command with the environment that yod was started with.

    Returns:
        Exit status, if it cannot be executed.
    """
    from native import outer

    if not words:
        raise AgentError(USAGE)
    entries = [name + b"=" + value for name, value in os.environb.items()]
    parts = [entry.partition(b"=") for entry in outer.restored(entries)]
    try:
        os.execvpe(words[0], words, {name: value for name, _, value in parts})
    except OSError as error:
        stdio.say(f"yod-agent: {words[0]}: {error.strerror}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN


def _status(host: str, answer: Answer) -> int:
    if answer.wait_status is None:
        raise AgentError(f"{host}: {answer.refusal}")
    code = os.waitstatus_to_exitcode(answer.wait_status)
    return code if code >= 0 else 128 - code


def _own_rank() -> int:
    text = os.environ.get("YOD_RANK", "")
    if not text.isdigit():
        raise AgentError("not in a job of yod: YOD_RANK is not set")
    return int(text)


def _directory() -> bytes:
    try:
        return os.getcwdb()
    except OSError:
        return b"/"


def _connect() -> _socket.socket:
    host, _, port = os.environ.get("YOD_AGENT", "").rpartition(":")
    if not host or not port.isdigit():
        raise AgentError("not in a job of yod: YOD_AGENT is not set")
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    connection.connect((host, int(port)))
    return connection
