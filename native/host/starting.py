"""What a daemon shares with whoever starts it: the key, an end, and word that it is ready."""

from __future__ import annotations

import os
from _blake2 import blake2b
from collections.abc import Callable, Mapping

from native.auth import KEY_BYTES
from native.errors import UsageError
from native.loop.reactor import Reactor

LINE_MAX_BYTES = 256
BEBOPD_VARIABLE = "YOD_BEBOPD"  # of a pct's own: the address it was told, for when it begins again


def read_told(fd: int) -> tuple[str, str]:
    """The key, in hex, and bebopd's address, which the starter has written or is about to.

    Both are on one line; it may end with the key, and then the address is empty.

    Raises:
        UsageError: it ends without one.
    """
    data = b""
    try:
        # One byte at a time: what follows the line is not ours.
        while not data.endswith(b"\n") and len(data) < LINE_MAX_BYTES and (one := os.read(fd, 1)):
            data += one
    except OSError as error:
        raise UsageError(f"--starter-fd {fd}: {error.strerror}") from None
    if not data.endswith(b"\n"):
        raise UsageError(f"--starter-fd {fd}: no line with a key")
    key, _, address = data.decode("ascii", "replace").strip().partition(" ")
    return key, address


def key_of_secret(environment: Mapping[str, str], variable: str, tag: str) -> bytes:
    """The key of a partition whose hosts share a secret that others do not have.

    Raises:
        UsageError: there is no secret in the environment.
    """
    if not (secret := environment.get(variable, "")):
        raise UsageError(f"--job-secret {variable}: it is not set")
    data = b"\0".join(map(os.fsencode, (secret, tag)))
    return blake2b(data, digest_size=KEY_BYTES, person=b"yod job secret").digest()


class Starter:
    """Tells the starter that this pct is ready; until then its end is the pct's.

    Ready is one that listens, or, with a starter's descriptor, one that bebopd has taken.

    Args:
        fd: the starter has the other end of it; None: it has none.
        is_kept: the end of that descriptor ends this pct also later.
        ready_fd: where to write the line; None: nowhere.
        on_gone: called when the starter has ended, and this pct is not ready.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int | None,
        ready_fd: int | None,
        line: str,
        on_gone: Callable[[], None],
        *,
        is_kept: bool = False,
    ) -> None:
        self._fd = fd
        self._is_kept = is_kept
        self._ready_fd = ready_fd
        self._line = line
        self._on_gone = on_gone
        self._watch = None if fd is None else reactor.watch(fd, self._readable)

    @property
    def waits_for_bebopd(self) -> bool:
        """The starter wants to hear when bebopd has taken the node, and not before."""
        return self._fd is not None

    def ready(self) -> None:
        """Tell the starter, and forget it."""
        if not self._is_kept:
            if self._watch is not None and self._fd is not None:
                self._watch.close()
                _give_up(self._fd)
            self._watch = self._fd = None
        if (fd := self._ready_fd) is None:
            return
        self._ready_fd = None
        try:
            os.write(fd, f"{self._line}\n".encode())
        except BrokenPipeError:
            pass  # nobody waits any more
        except OSError as error:
            raise UsageError(f"--ready-fd {fd}: {error.strerror}") from None
        _give_up(fd)

    def _readable(self) -> None:
        assert self._fd is not None and self._watch is not None
        try:
            if os.read(self._fd, LINE_MAX_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._watch.close()
        self._on_gone()


def _give_up(fd: int) -> None:
    """Close a descriptor; a standard stream stays open, to nothing."""
    if fd > 2:
        os.close(fd)
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, fd)
    os.close(null)
