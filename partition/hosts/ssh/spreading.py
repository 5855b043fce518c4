"""Which host is reached from which: hosts that came go on to those behind them. Pure.

A process reaches at most so many hosts at a time itself, its width. Where there are more, they are
as many groups of one size. The first of each group is reached from here; when it has come, it gets
a relay, a process like this one, with the others of its group::

    begin --Start(first)--> its end --Relay(first, others)--> Result of each, end of the relay

What has not come of a group whose first host, or its relay, fails is reached from here, without
a further group: nobody behind a dead host waits for another one to be found dead. The process in
which the command runs also tries itself whom a host could not reach by ssh: hosts may have no keys
for one another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from native.machine import Action
from partition.hosts.ssh.bringing import NO_YOD


class Result(Struct, frozen=True, tag="result"):
    """What has become of a host.

    Attributes:
        is_reached: something has begun there.
        is_cut: it was not reached, so that another host may reach it.
        reason: why it has not come; empty: it has.
    """

    host: str
    is_reached: bool
    is_cut: bool = False
    reason: str = ""

    @property
    def lacks_yod(self) -> bool:
        """The host was reached, and there is no yod."""
        return self.reason.startswith(NO_YOD)


class Lost(Struct, frozen=True, tag="lost"):
    """A relay has ended or hung before all behind it were told of.

    Attributes:
        hosts: these, which are reached by another way.
        reason: what has happened to it.
    """

    host: str
    hosts: tuple[str, ...]
    reason: str


class Alive(Struct, frozen=True, tag="alive"):
    """A relay goes on."""


Said = Result | Lost | Alive


class Start(Action, frozen=True):
    """Reach a host from here.

    Attributes:
        again: something may have begun there, by another way.
    """

    host: str
    again: bool


class Relay(Action, frozen=True):
    """Have a host reach others.

    Attributes:
        again: hosts on which something may have begun.
    """

    host: str
    hosts: tuple[str, ...]
    again: frozenset[str]


class Spreading:
    """State machine of all hosts that are to be reached from one process.

    Args:
        width: how many hosts are reached from one at a time.
        is_first: it runs where the command does.
        again: hosts on which something may have begun.

    Attributes:
        results: by host, those that are final.
        lost: relays that have failed.
        given: hosts that relays were told to reach.
    """

    def __init__(
        self, hosts: Sequence[str], width: int, is_first: bool, again: Collection[str] = ()
    ) -> None:
        self.results: dict[str, Result] = {}
        self.lost: list[Lost] = []
        self.given: set[str] = set()
        self._hosts = tuple(hosts)
        self._is_first = is_first
        self._again = set(again)
        self._behind: dict[str, tuple[str, ...]] = {
            first: others for first, *rest in grouped(self._hosts, width) if (others := tuple(rest))
        }
        self._awaited: dict[str, set[str]] = {}  # by relay: whom it has not told of
        self._news: list[Said] = []

    @property
    def is_over(self) -> bool:
        """Every host has its result, and no relay runs."""
        return len(self.results) == len(self._hosts) and not self._awaited

    def has_behind(self, host: str) -> bool:
        """Whether a host that is to be reached from here is to have a relay."""
        return host in self._behind

    def news(self) -> list[Said]:
        """What has become final since the last call."""
        news, self._news = self._news, []
        return news

    def begin(self) -> list[Action]:
        """Reach the first host of each group."""
        behind = {host for others in self._behind.values() for host in others}
        return self._start([host for host in self._hosts if host not in behind])

    def finished(self, result: Result) -> list[Action]:
        """A host has come, or not, from here."""
        self._final(result)
        others = self._behind.pop(result.host, ())
        if not others:
            return []
        if result.reason:
            return self._start(others)
        self._awaited[result.host] = set(others)
        self.given.update(others)
        return [Relay(result.host, others, frozenset(self._again.intersection(others)))]

    def told(self, relay: str, said: Said) -> list[Action]:
        """A relay has said something. What it says of hosts that are not its own is dropped."""
        awaited = self._awaited.get(relay, set())
        match said:
            case Lost():
                self._note(said)
            case Result(host) if host in awaited:
                awaited.discard(host)
                if said.is_cut and self._is_first:
                    self._again.add(host)
                    return self._start([host])
                self._final(said)
        return []

    def relay_ended(self, relay: str, reason: str) -> list[Action]:
        """A relay has ended, or is given up: reach the others from here."""
        awaited = self._awaited.pop(relay, set())
        if not awaited:
            return []
        left = tuple(host for host in self._hosts if host in awaited)
        self._note(Lost(relay, left, reason))
        self._again.update(left)
        return self._start(left)

    def _final(self, result: Result) -> None:
        self.results[result.host] = result
        self._news.append(result)

    def _note(self, lost: Lost) -> None:
        self.lost.append(lost)
        self._news.append(lost)

    def _start(self, hosts: Sequence[str]) -> list[Action]:
        return [Start(host, host in self._again) for host in hosts]


def grouped(hosts: Sequence[str], width: int) -> list[Sequence[str]]:
    """The groups: at most ``width``, as alike in size as can be, in the order of the hosts."""
    count = min(width, len(hosts))
    size, more = divmod(len(hosts), count) if count else (0, 0)
    found = []
    begin = 0
    for number in range(count):
        end = begin + size + (number < more)
        found.append(hosts[begin:end])
        begin = end
    return found
