"""The node's store of objects: in RAM disk, or in files that are on the node already.

Directories are tried in order. Each must have room (:mod:`pct.host.room`), and must not be
mounted noexec. The file of an object gets its name only when it is published: it is whole,
checked, and no longer open for writing (executing it would give ETXTBSY).

Comparing, allocating and removing take long and are done in slices
(:mod:`native.loop.slices`). Comparing and allocating belong to a job and end with it. Where
there is no room, the store waits while files are being removed.

Each PCT has directories of its own, and holds a lock on each. A directory whose lock is free
is left over from a PCT that was killed; the next PCT removes it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from native.host.files import Owner
from native.loop.reactor import Reactor
from native.loop.slices import Slices, Work
from native.wire.load import ShippedObject

# These modules are imported by the first job that ships something.
if TYPE_CHECKING:
    from pct.host.compare import Digests
    from pct.host.room import Claim, Room

NOBODY = 0  # the job of work that outlives its job: removals. Job ids begin at 1


class Reserved(Struct):
    """The file of one object.

    Attributes:
        fd: open for reading and writing, ``claim.size`` bytes allocated; -1: published.
        name: its present path; empty: a file without a name, in memory.
        path: its path once it is published.
    """

    fd: int
    name: str
    path: str
    claim: Claim


class Checked(Struct, frozen=True):
    """What :meth:`Store.check` has found.

    Attributes:
        present: (number, path) of objects that are on this node already.
        lacking: numbers of objects for which room has been reserved.
        no_place: (number, reason) of the others.
    """

    present: tuple[tuple[int, bytes], ...]
    lacking: tuple[int, ...]
    no_place: tuple[tuple[int, str], ...]


class StoreError(Exception):
    """No directory takes an object; the text tells the user why."""


class Store:
    """Objects of all jobs on one node.

    Args:
        directories: to try, in this order.
        user_percent: share of a file system for the objects of one user; 100: all that is
            free.

    Attributes:
        slices: where this node's long work is done.
        wait: calls what it is given when the directories have answered; None: at once.
    """

    def __init__(self, directories: list[str], reactor: Reactor, user_percent: int = 100) -> None:
        self.slices = Slices(reactor)
        self.wait: Callable[[Callable[[], None]], None] | None = None
        self._is_paused = False
        self._resting: list[Work[None]] = []
        self._awaited: set[int] = set()  # jobs for which the directories are to answer
        self._parents = directories
        self._user_percent = user_percent
        self._own: dict[str, str] = {}  # parent -> our directory in it
        self._locks: list[int] = []
        self._objects: dict[tuple[int, int], Reserved] = {}
        self._job_directories: dict[int, set[str]] = {}
        self._known_digests: Digests | None = None
        self._known_room: Room | None = None

    def check(
        self,
        job_id: int,
        objects: tuple[ShippedObject, ...],
        arguments_first: bool,
        owner: Owner,
        done: Callable[[Checked], None],
        unused: Collection[int] = (),
    ) -> None:
        """Find out which objects are here, and reserve room for the others.

        Args:
            arguments_first: object 0 holds arguments: memory, not a file to execute.
            owner: with whose rights the objects' paths are opened.
            done: called once, maybe at once; not if the job is dropped before.
            unused: numbers of objects that are passed over.
        """

        def looked(present: tuple[tuple[int, bytes], ...]) -> None:
            here = {number for number, _ in present}.union(unused)
            wanted = [number for number in range(len(objects)) if number not in here]
            if not wanted:
                done(Checked(present, (), ()))
                return
            room = self._make_room(job_id, objects, wanted, arguments_first, owner, present)
            if self.wait is None or (arguments_first and wanted == [0]):
                self.slices.start(job_id, room, done)
                return
            self._awaited.add(job_id)
            self.wait(partial(self._answered, job_id, room, done))

        self.slices.start(job_id, self._look(objects, arguments_first, owner, unused), looked)

    def _answered(self, job_id: int, work: Work[Checked], done: Callable[[Checked], None]) -> None:
        if job_id in self._awaited:  # it has not ended meanwhile
            self._awaited.discard(job_id)
            self.slices.start(job_id, work, done)

    def _look(
        self,
        objects: tuple[ShippedObject, ...],
        arguments_first: bool,
        owner: Owner,
        unused: Collection[int],
    ) -> Work[tuple[tuple[int, bytes], ...]]:
        """Which objects are on this node; the store is not touched."""
        present: list[tuple[int, bytes]] = []
        is_first = True
        for number, shipped in enumerate(objects):
            if number in unused or (arguments_first and number == 0):
                continue
            if shipped.digest:
                if not is_first:
                    yield  # there may be many objects
                is_first = False
                if not (yield from self._digests.has(shipped, owner)):
                    continue
            present.append((number, shipped.path))
        return tuple(present)

    def _make_room(
        self,
        job_id: int,
        objects: tuple[ShippedObject, ...],
        wanted: Sequence[int],
        arguments_first: bool,
        owner: Owner,
        present: tuple[tuple[int, bytes], ...],
    ) -> Work[Checked]:
        """Reserve room for the objects that are wanted."""
        lacking: list[int] = []
        no_place: list[tuple[int, str]] = []
        for number in wanted:
            if lacking or no_place:
                yield  # there may be many objects
            shipped = objects[number]
            try:
                if arguments_first and number == 0:
                    yield from self._reserve_memory(job_id, owner.uid, shipped.size)
                else:
                    yield from self._reserve(job_id, number, owner.uid, shipped)
                lacking.append(number)
            except OSError as error:
                no_place.append((number, _reason(error)))
            except StoreError as error:
                no_place.append((number, str(error)))
        return Checked(present, tuple(lacking), tuple(no_place))

    def reserved(self, job_id: int, number: int) -> Reserved:
        """The file of an object."""
        return self._objects[job_id, number]

    def publish(self, job_id: int, number: int, mode: int, uid: int, gid: int) -> bytes:
        """Give the file of a whole, checked object its name.

        Returns:
            The path to execute.

        Raises:
            OSError: it cannot have it. What there is of the file is removed with the job.
        """
        file = self._objects[job_id, number]
        os.fchmod(file.fd, mode & 0o555 | 0o400)
        if os.geteuid() == 0:
            os.fchown(file.fd, uid, gid)
        os.close(file.fd)
        file.fd = -1
        os.rename(file.name, file.path)
        file.name = file.path
        return os.fsencode(file.path)

    def content(self, job_id: int, number: int) -> bytes:
        """The bytes of an object without a name; its room is given back.

        Raises:
            OSError: they cannot be read.
        """
        file = self._objects[job_id, number]
        try:
            return os.pread(file.fd, file.claim.size, 0)
        finally:
            self.drop(job_id, number)

    def drop(self, job_id: int, number: int) -> None:
        """Remove one object."""
        file = self._objects.pop((job_id, number), None)
        if file is not None:
            self._remove(self._removal([file], ()))

    def drop_job(self, job_id: int) -> None:
        """End the work for a job, and remove all its objects."""
        self._awaited.discard(job_id)
        self.slices.cancel(job_id)
        keys = [key for key in self._objects if key[0] == job_id]
        files = [self._objects.pop(key) for key in keys]
        directories = self._job_directories.pop(job_id, ())
        if files or directories:
            self._remove(self._removal(files, directories))

    def pause(self, is_paused: bool) -> None:
        """The directories hang: let what is to be removed rest; or they are back."""
        self._is_paused = is_paused
        resting, self._resting = self._resting, []
        for removal in resting:
            self._remove(removal)

    def directory(self) -> str:
        """A directory of ours for small files. If we are killed, a later PCT removes it.

        Raises:
            OSError: it cannot be made.
        """
        if not self._parents:
            raise OSError(errno.ENOENT, "no directory is configured")
        return self._directory(self._parents[0])

    def close(self) -> None:
        """Remove everything."""
        for job_id in {key[0] for key in self._objects} | set(self._job_directories):
            self.drop_job(job_id)
        for directory in self._own.values():
            from pct.host.removal import remove_tree

            self._remove(remove_tree(directory))
        if not self._is_paused:  # else the next PCT here removes what is left
            self.slices.finish(NOBODY)
        for lock in self._locks:
            os.close(lock)
        self._own.clear()
        self._locks.clear()

    # -- room -------------------------------------------------------------

    @property
    def _digests(self) -> Digests:
        if self._known_digests is None:
            from pct.host.compare import Digests

            self._known_digests = Digests()
        return self._known_digests

    @property
    def _room(self) -> Room:
        if self._known_room is None:
            from pct.host.room import Room

            self._known_room = Room(self._user_percent)
        return self._known_room

    def _reserve(self, job_id: int, number: int, uid: int, shipped: ShippedObject) -> Work[None]:
        """Reserve room for an image in the first directory that has it.

        Raises:
            StoreError: none has; the text says what each one lacks.
        """
        reasons = []
        for parent in self._parents:
            try:
                where = (parent, job_id, number)
                yield from self._patiently(partial(self._reserve_in, *where, uid, shipped))
                return
            except OSError as error:
                reasons.append(f"{parent}: {_reason(error)}")
        raise StoreError("; ".join(reasons) or "no directory is configured")

    def _reserve_memory(self, job_id: int, uid: int, size: int) -> Work[None]:
        from pct.host.room import MEMORY

        def reserve() -> Work[None]:
            claim = self._room.claim(MEMORY, uid, size)
            fd = os.memfd_create("yod-arguments")
            yield from self._allocate((job_id, 0), Reserved(fd, "", "", claim))

        yield from self._patiently(reserve)

    def _patiently(self, reserve: Callable[[], Work[None]]) -> Work[None]:
        """Reserve; where there is no room, try again as long as files are being removed.

        Raises:
            OSError: there is no room.
        """
        while True:
            try:
                yield from reserve()
                return
            except OSError as error:
                is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                if not is_full or not self.slices.has(NOBODY):
                    raise
            yield

    def _reserve_in(
        self, parent: str, job_id: int, number: int, uid: int, shipped: ShippedObject
    ) -> Work[None]:
        if os.statvfs(parent).f_flag & os.ST_NOEXEC:
            raise OSError(errno.EACCES, "mounted noexec")
        directory = os.path.join(self._directory(parent), str(job_id))
        claim = self._room.claim(parent, uid, shipped.size)
        try:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            os.chmod(directory, 0o755)
            self._job_directories.setdefault(job_id, set()).add(directory)
            name = os.path.basename(os.fsdecode(shipped.path))
            path = os.path.join(directory, f"{number}-{name}" if number else name)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(path + ".part", flags, 0o600)
        except OSError:
            self._room.release(claim)
            raise
        yield from self._allocate((job_id, number), Reserved(fd, path + ".part", path, claim))

    def _allocate(self, key: tuple[int, int], file: Reserved) -> Work[None]:
        self._objects[key] = file  # before the first slice, so that it ends with its job
        try:
            yield from self._room.allocate(file.fd, file.claim)
        except OSError:
            # Not by _remove: _patiently would wait for that.
            yield from self._removal([self._objects.pop(key)], ())
            raise

    def _removal(self, files: Collection[Reserved], directories: Collection[str]) -> Work[None]:
        from pct.host.removal import give_back, remove_file, remove_tree

        for file in files:
            try:
                if file.fd < 0:
                    yield from remove_file(file.name)
                    continue
                if file.name:
                    with suppress(OSError):  # it has been removed already
                        os.unlink(file.name)
                yield from give_back(file.fd)
            finally:
                self._room.release(file.claim)
        for directory in directories:
            yield from remove_tree(directory)

    def _remove(self, removal: Work[None]) -> None:
        if self._is_paused:
            self._resting.append(removal)
        else:
            self.slices.start(NOBODY, removal, lambda _: None)

    def _directory(self, parent: str) -> str:
        """Our directory below ``parent``, made and locked on first use."""
        if parent not in self._own:
            from pct.host.removal import sweep

            self._remove(sweep(parent))
            self._own[parent] = self._make_directory(parent)
        return self._own[parent]

    def _make_directory(self, parent: str) -> str:
        from pct.host.removal import PREFIX

        # The name is random: hosts that share a directory may have the same process ids.
        while True:
            directory = os.path.join(parent, PREFIX + os.urandom(6).hex())
            os.mkdir(directory, 0o755)
            os.chmod(directory, 0o755)  # whatever our umask: jobs' owners must enter it
            try:
                lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                flock(lock, LOCK_EX | LOCK_NB)
            except (FileNotFoundError, BlockingIOError):
                continue  # another PCT has just removed it, as one without a lock
            self._locks.append(lock)
            return directory


def default_directories() -> list[str]:
    """RAM disks of this node, in the order to try.

    A PCT of root's serves all users, so it uses only directories that all users can enter.
    """
    wanted = [os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm", "/tmp"]
    if os.geteuid() == 0:
        wanted = [path for path in wanted if _is_open_to_all(path)]
    return [path for path in wanted if path and os.path.isdir(path) and os.access(path, os.W_OK)]


def _is_open_to_all(directory: str) -> bool:
    try:
        return bool(os.stat(directory).st_mode & stat.S_IXOTH)
    except OSError:
        return False


def _reason(error: OSError) -> str:
    """The reason: our own text as it is, the kernel's without its capital."""
    text = error.strerror or str(error)
    return text.lower() if error.errno and text == os.strerror(error.errno) else text
