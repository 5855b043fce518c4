"""The jobs of a partition, from grant to the last slot freed.

A slot is held from its grant until its PCT says that nothing of the job is left and
nothing will start. Time alone frees no slot, because a load message may be on its way:
for a grant that nobody used, bebopd asks the PCTs to refuse the job (revoke). The slots
of a node that is down stay held until bebopd hears from the node again::

              hosting, or revoked(hosting)
    PENDING ---------------------------------> RUNNING
       |  \\                                   ^  |
       |   `--lapsed, yod lost--> REVOKING ---'  | release
       | release                     | release   v
       `-----------------------------`----> RELEASING

In each state a PCT's report that a node is free frees its slots; the job is over when
the last node is free. A job that is placed again leaves what it had to an earlier attempt,
which is RELEASING.

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from allocator.jobs.attempts import Attempts
from allocator.jobs.job import Evidence, Holding, Job, JobState, Key, adopted
from allocator.lending.loans import lend
from allocator.nodes.node import Arrival, Node
from allocator.nodes.table import NodeTable
from native.deadlines import Deadlines
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Contain, Log, Send, propagate
from native.nodelist import named_nodes
from native.wire.alloc import NodeShare, Released, Revoke, Share
from native.wire.load import Reset
from native.wire.placed import JobNodes
from native.wire.runs import JobRuns
from native.wire.status import HostedJob

HAS_RUN = "ended"  # an outcome


class RecordEnd(Action, frozen=True):
    """Keep a record of the time for which a job has held slots: it holds none any more.

    Attributes:
        slot_s: its slots, each times the seconds that it was held.
        attempt: how often it was placed before; a later attempt may hold some.
    """

    job_id: int
    outcome: str
    slot_s: float = 0.0
    attempt: int = 0


class JobTable(Attempts):
    """Every job that holds a slot, by id and attempt. Methods return the actions to carry out.

    Args:
        contain: called with an exception that the deadline of one job raised; that
            deadline is dropped.

    Attributes:
        begun: jobs that have begun to run, for whoever waits for that.
        turned: how often a job was to end, or was not to end after all.
    """

    def __init__(self, nodes: NodeTable, limits: Limits, contain: Contain = propagate) -> None:
        super().__init__()
        self._nodes = nodes
        self._limits = limits
        self._contain = contain
        self.begun: set[int] = set()
        self.turned = 0
        self._due: Deadlines[Key] = Deadlines()  # of the jobs' states
        self._requested: dict[PortalId, set[Key]] = {}  # jobs by their requesters

    def is_awaited(self, job_id: int) -> bool:
        """Whether an earlier attempt of a job holds slots of a node that could be given to it.

        A node that is down keeps what it has, and so does one that does not get rid of it and
        that is closed for that.
        """
        return any(
            node.is_up and (node.is_open or not holding.is_stuck)
            for job in self.earlier(job_id)
            for number, holding in job.holdings.items()
            if (node := self._node(number))
        )

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._due.earliest()

    def check(self) -> None:
        """Assert what must always hold."""
        held = {
            (node.number, job): slots for node in self._nodes for job, slots in node.held.items()
        }
        assert held == {
            (number, job.job_id): holding.slots
            for job in self
            for number, holding in job.holdings.items()
        }, "the nodes and the jobs disagree"
        super().check()
        assert self._due.keys() <= {job.key for job in self}
        requested = {key: peer for peer, jobs in self._requested.items() for key in jobs}
        assert requested == {job.key: job.requester for job in self if job.requester}
        for job in self:
            assert job.holdings, job
            match job.state:
                case JobState.PENDING:
                    assert job.key in self._due, job
                case JobState.RUNNING:
                    assert job.key not in self._due, job
                case _:  # a PCT is asked again later, unless all nodes are down
                    assert job.key in self._due or not self._is_any_up(job), job

    # A job begins

    def add(
        self,
        job: Job,
        nodes: JobNodes,
        runs: JobRuns,
        overlaps: bool,
        now: float,
        shares: tuple[NodeShare, ...] = (),
    ) -> None:
        """Hold the slots of a new grant, pending.

        Args:
            overlaps: it shares the slots that others have.
            shares: its memory, GPUs and cores.
        """
        job.placed = nodes, runs
        shared: dict[int, Holding] = {}  # by slots
        for span in nodes.spans:
            slots = 0 if overlaps else span.slots
            if (holding := shared.get(slots)) is None:
                holding = shared[slots] = Holding(slots)
            if span.count == 1:
                job.holdings[span.node] = holding
            else:
                job.holdings |= dict.fromkeys(range(span.node, span.node + span.count), holding)
        self._nodes.hold_all(nodes.spans, job.job_id, overlaps)
        self._nodes.give(shares, job.job_id)
        lend(self._nodes, job.loans, job.job_id)
        self._latest[job.job_id] = job
        requester, job.requester = job.requester, None
        self._answer_to(job, requester)
        self._due.set(job.key, now + self._limits.pending_s)

    def adopt(
        self,
        node: Node,
        hosted: HostedJob,
        owner: str,
        is_earlier: bool,
        now: float,
        queue: str = "",
    ) -> list[Action]:
        """A node hosts a job that an earlier bebopd granted.

        Args:
            is_earlier: the job waits again, or was placed again since.
            queue: of the job, where that is known.
        """
        job = self.of(hosted.job_id, hosted.attempt)
        actions: list[Action] = []
        is_new = job is None
        if job is None:
            job = adopted(hosted, owner, queue, now)
            latest = self.get(hosted.job_id)
            is_earlier = is_earlier or (latest is not None and latest.attempt > hosted.attempt)
            actions.append(Log(f"job of {owner} goes on from before this bebopd", job.job_id))
        elif job.uid != hosted.uid:
            return [Log(f"{node} says that uid {hosted.uid} owns it, not {job.uid}", job.job_id)]
        if hosted.ranks and hosted.ranks[0] == 0:
            job.root = node.number
        if is_new and is_earlier:
            self._add_earlier(job)
        elif is_new:
            if before := self.get(job.job_id):
                actions += self.place_again(before, True, now)
            self._latest[job.job_id] = job
        job.since = min(job.since, now - hosted.elapsed_s)
        job.granted = min(job.granted, job.since)
        job.holdings[node.number] = Holding(hosted.slots, hosted.ranks)
        share = Share(hosted.memory, hosted.gpus, hosted.cores)
        self._nodes.hold(node, job.job_id, hosted.slots, share)
        lend(self._nodes, hosted.loans, job.job_id)
        actions += self._seen(job, node.number, now)
        if is_new and is_earlier:
            return actions + self.give_up(job, now)
        return actions + (self._ask(job, (node.number,), now) if job.is_given_up else [])

    # Reports of PCTs

    def hosting(self, node: Node, job: Job, now: float) -> list[Action]:
        """The root: every node of the job has heard from its yod."""
        if node.number != job.root:
            return [Log(f"{node} is not its root, and says it is hosted", job.job_id)]
        reported: dict[int, Holding] = {}  # by the holding before, which nodes share
        for number, holding in job.holdings.items():
            if holding.evidence is Evidence.GRANTED:
                if id(holding) not in reported:
                    reported[id(holding)] = replace(holding, evidence=Evidence.REPORTED)
                job.holdings[number] = reported[id(holding)]
        return self._runs(job, now)

    def freed(self, node: Node, job: Job, numbers: tuple[int, ...], now: float) -> list[Action]:
        """The root for its tree, or a node for itself: nothing of the job is left."""
        if node.number != job.root and numbers != (node.number,):
            return [Log(f"{node} is not its root, and frees {named_nodes(numbers)}", job.job_id)]
        return self._take_back(job, numbers, f"{node} says so", now)

    def revoked(self, node: Node, job: Job, is_hosting: bool, now: float) -> list[Action]:
        """The answer to a revoke."""
        if node.number not in job.holdings:
            return []  # late: asked twice
        if is_hosting:
            return self._seen(job, node.number, now)
        return self._take_back(job, (node.number,), f"{node} does not have it", now)

    def compare(
        self, node: Node, arrival: Arrival, hosted: Mapping[int, int], now: float
    ) -> list[Action]:
        """Compare the jobs that a node announces with those that hold its slots.

        Args:
            arrival: what its announcement means.
            hosted: attempts of the jobs in the announcement.
        """
        actions: list[Action] = []
        for job_id in list(node.held):
            job = self.on(node.number, job_id)
            holding = job.holdings[node.number]
            if arrival is Arrival.RESTARTED and holding.is_asked:  # that PCT has ended
                holding = job.holdings[node.number] = replace(holding, is_asked=False)
            if (there := hosted.get(job_id, job.attempt)) < job.attempt:  # it is to end
                actions.append(Send(node.peer, Reset(job_id, there)))
            if hosted.get(job_id) == job.attempt:
                actions += self._seen(job, node.number, now)
                if arrival is not Arrival.STILL_HERE and self.get(job_id) is not job:
                    job.is_given_up = True  # whoever ended it has not reached this node
                    actions += self._ask(job, (node.number,), now)
            elif holding.evidence is Evidence.SEEN or (
                holding.evidence is Evidence.REPORTED and arrival is Arrival.RESTARTED
            ):
                actions += self._take_back(job, (node.number,), f"{node} no longer has it", now)
            elif job.state is not JobState.PENDING and not holding.is_asked:
                # The announcement may be older than the load message.
                actions += self._ask(job, (node.number,), now)
        return actions

    def node_down(self, node: Node, now: float) -> list[Action]:
        """A node is down: its slots stay held, and a yod that waits for them is answered."""
        actions: list[Action] = []
        for job_id in list(node.held):
            job = self.on(node.number, job_id)
            holding = job.holdings[node.number]
            if holding.is_asked:  # the answer is lost
                job.holdings[node.number] = replace(holding, is_asked=False)
            if job.state is JobState.RELEASING and node.number == job.root:
                actions += self._ask(job, job.holdings, now)  # the root cannot report for all
            actions += self._confirm(job)
        return actions

    # Events of yod, and deadlines

    def forget(self, job_id: int, now: float) -> list[Action]:
        """Nobody has heard of a grant: its slots are free."""
        job = self[job_id]
        return self._take_back(job, list(job.holdings), "nobody has heard of it", now)

    def place_again(self, job: Job, is_given_up: bool, now: float) -> list[Action]:
        """A job is to have other slots; this attempt gives back what it has.

        Args:
            is_given_up: nobody else ends it on its nodes.
        """
        self._supersede(job)
        return self.give_up(job, now) if is_given_up else self.release(job, None, now)

    def give_up(self, job: Job, now: float) -> list[Action]:
        """Have its PCTs end a job, now or when they are back."""
        job.is_given_up, was_ending = True, job.state is JobState.RELEASING
        actions = self.release(job, None, now)
        return actions + (self._ask(job, job.holdings, now) if was_ending else [])

    def release(
        self, job: Job, requester: PortalId | None, now: float, lost: Iterable[int] = ()
    ) -> list[Action]:
        """yod ends a job; it is answered when every node that is up is free.

        Args:
            requester: who is answered; None: nobody.
            lost: nodes for which that answer does not wait.
        """
        before, job.state, job.lost = job.state, JobState.RELEASING, frozenset(lost)
        self.turned += 1
        self._answer_to(job, requester)
        actions: list[Action] = []
        match before:
            case JobState.RUNNING if self._is_root_up(job) and not job.is_given_up:
                self._due.set(job.key, now + self._limits.end_s)  # the root reports the end
            case JobState.RUNNING | JobState.PENDING | JobState.REVOKING:
                actions += self._ask(job, job.holdings, now)
        return actions + self._confirm(job)

    def reset(self, job: Job) -> list[Action]:
        """Have all of its PCTs end a job, whatever its yod wants."""
        nodes = map(self._node, job.holdings)
        return [Send(node.peer, Reset(*job.key)) for node in nodes if node.is_up]

    def requester_gone(self, peer: PortalId, text: str, now: float) -> list[Action]:
        """A yod is gone. The PCTs of a running job notice that themselves."""
        actions: list[Action] = []
        for key in sorted(self._requested.get(peer, ())):
            job = self._of_key(key)
            self._answer_to(job, None)
            if job.state is JobState.PENDING:
                actions.append(Log(f"revoked, its yod is gone: {text}", job.job_id))
                actions += self._revoke(job, now)
        return actions

    def due(self, now: float) -> list[Action]:
        """Handle the deadlines that have come."""
        actions: list[Action] = []
        for key in self._due.due(now):
            try:
                actions += self._due_of(self._of_key(key), now)
            except Exception as error:
                self._due.set(key, None)
                self._contain(f"job {key[0]}", error)
        return actions

    def _due_of(self, job: Job, now: float) -> list[Action]:
        if job.state is not JobState.PENDING:
            return self._ask(job, job.holdings, now)
        silent = Log(f"revoked, no word of it for {now - job.since:.0f} s", job.job_id)
        return [silent, *self._revoke(job, now)]

    def _runs(self, job: Job, now: float) -> list[Action]:
        if job.state not in (JobState.PENDING, JobState.REVOKING):
            return []
        job.state, job.since, job.has_run = JobState.RUNNING, now, True
        self.turned += 1
        self._due.set(job.key, None)
        self.begun.add(job.job_id)
        return [Log("runs", job.job_id)]

    def _seen(self, job: Job, number: int, now: float) -> list[Action]:
        """A node says that it hosts the job."""
        holding = job.holdings[number]
        if holding.evidence is not Evidence.SEEN or holding.is_asked:
            job.holdings[number] = replace(holding, evidence=Evidence.SEEN, is_asked=False)
        match job.state:
            case JobState.REVOKING:
                return self._runs(job, now)
            case JobState.RELEASING:  # while the node was down there was no deadline
                if job.key not in self._due:
                    self._due.set(job.key, now + self._limits.end_s)
        return []

    def _revoke(self, job: Job, now: float) -> list[Action]:
        """The grant seems unused: have its PCTs refuse the job, and report what they host."""
        job.state = JobState.REVOKING
        self.turned += 1
        return self._ask(job, job.holdings, now)

    def _ask(self, job: Job, numbers: Iterable[int], now: float) -> list[Action]:
        """Send a revoke to those of these nodes that are up."""
        actions: list[Action] = []
        for number in numbers:
            node = self._node(number)
            if node.is_up:
                job.holdings[number] = replace(job.holdings[number], is_asked=True)
                actions.append(Send(node.peer, Revoke(*job.key)))
                if job.is_given_up:
                    actions.append(Send(node.peer, Reset(*job.key)))
        if job.state is not JobState.RUNNING:
            # Ask again: a job that is hosted now may end.
            again_at = now + self._limits.end_s if self._is_any_up(job) else None
            self._due.set(job.key, again_at)
        return actions

    def _take_back(self, job: Job, numbers: Iterable[int], why: str, now: float) -> list[Action]:
        """Free the slots of these nodes; the job is over when it holds no slot."""
        ours, slots = [], 0
        for number in numbers:
            if (holding := job.holdings.pop(number, None)) is not None:
                ours.append(number)
                slots += holding.slots
        job.slot_s += slots * max(0.0, now - job.granted)
        for number in ours:
            node = self._node(number)
            self._nodes.free(node, job.job_id)
            if job.is_adopted:
                node.note(over=node.notes.over | {job.key})
        if not ours:
            return []
        return [Log(f"{named_nodes(ours)} free: {why}", job.job_id), *self._confirm(job)]

    def _confirm(self, job: Job) -> list[Action]:
        """End a job that holds no slot; answer its yod when no node that is up holds one."""
        actions: list[Action] = []
        if not job.holdings:
            self._remove(job)
            self._due.set(job.key, None)
            outcome = HAS_RUN if job.has_run else "never ran"
            actions.append(RecordEnd(job.job_id, outcome, job.slot_s, job.attempt))
        if (
            job.state is JobState.RELEASING
            and job.requester is not None
            and not self._is_any_up(job, job.lost)
        ):
            actions.append(Send(job.requester, Released.of(job.job_id, tuple(job.holdings))))
            self._answer_to(job, None)
        if not job.holdings:
            self._answer_to(job, None)
        return actions

    def _answer_to(self, job: Job, requester: PortalId | None) -> None:
        """Who is told of a job's end; None: nobody. Found by a lost peer, however many jobs."""
        before, job.requester = job.requester, requester
        if before is not None:
            self._requested[before].discard(job.key)
            if not self._requested[before]:
                del self._requested[before]
        if requester is not None:
            self._requested.setdefault(requester, set()).add(job.key)

    def _node(self, number: int) -> Node:
        node = self._nodes.get(number)
        assert node is not None, number  # nodes never leave the table
        return node

    def _is_root_up(self, job: Job) -> bool:
        root = self._nodes.get(job.root)
        return root is not None and root.is_up

    def _is_any_up(self, job: Job, but: Collection[int] = ()) -> bool:
        return any(self._node(number).is_up for number in job.holdings if number not in but)
