"""Asks a batch system about its jobs, by its own command, in a child for each question."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping

from allocator.jobs.batch import Word
from native.errors import UsageError
from native.loop.reactor import Reactor
from native.waitstatus import exit_status, how_it_ended

ANSWER_MAX_BYTES = 1 << 22
_ID = re.compile(r"[0-9]{1,12}[0-9A-Za-z._\[\]-]{0,115}")
_ATTRIBUTE = re.compile(r"(\s+)([A-Za-z_][\w.]*) = (.*)")
_UNKNOWN_JOB = (153, 35)  # what qstat ends with for a job that is not there; one in history

Then = Callable[[Word | None, str], None]


class BatchSystem:
    """The commands of one batch system.

    Args:
        name: ``pbs`` or ``slurm``.
        limit_s: an answer comes within this, or not at all.

    Raises:
        UsageError: its command is not here.
    """

    def __init__(
        self, name: str, reactor: Reactor, limit_s: float, environment: Mapping[str, str]
    ) -> None:
        self._reactor = reactor
        self._limit_s = limit_s
        self._environment = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
        self._words, self._read = _SYSTEMS[name]
        program = shutil.which(self._words[0], path=environment.get("PATH"))
        if program is None:
            raise UsageError(f"--batch {name}: no {self._words[0]} in PATH")
        self._program = program

    def ask(self, batch_job: str, then: Then) -> None:
        """Ask about a job; ``then`` is called later with the word and why there is none."""
        if not _ID.fullmatch(batch_job):
            self._reactor.call_soon(lambda: then(None, ""))
            return
        _Question(self._program, [*self._words, batch_job], self, then)

    def answered(self, status: int, data: bytes, then: Then) -> None:
        """Its command has ended."""
        if status == 0:
            try:
                then(self._read(data.decode(errors="replace")), "")
            except ValueError as error:
                then(None, f"{self._words[0]}: {error}")
        elif exit_status(status) in _UNKNOWN_JOB or b"nvalid job id" in data:
            then(None, "")
        else:
            then(None, f"{self._words[0]}: {how_it_ended(status)}")

    @property
    def reactor(self) -> Reactor:
        """The loop that the children are waited for in."""
        return self._reactor

    @property
    def limit_s(self) -> float:
        """How long an answer may take."""
        return self._limit_s

    @property
    def environment(self) -> Mapping[str, str]:
        """That of the command."""
        return self._environment


class _Question:
    """One child: its output is read to the end, then it is reaped."""

    def __init__(self, program: str, words: list[str], system: BatchSystem, then: Then) -> None:
        self._system, self._then = system, then
        self._data = bytearray()
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_DUP2, writer, 2),
        ]
        try:
            self._unix_pid = os.posix_spawn(
                program, words, system.environment, file_actions=actions, setsigmask=()
            )
        except OSError as error:
            text = f"{program}: {error.strerror}"
            os.close(self._reader)
            system.reactor.call_soon(lambda: then(None, text))
            return
        finally:
            os.close(writer)
        self._watch = system.reactor.watch(self._reader, self._readable)
        self._timer = system.reactor.timer(self._late)
        self._timer.set(system.reactor.monotonic() + system.limit_s)
        system.reactor.on_child(self._unix_pid, self._ended)

    def _readable(self) -> None:
        try:
            data = os.read(self._reader, 65536)
        except BlockingIOError:
            return
        self._data += data[: ANSWER_MAX_BYTES - len(self._data)]
        if not data:
            self._watch.close()

    def _late(self) -> None:
        os.kill(self._unix_pid, signal.SIGKILL)

    def _ended(self, status: int) -> None:
        self._timer.close()
        while True:  # what it has written last
            try:
                data = os.read(self._reader, 65536)
            except BlockingIOError:  # a child of its own has the pipe
                break
            if not data:
                break
            self._data += data[: ANSWER_MAX_BYTES - len(self._data)]
        self._watch.close()
        os.close(self._reader)
        self._system.answered(status, bytes(self._data), self._then)


def of_qstat(text: str) -> Word | None:
    """The word of ``qstat -f``, of OpenPBS, Torque, or Slurm's wrapper; None: it does not run.

    Users have a say in some values, so an attribute counts where it comes first: those that
    count come before (Job_Owner, job_state, exec_host).

    Raises:
        ValueError: it is no such text.
    """
    found = _attributes(text)
    if not {"job_state", "Job_Owner"} <= found.keys():
        raise ValueError("no job_state and Job_Owner in its answer")
    if found["job_state"] not in ("R", "E"):
        return None
    owner = found.get("euser") or found["Job_Owner"].partition("@")[0]
    owner = owner.partition("(")[0]
    hosts = {entry.partition("/")[0] for entry in found.get("exec_host", "").split("+") if entry}
    told = found.get("Resource_List.size", "") or found.get("Resource_List.nodect", "")
    # `size` is Cplant's number of nodes, `nodect` one of chunks, which may share a host.
    is_size = "Resource_List.size" in found
    nodes = int(told) if told.isdecimal() and (is_size or not hosts) else len(hosts)
    return Word(owner, nodes)


def _attributes(text: str) -> dict[str, str]:
    """Attributes by name; a longer value goes on in lines that begin with a tab."""
    found: dict[str, str] = {}
    indent = name = ""
    for line in text.splitlines():
        read = _ATTRIBUTE.fullmatch(line)
        if read and (not indent or read[1] == indent):
            indent, name = read[1], read[2]
            if name in found:
                name = ""
            else:
                found[name] = read[3].strip()
        elif line.startswith("\t") and name:
            found[name] += line.strip()
    return found


def of_squeue(text: str) -> Word | None:
    """The word of squeue with the user, the state and the number of nodes.

    Raises:
        ValueError: it is no such text.
    """
    if not text.strip():
        return None
    words = text.split("\n")[0].split()
    if len(words) != 3 or not words[2].isdecimal():
        raise ValueError("its answer has not three words")
    owner, state, nodes = words
    return Word(owner, int(nodes)) if state in ("RUNNING", "COMPLETING", "SUSPENDED") else None


# `scontrol show job` would show names that users have chosen before what is asked for.
_SYSTEMS: Mapping[str, tuple[list[str], Callable[[str], Word | None]]] = {
    "pbs": (["qstat", "-f"], of_qstat),
    "slurm": (["squeue", "-h", "-o", "%u %T %D", "-j"], of_squeue),
}
NAMES = tuple(_SYSTEMS)
