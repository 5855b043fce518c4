"""TCP connections that lead out of a tree of processes are found."""

from __future__ import annotations

import os
import socket

from partition.checkpoint import connections


def test_a_connection_to_another_process_is_named_and_one_within_the_tree_is_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        child, ready = _child(port)
        peer, _ = server.accept()
        assert os.read(ready, 1)
        assert connections.stranger(child) == f"127.0.0.1:{port}"
        peer.close()
        os.waitpid(child, 0)
        os.close(ready)


def test_listening_sockets_lead_nowhere():
    child, ready = _child(0)
    assert os.read(ready, 1)
    assert connections.stranger(child) == ""
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(ready)


def _child(port: int) -> tuple[int, int]:
    """A process with both ends of a connection, one that listens, and one to a port."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in range(3, 256):
            if fd != told:
                try:
                    os.close(fd)
                except OSError:
                    continue
        server = socket.create_server(("127.0.0.1", 0))
        kept = [socket.create_connection(server.getsockname()), server.accept()[0]]
        if port:
            kept.append(socket.create_connection(("127.0.0.1", port)))
        os.write(told, b"x")
        kept[-1].recv(1)
        os._exit(0)
    os.close(told)
    return child, ready
