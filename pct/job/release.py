"""ENDING: kill what is left, send the remaining output, give everything back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.errors import PeerProtocolError
from native.machine import Action, Send
from native.wire import alloc, load
from native.wire import group as wire
from pct.events import DropJob, KeeperEnd, TellBebopd
from pct.job.ends import Ends
from pct.job.keepers import Keepers
from pct.job.killing import Killing
from pct.job.output import Output
from pct.job.progress import JobState, Progress
from pct.job.rules.looking import Looking
from pct.job.saving import Saving
from pct.job.wiring import Wiring
from pct.tree.collective import SELF
from pct.tree.group import Group

if TYPE_CHECKING:
    from pct.job.hooks import HookRuns
    from pct.job.no_hooks import NoHooks


class Release:
    """Ends the job on one node, and reports when nothing of it is left in the subtree."""

    def __init__(
        self,
        message: load.Load,
        group: Group,
        progress: Progress,
        keepers: Keepers,
        wiring: Wiring,
        ends: Ends,
        output: Output,
        killing: Killing,
        hooks: HookRuns | NoHooks,
        saving: Saving,
        looking: Looking,
    ) -> None:
        self._hooks = hooks
        self._saving = saving
        self._looking = looking
        self._killing = killing
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._group = group
        self._progress = progress
        self._keepers = keepers
        self._wiring = wiring
        self._ends = ends
        self._output = output

    def all_done(self, message: load.AllDone, now: float) -> list[Action]:
        """yod ends the job."""
        return self.end(now)

    def end(self, now: float) -> list[Action]:
        """Enter ENDING: pass all-done on, and kill what is left."""
        if self._progress.is_ending:
            return []
        self._progress.enter(JobState.ENDING, now)
        self._progress.note("told", now)
        actions = [*self._group.down(load.AllDone(self._job_id)), *self._output.begin()]
        if not self._keepers.has_any:
            return actions
        self._killing.begin(now)
        return [*actions, KeeperEnd(self._job_id)]

    def end_alone(self, now: float) -> list[Action]:
        """Enter ENDING, and do not wait for credit to send output."""
        return [*self.end(now), *self._output.abandon()]

    def released(self, place: int, message: load.Released, now: float) -> list[Action]:
        """Nothing of the job is left in a child's subtree."""
        self._progress.came(place)
        self._progress.released.give(place, message.nodes)
        return self._output.child_over(place)

    def times_below(self, place: int, message: wire.Times, now: float) -> list[Action]:
        """When the nodes of a child's subtree came to the end of their phases.

        Raises:
            PeerProtocolError: the job does not ask for that.
        """
        if self._progress.times is None:
            raise PeerProtocolError("times, which the job does not ask for")
        self._progress.times.come_up(place, message)
        return []

    def all_released(self, now: float) -> list[Action] | None:
        """End ENDING when nothing is left in the subtree and all output has been sent.

        Output of children may arrive after this node itself is done.

        Returns:
            None: something is left.
        """
        released = self._progress.released
        if not self._keepers.has_any:
            if last := self._output.finish():
                return last
            if hurry := self._looking.hurry():
                return hurry
            helpers = self._hooks, self._saving, self._looking
            if self._output.is_over and all(each.is_over for each in helpers):
                released.give(SELF, (self._node,))
                self._progress.note("left", now)
        if not released.is_complete or not self._output.is_sent:
            return None
        self._progress.enter(JobState.RELEASED, now)
        self._group.end()
        self._wiring.end()
        nodes = tuple(node for given in released.given.values() for node in given)
        return [*self._ends.tell_all(), *self._tell(nodes), DropJob(self._job_id)]

    def _tell(self, nodes: tuple[int, ...]) -> list[Action]:
        group = self._group
        released = load.Released.of(self._job_id, nodes)
        actions: list[Action] = []
        if (times := self._progress.times) is not None:
            actions += [each for told in times.go_up(group.parent) for each in group.up(told)]
        actions += group.up(released)  # the user waits for that one
        if group.is_root:
            actions.append(TellBebopd(alloc.Freed.of(self._job_id, nodes)))
        elif group.parent is None or group.was_reset:
            actions.append(TellBebopd(alloc.Freed.of(self._job_id, (self._node,))))
        if group.displaced is not None:
            actions.append(Send(group.displaced, released))
        return actions

    def drop(self, now: float) -> list[Action]:
        """Leave the job in any state; tell the children, bebopd and the parent."""
        self._progress.enter(JobState.RELEASED, now)
        here = (self._node,)
        return [
            *self._group.down(load.Reset(self._job_id)),  # so each child reports its own end
            TellBebopd(alloc.Freed.of(self._job_id, here)),
            *self._group.up(load.Released.of(self._job_id, here)),
            DropJob(self._job_id),
        ]

    def wait(self) -> str:
        """What this node waits for."""
        if self._keepers.has_any:
            return "processes of the job have not ended"
        if not self._saving.is_over:
            return "the saver has not ended"
        if not self._looking.is_over:
            return "what looks at its ranks has not ended"
        return "last output" if self._hooks.is_over else "the site's hooks have not ended"
