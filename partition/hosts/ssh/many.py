"""Commands on many hosts at a time by the system's ssh, with ClusterShell."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from partition.hosts.ssh.bringing import Complained, Ended, Event, TimedOut, Wrote

if TYPE_CHECKING:
    from ClusterShell.Event import EventHandler

VARIABLE = "YOD_SSH"
DEFAULT = "ssh"
NEVER = -1.0  # seconds


def load() -> None:
    """Import what :class:`Many` needs: it takes 100 ms."""
    import ClusterShell.Task
    import ClusterShell.Worker.Worker  # noqa: F401


class Call(Struct, frozen=True):
    """What to run on a host.

    Attributes:
        line: for the user's shell there.
        given: its standard input, which stays open.
    """

    host: str
    line: str
    given: bytes = b""


class Many:
    """Commands on hosts, several at a time. More may be added while they run.

    Args:
        command: ssh, perhaps with options, as a shell would split it.
        connect_s: so long a host has to answer.
        width: how many run at a time.
    """

    def __init__(self, command: str, connect_s: float, width: int) -> None:
        import logging

        from ClusterShell.Task import task_self

        # What it says of an ssh that has ended is told by the events.
        logging.getLogger("ClusterShell").addHandler(logging.NullHandler())

        self._command = command
        self._connect_s = math.ceil(connect_s)
        task = self._task = task_self()
        for stream in ("stdout", "stderr"):
            task.set_default(f"{stream}_msgtree", False)  # keep no output
        task.set_info("fanout", width)
        task.set_info("ssh_path", command)
        task.set_info("connect_timeout", self._connect_s)

    def call(
        self,
        call: Call,
        limit_s: float,
        on_event: Callable[[str, Event], None],
        silent_s: float = NEVER,
    ) -> None:
        """Run a command.

        Args:
            limit_s: it is ended after this time; NEVER: it may go on.
            on_event: told the host, and what has happened.
            silent_s: it is ended when it writes no line for so long, or none at all for the time
                that a host has to answer.
        """
        worker = self._task.shell(
            call.line,
            nodes=call.host,
            handler=_handler(on_event, silent_s, self._connect_s),
            timeout=limit_s,
            stderr=True,
            stdin=True,
            tree=False,
        )
        if call.given:
            worker.write(call.given)

    def send(
        self,
        host: str,
        line: str,
        path: str,
        limit_s: float,
        on_event: Callable[[str, Event], None],
    ) -> None:
        """Run a command, with a file for its standard input.

        The file is never in this process's memory: ssh reads it.

        Args:
            path: of the file.
        """
        from ClusterShell.Worker.Exec import ExecWorker

        options = f"-oBatchMode=yes -oConnectTimeout={self._connect_s}"
        words = f"{_literal(shlex.quote(line))} <{_literal(shlex.quote(path))}"
        self._task.schedule(
            ExecWorker(
                nodes=host,
                handler=_handler(on_event),
                timeout=limit_s,
                command=f"exec {_literal(self._command)} {options} -- %host {words}",
                stderr=True,
            )
        )

    def every(self, interval_s: float, action: Callable[[], None]) -> None:
        """Do something again and again while commands run, first at once."""
        self._task.timer(0.0, _ticks(action), interval_s, autoclose=True)

    def until_closed(self, fd: int) -> None:
        """End all when nothing more can be read from a descriptor."""
        from ClusterShell.Worker.Worker import FANOUT_UNLIMITED, StreamWorker

        worker = StreamWorker(_ends(self.abort), autoclose=True)
        worker.set_reader("until", fd, closefd=False)
        worker._fanout = FANOUT_UNLIMITED  # it waits for no command to end, and is in no one's way
        self._task.schedule(worker)

    def abort(self) -> None:
        """End every command; :meth:`run` returns."""
        self._task.abort()

    def run(self) -> None:
        """Return when all have ended or have had their time.

        An exception, such as an interrupt, ends every ssh.
        """
        try:
            self._task.resume()
        except BaseException:
            self._task.abort()
            raise


def _literal(text: str) -> str:
    return text.replace("%", "%%")  # ClusterShell fills in what is behind one


def _handler(
    on_event: Callable[[str, Event], None], silent_s: float = NEVER, first_s: float = NEVER
) -> EventHandler:
    from ClusterShell.Event import EventHandler

    class Handler(EventHandler):  # type: ignore[misc]
        timer: Any = None
        is_silent = False

        def ev_start(self, worker: Any) -> None:
            if silent_s != NEVER:
                self.timer = worker.task.timer(first_s, _ticks(lambda: self._silent(worker)))

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if self.timer is not None:
                self.timer.set_nextfire(silent_s)
            line = msg.decode(errors="replace")
            is_error = sname == worker.SNAME_STDERR
            on_event(node, Complained(line) if is_error else Wrote(line))

        def ev_hup(self, worker: Any, node: str, rc: int | None) -> None:
            if rc is not None and not self.is_silent:
                on_event(node, Ended(rc))

        def ev_close(self, worker: Any, timedout: bool) -> None:
            if self.timer is not None:
                self.timer.invalidate()
            if timedout or self.is_silent:
                for node in worker.nodes:
                    on_event(node, TimedOut())

        def _silent(self, worker: Any) -> None:
            self.is_silent = True
            worker.abort()

    return Handler()


def _ticks(action: Callable[[], None]) -> EventHandler:
    from ClusterShell.Event import EventHandler

    class Handler(EventHandler):  # type: ignore[misc]
        def ev_timer(self, timer: Any) -> None:
            action()

    return Handler()


def _ends(action: Callable[[], None]) -> EventHandler:
    from ClusterShell.Event import EventHandler

    class Handler(EventHandler):  # type: ignore[misc]
        def ev_close(self, worker: Any, timedout: bool) -> None:
            action()

    return Handler()
