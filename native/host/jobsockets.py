"""The sockets by which the running jobs of a user on this host are found, each by its id.

They are in the directory ``jobs`` of the user's run directory. That of job ``local.7`` is
``local.7@3f2a9c01``: behind the id stand the first digits of the kernel's id of this boot,
as hosts may share a home, and a name that is another kernel's says nothing here.

The number of ``local.N`` is the place at which a byte was appended to the file ``count``:
each process gets another one, without a lock that a stopped process could hold. After
WRAP of them the file begins anew.

A job has its name when its process listens, and not before: the socket is bound to a name of
its own, which is replaced then. Whoever meets a name may connect, and whoever waits for one by
inotify(7) need not try again.

A process that is killed leaves its name, to which nobody listens then. It is removed by
whoever meets it, unless it is so young that another job may just have taken it.

A path may be longer than the address of a socket: all go by the descriptor of the
directory. What is in the directory is not trusted, though it is closed to other users:
both ends of a connection ask the kernel who the other is.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import errno
import os
import time
from collections.abc import Mapping

from native.host import userdirs
from native.ids import name_of_job

EMBEDDED = "local."  # how the id of a job in an embedded partition begins
COUNT = "count"
WRAP = 1 << 20
BACKLOG = 16  # commands that wait for a job's attention
STALE_AFTER_S = 10.0  # a name without a listener is removed at this age
STEP_DEPTH = 2  # numbers in an id: of an allocation, and of its step
_NAMELESS = "new."  # how the name of a socket begins that no job has yet
_TRIES = 8  # numbers whose names are taken
_SWEEP_EVERY = 256  # new jobs, of which one removes what killed ones have left


class Directory:
    """The open directory.

    Args:
        makes_it: make it if it is missing.

    Raises:
        OSError: it cannot be opened or made; it is another user's.
    """

    def __init__(self, environment: Mapping[str, str], *, makes_it: bool = False) -> None:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        path = userdirs.jobs(environment)
        try:
            self.fd = os.open(path, flags)
        except FileNotFoundError:
            if not makes_it:
                raise
            self.fd = os.open(userdirs.make_jobs(environment), flags)
        if os.fstat(self.fd).st_uid != os.geteuid():
            self.close()
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        self.path = path
        self._mark = "@" + userdirs.boot_id()[:8]

    def close(self) -> None:
        """Close it."""
        os.close(self.fd)

    def ids(self) -> list[str]:
        """The jobs that have a name here; ``local.N`` behind those of bebopds."""
        mark = self._mark
        names = os.listdir(self._at("."))
        found = (name.removesuffix(mark) for name in names if name.endswith(mark))
        return sorted(filter(is_id, found), key=_order)

    def connect(self, job_id: str) -> _socket.socket | None:
        """A connection to a job, not blocking; None: there is no such job.

        Raises:
            OSError: its process cannot be reached: BlockingIOError if it accepts nobody.
        """
        if not is_id(job_id):
            return None
        end = _new_socket()
        try:
            end.connect(self._at(job_id + self._mark))
        except (FileNotFoundError, NotADirectoryError):
            end.close()
            return None
        except ConnectionRefusedError:
            end.close()
            self._remove_if_old(job_id + self._mark)
            return None
        except OSError:
            end.close()
            raise
        return end

    def listen(self, job_id: int, allocation: str = "") -> tuple[str, _socket.socket]:
        """Make a socket that listens under an id.

        Args:
            job_id: of bebopd; 0: the next ``local.N``. If another partition's job has the
                number here, it is ``local.N``, too.
            allocation: whose step it is; empty: it is none.

        Returns:
            The id, and the socket.
        """
        end = _new_socket()
        nameless = _NAMELESS + os.urandom(8).hex()
        try:
            end.bind(self._at(nameless))
            try:
                # By a strange umask not even the owner could connect.
                os.chmod(nameless, 0o600, dir_fd=self.fd)
                end.listen(BACKLOG)
                wanted = name_of_job(job_id, allocation) if job_id else ""
                name, number = self._name(nameless, wanted)
            finally:
                os.unlink(nameless, dir_fd=self.fd)
        except BaseException:
            end.close()
            raise
        if number and number % _SWEEP_EVERY == 0:
            self._sweep()
        return name, end

    def name_of(self, job_id: str) -> str:
        """The path of a job's socket."""
        return os.path.join(self.path, job_id + self._mark)

    def _name(self, nameless: str, wanted: str) -> tuple[str, int]:
        """The job's name, and its N if that is ``local.N``, else 0."""
        if wanted and (self._has_named(nameless, wanted) or self._takes_over(nameless, wanted)):
            return wanted, 0
        for _ in range(_TRIES):
            number = self._next_number()
            name = f"{EMBEDDED}{number}"
            if self._has_named(nameless, name):
                return name, number
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)

    def _has_named(self, nameless: str, job_id: str) -> bool:
        name = job_id + self._mark
        try:
            os.link(nameless, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileExistsError:
            return False
        return True

    def _takes_over(self, nameless: str, job_id: str) -> bool:
        """Take the name that a killed process of an earlier partition has left."""
        other = self.connect(job_id)
        if other is not None:
            other.close()
            return False
        return self._has_named(nameless, job_id)

    def _next_number(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(COUNT, flags | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        try:
            os.write(fd, b".")
            number = os.lseek(fd, 0, os.SEEK_CUR)  # behind our own byte
        finally:
            os.close(fd)
        if number % WRAP == 0:
            os.unlink(COUNT, dir_fd=self.fd)
        return number

    def _sweep(self) -> None:
        for name in os.listdir(self._at(".")):
            if name.startswith(_NAMELESS):
                self._remove_if_old(name)
        for job_id in self.ids():
            try:
                end = self.connect(job_id)
            except OSError:  # busy, or no socket
                continue
            if end is not None:
                end.close()

    def _remove_if_old(self, name: str) -> None:
        try:
            born = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_ctime
            if time.time() - born > STALE_AFTER_S:
                os.unlink(name, dir_fd=self.fd)
        except OSError:  # another command was quicker, or it must stay
            pass

    def _at(self, name: str) -> str:
        return f"/proc/self/fd/{self.fd}/{name}"


def is_id(text: str) -> bool:
    """Whether a text is the id of a job: ``17``, ``local.2``, or of a step: ``17.3``."""
    numbers = text.removeprefix(EMBEDDED).split(".")
    return len(numbers) <= STEP_DEPTH and all(map(_is_number, numbers))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and text[0] != "0"


def _new_socket() -> _socket.socket:
    kind = _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
    return _socket.socket(_socket.AF_UNIX, kind)


def _order(job_id: str) -> tuple[bool, list[int]]:
    numbers = job_id.removeprefix(EMBEDDED)
    return job_id != numbers, list(map(int, numbers.split(".")))
