"""What must hold when all clients of a launch server have ended; see also tests/sim/rules.py.

11. Every client has one end: EXIT, COLD, or the loss of a connection that it has not served.
12. A launch begins once at most, and never for a client that was told to run cold.
13. A client that has lived has each byte that it was to be shown, in order and once.
14. Nothing is left of a launch: no session, slot, port, descriptor, errand or deadline.
15. What an event of one launch costs does not depend on how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.wire import client as wire
from native.wire.base import TIME_MAX_S
from tests.sim.clock import Violation

if TYPE_CHECKING:
    from tests.sim.server.client import Client
    from tests.sim.server.world import ServerSim

OWN_PORTS = 2  # of bebopd and the PCT
LOOKED_AT_MAX = 4  # jobs, for an event of one


def check_at_rest(sim: ServerSim) -> None:
    """All rules that hold in the end."""
    for client in sim.clients:
        _check_end(client)
        _check_output(client)
    _check_rest(sim)
    _check_work(sim)


def _check_end(client: Client) -> None:
    record, told = client.record, client.record.told
    if client.is_alive:
        raise Violation(f"rule 11: {client.name} has not ended; told {told}")
    if client.was_killed and not record.ends:
        return
    if len(record.ends) != 1:
        raise Violation(f"rule 11: {client.name} has the ends {record.ends}")
    end = record.ends[0]
    expected = {"exit": wire.Exit, "cold": wire.Cold, "nothing": wire.Cold}.get(end)
    if expected is not None and told is not None and not isinstance(told, expected):
        raise Violation(f"rule 11: {client.name} ends by {end}, and was told {told}")
    if end == "exit" and told is None:
        raise Violation(f"rule 11: {client.name} ends by exit, and was told nothing")
    if end == "lost" and not client.was_stopped:
        raise Violation(f"rule 11: {client.name} has lost the server, which lives")
    if end == "cold" and record.machine is not None:
        raise Violation(f"rule 12: {client.name} runs cold, and the server has launched for it")


def _check_output(client: Client) -> None:
    record, told = client.record, client.record.told
    has_all = (
        isinstance(told, wire.Exit)
        and not told.drops
        and record.ends == ["exit"]
        and not record.has_lost_reader
        and not client.sim.is_ending
    )
    for stream in (1, 2):
        given, got = bytes(record.given[stream]), bytes(record.got[stream])
        if stream == 2 and record.own:
            if len(record.own) > wire.DATA_MAX:
                raise Violation(f"rule 13: {client.name} is told a line of {len(record.own)} bytes")
            if has_all and not got.endswith(record.own):
                raise Violation(f"rule 13: {client.name} has not got {record.own!r}")
            got = got.removesuffix(record.own)
        if not given.startswith(got) or (has_all and got != given):
            raise Violation(
                f"rule 13: {client.name} has {len(got)} of {len(given)} bytes of stream {stream},"
                f" {'a beginning' if given.startswith(got) else 'not a beginning'} of them"
            )


def _check_rest(sim: ServerSim) -> None:
    partition, reactor = sim.partition, sim.loop.reactor
    node, bebopd = partition._node, partition._bebopd
    node.check()
    bebopd.check()
    left = {
        "sessions": sim.sessions,
        "jobs of the node": list(node.jobs),
        "slots of the node": node.reservation.slots_used,
        "jobs of bebopd": [job.job_id for job in bebopd.jobs],
        "slots": sim.slots.left(),
        "parts of jobs": list(partition._pct._jobs),
        "parents of keepers": list(partition._spawners),
        "ports": len(partition._hub.ports) - OWN_PORTS,
        "descriptors": len(sim.fds.living),
        "errands": len(sim.helpers.tickets),
        "processes": list(sim.host.processes),
        "keepers": len(sim.host.keepers),
        # Of a keeper that was killed with its client nobody knows when its ranks have died.
        "shared memory": [each for each in sim.host.leftovers if not sim.truths[each].is_forsaken],
        "deadlines of the node": len(node._deadlines) + len(node._faulty),
        "deadlines of bebopd": len(bebopd.jobs._due),
        "deadlines of the loop": [
            timer.at
            for timer in reactor._deadlines.keys()  # noqa: SIM118  # it is no dict
            if (timer.at or 0) < TIME_MAX_S
        ],
        "calls of the loop": len(reactor._soon) + len(reactor._idle),
        "watches of the loop": len(reactor._watches),
    }
    if kept := {what: count for what, count in left.items() if count}:
        raise Violation(f"rule 14: of launches that are over there are left {kept}")
    for heap in (reactor._deadlines, node._deadlines, bebopd.jobs._due):
        if len(heap._heap) > 2 * len(heap):
            raise Violation(f"rule 14: {len(heap._heap)} entries for {len(heap)} deadlines")


def _check_work(sim: ServerSim) -> None:
    if sim.looked_at > LOOKED_AT_MAX:
        raise Violation(f"rule 15: {sim.looked_at} jobs are looked at for one event")
