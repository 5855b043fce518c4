"""The process beside yod that has the files: it carries out one request after the other.

An access may take as long as the file system likes: yod's loop does not wait for it. Descriptor 3
is a socket to yod; when that ends, the process ends.
"""

from __future__ import annotations

import _socket
import errno
import os
import resource
from struct import Struct as Layout

from native.errors import PeerProtocolError
from native.fuse import frames
from native.host.programs import ATTACHED_FD
from native.host.rlimits import raise_soft
from native.wire.io import REMOTE_MAX_BYTES
from yod.remote.files import Files
from yod.remote.nodes import DESCRIPTORS_MAX, Descriptors

HEAD = Layout("<III")  # place, mount, directory, before each frame
PACKET_BYTES = HEAD.size + REMOTE_MAX_BYTES


class Server:
    """The mounts of all nodes of a job.

    Args:
        directories: as the mounts number them.
    """

    def __init__(self, directories: list[bytes], descriptors: Descriptors) -> None:
        self._directories = directories
        self._descriptors = descriptors
        self._mounts: dict[tuple[int, int], Files] = {}  # by place and number

    def serve(self, place: int, mount: int, directory: int, frame: bytes) -> bytes:
        """Carry out a request; an empty one says that the mount is gone.

        Returns:
            The reply; empty: there is none.
        """
        files = self._mounts.get((place, mount))
        if not frame:
            if files is not None:
                self._mounts.pop((place, mount)).close()
            return b""
        try:
            request = frames.request_of(frame)
        except PeerProtocolError:
            return b""
        if files is None:
            try:
                files = Files(self._directories[directory], self._descriptors)
            except OSError as error:
                return frames.refusal(request.unique, error.errno or errno.EIO)
            self._mounts[place, mount] = files
        return files.serve(request)


def main(directories: list[str]) -> None:
    """Serve these directories until yod hangs up."""
    raise_soft()
    os.umask(0)  # the kernel that asks has taken off what its process masks
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(DESCRIPTORS_MAX, soft // 2) if soft > 0 else DESCRIPTORS_MAX
    server = Server([os.fsencode(each) for each in directories], Descriptors(most))
    end = _socket.socket(fileno=ATTACHED_FD)
    try:
        while packet := end.recv(PACKET_BYTES):
            place, mount, directory = HEAD.unpack_from(packet)
            if answer := server.serve(place, mount, directory, packet[HEAD.size :]):
                head = HEAD.pack(place, mount, directory)
                end.send(head + answer, _socket.MSG_NOSIGNAL)
    except ConnectionError:  # yod has ended
        pass
