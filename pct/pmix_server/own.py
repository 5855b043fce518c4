"""A PMIx server of a world of one node that needs no PCT.

It is one of the processes that CRIU writes down with the ranks (``native/init``), so their
connections to it come back with them. What a PCT would ask of other nodes it answers itself.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from select import select

from pct.pmix_server.keys import Code, Info, Type
from pct.pmix_server.library import LibraryError, load
from pct.pmix_server.names import short_text
from pct.pmix_server.plain import (
    AbortJob,
    Added,
    AddWorld,
    Answer,
    Begin,
    Enter,
    FenceDone,
    GetRemote,
    GetTable,
    KeyValue,
    LookupNames,
    PublishNames,
    Record,
    SpawnPrograms,
    Table,
    UnpublishNames,
)
from pct.pmix_server.server import Channel, Overheard, Server, prepare_environment

SAY_FD = 4  # standard error of a rank
TOLD_FD = 3  # the ranks' environment, or "!" and why there is none; then it is closed
# Without them ranks would map a file of the server's, and Open MPI 4.1 look for other launchers.
SETTINGS = {"PMIX_MCA_pmix_hwloc_hole_kind": "none"}
OF_RANKS = (b"JSM_JSRUN_PORT=1",)
NO_SPAWN = (
    b"yod: MPI_Comm_spawn: a job with --checkpoint-by criu starts no further ranks; with"
    b" --checkpoint-by signal it can\n"
)
_NAMES_MAX = 4096  # that are published at once


class Host(Channel):
    """What a server asks of its PCT, where all ranks are its own.

    Args:
        say_fd: the user is told things there.
    """

    def __init__(self, say_fd: int) -> None:
        super().__init__(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._say_fd = say_fd
        self._answers: list[Record] = []
        self._names: dict[bytes, KeyValue] = {}
        self._has_said = False

    def send(self, message: Record) -> None:
        """Take a question; its answer is received next."""
        if (answer := self._answer(message)) is not None:
            self._answers.append(answer)
            os.eventfd_write(self.fd, 1)

    def receive(self) -> list[Record] | None:
        """The answers since the last call."""
        os.eventfd_read(self.fd)
        answers, self._answers = self._answers, []
        return answers

    def _answer(self, message: Record) -> Record | None:
        match message:
            case Enter(serial, _, _, data):  # all participants are here
                return FenceDone(serial, Code.SUCCESS, data)
            case GetRemote(serial):
                return Answer(serial, Code.NOT_FOUND, ())
            case PublishNames(serial, _, pairs):
                if len(self._names) + len(pairs) > _NAMES_MAX:
                    return Answer(serial, Code.OUT_OF_RESOURCE, ())
                self._names.update((pair.key, pair) for pair in pairs)
                return Answer(serial, Code.SUCCESS, ())
            case LookupNames(serial, keys):
                found = tuple(self._names[key] for key in keys if key in self._names)
                return Answer(serial, Code.SUCCESS if found else Code.NOT_FOUND, found)
            case UnpublishNames(serial, keys):
                for key in keys:
                    self._names.pop(key, None)
                return Answer(serial, Code.SUCCESS, ())
            case SpawnPrograms(serial):
                self._say_why_not()
                return Answer(serial, Code.NOT_SUPPORTED, ())
            case GetTable(serial):
                return Table(serial, ())
            case AbortJob(serial):  # the client ends when it is answered, and the job with it
                return Answer(serial, Code.SUCCESS, ())
        return None

    def _say_why_not(self) -> None:
        """Say once why no ranks are started: the client hears a number of PMIx.

        Where nobody reads what the rank has written before, it is not said: the write would wait.
        """
        if not self._has_said:
            self._has_said = True
            with suppress(OSError):  # that rank has ended
                if select((), (self._say_fd,), (), 0)[1]:
                    os.write(self._say_fd, NO_SPAWN)


class OwnServer(Server):
    """A server without files, which would not come back with it."""

    def infos(self) -> tuple[Info, ...]:
        """How the library is started."""
        own = (b"pmix.srvr.tool", b"pmix.srvr.share")
        return tuple(info for info in super().infos() if info.key not in own)

    def world_infos(self, infos: tuple[Info, ...]) -> tuple[Info, ...]:
        """With directories that are on all nodes: clients make none of their own there."""
        own = {b"pmix.tmpdir", b"pmix.nsdir"}
        others = tuple(info for info in infos if info.key not in own)
        return (*others, *(Info(key, Type.STRING, _place()) for key in sorted(own)))

    def rank_infos(self, infos: tuple[Info, ...]) -> tuple[Info, ...]:
        """The same for what is a rank's own."""
        return (*infos, Info(b"pmix.pdir", Type.STRING, _place()))

    def add(self, size: int, host: str) -> Added:
        """Register the world."""
        ranks = tuple(range(size))
        nowhere = (0,) * size
        name = f"yod_own_{os.urandom(8).hex()}"
        job_id = os.environ.get("YOD_JOB_ID", "0")
        world = AddWorld(0, name, job_id, (host,), nowhere, nowhere, ranks, size, 0, None)
        return self._add(world)


def _place() -> bytes:
    return os.environb.get(b"TMPDIR") or b"/tmp"


def _serve(libraries: tuple[bytes, ...], size: int, host: str) -> None:
    """Serve until the processes of the world are killed.

    Raises:
        LibraryError, OSError: it cannot.
    """
    directory = os.path.join(_place(), b"yod-pmix-%s" % os.urandom(8).hex().encode())
    name = f"yod_own_server_{os.urandom(8).hex()}"
    begin = Begin(libraries, False, name, host, os.getuid(), os.getgid(), directory)
    os.mkdir(directory, 0o700)
    try:
        server = OwnServer(Host(SAY_FD), load(libraries, False), begin, directory)
        with Overheard():
            server.start()
        added = server.add(size, host)
    finally:
        _remove(directory)
    if added.status != Code.SUCCESS:
        raise LibraryError(added.text)
    _tell(b"".join(entry + b"\n" for entry in (*added.environments[0], *OF_RANKS)))
    server.serve()


def _remove(directory: bytes) -> None:
    """Nothing is kept there, as it is not on other nodes."""
    for path, names, files in os.walk(directory, topdown=False):
        for file in files:
            os.unlink(os.path.join(path, file))
        for name in names:
            os.rmdir(os.path.join(path, name))
    os.rmdir(directory)


def _tell(text: bytes) -> None:
    os.write(TOLD_FD, text)
    os.close(TOLD_FD)


def main() -> None:
    """Serve the ranks of the node; its words are the PMIx libraries to try."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    prepare_environment()
    size = int(os.environ.get("YOD_LOCAL_SIZE", "1"))
    try:
        _serve(tuple(map(os.fsencode, sys.argv[1:])), size, os.environ.get("YOD_NODE_NAME", "node"))
    except (LibraryError, OSError) as error:
        _tell(b"!" + short_text(str(error)).encode())
    os._exit(1)
