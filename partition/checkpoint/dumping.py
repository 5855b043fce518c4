"""The saver of one node where CRIU writes the ranks down: they need not know of it.

Ranks run below the first process of a namespace: those of a world together, any other below one
of its own. The process that the PCT knows as the rank is outside (``native/init``). It was told
which ``criu`` is to be used, has the streams that the rank was given, and shows by descriptors
of fixed numbers which processes inside are the first one and the rank's.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import closing

from native import nodelist
from native.host.files import sync
from partition.checkpoint import connections, criu, files, marks, obstacles
from partition.checkpoint.collecting import NotSavedError, given, record, say
from partition.checkpoint.holding import HELD, Holding
from partition.checkpoint.inotify import Inotify

STREAMS = "streams"  # of the rank's pipes, those whose other ends are elsewhere
TREE = "tree"  # where its images are, how many ranks have them, and its process in there
# By native/init/fds.h: the pipes, as the file names them, and two descriptors of processes.
_PMI_FD = 60
_PIPES = {0: 0, 1: 1, 2: 2, _PMI_FD: 3, 61: 4}
FIRST_FD, PROGRAM_FD = 62, 63
_TREE_VARIABLE = "YOD_TREE"  # process 1 of what is written down, for yod-init
_HELD_VARIABLE = "YOD_HELD"  # the file whose lock it waits for before they go on
_FIRST_IMAGE = "core-1.img"  # of process 1
_LINE_BYTES = 1 << 16
_WAITING = 2  # dumps that wait while others keep the processors busy
CRIU_WORD, _HOW_WORD = 1, 2  # of yod-init's words


def dump(
    place: int,
    attempt: int,
    ranks: Sequence[int],
    unix_pids: Sequence[int],
    directory: str,
    collecting: str,
    *,
    holds: bool = False,
) -> int:
    """Have CRIU write the ranks down.

    Args:
        unix_pids: of the ranks.
        holds: none goes on before the PCT knows what it has written.

    Returns:
        The bytes in their files.

    Raises:
        NotSavedError: one could not be written; the text names it.
        OSError: a file cannot be written or read.
    """
    here = os.path.join(directory, collecting)
    os.makedirs(here, exist_ok=True)
    paths = {rank: os.path.join(here, files.rank_directory(rank)) for rank in ranks}
    for path in paths.values():
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
    given()
    say("ready")
    own = dict(zip(ranks, unix_pids, strict=True))
    with closing(marks.Outputs(own, marks.BY_NAME)) as outputs:
        for rank in ranks:
            outputs.at_least(rank)
        with closing(Holding()) as holding, _Dumps(paths, own, holding if holds else None) as dumps:
            try:
                dumps.run()
            except NotSavedError:
                if why := in_the_way(own):
                    raise NotSavedError(why) from None
                raise
        outputs.written(paths.values())
        outputs.put_down(paths)
    found, size = record(place, ranks, here, attempt)
    files.write(os.path.join(here, files.node_file(place)), found)
    sync(here)
    return size


class _Tree:
    """Ranks that are written down together.

    Attributes:
        first: process 1 of their namespace.
        is_world: they are of an MPI program, or may be.
        has_server: a PMIx server is among the processes, and ranks are connected to it.
        programs: the process of each rank there, by the numbers of this host.
    """

    def __init__(self, first: int, is_world: bool, has_server: bool) -> None:
        self.first = first
        self.is_world = is_world
        self.has_server = has_server
        self.programs: dict[int, int] = {}

    @property
    def name(self) -> str:
        """For people."""
        if len(self.programs) == 1:
            return f"rank {min(self.programs)}"
        return f"ranks {nodelist.format_nodes(sorted(self.programs))}"


class _Dumps:
    """The dumps of a node's ranks, two more at a time than there are processors: criu also waits.

    For a moment CRIU makes a directory in that of a tree's first process, by a name that is the
    same for all, so two dumps there would meet. A lock on it keeps them apart, until there is
    an image of that process: the moment is over then, and the next dump begins.
    """

    def __init__(
        self, paths: dict[int, str], unix_pids: dict[int, int], holding: Holding | None
    ) -> None:
        self._paths = paths
        self._holding = holding
        self._unix_pids = unix_pids
        self._left = _trees(unix_pids)
        self._running: dict[int, tuple[_Tree, subprocess.Popen[bytes]]] = {}  # by pidfd
        self._poll = select.poll()
        self._told = b""
        self._trouble = ""
        self._lock = -1
        self._locked = ""  # the directory of images that the one with the lock writes
        self._inotify = Inotify()
        self._most = len(os.sched_getaffinity(0)) + _WAITING

    def __enter__(self) -> _Dumps:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in list(self._running):
            self._forget(fd)
        self._unlock()
        os.close(self._inotify.fd)

    def run(self) -> None:
        """Return when all are written, or one cannot be."""
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._inotify.fd, select.POLLIN)
        while self._running or (self._left and not self._trouble):
            if self._may_begin():
                self._begin(self._left.pop(0))
                continue
            for fd, _ in self._poll.poll():
                if fd == 0:
                    self._hear()
                elif fd == self._inotify.fd:
                    self._look()
                else:
                    self._ended(*self._forget(fd))
        if self._trouble:
            raise NotSavedError(self._trouble)

    def _may_begin(self) -> bool:
        has_room = len(self._running) < self._most and not self._locked
        return bool(self._left) and has_room and not self._trouble

    def _look(self) -> None:
        """The one with the lock has written something."""
        for _ in self._inotify.read():
            if self._locked and os.path.exists(os.path.join(self._locked, _FIRST_IMAGE)):
                self._unlock()
        if self._holding is not None:
            for tree, _ in self._running.values():
                self._look_at_tree(tree, self._holding)

    def _look_at_tree(self, tree: _Tree, holding: Holding) -> None:
        """Where all of it is written, and stands still, the PCT is told so."""
        if not os.path.exists(os.path.join(self._paths[min(tree.programs)], files.SAVED)):
            return
        for rank in sorted(tree.programs, reverse=True):  # behind the first one's mark all go on
            if holding.saved(rank):
                say(f"saved {rank}")

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock, self._locked = -1, ""

    def _begin(self, tree: _Tree) -> None:
        images = self._paths[min(tree.programs)]
        rank = -1
        try:
            for rank, program in tree.programs.items():
                unix_pid, path = self._unix_pids[rank], self._paths[rank]
                words = words_of(unix_pid)
                where = f"{os.path.basename(images)} {len(tree.programs)} {inner_pid(program)}\n"
                _write(os.path.join(path, STREAMS), streams_of(unix_pid))
                _write(os.path.join(path, TREE), where)
            if why := _outside(tree):
                self._trouble = self._trouble or why
                return
            self._lock = os.open(f"/proc/{tree.first}/cwd", os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            self._trouble = self._trouble or _has_ended(rank)
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # the PCT ends this process if it waits too long
        self._locked = images
        self._inotify.watch(images)
        environment = dict(os.environ)
        if tree.is_world:
            environment[_TREE_VARIABLE] = str(tree.first)
        if self._holding is not None:
            for rank in tree.programs:
                self._holding.add(rank, self._paths[rank])
            environment[_HELD_VARIABLE] = HELD
        script = words[0] if tree.is_world or self._holding is not None else ""
        process = subprocess.Popen(
            criu.dump_command(
                words[CRIU_WORD],
                tree.first,
                images,
                script=script,
                has_connections=tree.has_server,
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        fd = os.pidfd_open(process.pid)
        self._poll.register(fd, select.POLLIN)
        self._running[fd] = (tree, process)

    def _forget(self, fd: int) -> tuple[_Tree, subprocess.Popen[bytes]]:
        self._poll.unregister(fd)
        os.close(fd)
        tree, process = self._running.pop(fd)
        if self._paths[min(tree.programs)] == self._locked:
            self._unlock()
        return tree, process

    def _ended(self, tree: _Tree, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if status and not self._trouble:
            why = why_of(status, self._paths[min(tree.programs)])
            self._trouble = f"{tree.name}: criu cannot write it down: {why}"

    def _hear(self) -> None:
        data = os.read(0, _LINE_BYTES)
        if not data:
            raise NotSavedError("the pct of its node has gone")
        *lines, self._told = (self._told + data).split(b"\n")
        if self._holding is not None:
            for line in lines:
                self._holding.hear(line)
        if b"over" in lines:
            late = [tree for tree, _ in self._running.values()] or self._left
            raise NotSavedError(f"{late[0].name}: not written down in time")


def _trees(unix_pids: dict[int, int]) -> list[_Tree]:
    """The ranks by their namespaces, in order.

    Raises:
        NotSavedError: one has ended.
    """
    trees: dict[int, _Tree] = {}
    for rank in sorted(unix_pids):
        try:
            first = process_shown(unix_pids[rank], FIRST_FD)
            program = process_shown(unix_pids[rank], PROGRAM_FD)
        except (FileNotFoundError, ProcessLookupError):
            first = program = -1
        if min(first, program) < 0:
            raise NotSavedError(_has_ended(rank))
        has_server = words_of(unix_pids[rank])[_HOW_WORD].partition(" ")[2].startswith("pmix")
        is_world = has_server or os.path.lexists(f"/proc/{unix_pids[rank]}/fd/{_PMI_FD}")
        tree = trees.setdefault(first, _Tree(first, is_world, has_server))
        tree.programs[rank] = program
    return list(trees.values())


def why_of(status: int, images: str) -> str:
    """Why a dump has failed, by how criu has ended and what is in its log."""
    if status < 0:
        return f"criu was ended by {signal.Signals(-status).name}"
    return criu.why(os.path.join(images, criu.DUMP_LOG))


def in_the_way(unix_pids: dict[int, int]) -> str:
    """What of the ranks CRIU cannot write down, as far as it can be seen; empty: nothing.

    Raises:
        NotSavedError: one has ended.
    """
    trees = _trees(unix_pids)
    connected = {rank for tree in trees if tree.has_server for rank in tree.programs}
    roots = {rank: each for tree in trees for rank, each in tree.programs.items()}
    outside = "; ".join(filter(None, map(_outside, trees)))
    return outside or obstacles.of_ranks(roots, connected)


def _outside(tree: _Tree) -> str:
    """What is wrong with the connections of a tree that may have some."""
    peer = connections.stranger(tree.first) if tree.has_server else ""
    return f"{tree.name}: criu cannot write it down: a TCP connection to {peer}" if peer else ""


def _has_ended(rank: int) -> str:
    return f"rank {rank} has ended while it was written down"


def process_shown(unix_pid: int, fd: int) -> int:
    """The process that a descriptor of another one is of; -1: it has ended."""
    return int(_field(f"/proc/{unix_pid}/fdinfo/{fd}", "Pid:")[0])


def inner_pid(unix_pid: int) -> int:
    return int(_field(f"/proc/{unix_pid}/status", "NSpid:")[-1])


def _field(path: str, name: str) -> list[str]:
    with open(path, encoding="ascii", errors="replace") as file:
        found = [line.split()[1:] for line in file if line.startswith(name)]
    return found[0]


def words_of(unix_pid: int) -> list[str]:
    with open(f"/proc/{unix_pid}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")]


def streams_of(unix_pid: int) -> str:
    """A line for each pipe of the rank's to elsewhere, and each pipe once."""
    names: dict[str, int] = {}
    for fd, number in _PIPES.items():
        try:
            name = os.readlink(f"/proc/{unix_pid}/fd/{fd}")
        except FileNotFoundError:
            continue  # it is no rank of a world
        if name.startswith("pipe:"):
            names.setdefault(name, number)
    return "".join(f"{number} {name}\n" for name, number in names.items())


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
