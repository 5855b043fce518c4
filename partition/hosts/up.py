"""``yodctl up --ssh``: a bebopd here, a PCT on each host.

Called again it adds the hosts that are missing, and starts a bebopd that has died in its place.
The partition's file names a host before its PCT is started, and until it has been ended: whatever
ends this process, ``yodctl down`` finds all.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from native.errors import PartitionError
from native.host.keyfile import read_partition_key
from native.limits import Limits
from native.wire.status import NodeState
from partition.find import discover, state
from partition.find.state import Host, State
from partition.hosts import address, allocator, down, names, scripts, ssh
from partition.hosts.bringing import Bringing, Phase
from partition.status import reached
from partition.up import directory, local, processes
from partition.up.own import own_directory, own_release


class Wish(Struct, frozen=True):
    """What the user asks for.

    Attributes:
        hosts: in the order of the nodes, with the slots of each; 0: as for all.
        ssh: the command.
        address: at which the hosts reach this one; empty: it is found out.
        slots: of each node of which nothing else is said; 0: its processors.
        base_port: TCP port of the bebopd; 0: any.
        ships: a host without yod gets it, with its Python.
    """

    hosts: dict[str, int]
    ssh: str
    address: str = ""
    slots: int = 0
    base_port: int = 0
    debug: bool = False
    ships: bool = False


class Came(Struct, frozen=True):
    """What has come of it.

    Attributes:
        added: hosts that are up now, and were not before.
        failed: the others, with the reason.
        has_new_bebopd: it had died.
    """

    state: State
    added: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    has_new_bebopd: bool


def up(wish: Wish, limits: Limits, environment: Mapping[str, str]) -> Came:
    """Bring the hosts up that are not.

    Raises:
        PartitionError: none came up where there was no partition before, there is another kind
            of one, or bebopd does not come up.
    """
    where = state.directory(environment)
    directory.make(where, environment)
    with directory.locked(where), _interruptible():
        found = state.load_any(environment)
        if found is not None and found.tag:
            return _add(where, found, wish, limits, environment)
        local.refuse_second(environment)
        directory.clean(where, removes_itself=False)
        return _begin(where, wish, limits, environment)


def _begin(where: Path, wish: Wish, limits: Limits, environment: Mapping[str, str]) -> Came:
    own = (
        address.check(wish.address) if wish.address else address.towards(list(wish.hosts), wish.ssh)
    )
    choice = allocator.Choice("ssh", own, wish.base_port, wish.debug)
    found = replace(allocator.start(where, choice, environment), ssh=wish.ssh)
    try:
        state.save(found, where)
        came = _bring(where, found, list(wish.hosts), wish, limits)
        if not came.added:
            raise PartitionError("\n".join(["no host came up", *names.folded(came.failed)]))
        came = replace(came, state=replace(came.state, is_up=True))
        state.save(came.state, where)
        return came
    except BaseException:
        with _undisturbed():
            processes.end(found.daemons, local.END_S)
            if not (state.load_any(environment) or found).started:
                directory.clean(where)
        raise


def _add(
    where: Path, found: State, wish: Wish, limits: Limits, environment: Mapping[str, str]
) -> Came:
    found, is_new = _with_bebopd(where, found, wish, environment)
    found = replace(found, ssh=wish.ssh, is_up=True)
    state.save(found, where)
    here = _nodes_up(found, limits)
    missing = [host for host in wish.hosts if host not in here]
    if not missing:
        return Came(found, (), (), is_new)
    return replace(_bring(where, found, missing, wish, limits), has_new_bebopd=is_new)


def _with_bebopd(
    where: Path, found: State, wish: Wish, environment: Mapping[str, str]
) -> tuple[State, bool]:
    """The partition with a bebopd that lives: if it has died another one in its place."""
    if processes.is_alive(found.daemons[0]):
        return found, False
    own, _, port = found.address.rpartition(":")
    choice = allocator.Choice(found.name, own, int(port), wish.debug)
    begun = allocator.start(where, choice, environment, len(found.started))
    return replace(found, daemons=begun.daemons, unix_address=begun.unix_address), True


def _nodes_up(found: State, limits: Limits) -> set[str]:
    """The names of the nodes that bebopd hears from."""
    at = found.unix_address or found.address
    where = discover.find(at, {"YOD_KEY_FILE": found.key_file})
    return {row.name for row in reached.rows(where, limits) if row.state != NodeState.DOWN}


def _bring(where: Path, found: State, hosts: Sequence[str], wish: Wish, limits: Limits) -> Came:
    """Start a PCT on each of these hosts, and say in the partition's file what there is."""
    before = {host.name: host for host in found.hosts}
    numbers = _numbers(found.hosts, hosts)
    begun = {**before, **{name: Host(name, numbers[name], True) for name in hosts}}
    found = replace(found, hosts=tuple(begun.values()))
    state.save(found, where)
    key = read_partition_key(found.key_file).hex().encode() + b"\n"
    machines: dict[str, Bringing] = {}
    release = own_release()

    def call(name: str) -> ssh.Call:
        was_started = name in before and before[name].is_started
        line = scripts.start(
            own_directory(),
            name,
            found.tag if was_started else "",
            _arguments(found, numbers[name], name, wish),
            release,
        )
        return ssh.Call(name, line, key)

    def run(names: Sequence[str]) -> None:
        for name in names:
            machines[name] = Bringing(name, limits.host_up_s, found.address)
        ssh.run(
            map(call, names),
            wish.ssh,
            limits.host_up_s,
            limits,
            lambda host, event: machines[host].handle(event),
        )

    try:
        run(hosts)
        lacking = [name for name in hosts if machines[name].lacks_yod]
        if wish.ships and lacking:
            from partition.hosts import shipping  # few hosts lack yod

            unable = shipping.ship(lacking, wish.ssh, limits)
            for name, reason in unable.items():
                machines[name].reason = reason
            run([name for name in lacking if name not in unable])
    except BaseException:
        # Where nothing has begun, a pct that begins yet finds that nobody waits for it.
        idle = {name for name in hosts if not machines[name].is_reached}
        with _undisturbed():
            down.end_some(where, found, hosts, idle - set(before), limits)
        raise
    hosts_now = dict(begun)
    for name, machine in machines.items():
        was_started = name in before and before[name].is_started
        is_there = machine.phase is Phase.UP or (was_started and not machine.is_reached)
        hosts_now[name] = Host(name, numbers[name], is_there)
    found = replace(found, hosts=tuple(hosts_now.values()))
    state.save(found, where)
    added = tuple(name for name in hosts if machines[name].phase is Phase.UP)
    failed = tuple((name, m.reason) for name, m in machines.items() if m.phase is not Phase.UP)
    return Came(found, added, failed, False)


def _numbers(known: Sequence[Host], hosts: Sequence[str]) -> dict[str, int]:
    """A number for each host: the one that it had, or the next."""
    numbers = {host.name: host.node for host in known}
    following = max(numbers.values(), default=-1) + 1
    for name in hosts:
        if name not in numbers:
            numbers[name] = following
            following += 1
    return numbers


def _arguments(found: State, node: int, name: str, wish: Wish) -> list[str]:
    slots = wish.hosts[name] or wish.slots
    return [
        *("--bebopd", found.address, "--node", str(node), "--name", name, "--tag", found.tag),
        *(("--slots", str(slots)) if slots else ()),
        *(["-D"] if wish.debug else []),
    ]


@contextmanager
def _interruptible() -> Iterator[None]:
    """What asks this process to end is an exception, as an interrupt is."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled(numbers, signal.default_int_handler):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nothing interrupts the end of what was begun."""
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextmanager
def _handled(numbers: Sequence[int], handler: Callable[..., object] | int) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier or signal.SIG_DFL)
