"""The rules of a partition, checked while a simulation runs and at its end.

1. A slot is held by at most one job, and only while it is granted.
2. No process outlives its job, and no job outlives its last node.
3. Every yod ends, with a status that tells what happened.
4. Every node that was pending or allocated becomes free.
5. A rank's output arrives in order, complete and once, or its loss is reported.
6. Every rank's completion is reported exactly once.
7. A job id never names two jobs.
8. No rank passes its entry before all ranks are held.
9. An answered drain or restart keeps jobs from a node until it is resumed or has restarted.
10. A restart that is not forced ends no job.
11. Every job that was granted has one final row in the history, and it says no more than is known.
12. No job has slots longer than its time limit, and the grace in which bebopd has its nodes end it.

A rule that holds at each moment is checked at the event that could break it. A rule that
holds in the end is checked when a yod exits, or when the partition has come to rest.
"""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from native.waitstatus import exit_status
from native.wire.alloc import Grant, Refused, Released
from native.wire.base import Message, State
from native.wire.batch import Row
from native.wire.io import MESSAGE_COST_BYTES, RUN_COST_BYTES, Lines, Output, cost
from pct.job.rules.folding import Bundle
from pct.job.rules.merge import MergingRelay
from tests.sim.clock import Violation
from yod.launch.checkpoints import WRITTEN_STATUS
from yod.launch.phases import Phase

if TYPE_CHECKING:
    from tests.sim.allocators import BebopdActor
    from tests.sim.hosts import PctActor
    from tests.sim.launchers import YodActor
    from tests.sim.truth import JobTruth
    from tests.sim.world import Sim

RELAY_SLACK_BYTES = 484 * 1024  # the last message of a window; what was read before a pause

_GAP = re.compile(r"(\d+) bytes of (?:rank \d+'s output|the output of ranks [\d,-]+) are lost")


def gap_in(text: str) -> int:
    """How many lost bytes a line for the user tells of."""
    found = _GAP.fullmatch(text)
    return int(found[1]) if found else 0


# -- at every event -------------------------------------------------------------


def check_pct(pct: PctActor) -> None:
    """Rule 1: ranks alive against slots. And what waits in a relay is bounded."""
    used = pct.host.slots_used()
    if sum(used.values()) > pct.sim.slots[pct.number]:
        raise Violation(f"rule 1: {pct.name} has {pct.sim.slots[pct.number]} slots, runs {used}")
    for job_id, job in pct.machine.jobs.items():
        if pct.stopped_until:
            return  # it has read more at once than a process would
        for relay in job._output.relays.values():
            bound = (len(job._group.children) + 1) * (relay._window_bytes + RELAY_SLACK_BYTES)
            waiting = sum(cost(each) for _, each in relay._queue)
            if isinstance(relay, MergingRelay):
                waiting += sum(map(_cost_in_outbox, relay._outbox))
                relay.check()
            if waiting > bound:
                raise Violation(f"{pct.name}: {waiting} bytes of job {job_id}'s output wait")


def _cost_in_outbox(each: Bundle | tuple[object, Output | Lines]) -> int:
    """Of a message that is made already, or is when it is sent."""
    if not isinstance(each, Bundle):
        return cost(each[1])
    return each.size + MESSAGE_COST_BYTES + RUN_COST_BYTES * len(each.runs)


def check_yod_queue(yod: YodActor, waiting: int) -> None:
    """A slow reader does not grow yod's memory beyond the window; an end may flush more."""
    limits = yod.sim.limits
    bound = limits.output_window_bytes + limits.line_room_bytes + RELAY_SLACK_BYTES
    if waiting > bound and yod.machine.phase is Phase.RUNNING:
        raise Violation(f"{yod.name}: {waiting} bytes of output wait to be written")


def check_grant(sim: Sim, grant: Grant) -> None:
    """Rules 1 and 7: a new job id, and slots that no other job holds."""
    if grant.job_id in sim.granted:
        raise Violation(f"rule 7: job id {grant.job_id} is given a second time")
    sim.granted[grant.job_id] = sim.disk.epoch
    assert sim.bebopd is not None
    for node in sim.bebopd.machine.nodes:
        if node.used() > sim.slots[node.number]:
            raise Violation(f"rule 1: {node} has {node.slots} slots, {node.held} are granted")


def check_orders(sim: Sim, grant: Grant) -> None:
    """Rule 9, at a grant."""
    for number in (node.node for node in grant.nodes):
        if number in sim.orders.drained:
            raise Violation(f"rule 9: job {grant.job_id} gets node {number}, which is drained")
        if sim.orders.restarting.get(number) == sim.pcts[number].machine._incarnation:
            raise Violation(f"rule 9: job {grant.job_id} gets node {number}, which is to restart")


def check_past(sim: Sim, row: Row) -> None:
    """Rule 11: one bebopd writes one final row of a job, and COMPLETED is what its yod has said."""
    assert sim.bebopd is not None
    key = (sim.bebopd.epoch, row.job_id)
    if key in sim.accounted or not row.state.is_final or row.ended < row.began:
        raise Violation(f"rule 11: {row}")
    sim.accounted.add(key)
    reports = [yod.machine.report for yod in sim.yods]
    if row.state is not State.COMPLETED or sim.liars:  # any process of its owner's may lie
        return
    if not any(each.job_id == row.job_id and each.end().state is row.state for each in reports):
        raise Violation(f"rule 11: nobody knows that job {row.job_id} is COMPLETED")


def check_limits(bebopd: BebopdActor) -> None:
    """Rule 12, on the nodes that bebopd reaches."""
    sim, machine = bebopd.sim, bebopd.machine
    limits = sim.limits
    grace_s = limits.kill_wait_s + limits.overtime_s + limits.silent_s + 4 * limits.end_s
    for row in machine.accounting:
        over_s = sim.unix_time() - row.began - row.time_s - grace_s
        job = machine.jobs.get(row.job_id)
        if not row.time_s or over_s < 0 or job is None:
            continue
        nodes = [node for number in job.holdings if (node := machine.nodes.get(number))]
        if any(node.is_up for node in nodes):
            raise Violation(f"rule 12: job {job.job_id} is there {over_s:.0f} s too long: {nodes}")


def check_restart(pct: PctActor) -> None:
    """Rule 10."""
    host, is_forced = pct.host, pct.number in pct.sim.orders.forced
    if not is_forced and (pct.machine.jobs or pct.parts or host.processes or host.keepers):
        raise Violation(f"rule 10: {pct.name} restarts with jobs {list(pct.machine.jobs)}")
    pct.sim.orders.forced.discard(pct.number)


def check_freed(sim: Sim, number: int, job_id: int) -> None:
    """Rule 1: bebopd takes slots back only when nothing of the job is left there."""
    host = sim.hosts[number]
    if any(process.job_id == job_id for process in host.processes.values()):
        raise Violation(f"rule 1: node {number} is freed of job {job_id}, which runs there")
    pct = sim.pcts.get(number)
    if pct is not None and job_id in pct.machine.jobs:
        raise Violation(f"rule 1: node {number} is freed of job {job_id}, which its PCT hosts")


def check_started(sim: Sim, number: int, job_id: int) -> None:
    """Rule 1: nothing is hosted where bebopd has not, or not any more, granted it."""
    bebopd = sim.bebopd
    if bebopd is None or sim.granted.get(job_id) != bebopd.epoch:
        return  # it does not know yet what an earlier one granted
    node = bebopd.machine.nodes.get(number)
    if node is not None and job_id not in node.held:
        raise Violation(f"rule 1: node {number} hosts job {job_id}, which does not hold it")


def watch_yod(yod: YodActor, message: Message) -> None:
    """Rule 2: when bebopd confirms that all is free, nothing of the job is alive."""
    if isinstance(message, Refused):
        yod.was_refused = True
    if isinstance(message, Released) and not message.unreachable:
        yod.was_confirmed = True
        if yod.sim.granted.get(message.job_id) != yod.sim.disk.epoch:
            return  # a new bebopd knows of it only what PCTs have announced
        if left := yod.sim.processes_of(message.job_id):
            raise Violation(f"rule 2: job {message.job_id} is confirmed free, {left} live")


# -- when a yod exits -------------------------------------------------------------


def check_ended(yod: YodActor) -> None:
    """Rules 3, 5 and 6 for the job of a yod that exits by itself."""
    report, truth = yod.machine.report, yod.truth
    status = report.exit_status
    if truth is None:
        if not status:
            raise Violation(f"rule 3: {yod.name} exits with {status}, and had no job")
        return
    _check_completions(yod, truth)
    if status == 0:
        _check_success(yod, truth)
        if yod.job.reads_input and truth.input_bytes != yod.job.input_bytes:
            raise Violation(
                f"job {truth.job_id}: {truth.input_bytes} bytes of input read,"
                f" of {yod.job.input_bytes}"
            )
    elif not truth.trouble:
        _check_failure(yod, truth)
    _check_output(yod, truth)
    has_said = report.notes or report.lost or len(yod.presses) > 2
    if not yod.was_confirmed and not has_said:
        raise Violation(f"rule 4: {yod.name} leaves before bebopd has confirmed that all is free")


def _check_completions(yod: YodActor, truth: JobTruth) -> None:
    report = yod.machine.report
    for rank, completion in report.completions.items():
        told = (completion.wait_status, completion.was_released)
        if truth.ends.get(rank) != told:
            raise Violation(
                f"rule 6: job {truth.job_id}: rank {rank} is reported as {told},"
                f" and ended as {truth.ends.get(rank)}"
            )
    if truth.trouble:
        has_said = report.reason or report.notes or yod.presses
        if len(report.completions.keys() | truth.tool_ranks) < len(truth.programs) and not has_said:
            raise Violation(f"rule 6: job {truth.job_id}: completions are missing, without a word")
        return
    # A node repeats its completions to a new parent, because the one that was lost, or that yod
    # took for lost and reset, may not have passed them on.
    was_in_order = len(yod.presses) < 2 and not report.notes
    repeated = sorted(rank for rank, times in yod.reports.items() if times > 1)
    if repeated and was_in_order:
        raise Violation(f"rule 6: job {truth.job_id}: completion of {repeated[:8]} comes twice")
    if was_in_order:
        missing = sorted(truth.was_reported - yod.reports.keys())
        if missing:
            raise Violation(f"rule 6: job {truth.job_id}: no completion of ranks {missing[:8]}")


def _check_success(yod: YodActor, truth: JobTruth) -> None:
    """Exit status 0 says that every rank has run and ended well."""
    bad = [rank for rank in range(truth.size) if truth.ends.get(rank) != (0, True)]
    others = set(range(truth.size, len(truth.programs))) - truth.tool_ranks
    bad += [rank for rank in others if rank not in truth.ends or truth.has_failed(rank)]
    if bad:
        ends = {rank: truth.ends.get(rank) for rank in bad[:4]}
        raise Violation(f"rule 3: job {truth.job_id}: exit status 0, and ranks ended so: {ends}")


def _check_failure(yod: YodActor, truth: JobTruth) -> None:
    """Without trouble from outside, the status is one that a rank or the user gave."""
    status = yod.machine.report.exit_status
    possible = {128 + yod.presses[0]} if yod.presses else set()
    if yod.has_lost_files:
        possible.add(125)
    if yod.was_refused or truth.has_no_wireup:
        possible.add(125)
    tools = truth.tool_ranks
    for rank, (wait_status, was_released) in truth.ends.items():
        if rank in tools:
            continue
        if wait_status not in (0, signal.SIGKILL):  # nobody is killed but by us, for a reason
            possible.add(exit_status(wait_status))
        start = truth.programs[rank].start
        if start.error:
            possible.add(127 if start.error == 2 else 126)
        elif not was_released and rank not in truth.passed:
            possible.add(125)
    if any(program.start.hangs for program in truth.programs):
        possible.add(125)
    if truth.is_aborted:
        possible.add(77)
    if yod.checkpoints:
        possible.add(WRITTEN_STATUS)
    if truth.ends.keys() >= set(range(truth.size)) and not yod.presses:
        bad = [rank for rank in truth.ends if truth.has_failed(rank)]
        if not bad and truth.passed:
            raise Violation(f"rule 3: job {truth.job_id}: status {status}, and all ended well")
    if status not in possible:
        raise Violation(
            f"rule 3: job {truth.job_id}: exit status {status}, possible are {sorted(possible)};"
            f" said: {yod.said[-3:]}"
        )


def _check_output(yod: YodActor, truth: JobTruth) -> None:
    """What is missing at the end of a stream is told of by something else."""
    if truth.gaps and not truth.trouble and len(yod.presses) < 2:
        raise Violation(f"rule 5: job {truth.job_id}: output lost on a sound network {truth.gaps}")
    missing = truth.missing_output()
    if not missing:
        return
    report = yod.machine.report
    if truth.trouble and (report.reason or report.notes or report.exit_status):
        return
    if signal.SIGPIPE in yod.presses or len(yod.presses) > 1:
        return
    raise Violation(
        f"rule 5: job {truth.job_id}: output is missing, without a word:"
        f" {dict(list(missing.items())[:4])}; said: {yod.said[-3:]}"
    )


# -- at rest ------------------------------------------------------------------------


def check_at_rest(sim: Sim) -> None:
    """Rules 2 and 4, and of rule 3 that every yod ends."""
    for yod in sim.yods:
        if not yod.is_over:
            raise Violation(
                f"rule 3: {yod.name} has not ended, phase {yod.machine.phase.value},"
                f" {sim.clock.now - yod.began_at:.0f} s after it began; said: {yod.said[-3:]}"
            )
    for number, host in sim.hosts.items():
        if host.processes:
            jobs = sorted({process.job_id for process in host.processes.values()})
            raise Violation(f"rule 2: processes of jobs {jobs} live on node {number}")
        if host.keepers:
            raise Violation(f"rule 2: a keeper lives on node {number}")
        if host.leftovers:
            raise Violation(f"rule 2: jobs {host.leftovers} have shared memory on node {number}")
    for number, pct in sim.pcts.items():
        if not pct.process.is_alive:
            continue
        if pct.machine.jobs:
            states = {job_id: job.state.value for job_id, job in pct.machine.jobs.items()}
            raise Violation(f"rule 4: node {number} still hosts {states}")
        if pct.machine.reservation.slots_used:
            raise Violation(f"rule 4: node {number} has slots in use")
        if pct.parts:
            raise Violation(f"rule 4: node {number} keeps parts of jobs {list(pct.parts)}")
    assert sim.bebopd is not None
    open_ids = {row.job_id for row in sim.bebopd.machine.accounting}
    for job_id, epoch in sim.granted.items():
        if epoch == sim.bebopd.epoch and (job_id in open_ids) == (job_id in sim.disk.past):
            raise Violation(f"rule 11: job {job_id} has no final row, or goes on with one")
    for number in sim.orders.drained:
        if sim.bebopd.machine.nodes.orders(number).drain is None:
            raise Violation(f"rule 9: node {number} is not drained any more")
    for number, incarnation in sim.orders.restarting.items():
        if sim.pcts[number].machine._incarnation == incarnation:
            raise Violation(f"rule 9: node {number} has not restarted")
    for node in sim.bebopd.machine.nodes:
        if node.orders.restart is not None:
            raise Violation(f"rule 9: {node} has restarted, and is still to")
        if not node.is_up:
            raise Violation(f"rule 4: {node} is down: {node.down_text}")
        if node.held:
            raise Violation(f"rule 4: {node} is still held: {node.held}")
    if len(sim.bebopd.machine.jobs):
        left = [(job.job_id, job.state.value) for job in sim.bebopd.machine.jobs]
        raise Violation(f"rule 4: bebopd still has {left}")
    if len(sim.bebopd.machine.nodes) != len(sim.hosts):
        raise Violation(f"{len(sim.bebopd.machine.nodes)} of {len(sim.hosts)} nodes are known")
