"""``yodctl up --ssh``: a bebopd here, a PCT on each host.

Called again it adds the hosts that are missing, and starts a bebopd that has died in its place.
Many hosts are reached as a tree: :mod:`partition.hosts.ssh.spreading`.
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
from native.host import stdio
from native.host.keyfile import read_partition_key
from native.limits import Limits
from native.wire.status import NodeState
from partition.find import discover, state
from partition.find.state import Host, State
from partition.hosts import address, allocator, down, names
from partition.hosts.ssh import many
from partition.hosts.ssh.spread import Plan, Spread, Target
from partition.hosts.ssh.spreading import Lost, Result
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
        lost: hosts that have failed to reach further ones.
        has_new_bebopd: it had died.
    """

    state: State
    added: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    has_new_bebopd: bool
    lost: tuple[Lost, ...] = ()


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
    begun = allocator.start(where, choice, environment, meanwhile=many.load)
    found = replace(begun, ssh=wish.ssh)
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
    targets = {
        name: Target(
            name,
            name in before and before[name].is_started,
            _own_words(numbers[name], name, wish),
        )
        for name in hosts
    }
    plan = Plan(
        targets=(),
        ssh=wish.ssh,
        width=limits.ssh_fanout_count,
        limit_s=limits.host_up_s,
        silent_s=limits.ssh_silent_s,
        directory=own_directory(),
        release=own_release(),
        bebopd=found.address,
        tag=found.tag,
        words=("--bebopd", found.address, "--tag", found.tag, *(["-D"] if wish.debug else [])),
        key=read_partition_key(found.key_file).hex(),
    )
    results: dict[str, Result] = {}
    lost: list[Lost] = []
    idle = set(hosts)

    def run(names: Sequence[str]) -> None:
        going = Spread(replace(plan, targets=tuple(map(targets.__getitem__, names))), True)
        try:
            going.run()
        finally:
            idle.difference_update(set(names) - going.idle())
            results.update(going.results)
            lost.extend(going.lost)

    try:
        run(hosts)
        lacking = [name for name in hosts if results[name].lacks_yod]
        if wish.ships and lacking:
            from partition.hosts import shipping  # few hosts lack yod

            unable, lost_then = shipping.ship(lacking, wish.ssh, limits)
            lost.extend(lost_then)
            for name, reason in unable.items():
                results[name] = replace(results[name], reason=reason)
            run([name for name in lacking if name not in unable])
    except BaseException as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        # Where nothing has begun, a pct that begins yet finds that nobody waits for it.
        with _interruptible(), _handled([signal.SIGHUP], signal.SIG_IGN):
            stdio.say(f"yodctl: {names.taking_back(hosts, limits.host_down_s, is_interrupt)}")
            left = down.end_some(where, found, hosts, idle - set(before), limits)
        if is_interrupt and left:
            raise PartitionError(f"interrupted; {names.may_be_left(left)}") from None
        raise
    hosts_now = dict(begun)
    for name in hosts:
        has_come = not results[name].reason
        is_there = has_come or (targets[name].again and not results[name].is_reached)
        hosts_now[name] = Host(name, numbers[name], is_there)
    found = replace(found, hosts=tuple(hosts_now.values()))
    state.save(found, where)
    added = tuple(name for name in hosts if not results[name].reason)
    failed = tuple((name, results[name].reason) for name in hosts if results[name].reason)
    return Came(found, added, failed, False, tuple(lost))


def _numbers(known: Sequence[Host], hosts: Sequence[str]) -> dict[str, int]:
    """A number for each host: the one that it had, or the next."""
    numbers = {host.name: host.node for host in known}
    following = max(numbers.values(), default=-1) + 1
    for name in hosts:
        if name not in numbers:
            numbers[name] = following
            following += 1
    return numbers


def _own_words(node: int, name: str, wish: Wish) -> tuple[str, ...]:
    """For the PCT of one host alone."""
    slots = wish.hosts[name] or wish.slots
    return ("--node", str(node), "--name", name, *(("--slots", str(slots)) if slots else ()))


@contextmanager
def _interruptible() -> Iterator[None]:
    """What asks this process to end is an exception, as an interrupt is."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled(numbers, signal.default_int_handler):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nothing interrupts the end of this host's own daemons, which takes some seconds at most."""
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
