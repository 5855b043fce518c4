"""What a kernel asks for below a directory, carried out here, with this process's rights.

Names are of one file in one directory each, and no link is followed: the kernel that asks
resolves paths and links by itself. So nothing outside of the directory is reached.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable

from native.errors import PeerProtocolError
from native.fuse import frames
from native.fuse.frames import Attributes, Op, Request
from yod.remote.nodes import Descriptors, Nodes, single_name

# Of an open: what means the same here as there. Others are the kernel's own, or, as O_DIRECT, ask
# for what a message between hosts has not.
_OPEN_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_TRUNC | os.O_SYNC | os.O_DSYNC | os.O_NOATIME
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK

_FATTR_MODE, _FATTR_UID, _FATTR_GID, _FATTR_SIZE = 1, 2, 4, 8
_FATTR_ATIME, _FATTR_MTIME, _FATTR_FH = 16, 32, 64
_FATTR_ATIME_NOW, _FATTR_MTIME_NOW = 128, 256
_DATASYNC = 1  # FUSE_FSYNC_FDATASYNC


_Operation = Callable[["Files", Request], bytes]
_SILENT = b""  # in place of a reply


class Files:
    """One mount: its nodes, and what is open there.

    Args:
        directory: that it is over, with the files of this host.
    """

    def __init__(self, directory: bytes, descriptors: Descriptors) -> None:
        root = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._nodes = Nodes(root, descriptors)
        self._open: dict[int, _Open] = {}
        self._last = 0

    def serve(self, request: Request) -> bytes:
        """Carry out a request.

        Returns:
            The reply; empty: it has none.
        """
        try:
            operation = _OPERATIONS.get(request.op)
            if operation is None:
                return frames.refusal(request.unique, errno.ENOSYS)
            return operation(self, request)
        except OSError as error:
            return frames.refusal(request.unique, error.errno or errno.EIO)
        except (PeerProtocolError, OverflowError, ValueError):
            return frames.refusal(request.unique, errno.EINVAL)

    def close(self) -> None:
        """Close what is open, and forget the rest."""
        for each in self._open.values():
            os.close(each.fd)
        self._open.clear()
        self._nodes.close()

    # -- names ------------------------------------------------------------

    def _init(self, request: Request) -> bytes:
        asked = frames.InitIn.of(request.body)
        return frames.reply(request.unique, frames.init_out(asked))

    def _look_up(self, request: Request) -> bytes:
        (name,) = frames.strings_of(request.body, 1)
        return self._entry(request, name)

    def _entry(self, request: Request, name: bytes) -> bytes:
        node, status = self._nodes.look_up(request.node, name)
        return frames.reply(request.unique, frames.entry_out(node, _attributes(status)))

    def _forget(self, request: Request) -> bytes:
        self._nodes.forget(request.node, frames.u64_of(request.body))
        return _SILENT

    def _forget_batch(self, request: Request) -> bytes:
        for node, lookups in frames.forgets_of(request.body):
            self._nodes.forget(node, lookups)
        return _SILENT

    def _readlink(self, request: Request) -> bytes:
        return frames.reply(request.unique, os.readlink(b"", dir_fd=self._nodes.fd(request.node)))

    def _symlink(self, request: Request) -> bytes:
        name, target = frames.strings_of(request.body, 2)
        os.symlink(target, single_name(name), dir_fd=self._nodes.fd(request.node))
        return self._entry(request, name)

    def _mknod(self, request: Request) -> bytes:
        mode, device = frames.mknod_of(request.body)
        (name,) = frames.strings_of(request.body, 1, frames.MKNOD_IN_BYTES)
        number = os.makedev(device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xFFF00)
        os.mknod(single_name(name), mode, number, dir_fd=self._nodes.fd(request.node))
        return self._entry(request, name)

    def _mkdir(self, request: Request) -> bytes:
        mode = frames.u32_of(request.body)
        (name,) = frames.strings_of(request.body, 1, frames.MKDIR_IN_BYTES)
        os.mkdir(single_name(name), mode & 0o7777, dir_fd=self._nodes.fd(request.node))
        return self._entry(request, name)

    def _unlink(self, request: Request) -> bytes:
        (name,) = frames.strings_of(request.body, 1)
        os.unlink(single_name(name), dir_fd=self._nodes.fd(request.node))
        return frames.reply(request.unique)

    def _rmdir(self, request: Request) -> bytes:
        (name,) = frames.strings_of(request.body, 1)
        os.rmdir(single_name(name), dir_fd=self._nodes.fd(request.node))
        return frames.reply(request.unique)

    def _rename(self, request: Request) -> bytes:
        parent = frames.u64_of(request.body)
        name, to_name = frames.strings_of(request.body, 2, frames.RENAME_IN_BYTES)
        here, there = self._nodes.fd(request.node), self._nodes.fd(parent)
        os.rename(single_name(name), single_name(to_name), src_dir_fd=here, dst_dir_fd=there)
        self._nodes.moved(request.node, name, parent, to_name)
        return frames.reply(request.unique)

    def _link(self, request: Request) -> bytes:
        node = frames.u64_of(request.body)
        (name,) = frames.strings_of(request.body, 1, frames.LINK_IN_BYTES)
        there = self._nodes.fd(request.node)
        os.link(self._nodes.path(node), os.fsdecode(single_name(name)), dst_dir_fd=there)
        return self._entry(request, name)

    # -- attributes -------------------------------------------------------

    def _getattr(self, request: Request) -> bytes:
        return self._attributes(request)

    def _attributes(self, request: Request) -> bytes:
        status = os.fstat(self._nodes.fd(request.node))
        return frames.reply(request.unique, frames.attr_out(_attributes(status)))

    def _setattr(self, request: Request) -> bytes:
        asked = frames.SetattrIn.of(request.body)
        path = self._nodes.path(request.node)
        if asked.valid & _FATTR_MODE:
            os.chmod(path, asked.mode & 0o7777)
        if asked.valid & (_FATTR_UID | _FATTR_GID):
            uid = asked.uid if asked.valid & _FATTR_UID else -1
            gid = asked.gid if asked.valid & _FATTR_GID else -1
            os.chown(path, uid, gid)
        if asked.valid & _FATTR_SIZE:
            is_open = asked.valid & _FATTR_FH
            os.truncate(self._handle(asked.handle).fd if is_open else path, asked.size)
        if asked.valid & (_FATTR_ATIME | _FATTR_MTIME):
            self._set_times(path, asked, request.node)
        return self._attributes(request)

    def _set_times(self, path: str, asked: frames.SetattrIn, node: int) -> None:
        now = _FATTR_ATIME_NOW | _FATTR_MTIME_NOW
        if asked.valid & now == now:
            os.utime(path)  # who may write may do this
            return
        status = os.fstat(self._nodes.fd(node))
        times = []
        for valid, is_now, asked_ns, present_ns in (
            (_FATTR_ATIME, _FATTR_ATIME_NOW, asked.atime_ns, status.st_atime_ns),
            (_FATTR_MTIME, _FATTR_MTIME_NOW, asked.mtime_ns, status.st_mtime_ns),
        ):
            if asked.valid & is_now:
                times.append(time.time_ns())
            else:
                times.append(asked_ns if asked.valid & valid else present_ns)
        os.utime(path, ns=(times[0], times[1]))

    def _access(self, request: Request) -> bytes:
        if not os.access(self._nodes.path(request.node), frames.u32_of(request.body)):
            raise _error(errno.EACCES)
        return frames.reply(request.unique)

    def _statfs(self, request: Request) -> bytes:
        found = os.statvfs(self._nodes.path(request.node))
        counts = found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree
        packed = frames.statfs_out(counts, found.f_bsize, found.f_namemax, found.f_frsize)
        return frames.reply(request.unique, packed)

    # -- files ------------------------------------------------------------

    def _open_file(self, request: Request) -> bytes:
        flags = frames.u32_of(request.body) & _OPEN_FLAGS | _ALWAYS
        return self._opened(request, os.open(self._nodes.path(request.node), flags), b"")

    def _create(self, request: Request) -> bytes:
        flags, mode = frames.create_of(request.body)
        (name,) = frames.strings_of(request.body, 1, frames.CREATE_IN_BYTES)
        how = flags & (_OPEN_FLAGS | os.O_EXCL) | os.O_CREAT | os.O_NOFOLLOW | _ALWAYS
        fd = os.open(single_name(name), how, mode & 0o7777, dir_fd=self._nodes.fd(request.node))
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _error(errno.EEXIST)  # somebody has just made it
            node, status = self._nodes.look_up(request.node, name)
        except BaseException:
            os.close(fd)
            raise
        entry = frames.entry_out(node, _attributes(status))
        return self._opened(request._replace(node=node), fd, entry)

    def _opened(self, request: Request, fd: int, entry: bytes) -> bytes:
        """Nothing of a file is kept on the nodes: what one has written the others read."""
        handle = self._hold(request.node, fd)
        opened = frames.open_out(handle, frames.FOPEN_DIRECT_IO)
        return frames.reply(request.unique, entry + opened)

    def _hold(self, node: int, fd: int) -> int:
        self._nodes.opened(node)
        self._last += 1
        self._open[self._last] = _Open(node, fd)
        return self._last

    def _handle(self, handle: int) -> _Open:
        found = self._open.get(handle)
        if found is None:
            raise _error(errno.EBADF)
        return found

    def _read(self, request: Request) -> bytes:
        asked = frames.ReadIn.of(request.body)
        size = min(asked.size, frames.DATA_MAX)
        return frames.reply(
            request.unique, os.pread(self._handle(asked.handle).fd, size, asked.offset)
        )

    def _write(self, request: Request) -> bytes:
        """What is opened to append is written at the end as it is here, whatever the offset."""
        asked = frames.WriteIn.of(request.body)
        count = os.pwrite(self._handle(asked.handle).fd, asked.data, asked.offset)
        return frames.reply(request.unique, frames.write_out(count))

    def _flush(self, request: Request) -> bytes:
        """What a close would say."""
        handle, _ = frames.handle_of(request.body)
        os.close(os.dup(self._handle(handle).fd))
        return frames.reply(request.unique)

    def _fsync(self, request: Request) -> bytes:
        handle, flags = frames.handle_of(request.body)
        (os.fdatasync if flags & _DATASYNC else os.fsync)(self._handle(handle).fd)
        return frames.reply(request.unique)

    def _release(self, request: Request) -> bytes:
        handle, _ = frames.handle_of(request.body)
        if (found := self._open.pop(handle, None)) is not None:
            self._nodes.closed(found.node)
            os.close(found.fd)
        return frames.reply(request.unique)

    def _lseek(self, request: Request) -> bytes:
        handle, offset, whence = frames.seek_of(request.body)
        found = os.lseek(self._handle(handle).fd, offset, whence)
        return frames.reply(request.unique, frames.lseek_out(found))

    def _fallocate(self, request: Request) -> bytes:
        asked = frames.FallocateIn.of(request.body)
        if asked.mode:
            raise _error(errno.EOPNOTSUPP)
        os.posix_fallocate(self._handle(asked.handle).fd, asked.offset, asked.length)
        return frames.reply(request.unique)

    # -- directories ------------------------------------------------------

    def _open_directory(self, request: Request) -> bytes:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        fd = os.open(".", flags, dir_fd=self._nodes.fd(request.node))
        handle = self._hold(request.node, fd)
        return frames.reply(request.unique, frames.open_out(handle))

    def _read_directory(self, request: Request) -> bytes:
        asked = frames.ReadIn.of(request.body)
        opened = self._handle(asked.handle)
        if asked.offset == 0 or opened.entries is None:
            opened.entries = _entries(opened.fd)
        packed = bytearray()
        size = min(asked.size, frames.DATA_MAX)
        for offset in range(asked.offset, len(opened.entries)):
            ino, kind, name = opened.entries[offset]
            entry = frames.dirent(ino, offset + 1, kind, name)
            if len(packed) + len(entry) > size:
                break
            packed += entry
        return frames.reply(request.unique, bytes(packed))

    def _nothing(self, request: Request) -> bytes:
        return _SILENT

    def _done(self, request: Request) -> bytes:
        return frames.reply(request.unique)


class _Open:
    """What is open: a file or a directory, whose entries are those of its last beginning."""

    def __init__(self, node: int, fd: int) -> None:
        self.node = node
        self.fd = fd
        self.entries: list[tuple[int, int, bytes]] | None = None


_OPERATIONS: dict[int, _Operation] = {
    Op.LOOKUP: Files._look_up,
    Op.FORGET: Files._forget,
    Op.GETATTR: Files._getattr,
    Op.SETATTR: Files._setattr,
    Op.READLINK: Files._readlink,
    Op.SYMLINK: Files._symlink,
    Op.MKNOD: Files._mknod,
    Op.MKDIR: Files._mkdir,
    Op.UNLINK: Files._unlink,
    Op.RMDIR: Files._rmdir,
    Op.RENAME: Files._rename,
    Op.LINK: Files._link,
    Op.OPEN: Files._open_file,
    Op.READ: Files._read,
    Op.WRITE: Files._write,
    Op.STATFS: Files._statfs,
    Op.RELEASE: Files._release,
    Op.FSYNC: Files._fsync,
    Op.FLUSH: Files._flush,
    Op.INIT: Files._init,
    Op.OPENDIR: Files._open_directory,
    Op.READDIR: Files._read_directory,
    Op.RELEASEDIR: Files._release,
    Op.FSYNCDIR: Files._fsync,
    Op.ACCESS: Files._access,
    Op.CREATE: Files._create,
    Op.INTERRUPT: Files._nothing,  # nothing here waits for another process
    Op.DESTROY: Files._done,
    Op.BATCH_FORGET: Files._forget_batch,
    Op.FALLOCATE: Files._fallocate,
    Op.LSEEK: Files._lseek,
}


def _entries(fd: int) -> list[tuple[int, int, bytes]]:
    """Inode, kind and name of each, with the directory itself and that above."""
    here = os.fstat(fd).st_ino
    found = [(here, 4, b"."), (here, 4, b"..")]
    copy = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    try:
        with os.scandir(copy) as entries:
            found += [(each.inode(), _kind(each), os.fsencode(each.name)) for each in entries]
    finally:
        os.close(copy)
    return found


def _kind(entry: os.DirEntry[str]) -> int:
    """As in d_type; 0: it is none of the usual ones."""
    if entry.is_symlink():
        return 10
    if entry.is_dir(follow_symlinks=False):
        return 4
    return 8 if entry.is_file(follow_symlinks=False) else 0


def _attributes(status: os.stat_result) -> Attributes:
    return Attributes(
        ino=status.st_ino,
        size=status.st_size,
        blocks=status.st_blocks,
        atime_ns=status.st_atime_ns,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        mode=status.st_mode,
        links=status.st_nlink,
        uid=status.st_uid,
        gid=status.st_gid,
        major=os.major(status.st_rdev),
        minor=os.minor(status.st_rdev),
        block_bytes=status.st_blksize,
    )


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
