"""The process that has a command for each host of a batch job: starts them, ends with them.

Its standard input brings the plan in one line, then the line ``up``. When it ends, bebopd does.
It stays in the session of the batch job where that is how the batch system ends and signals it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

from msgspec import json

from native.host import stdio
from native.loop.reactor import Reactor
from native.waitstatus import how_it_ended
from partition.hosts.holding import Action, Command, End, Holding, Kill, Plan, Say

UP = b"up\n"
PLAN_MAX_BYTES = 1 << 28


def main() -> None:
    """Entry point. Exit status: 0 ended when told, or with the last PCT; 1 not all came up."""
    stdio.open_closed()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
            os.set_inheritable(int(name), False)
    with open(0, "rb", buffering=0, closefd=False) as given:
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) > PLAN_MAX_BYTES or not (data := given.read(1 << 16)):
                sys.exit(1)
            line += data
    holder = Holder(json.decode(line, type=Plan), os.environ)
    sys.exit(holder.run())


class Holder:
    """Carries out what :class:`Holding` decides."""

    def __init__(self, plan: Plan, environment: Mapping[str, str]) -> None:
        self._reactor = Reactor()
        self._machine = Holding(command.host for command in plan.commands)
        self._environment = dict(environment)
        self._key = f"{plan.key}\n".encode()
        self._pids: dict[str, int] = {}
        self._inputs: dict[str, int] = {}
        self._commands = plan.commands
        self._ends_with = plan.ends_with

    def run(self) -> int:
        """Start the commands, and return the exit status when all have ended."""
        reactor, machine = self._reactor, self._machine
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            reactor.on_signal(number, lambda: self._do(machine.told_to_end(reactor.monotonic())))
        os.set_blocking(0, False)
        self._watch = reactor.watch(0, self._told)
        self._timer = reactor.timer(lambda: self._do(machine.due(reactor.monotonic())))
        for command in self._commands:
            self._start(command)
        if self._ends_with:
            self._watch_job()
        if machine.left:
            reactor.run()
        reactor.close()
        return 1 if machine.has_failed else 0

    def _watch_job(self) -> None:
        def over() -> None:
            watch.close()
            os.close(fd)
            self._do(self._machine.told_to_end(self._reactor.monotonic()))

        try:
            fd = os.pidfd_open(self._ends_with)
        except OSError:  # it has ended meanwhile
            self._do(self._machine.told_to_end(self._reactor.monotonic()))
        else:
            watch = self._reactor.watch(fd, over)

    def _start(self, command: Command) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        if command.takes_key:
            os.write(writer, self._key)  # the pipe has room for it
        actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
        try:
            unix_pid = os.posix_spawnp(
                command.words[0],
                command.words,
                self._environment,
                file_actions=actions,
                setsigmask=(),
                setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
            )
        except OSError as error:
            os.close(writer)
            how = f"{command.words[0]}: {error.strerror}"
            self._reactor.call_soon(lambda: self._ended(command.host, how))
            return
        finally:
            os.close(reader)
        self._pids[command.host] = unix_pid
        if command.takes_key:
            self._inputs[command.host] = writer
        else:
            os.close(writer)
        name = os.path.basename(command.words[0])
        self._reactor.on_child(
            unix_pid,
            lambda status: self._ended(command.host, f"{name}: {how_it_ended(status)}"),
        )

    def _ended(self, host: str, how: str) -> None:
        self._pids.pop(host, None)
        self._close_input(host)
        self._do(self._machine.ended(host, how, self._reactor.monotonic()))

    def _told(self) -> None:
        try:
            data = os.read(0, 64)
        except BlockingIOError:
            return
        if data == UP:
            self._do(self._machine.up())
        elif not data:
            self._watch.close()
            self._do(self._machine.starter_gone(self._reactor.monotonic()))

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Say(text):
                    stdio.say(text)
                case End(hosts):
                    for host in hosts:
                        self._close_input(host)
                        self._signal(host, signal.SIGTERM)
                case Kill(hosts):
                    for host in hosts:
                        self._signal(host, signal.SIGKILL)
        self._timer.set(self._machine.deadline())
        if not self._machine.left:
            self._reactor.stop()

    def _signal(self, host: str, number: int) -> None:
        if host in self._pids:
            os.kill(self._pids[host], number)

    def _close_input(self, host: str) -> None:
        if (fd := self._inputs.pop(host, -1)) >= 0:
            os.close(fd)


if __name__ == "__main__":
    main()
