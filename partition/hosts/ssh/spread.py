"""Runs one command on each of many hosts, as a tree of hosts: :mod:`.spreading` carried out.

A relay gets a plan in one line of its standard input, whose end is its own, and writes what it has
to say as lines of JSON. It says something at least every third part of ``silent_s``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from native.machine import Action
from partition.hosts.ssh import many, scripts
from partition.hosts.ssh.bringing import (
    MARK,
    SSH_FAILED,
    Bringing,
    Complained,
    Ended,
    Ending,
    Event,
    TimedOut,
    Wrote,
    why,
)
from partition.hosts.ssh.spreading import Lost, Relay, Result, Said, Spreading, Start


class Target(Struct, frozen=True):
    """One host.

    Attributes:
        again: a PCT of this partition may be there.
        words: for its PCT alone.
    """

    name: str
    again: bool = False
    words: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """What is to be done on which hosts.

    Attributes:
        ssh: the command.
        width: how many hosts are reached from one at a time.
        limit_s: a host has so long.
        silent_s: a relay that says nothing for so long is given up.
        directory: where yod's commands are on the command's host.
        release: the name of what may have been shipped.
        bebopd: its address.
        tag: of the PCTs.
        words: for every PCT.
        key: hex, for every PCT.
        machine: the archive of ``release`` is brought to such machines; empty: PCTs are started.
        archive: the name of that file on a relay, beside the release.
        ends: the PCTs with the tag are ended instead.
    """

    targets: tuple[Target, ...]
    ssh: str
    width: int
    limit_s: float
    silent_s: float
    directory: str
    release: str
    bebopd: str = ""
    tag: str = ""
    words: tuple[str, ...] = ()
    key: str = ""
    machine: str = ""
    archive: str = ""
    ends: bool = False


def encoded(said: Plan | Said) -> bytes:
    """A line for the other end."""
    return MARK.encode() + msgspec.json.encode(said) + b"\n"


def archive_name(release: str, host: str) -> str:
    """The name of the archive that a host keeps while it sends it on; hosts may share a home."""
    return f".{release}.{host}.tar.gz"


class Spread:
    """Carries a plan out.

    Args:
        is_first: this is where the user's command runs.
        archive: the file of the archive that is brought to hosts; empty: PCTs are started.
        on_said: told of each host that is final, and of relays that have failed.
    """

    def __init__(
        self,
        plan: Plan,
        is_first: bool,
        archive: str = "",
        on_said: Callable[[Said], None] = lambda said: None,
    ) -> None:
        self._plan = plan
        self._archive = archive
        self._on_said = on_said
        self._targets = {target.name: target for target in plan.targets}
        again = [target.name for target in plan.targets if target.again]
        self._machine = Spreading(list(self._targets), plan.width, is_first, again)
        self._direct: dict[str, Bringing | Ending] = {}
        self._heard: set[str] = set()  # relays
        self._last: dict[str, str] = {}  # what relays have complained of last
        self.many = many.Many(plan.ssh, plan.limit_s, plan.width)

    @property
    def results(self) -> Mapping[str, Result]:
        """By host, those that are final."""
        return self._machine.results

    @property
    def lost(self) -> Sequence[Lost]:
        """Relays that have failed."""
        return self._machine.lost

    def run(self) -> None:
        """Return when each host has its result.

        An exception, such as an interrupt, ends every ssh.
        """
        self._do(self._machine.begin())
        self.many.run()

    def idle(self) -> set[str]:
        """Hosts on which very likely nothing has begun."""
        begun = {host for host, direct in self._direct.items() if direct.is_reached}
        begun |= {host for host, result in self.results.items() if result.is_reached}
        return self._targets.keys() - begun - self._machine.given

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Start(host, again):
                    self._start(host, again)
                case Relay(host, hosts, again):
                    targets = tuple(
                        replace(self._targets[each], again=each in again) for each in hosts
                    )
                    line = scripts.spread(self._plan.directory, self._plan.release)
                    archive = archive_name(self._plan.release, host) if self._archive else ""
                    given = encoded(replace(self._plan, targets=targets, archive=archive))
                    call = many.Call(host, line, given)
                    self.many.call(call, many.NEVER, self._relayed, self._plan.silent_s)

    def _start(self, host: str, again: bool) -> None:
        plan, target = self._plan, self._targets[host]
        if plan.ends:
            self._direct[host] = Ending(host, plan.limit_s)
            line = scripts.end(plan.directory, plan.tag, plan.release)
            self.many.call(many.Call(host, line), plan.limit_s, self._happened)
            return
        self._direct[host] = Bringing(host, plan.limit_s, plan.bebopd)
        if self._archive:
            kept_as = archive_name(plan.release, host) if self._machine.has_behind(host) else ""
            line = scripts.unpack(plan.release, plan.machine, kept_as)
            self.many.send(host, line, self._archive, plan.limit_s, self._happened)
            return
        tag = plan.tag if again else ""
        words = [*plan.words, *target.words]
        line = scripts.start(plan.directory, host, tag, words, plan.release)
        key = f"{plan.key}\n".encode()
        self.many.call(many.Call(host, line, key), plan.limit_s, self._happened)

    def _happened(self, host: str, event: Event) -> None:
        direct = self._direct[host]
        if direct.phase.is_last:
            return
        direct.handle(event)
        if not direct.phase.is_last:
            return
        is_cut = not direct.is_reached and (
            isinstance(event, TimedOut) or event == Ended(SSH_FAILED)
        )
        result = Result(host, direct.is_reached, is_cut, direct.reason)
        self._do(self._machine.finished(result))
        self._tell()

    def _relayed(self, host: str, event: Event) -> None:
        match event:
            case Wrote(line) if line.startswith(MARK):
                self._heard.add(host)
                try:
                    said = msgspec.json.decode(line.removeprefix(MARK), type=Said)
                except (msgspec.MsgspecError, UnicodeError):
                    return
                self._do(self._machine.told(host, said))
            case Complained(line) if line.strip():
                self._last[host] = line
            case Ended(status):
                last = self._last.get(host, "")
                is_silent = status == SSH_FAILED and not last
                reason = "its ssh has ended" if is_silent else why(host, status, last)
                self._do(self._machine.relay_ended(host, reason))
            case TimedOut():
                plan, is_heard = self._plan, host in self._heard
                reason = f"no word in {plan.silent_s if is_heard else plan.limit_s:g} s"
                self._do(self._machine.relay_ended(host, reason))
        self._tell()

    def _tell(self) -> None:
        for said in self._machine.news():
            self._on_said(said)
