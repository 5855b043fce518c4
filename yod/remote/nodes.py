"""The files that a mount has names for: nodes, as its kernel counts them.

A node holds its file by a descriptor without rights to its content (O_PATH), so it stays the same
file when it is renamed or removed. Of nodes that nobody has open only the last used ones have a
descriptor: the others are looked up again by their parent and name, and must be the same file.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict

from native.fuse.frames import ROOT_NODE

DESCRIPTORS_MAX = 4096  # of nodes of all mounts; fewer where the process may have fewer
NODES_MAX = 1 << 20  # of one mount

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_Identity = tuple[int, int]  # device and inode


class Descriptors:
    """Which nodes of all mounts hold a descriptor, the last used ones at the end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: OrderedDict[Node, None] = OrderedDict()

    def use(self, node: Node) -> None:
        """A node has one, and it is used now."""
        self._used[node] = None
        self._used.move_to_end(node)
        while len(self._used) > self._most:
            oldest, _ = self._used.popitem(last=False)
            oldest.close()

    def forget(self, node: Node) -> None:
        """It is kept, or has none any more."""
        self._used.pop(node, None)


class Node:
    """One file.

    Attributes:
        fd: its descriptor; -1: it must be looked up again.
        opens: how often it is open; while it is, it keeps its descriptor.
    """

    def __init__(self, identity: _Identity, parent: int, name: bytes, fd: int) -> None:
        self.identity = identity
        self.parent = parent
        self.name = name
        self.fd = fd
        self.lookups = 0
        self.opens = 0

    def close(self) -> None:
        """Give the descriptor up."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Nodes:
    """Those of one mount.

    Args:
        root: a descriptor of the directory, which it takes over.
    """

    def __init__(self, root: int, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        root_node = Node(_identity(os.fstat(root)), ROOT_NODE, b"", root)
        self._nodes = {ROOT_NODE: root_node}
        self._numbers = {root_node.identity: ROOT_NODE}
        self._last = ROOT_NODE

    def look_up(self, parent: int, name: bytes) -> tuple[int, os.stat_result]:
        """A node by its name, and its attributes; the kernel has it once more.

        Raises:
            OSError: there is none.
        """
        fd = os.open(single_name(name), _PATH, dir_fd=self.fd(parent))
        try:
            status = os.fstat(fd)
            number = self._numbers.get(_identity(status))
            if number is None:
                if len(self._nodes) >= NODES_MAX:
                    raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
                number = self._last = self._last + 1
                self._numbers[_identity(status)] = number
                self._nodes[number] = Node(_identity(status), parent, name, -1)
            node = self._nodes[number]
            if number != ROOT_NODE:
                node.parent, node.name = parent, name
                if node.fd < 0:
                    node.fd, fd = fd, -1
                    self._descriptors.use(node)
            node.lookups += 1
            return number, status
        finally:
            if fd >= 0:
                os.close(fd)

    def fd(self, number: int) -> int:
        """The descriptor of a node.

        Raises:
            OSError: ESTALE: the file is not where it was.
        """
        node = self._nodes.get(number)
        if node is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        if node.fd < 0:
            way = [node]
            while way[-1].fd < 0:
                above = self._nodes.get(way[-1].parent)
                if above is None or len(way) > NODES_MAX:
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
                way.append(above)
            for child, above in zip(way[-2::-1], way[:0:-1], strict=True):
                child.fd = _same(child, above.fd)
                self._descriptors.use(child)
        elif number != ROOT_NODE and not node.opens:
            self._descriptors.use(node)
        return node.fd

    def path(self, number: int) -> str:
        """A path of a node for calls that take no descriptor. It leads to the file itself."""
        return f"/proc/self/fd/{self.fd(number)}"

    def opened(self, number: int) -> None:
        """It is open once more."""
        self.fd(number)
        node = self._nodes[number]
        node.opens += 1
        self._descriptors.forget(node)

    def closed(self, number: int) -> None:
        """It is open once less."""
        node = self._nodes.get(number)
        if node is None:
            return
        node.opens -= 1
        if not node.opens and node.fd >= 0 and number != ROOT_NODE:
            self._descriptors.use(node)

    def moved(self, parent: int, name: bytes, to_parent: int, to_name: bytes) -> None:
        """A file has got another name; the kernel looks it up again before it uses it by that."""
        try:
            status = os.stat(to_name, dir_fd=self.fd(to_parent), follow_symlinks=False)
        except OSError:  # it has gone again
            return
        node = self._nodes.get(self._numbers.get(_identity(status), 0))
        if node is not None and (node.parent, node.name) == (parent, name):
            node.parent, node.name = to_parent, to_name

    def forget(self, number: int, lookups: int) -> None:
        """The kernel has it so many times less."""
        node = self._nodes.get(number)
        if node is None or number == ROOT_NODE:
            return
        node.lookups -= lookups
        if node.lookups <= 0:
            del self._nodes[number], self._numbers[node.identity]
            self._descriptors.forget(node)
            node.close()

    def close(self) -> None:
        """Forget all."""
        for node in self._nodes.values():
            self._descriptors.forget(node)
            node.close()
        self._nodes.clear()
        self._numbers.clear()


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def single_name(name: bytes) -> bytes:
    """A name of one file in a directory; the kernel sends no others.

    Raises:
        OSError: EINVAL: it is none.
    """
    if not name or b"/" in name or name in (b".", b".."):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return name


def _same(node: Node, directory: int) -> int:
    """A descriptor of the file that a node had, in the directory that its parent has.

    Raises:
        OSError: another file has its name.
    """
    fd = os.open(node.name, _PATH, dir_fd=directory)
    if _identity(os.fstat(fd)) != node.identity:
        os.close(fd)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return fd
