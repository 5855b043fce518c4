"""The node's store: objects in RAM disk, or already here.

Directories are tried in order; each must have room, counting what the memory
cgroup still allows, and must allow execution for an image. Room is taken by
fallocate before a byte arrives: a store into a full tmpfs map would be SIGBUS. A
file gets its name only when it is whole, checked, and no longer open for writing
(else executing it gives ETXTBSY).

A directory belongs to one PCT, which keeps a lock on it. One whose lock can be
had is left over from a PCT that was killed, and is removed by the next that looks.
"""

from __future__ import annotations

import errno
import os
import stat
from _blake2 import blake2b
from collections.abc import Callable, Collection
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import lru_cache, partial

from msgspec import Struct

from native.reactor import Reactor
from native.wire.load import ShippedObject
from pct.events import NoPlace, ObjectsChecked

PREFIX = "yod-store-"
SLICE_BYTES = 4 << 20  # hashed between two looks at the loop
DIGEST_BYTES = 32
DIGESTS_REMEMBERED = 1024
NETWORK_TYPES = (
    "nfs", "nfs4", "lustre", "gpfs", "cifs", "smb3", "ceph", "beegfs", "afs", "9p", "pvfs2",
    "orangefs", "glusterfs", "wekafs", "virtiofs",
)  # fmt: skip


class Reserved(Struct, frozen=True):
    """Room for one object.

    Attributes:
        fd: open for reading and writing, ``size`` bytes allocated.
        part: its name while it is not whole; empty: a file without a name.
        path: its name afterwards.
    """

    fd: int
    part: str
    path: str


class StoreError(Exception):
    """The store cannot do it; the text says why, for the user."""


class Store:
    """Objects of all jobs on one node."""

    def __init__(self, directories: list[str], reactor: Reactor) -> None:
        self._parents = directories
        self._reactor = reactor
        self._own: dict[str, str] = {}  # parent -> our directory in it
        self._locks: list[int] = []
        self._reserved: dict[tuple[int, int], Reserved] = {}
        self._job_directories: dict[int, set[str]] = {}
        self._digests: dict[tuple[int, ...], bytes] = {}
        self._dropped: set[int] = set()

    def check(
        self,
        job_id: int,
        objects: tuple[ShippedObject, ...],
        arguments_first: bool,
        done: Callable[[ObjectsChecked], None],
        unused: Collection[int] = (),
    ) -> None:
        """Find out which objects are here and reserve room for the others but the unused.

        Large files are hashed in slices; ``done`` is called once, maybe at once.
        """
        present: list[tuple[int, bytes]] = []
        lacking: list[int] = []
        no_place: list[NoPlace] = []

        def step(number: int) -> None:
            while number < len(objects):
                shipped = objects[number]
                if arguments_first and number == 0:
                    self._reserve_memory(job_id, shipped.size)
                    lacking.append(0)
                elif number in unused:
                    pass
                elif not shipped.digest:
                    present.append((number, shipped.path))
                else:
                    compare = _Comparison(shipped, self._digests)
                    if not compare.is_decided:
                        self._slice(compare, partial(decide, number, compare))
                        return
                    settle(number, compare)
                number += 1
            done(ObjectsChecked(job_id, tuple(present), tuple(lacking), tuple(no_place)))

        def decide(number: int, compare: _Comparison) -> None:
            settle(number, compare)
            step(number + 1)

        def settle(number: int, compare: _Comparison) -> None:
            shipped = objects[number]
            if compare.is_same:
                present.append((number, shipped.path))
                return
            try:
                self._reserve(job_id, number, shipped)
                lacking.append(number)
            except StoreError as error:
                no_place.append(NoPlace(number, str(error)))

        step(0)

    def reserved(self, job_id: int, number: int) -> Reserved:
        """The room taken for an object."""
        return self._reserved[job_id, number]

    def publish(self, job_id: int, number: int, mode: int, uid: int, gid: int) -> bytes:
        """Give a whole, checked object its name.

        Returns:
            The path to execute.
        """
        room = self._reserved.pop((job_id, number))
        os.fchmod(room.fd, mode & 0o555 | 0o400)
        if os.geteuid() == 0:
            os.fchown(room.fd, uid, gid)
        os.close(room.fd)
        os.rename(room.part, room.path)
        return os.fsencode(room.path)

    def content(self, job_id: int, number: int) -> bytes:
        """The bytes of an object without a name; its room is given back."""
        room = self._reserved.pop((job_id, number))
        try:
            return os.pread(room.fd, os.fstat(room.fd).st_size, 0)
        finally:
            os.close(room.fd)

    def drop(self, job_id: int, number: int) -> None:
        """Give back the room of one object."""
        room = self._reserved.pop((job_id, number), None)
        if room is not None:
            os.close(room.fd)
            if room.part:
                os.unlink(room.part)

    def drop_job(self, job_id: int) -> None:
        """Remove everything of a job."""
        for key in [key for key in self._reserved if key[0] == job_id]:
            self.drop(*key)
        for directory in self._job_directories.pop(job_id, ()):
            _remove_tree(directory)

    def directory(self) -> str:
        """A directory of ours for small files, which a later PCT sweeps if we cannot.

        Raises:
            OSError: none can be made.
        """
        if not self._parents:
            raise OSError(errno.ENOENT, "no directory is configured")
        return self._directory(self._parents[0])

    def close(self) -> None:
        """Remove everything."""
        for job_id in {key[0] for key in self._reserved} | set(self._job_directories):
            self.drop_job(job_id)
        for directory in self._own.values():
            _remove_tree(directory)
        for lock in self._locks:
            os.close(lock)
        self._own.clear()
        self._locks.clear()

    # -- room -------------------------------------------------------------

    def _reserve(self, job_id: int, number: int, shipped: ShippedObject) -> None:
        """Take room for an image in the first directory that has it.

        Raises:
            StoreError: none has; says what each one lacks.
        """
        reasons = []
        for parent in self._parents:
            try:
                self._reserved[job_id, number] = self._reserve_in(parent, job_id, number, shipped)
                return
            except OSError as error:
                reasons.append(f"{parent}: {_reason(error, shipped.size, parent)}")
        raise StoreError("; ".join(reasons) or "no directory is configured")

    def _reserve_in(
        self, parent: str, job_id: int, number: int, shipped: ShippedObject
    ) -> Reserved:
        if os.statvfs(parent).f_flag & os.ST_NOEXEC:
            raise OSError(errno.EACCES, "mounted noexec")
        if (room := _cgroup_room()) is not None and room < shipped.size:
            raise OSError(errno.ENOSPC, f"the memory cgroup has {room} bytes left")
        directory = os.path.join(self._directory(parent), str(job_id))
        os.makedirs(directory, mode=0o755, exist_ok=True)
        os.chmod(directory, 0o755)
        self._job_directories.setdefault(job_id, set()).add(directory)
        name = os.path.basename(os.fsdecode(shipped.path))
        path = os.path.join(directory, f"{number}-{name}" if number else name)
        fd = os.open(path + ".part", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if shipped.size:
                os.posix_fallocate(fd, 0, shipped.size)
        except OSError:
            os.close(fd)
            os.unlink(path + ".part")
            raise
        return Reserved(fd, path + ".part", path)

    def _reserve_memory(self, job_id: int, size: int) -> None:
        fd = os.memfd_create("yod-arguments")
        os.posix_fallocate(fd, 0, size)
        self._reserved[job_id, 0] = Reserved(fd, "", "")

    def _directory(self, parent: str) -> str:
        """Our directory below ``parent``, made and locked on first use."""
        if parent not in self._own:
            sweep(parent)
            self._own[parent] = self._make_directory(parent)
        return self._own[parent]

    def _make_directory(self, parent: str) -> str:
        # Not by process id: hosts that share a directory have the same ones.
        while True:
            directory = os.path.join(parent, PREFIX + os.urandom(6).hex())
            os.mkdir(directory, 0o755)
            os.chmod(directory, 0o755)  # whatever our umask: owners of jobs go in
            try:
                lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                flock(lock, LOCK_EX | LOCK_NB)
            except (FileNotFoundError, BlockingIOError):
                continue  # a sweeper was faster; it removes what nobody has locked
            self._locks.append(lock)
            return directory

    def _slice(self, compare: _Comparison, done: Callable[[], None]) -> None:
        def again() -> None:
            compare.advance()
            if compare.is_decided:
                done()
            else:
                self._reactor.call_soon(again)

        again()


class _Comparison:
    """Whether the file at an object's path has the object's bytes."""

    def __init__(self, shipped: ShippedObject, known: dict[tuple[int, ...], bytes]) -> None:
        self.is_decided = True
        self.is_same = False
        self._wanted = shipped.digest
        self._known = known
        try:
            self._fd = os.open(shipped.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        status = os.fstat(self._fd)
        is_candidate = (
            stat.S_ISREG(status.st_mode)
            and status.st_size == shipped.size
            and status.st_mode & 0o111 == shipped.mode & 0o111
            and is_local(status.st_dev, os.path.dirname(os.fsdecode(shipped.path)))
        )
        self._key = identity(status)
        if not is_candidate or self._key in known:
            self.is_same = is_candidate and known[self._key] == self._wanted
            os.close(self._fd)
            return
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self.is_decided = False

    def advance(self) -> None:
        """Hash one slice."""
        data = os.read(self._fd, SLICE_BYTES)
        if data:
            self._hash.update(data)
            return
        digest = self._hash.digest()
        if identity(os.fstat(self._fd)) == self._key:  # nobody wrote meanwhile
            self.is_same = digest == self._wanted
            if len(self._known) >= DIGESTS_REMEMBERED:
                self._known.clear()
            self._known[self._key] = digest
        self.is_decided = True
        os.close(self._fd)


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file's bytes do."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@lru_cache(maxsize=256)
def is_local(device: int, directory: str) -> bool:
    """The file system lies on this node alone.

    A thousand nodes that each hash one shared file are the storm that shipping is
    to avoid.

    Args:
        device: st_dev of a file.
        directory: where it lies, for file systems whose st_dev is not their mount's.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    best, kind = -1, ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            head, _, tail = line.partition(" - ")
            fields = head.split()
            fstype = tail.split(" ", 1)[0]
            if fields[2] == wanted:
                return not _is_network(fstype)
            point = fields[4].rstrip("/")
            if (directory + "/").startswith(point + "/") and len(point) > best:
                best, kind = len(point), fstype
    return not _is_network(kind)


def _is_network(fstype: str) -> bool:
    return fstype in NETWORK_TYPES or fstype.startswith("fuse")


def sweep(parent: str) -> None:
    """Remove directories of PCTs that are gone, and what their ranks have left besides."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        directory = os.path.join(parent, name)
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            status = os.fstat(fd)
            if status.st_uid == os.geteuid():
                flock(fd, LOCK_EX | LOCK_NB)
                _remove_tree(directory)
                _remove_leftovers(status)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(fd)


def _remove_leftovers(directory: os.stat_result) -> None:
    """Shared memory of a killed PCT's ranks, made since the directory has got its last file."""
    from pct import leftovers  # nearly always there is none

    leftovers.remove(directory.st_uid, directory.st_mtime)


def default_directories() -> list[str]:
    """RAM disks of this node, in the order to try.

    Not a directory of root's alone when ranks will be other users.
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


def _remove_tree(directory: str) -> None:
    try:
        os.rmdir(directory)
        return
    except OSError:  # not empty, most likely
        pass
    import shutil  # takes 2 ms to import; most launches store nothing

    shutil.rmtree(directory, ignore_errors=True)


def _reason(error: OSError, size: int, parent: str) -> str:
    if error.errno == errno.ENOSPC:
        free = os.statvfs(parent)
        return f"{size} bytes needed, {free.f_bavail * free.f_frsize} free"
    return (error.strerror or str(error)).lower()


def _cgroup_room() -> int | None:
    """Bytes that the memory cgroup (v2) still allows; None: no limit is known."""
    from pct import cgroup  # room is for what is shipped

    path = cgroup.own_path()
    if path is None:
        return None
    try:
        with open(path + "/memory.max", encoding="ascii") as limit:
            text = limit.read().strip()
        if text == "max":
            return None
        with open(path + "/memory.current", encoding="ascii") as current:
            return max(0, int(text) - int(current.read()))
    except (OSError, ValueError):
        return None
