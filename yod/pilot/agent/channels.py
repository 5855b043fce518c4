"""Channels between programs of tasks, which a process of its own serves while the agent lives."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from native.errors import YodError
from native.loop.reactor import Reactor
from native.waitstatus import how_it_ended
from yod.pilot.channel.directory import make, remove
from yod.pilot.model.channels import addresses

_MODULE = "yod.pilot.channel.bridge"


class Channels:
    """Those of one pilot.

    Args:
        on_lost: called with a reason when they are there no more.
    """

    def __init__(
        self, reactor: Reactor, names: Sequence[str], on_lost: Callable[[str], None]
    ) -> None:
        self._reactor = reactor
        self._names = names
        self._on_lost = on_lost
        self._directory = ""
        self._life = -1  # the bridge ends when nobody has it any more

    def begin(self) -> dict[str, str]:
        """Start the bridge; the variables of tasks with the addresses.

        Programs that connect before it listens are let in when it does.

        Raises:
            YodError: it cannot be started.
        """
        if not self._names:
            return {}
        theirs, self._life = os.pipe()
        try:
            self._directory = make()
            unix_pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", _MODULE, self._directory, *self._names],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 0)],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            self.close()
            raise YodError(f"its channels cannot be started: {error.strerror}") from None
        finally:
            os.close(theirs)
        self._reactor.on_child(unix_pid, self._ended)
        return addresses(self._directory, self._names)

    def close(self) -> None:
        """End it, and take its directory away."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
            remove(self._directory)

    def _ended(self, wait_status: int) -> None:
        if self._life >= 0:
            self.close()
            self._on_lost(f"its channels are lost: {how_it_ended(wait_status)}")
