"""From the grant to go: the load message, the vote, the objects, the ranks at their entry."""

from __future__ import annotations

from native import nodelist
from native.errors import PeerProtocolError
from native.limits import Limits
from native.machine import Action, DeadlineReached
from native.text import shown
from native.wire import alloc, codec, group, load
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.group import Remote, StackRules
from yod.launch.ending import Ending
from yod.launch.events import (
    CopyToShared,
    NotShared,
    ObjectUndelivered,
    ReadInput,
    SendObject,
    Shared,
    Tell,
    UseGrant,
    UseTerminal,
)
from yod.launch.output import Outputs
from yod.launch.phases import Phase, Progress
from yod.launch.report import NEVER_STARTED, Report
from yod.launch.spawn import Spawner
from yod.launch.tree import Tree
from yod.plan.plan import Plan, Style

TRANSFER_BYTES_PER_S = 1e6  # a slower transfer counts as failed
RANKS_NAMED = 16  # with a line for each; of more ranks each node has a line
PIECES_NAMED = 32  # of such a line
PLACES_NAMED = 64  # with a line for each; more nodes share one


class Loading:
    """Brings the programs to the nodes and the ranks to their entry.

    Attributes:
        times: node -> when it came to the end of its phases, where it was asked; ``came`` is in
            microseconds after yod has sent the load message.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        tree: Tree,
        report: Report,
        outputs: Outputs,
        spawner: Spawner,
        ending: Ending,
        limits: Limits,
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._tree = tree
        self._report = report
        self._outputs = outputs
        self._spawner = spawner
        self._ending = ending
        self._limits = limits
        self._before_exec_count = 0  # ranks held earlier than at their entry
        self.times: dict[int, group.NodeTimes] = {}

    # -- FORMING ----------------------------------------------------------

    def granted(self, grant: alloc.Grant, now: float) -> list[Action]:
        """ALLOCATING: send the load message to the root."""
        self._tree.place(grant)
        self._report.place(grant)
        self._spawner.place(grant)
        self._progress.enter(Phase.FORMING, now, self._patience_s)
        message = load_message(self._plan, grant, self._limits)
        size = len(codec.encode_part(message))
        if size > MESSAGE_MAX_BYTES:
            return self._too_large(size, now)
        # The ranks of a single node do not wait for our go.
        told = map(Tell, self._plan.warnings)
        return [UseGrant(grant), *told, *self._tree.send(message)]

    def _too_large(self, size: int, now: float) -> list[Action]:
        text = (
            f"the load message of {len(self._tree.nodes)} nodes has {size} bytes,"
            f" at most {MESSAGE_MAX_BYTES}; lower YOD_ARGUMENTS_INLINE_BYTES may help"
        )
        self._report.fail(NEVER_STARTED, text)
        self._tree.unconfirmed.clear()  # no PCT has heard of the job
        return [Tell(text), *self._ending.release(now)]

    def voted(self, vote: load.Vote, now: float) -> list[Action]:
        """FORMING: all nodes have joined, and say which objects they lack.

        An object that some node has no room for goes to none: all read the copy in the
        shared file system.
        """
        no_room = {room.object_index for room in vote.no_room}
        named = no_room.union(vote.lacking)
        if named and max(named) >= len(self._plan.objects):
            raise PeerProtocolError(f"a vote about object {max(named)}")
        self._progress.slowest[Phase.FORMING] = vote.slowest
        self._progress.enter(Phase.LOADING, now, self._patience_s + self._transfer_s)
        job_id = self._tree.job_id
        actions: list[Action] = [
            SendObject(job_id, number, self._tree.root)
            for number in vote.lacking
            if number not in no_room
        ]
        for room in vote.no_room:
            name = shown(self._plan.objects[room.object_index].path)
            text = f"no room for {name} on {room.name} ({room.text}): using the shared file system"
            actions += [Tell(text), CopyToShared(job_id, room.object_index)]
        if not named:  # at the root; nodes below may still lack what it has
            self._progress.enter(Phase.STARTING, now, self._patience_s + self._transfer_s)
        return actions

    # -- LOADING ----------------------------------------------------------

    def shared(self, event: Shared, now: float) -> list[Action]:
        """LOADING: nodes read the copy."""
        return self._tree.send(load.UseShared(self._tree.job_id, event.number, event.path))

    def not_shared(self, event: NotShared, now: float) -> list[Action]:
        """An object can neither be stored on the nodes nor be shared."""
        return self._ending.give_up(event.text, now)

    def undelivered(self, event: ObjectUndelivered, now: float) -> list[Action]:
        """An object cannot be sent."""
        if event.is_consequence:
            return []
        name = shown(self._plan.objects[event.number].path)
        return self._ending.give_up(f"{name} could not be sent: {event.text}", now)

    def loaded(self, loaded: load.Loaded, now: float) -> list[Action]:
        """LOADING: every node has every object."""
        self._progress.slowest[Phase.LOADING] = loaded.slowest
        self._progress.enter(Phase.STARTING, now, self._patience_s)
        return []

    def loaded_below(self, loaded: load.Loaded, now: float) -> list[Action]:
        """STARTING: nodes below the root have what the root had."""
        self._progress.slowest[Phase.LOADING] = loaded.slowest
        return []

    # -- STARTING ---------------------------------------------------------

    def held(self, held: load.Held, now: float) -> list[Action]:
        """LOADING, STARTING: ranks are at their entry; with the last, all may go."""
        self.mapped(held, now)
        self._before_exec_count += len(held.before_exec)
        if not held.is_last:
            return []
        self._progress.slowest[Phase.STARTING] = held.slowest
        actions: list[Action] = []
        count = self._before_exec_count
        if count and not self._plan.options.holds_before_exec:
            text = f"{count} ranks were held before exec: tracing is forbidden on their nodes"
            actions.append(Tell(text, is_error=False))
        if self._plan.options.awaits_user:
            return [*actions, *self._hold(now)]
        return [*actions, *self.go(now)]

    def _hold(self, now: float) -> list[Action]:
        """Say where the ranks are, and how debuggers are attached; wait for the user's word."""
        options = self._plan.options
        self._progress.enter(Phase.HELD, now, options.goes_after_s or None)
        by_enter = options.goes_by_enter
        elsewhere = "`yodjob resume ID`, from another terminal (`yodjob list` shows the id)"
        where = "before exec" if options.holds_before_exec else "at their entry"
        if self._plan.options.asks_user:
            count = len(self._report.nodes)
            lines = (
                f"all ranks are held at their entry, on {count} node{'s' * (count > 1)}:",
                *places(self._report),
                f"y lets them go, anything else ends the job; or {elsewhere}"
                if by_enter
                else f"they go by {elsewhere}",
            )
        else:
            go = f"{'Enter lets them go, or' if by_enter else 'they go by'} {elsewhere}"
            if options.goes_after_s:
                go = f"they go in {options.goes_after_s:g} s; before that {go}"
            lines = (
                f"all ranks are held {where}; debuggers attach on the nodes of the ranks:",
                *debuggers(self._report),
                go,
            )
        # A line of a terminal is read up to its end: what is behind it is for the ranks.
        return [*map(Tell, lines), *([ReadInput(1)] if by_enter else [])]

    # -- HELD -------------------------------------------------------------

    def held_for_long(self, _: DeadlineReached, now: float) -> list[Action]:
        """HELD: they were to be held for so long, and no longer."""
        return self.go(now)

    def go(self, now: float) -> list[Action]:
        """STARTING, HELD: let all ranks go together."""
        actions = self._tree.send(load.Go(self._tree.job_id))
        if self._plan.options.style is not Style.RAW:
            actions += self._outputs.credit_for_lines()
        self._progress.enter(Phase.RUNNING, now)
        if self._plan.options.window is not None:
            actions.append(UseTerminal(True))
        return actions

    def mapped(self, held: load.Held, now: float) -> list[Action]:
        """Any phase: ranks were started, with these process ids."""
        self._report.map(held)
        return []

    def timed(self, message: group.Times, now: float) -> list[Action]:
        """Any phase: nodes say when they came to the end of their phases.

        Raises:
            PeerProtocolError: nobody has asked, or they are more nodes than the job has.
        """
        if not self._plan.options.tells_times:
            raise PeerProtocolError("times, which nobody has asked for")
        began, vote_came_us = self._progress.began, -1
        if Phase.LOADING in began:
            vote_came_us = round((began[Phase.LOADING] - began[Phase.FORMING]) * group.MICRO)
        message.add_to(self.times, vote_came_us, len(self._tree.nodes))
        return []

    # -- time -------------------------------------------------------------

    def timed_out(self, _: DeadlineReached, now: float) -> list[Action]:
        """FORMING, LOADING, STARTING: even the root has not reported a failure in time."""
        phase = self._progress.phase.value
        return self._ending.give_up(f"timed out in phase {phase}: no answer from the root", now)

    @property
    def _patience_s(self) -> float:
        """More time than any PCT gives a phase: the one nearest to a fault reports it."""
        levels = len(self._tree.nodes).bit_length()
        return self._limits.phase_s * (1.2 + 0.1 * levels)

    @property
    def _transfer_s(self) -> float:
        """Time for all objects to go down the tree."""
        return sum(shipped.size for shipped in self._plan.objects) / TRANSFER_BYTES_PER_S


def load_message(plan: Plan, grant: alloc.Grant, limits: Limits) -> load.Load:
    """What the root is told of the job, and passes on."""
    return load.Load(
        job_id=grant.job_id,
        credential=grant.credential,
        credential_mac=grant.credential_mac,
        place=0,
        nodes=grant.nodes,
        runs=grant.runs,
        arity=_arity(plan, limits),
        objects=plan.objects,
        arguments=plan.arguments if plan.are_arguments_inline else None,
        umask=plan.umask,
        limits=plan.limits,
        mpi=plan.mpi,
        input_ranks=plan.options.input_ranks,
        chunk_bytes=limits.chunk_bytes,
        deadline_s=limits.phase_s,
        orphan_s=limits.orphan_s,
        output_window_bytes=limits.output_window_bytes,
        addresses=grant.addresses,
        ignored=plan.ignored_signals,
        is_allocation=plan.options.outlives_nodes,
        checkpoints=None if plan.checkpointing is None else plan.checkpointing.where,
        files=plan.options.files,
        dialects=plan.options.dialects,
        window=plan.options.window,
        merge_s=limits.merge_s if plan.options.style is Style.MERGED else 0.0,
        remote=_remote(plan, limits),
        stacks=_stacks(plan, limits),
        signals_group=plan.options.signals_group,
        awaits_user=plan.options.awaits_user,
        shares_input=plan.options.shares_input,
        tells_times=plan.options.tells_times,
        holds_before_exec=plan.options.holds_before_exec,
    )


def places(report: Report) -> list[str]:
    """Lines that say which ranks are on which node; of many nodes, one with all of them."""
    ranks: dict[int, list[int]] = {}
    for rank in range(report.size):
        ranks.setdefault(report.node_of(rank), []).append(rank)
    if len(ranks) > PLACES_NAMED:
        return [f"  nodes {nodelist.format_nodes(sorted(ranks))}, {report.size} ranks"]
    return [
        f"  {report.node_names[node]} (node {node}): {'rank' if len(own) == 1 else 'ranks'}"
        f" {nodelist.format_nodes(own)}"
        for node, own in ranks.items()
    ]


def debuggers(report: Report) -> list[str]:
    """Lines that say where each rank is, as which process; of few, with the command for it."""
    processes = sorted(report.unix_pids.items())
    if len(processes) <= RANKS_NAMED:
        where = report.node_names
        return [
            f"  rank {rank} on {where[report.node_of(rank)]}: gdb -p {unix_pid}"
            for rank, unix_pid in processes
        ]
    runs: dict[int, list[list[int]]] = {}  # node -> first rank, its process, how many follow
    for rank, unix_pid in processes:
        own = runs.setdefault(report.node_of(rank), [])
        if own and (rank - own[-1][0], unix_pid - own[-1][1]) == (own[-1][2], own[-1][2]):
            own[-1][2] += 1
        else:
            own.append([rank, unix_pid, 1])
    return [f"  on {report.node_names[node]}: {_pieces(own)}" for node, own in runs.items()]


def _pieces(runs: list[list[int]]) -> str:
    said = [
        f"ranks {rank}-{rank + count - 1} are processes {unix_pid}-{unix_pid + count - 1}"
        if count > 1
        else f"rank {rank} is process {unix_pid}"
        for rank, unix_pid, count in runs[:PIECES_NAMED]
    ]
    return ", ".join(said) + (", ..." if len(runs) > PIECES_NAMED else "")


def _remote(plan: Plan, limits: Limits) -> Remote | None:
    directories = plan.options.remote
    return Remote(directories, limits.remote_window_bytes) if directories else None


def _stacks(plan: Plan, limits: Limits) -> StackRules | None:
    """What the user asks for and the limits say, if it is not what nodes do anyway."""
    options = plan.options
    most = (limits.look_s, limits.dying_count, limits.stacks_bytes)
    rules = StackRules(options.wants_stacks, options.stall_s, *most, options.strace)
    return None if rules == StackRules() else rules


def _arity(plan: Plan, limits: Limits) -> int:
    """A wide tree has fewer hops; in a narrow one fewer children share a link."""
    if plan.options.arity:
        return plan.options.arity
    may_ship_bytes = sum(shipped.size for shipped in plan.objects if shipped.digest)
    is_bulky = may_ship_bytes > limits.bulk_bytes
    return limits.bulk_arity_count if is_bulky else limits.arity_count
