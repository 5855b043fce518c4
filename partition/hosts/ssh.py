"""Commands on many hosts at a time by the system's ssh, with ClusterShell."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from native.limits import Limits
from partition.hosts.bringing import Complained, Ended, Event, TimedOut, Wrote

if TYPE_CHECKING:
    from ClusterShell.Event import EventHandler

VARIABLE = "YOD_SSH"
DEFAULT = "ssh"


class Call(Struct, frozen=True):
    """What to run on a host.

    Attributes:
        line: for the user's shell there.
        given: its standard input, which stays open.
    """

    host: str
    line: str
    given: bytes = b""


def run(
    calls: Iterable[Call],
    command: str,
    limit_s: float,
    limits: Limits,
    on_event: Callable[[str, Event], None],
) -> None:
    """Run commands, and return when all have ended or have had their time.

    An exception, such as an interrupt, ends every ssh.

    Args:
        command: ssh, perhaps with options, as a shell would split it.
        on_event: told the host, and what has happened.
    """
    task = _task(limits)
    task.set_info("ssh_path", command)
    task.set_info("connect_timeout", math.ceil(limit_s))
    handler = _handler(on_event)
    for call in calls:
        worker = task.shell(
            call.line,
            nodes=call.host,
            handler=handler,
            timeout=limit_s,
            stderr=True,
            stdin=True,
            tree=False,
        )
        if call.given:
            worker.write(call.given)
    _resume(task)


def send(
    hosts: Sequence[str],
    line: str,
    path: str,
    command: str,
    limit_s: float,
    limits: Limits,
    on_event: Callable[[str, Event], None],
) -> None:
    """Run a command on many hosts, as :func:`run` does, each with a file for its standard input.

    The file is never in this process's memory: each ssh reads it.

    Args:
        line: for the user's shell there.
        path: of the file.
    """
    from ClusterShell.Worker.Exec import ExecWorker

    def literal(text: str) -> str:
        return text.replace("%", "%%")  # ClusterShell fills in what is behind one

    options = f"-oBatchMode=yes -oConnectTimeout={math.ceil(limit_s)}"
    words = f"{literal(shlex.quote(line))} <{literal(shlex.quote(path))}"
    task = _task(limits)
    task.schedule(
        ExecWorker(
            nodes=",".join(hosts),
            handler=_handler(on_event),
            timeout=limit_s,
            command=f"exec {literal(command)} {options} -- %host {words}",
            stderr=True,
        )
    )
    _resume(task)


def _task(limits: Limits) -> Any:
    from ClusterShell.Task import task_self  # takes 100 ms to import

    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)  # keep no output
    task.set_info("fanout", limits.ssh_fanout_count)
    return task


def _resume(task: Any) -> None:
    try:
        task.resume()
    except BaseException:
        task.abort()
        raise


def _handler(on_event: Callable[[str, Event], None]) -> EventHandler:
    from ClusterShell.Event import EventHandler

    class Handler(EventHandler):  # type: ignore[misc]
        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            line = msg.decode(errors="replace")
            is_error = sname == worker.SNAME_STDERR
            on_event(node, Complained(line) if is_error else Wrote(line))

        def ev_hup(self, worker: Any, node: str, rc: int | None) -> None:
            if rc is not None:
                on_event(node, Ended(rc))

        def ev_close(self, worker: Any, timedout: bool) -> None:
            if timedout:
                for node in worker.nodes:
                    on_event(node, TimedOut())

    return Handler()
