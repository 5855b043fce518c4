"""Who runs a task: a starter, a launch, or workers that are there already."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from native.errors import YodError
from yod.pilot.agent.masters import Masters, Taker
from yod.pilot.agent.running import MAKE, TELL, flat, outcome_of_report
from yod.pilot.agent.starters import End, LocalEnd, OnLost, OnPacket, Starter
from yod.pilot.link.greeting import SOCKET_VARIABLE
from yod.pilot.model import command, modes
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.keys import pattern_of
from yod.pilot.wire.starter import Report, ReportKind
from yod.pilot.work.place import Outcome, Place, Work

if TYPE_CHECKING:
    from yod.pilot.agent.carrying import Carrying
    from yod.pilot.agent.remote import Arrivals
    from yod.pilot.agent.steps import Steps
    from yod.pilot.function.pool import FunctionPool


# The first line of a file that has an expression, also when the file is not there yet.
_LOOK = 'exec grep -m 1 -E -e "$1" < <(exec tail -c +1 -F -- "$2" 2>/dev/null)'

_CONNECT = frozenset((modes.RAPTOR_WORKER, modes.RAPTOR_MASTER))  # to the agent


class AgentPlace(Place, Taker, Protocol):
    """The agent."""


class Runners:
    """All who run tasks for one agent.

    Args:
        place: the agent, which is told of starts and ends.
        in_allocation: starters run on the nodes of one; else one on this host is that of all.
        on_ready: called when tasks can be started.
        on_node_lost: called with the index of a node, and a reason, when nothing can be started
            there any more. What ran there ends after that.
        on_lost: called with a reason when nothing can be started anywhere.
        spare: so many nodes need not come.

    Attributes:
        masters: programs of tasks that submit tasks.
    """

    def __init__(
        self,
        place: AgentPlace,
        in_allocation: bool,
        on_ready: Callable[[], None],
        on_node_lost: Callable[[int, str], None],
        on_lost: Callable[[str], None],
        spare: int = 0,
    ) -> None:
        self._spare = spare
        self._absent: set[int] = set()  # nodes that have not come, and will not
        self._place = place
        self._in_allocation = in_allocation
        self._on_ready = on_ready
        self._on_node_lost = on_node_lost
        self._on_lost = on_lost
        self._starters: dict[int, Starter] = {}  # by the index of the node
        self._numbers: dict[int, int] = {}  # index of a node -> the partition's number
        self._arrivals: Arrivals | None = None
        self._steps: Steps | None = None
        self._pool: FunctionPool | None = None
        self._signals: dict[str, Callable[[int], None]] = {}
        self._carried: dict[str, Work] = {}  # tasks whose sandboxes are on nodes that are apart
        self._carrying: Carrying | None = None
        self._looking: dict[str, int] = {}  # service -> who waits for its word
        self.masters = Masters(place, lambda: self._pool.overlay if self._pool else None)

    def begin(self) -> None:
        """Start the starters.

        Raises:
            YodError: they cannot be started.
        """
        names = self._place.nodes
        if not self._in_allocation:
            reactor = self._place.reactor
            one = Starter(partial(LocalEnd, reactor), names[0], self._on_lost)
            self._starters = dict.fromkeys(range(len(names)), one)
            self._on_ready()
            return
        from yod.pilot.agent.remote import Arrivals

        self._arrivals = Arrivals(
            self._place.reactor,
            self._mpi(),
            names,
            self._place.sandbox,
            self._come,
            self._on_lost,
            self._will_not_come,
        )

    def start(self, work: Work, description: TaskDescription) -> None:
        """Run a task; the agent is told of its end."""
        if self._carrying is not None and self._carrying.nodes_of(work):
            self._bring(self._carrying, work, description)
            return
        self._run(work, description)

    def _bring(self, carrying: Carrying, work: Work, description: TaskDescription) -> None:
        """Run a task on nodes that do not see its sandbox: that is carried there first."""
        uid = work.uid
        doors = [description.value("environment").get(SOCKET_VARIABLE, "")]
        if description.kind in _CONNECT | modes.CALLS:
            if not self._may_connect(uid):
                return
            doors.append(self._functions().path)
        self._signals[uid] = lambda _: carrying.cancel(uid)

        def brought(failure: str) -> None:
            if failure:
                self._place.ended(uid, Outcome(exit_code=None, reason=failure))
                return
            self._carried[uid] = work
            self._run(work, description)

        carrying.bring(work, [path for path in doors if path], brought)

    def brings_back(self, uid: str, outcome: Outcome) -> bool:
        """A task is over; True: its sandbox was carried, and its end is told when that is back."""
        work = self._carried.pop(uid, None)
        if work is None or self._carrying is None or outcome.is_back:
            return False
        is_there = bool(work.payload) and all(s.node in self._starters for s in work.slots)
        if outcome.is_lost and not is_there:  # with its node, perhaps
            return False

        def fetched(failure: str) -> None:
            if failure and not outcome.failure:
                outcome.exit_code, outcome.reason = None, failure
            self._place.ended(uid, outcome)

        self._signals[uid] = lambda _: None  # it has ended
        self._carrying.fetch(work, fetched)
        return True

    def _run(self, work: Work, description: TaskDescription) -> None:
        kind, raptor = description.kind, description.value("raptor_id")
        if kind in _CONNECT and not description.is_queue and not self._may_connect(work.uid):
            return
        if kind in modes.CALLS or (raptor and modes.is_of_raptor(kind)):
            self._start_call(work, description)
        elif description.is_queue:
            self._signals[work.uid] = lambda _: self.stop_raptor(work.uid)
        elif command.is_mpi(description):
            self._start_step(work, description)
        else:
            self._start_program(work, description)

    def signal(self, uid: str, signo: int) -> None:
        """Send a task's processes a signal."""
        if uid in self._signals:
            self._signals[uid](signo)

    def over(self, uid: str) -> None:
        """A task has ended."""
        self._signals.pop(uid, None)
        looking = self._looking.pop(uid, None)
        if looking is not None:
            self.kill_process(looking, signal.SIGKILL)

    def start_process(
        self,
        node: int,
        argv: list[str],
        environment: dict[str, str],
        directory: str,
        stdout: str,
        stderr: str,
        on_end: Callable[[Outcome], None],
    ) -> int:
        """Start a process that is no task."""

        def report(told: Report) -> None:
            if told.kind is not ReportKind.STARTED:
                on_end(outcome_of_report(told, argv[0], directory))

        return self._starters[node].start(
            argv, flat(environment), directory, stdout, stderr, report
        )

    def kill_process(self, number: int, signo: int) -> None:
        """Send such a process a signal."""
        own, node = divmod(number, len(self._place.nodes))
        if node in self._starters:
            self._starters[node].signal(own, signo)

    def close(self) -> None:
        """End whatever is left."""
        self.masters.close()
        if self._carrying is not None:
            self._carrying.close()
        for each in (self._pool, self._arrivals, *set(self._starters.values()), self._steps):
            if each is not None:
                each.close()

    def stop_raptor(self, uid: str) -> None:
        """A raptor takes no more calls, and is done."""
        if self.masters.stop(uid):
            return
        if self._pool is not None:
            self._pool.overlay.stop(uid)
        self._place.ended(uid, Outcome())

    def why(self, uid: str) -> str:
        """Why a call stands still; empty: it does not."""
        if self._pool is None:
            return ""
        return self.masters.why(uid) or self._pool.overlay.why(uid)

    def _may_connect(self, uid: str) -> bool:
        """Let workers connect; the task ends where they cannot."""
        try:
            self._functions()
        except YodError as error:
            self._place.ended(uid, Outcome(exit_code=None, reason=str(error)))
            return False
        return True

    def _start_call(self, work: Work, description: TaskDescription) -> None:
        if not self._may_connect(work.uid):
            return
        pool = self._functions()
        raptor, ranks = description.value("raptor_id"), description.value("ranks")
        if raptor:
            self._signals[work.uid] = lambda _: self._drop(work.uid, pool)
            if not self.masters.asks(work, raptor):
                pool.overlay.start(work, raptor)
            return
        if ranks > 1 or description.value("use_mpi"):
            uid, steps = work.uid, self._mpi()
            words = pool.expect(work, ranks, lambda: steps.signal(uid, signal.SIGTERM))
            self._launch(
                work, description, command.ranked(words), lambda told: pool.ranks_over(uid, told)
            )
            return
        self._signals[work.uid] = lambda signo: pool.signal(work.uid, signo)
        pool.start(work)

    def _drop(self, uid: str, pool: FunctionPool) -> None:
        if not self.masters.drop(uid):
            pool.overlay.signal(uid)

    def _start_program(self, work: Work, description: TaskDescription) -> None:
        value, uid = description.value, work.uid

        def report(told: Report) -> None:
            if told.kind is ReportKind.STARTED:
                self._place.started(uid, told.started)
            else:
                program = str(value("executable"))
                self._place.ended(uid, outcome_of_report(told, program, work.sandbox))

        is_service, pattern = description.kind == modes.TASK_SERVICE, value("info_pattern")
        is_told = not pattern and (is_service or value("startup_timeout"))
        starter = self._starters.get(work.slots[0].node)
        if starter is None:
            self._place.ended(uid, Outcome(exit_code=None, reason="its node is lost"))
            return
        try:
            number = starter.start(
                command.words_of(description),
                flat(work.environment),
                work.sandbox,
                *_outputs(uid, description),
                report,
                ranks=value("ranks"),
                flags=TELL if is_told else MAKE,
            )
        except ValueError as error:
            self._place.ended(uid, Outcome(exit_code=None, reason=str(error)))
            return
        self._signals[uid] = lambda signo: starter.signal(number, signo)
        if pattern:
            self._look_for(pattern, work, description)

    def _look_for(self, pattern: str, work: Work, description: TaskDescription) -> None:
        """Wait until a service has written a line that has a pattern: it is ready then."""
        stream, expression = pattern_of(pattern)
        path = _outputs(work.uid, description)[stream == "stderr"]
        node = work.slots[0].node
        words = [command.SHELL, "-c", _LOOK, command.SHELL, expression, path]

        def told(outcome: Outcome) -> None:
            if self._looking.pop(work.uid, None) is None or outcome.exit_code:
                return  # the service has ended before
            found = re.search(expression, outcome.stdout)
            if found is not None:
                self._place.informed(work.uid, found[1] if found.groups() else found[0])
            self._place.started(work.uid, time.time())

        number = self.start_process(node, words, {}, work.sandbox, ".ready", "", told)
        self._looking[work.uid] = number

    def _start_step(self, work: Work, description: TaskDescription) -> None:
        """Launch a task, with its ``pre_launch`` once before all ranks, ``post_launch`` behind."""
        uid = work.uid

        def launch() -> None:
            self._launch(work, description, command.step_words_of(description), launched)

        def launched(outcome: Outcome) -> None:
            if self._pool is not None and uid in self._pool.overlay.dropped:
                outcome.is_lost = True  # a worker of which a rank had to be ended

            def behind(other: Outcome) -> None:
                worse = other if other.failure and not outcome.failure else outcome
                self._place.ended(uid, worse)

            if not self._run_once(work, description, "post_launch", behind):
                self._place.ended(uid, outcome)

        def before(outcome: Outcome) -> None:
            if outcome.failure:
                self._place.ended(uid, outcome)
            else:
                launch()

        if not self._run_once(work, description, "pre_launch", before):
            launch()

    def _launch(
        self,
        work: Work,
        description: TaskDescription,
        words: list[str],
        then: Callable[[Outcome], None],
    ) -> None:
        """Launch the ranks of a task."""
        steps, uid = self._mpi(), work.uid
        self._signals[uid] = lambda signo: steps.signal(uid, signo)
        steps.start(
            uid,
            words,
            description.value("ranks"),
            work.environment,
            work.sandbox,
            *_outputs(uid, description),
            lambda at: self._place.started(uid, at),
            then,
            nodes=self._nodes_of(work),
        )

    def _run_once(
        self, work: Work, description: TaskDescription, key: str, then: Callable[[Outcome], None]
    ) -> bool:
        """Run the commands of a key, on the first node; False: there are none."""
        words = command.launch_words(description, key)
        if not words:
            return False

        def told(outcome: Outcome) -> None:
            if outcome.failure:
                outcome.reason = f"{key}: {outcome.failure}"
            then(outcome)

        node = work.slots[0].node
        output = f"{work.uid}.{key}"
        number = self.start_process(
            node, words, work.environment, work.sandbox, output, output, told
        )
        self._signals[work.uid] = lambda signo: self.kill_process(number, signo)
        return True

    def _nodes_of(self, work: Work) -> list[int]:
        """The node of each rank, where the partition has several."""
        if not self._in_allocation:
            return []
        return [self._numbers[slot.node] for slot in work.slots]

    def _mpi(self) -> Steps:
        if self._steps is None:
            from yod.pilot.agent.steps import Steps

            self._steps = Steps(self._place.reactor, in_allocation=self._in_allocation)
        return self._steps

    def _come(self, index: int, number: int, open_end: Callable[[OnPacket, OnLost], End]) -> None:
        def lost(reason: str) -> None:
            self._starters.pop(index, None)
            self._on_node_lost(index, reason)

        if index in self._starters:
            return
        self._numbers[index] = number
        arrivals = self._arrivals
        assert arrivals is not None
        self._starters[index] = Starter(open_end, self._place.nodes[index], lost)
        if index in arrivals.apart:
            self._know_apart(index, arrivals.path)
        self._look_if_all_are_there()

    def _will_not_come(self, index: int, reason: str) -> bool:
        """The starter of a node could not begin; False: all nodes are needed."""
        if len(self._absent) == self._spare:
            return False
        self._absent.add(index)
        self._on_node_lost(index, reason)
        self._look_if_all_are_there()
        return True

    def _look_if_all_are_there(self) -> None:
        if self._arrivals and len(self._numbers) + len(self._absent) == len(self._place.nodes):
            self._arrivals.close()
            self._on_ready()

    def _know_apart(self, index: int, key_file: str) -> None:
        """A node has files of its own."""
        if self._carrying is None:
            from yod.pilot.agent.carrying import Carrying

            own, place = self._numbers, self._place
            self._carrying = Carrying(place.reactor, self._mpi, place.sandbox, place.nodes, own)
        self._carrying.apart.add(index)
        self.start_process(index, ["rm", "-f", key_file], {}, "/", "", "", lambda _: None)

    def _functions(self) -> FunctionPool:
        if self._pool is None:
            from yod.pilot.function.pool import FunctionPool

            host = ""
            if self._in_allocation:
                from yod.pilot.agent.remote import own_address

                host = own_address()
            self._pool = FunctionPool(self._place, host)
            self._pool.on_lead = self.masters.came
            self._pool.overlay.on_joined = self.masters.joined
        return self._pool


def _outputs(uid: str, description: TaskDescription) -> tuple[str, str]:
    value = description.value
    return value("stdout") or f"{uid}.out", value("stderr") or f"{uid}.err"
