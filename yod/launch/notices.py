"""What yod waits for and from whom, told to a user who sees nothing happen."""

from __future__ import annotations

from native.ids import PortalId
from native.machine import Action, Send
from native.wire import status
from native.wire.load import Late, ShippedObject
from yod.launch.events import Tell
from yod.launch.output import Outputs
from yod.launch.phases import BEFORE_GO, Phase, Progress
from yod.launch.tree import Tree
from yod.plan.plan import Plan

_SHOWN = (Phase.FORMING, Phase.LOADING, Phase.STARTING)
_NOTHING = ("", 0, 0)


class Notices:
    """Names what each phase waits for. bebopd is told how far a launch is that takes long.

    Args:
        bebopd_name: its address as the user knows it.
        told_s: bebopd is told no more often than this, and of no launch that takes less.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        tree: Tree,
        outputs: Outputs,
        bebopd: PortalId,
        bebopd_name: str,
        told_s: float,
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._tree = tree
        self._outputs = outputs
        self._bebopd = f"bebopd at {bebopd_name}"
        self._bebopd_id = bebopd
        self._told_s = told_s
        self._told = _NOTHING
        self._tell_at: float | None = None

    def late(self, late: Late, now: float) -> list[Action]:
        """The root says which nodes it waits for."""
        self._progress.waiting.late = late
        return []

    def due(self, now: float) -> list[Action]:
        """Time has passed."""
        waiting = self._progress.waiting
        if not waiting.is_due(now):
            return []
        if self._progress.phase is Phase.ENDING and self._outputs.are_waiting:
            waiting.begin(now)  # the reader of the output is waited for, no node
            return []
        return [Tell(waiting.say(self._awaited(), now), is_error=False)]

    def deadline(self) -> float | None:
        """When :meth:`tell` has something to do."""
        return self._tell_at

    def tell(self, now: float) -> list[Action]:
        """Tell bebopd how far the launch is, if that is due; or plan to."""
        phase = self._progress.phase
        if phase not in _SHOWN:
            self._tell_at = None
            if self._told == _NOTHING:
                return []
            self._told = _NOTHING  # that it runs, or ends, is no wait
            return [Send(self._bebopd_id, status.Progress(self._tree.job_id, ""))]
        said = self._come()
        if said == self._told:
            self._tell_at = None
        elif self._tell_at is None:
            self._tell_at = now + self._told_s
        elif now >= self._tell_at:
            self._told, self._tell_at = said, None
            told = status.Progress(self._tree.job_id, *said, self._ranks_come())
            return [Send(self._bebopd_id, told)]
        return []

    def _come(self) -> tuple[str, int, int]:
        """The phase, and how many of how many nodes nobody waits for."""
        phase, late = self._progress.phase.value, self._progress.waiting.late
        if late is None:
            return phase, 0, 0
        total = len(self._tree.nodes)
        return phase, max(0, total - len(late.nodes) - late.more), total

    def _ranks_come(self) -> int:
        """How many ranks the nodes have that nobody waits for; 0: some of these are not named."""
        late, grant = self._progress.waiting.late, self._tree.grant
        if late is None or late.more or grant is None:
            return 0
        awaited = {each.node for each in late.nodes}
        places = (at for at, node in enumerate(grant.nodes.numbers()) if node in awaited)
        return grant.runs.size - sum(len(grant.runs.ranks_at(place)) for place in places)

    def progress(self, now: float) -> str:
        """How far the launch is, in a line; empty: its ranks run, or it waits for its turn."""
        phase, waiting = self._progress.phase, self._progress.waiting
        if phase not in BEFORE_GO or waiting.due is None:
            return ""
        seconds = now - self._progress.began[Phase.ALLOCATING]
        step = f"{BEFORE_GO.index(phase) + 1} of {len(BEFORE_GO)}"
        return f"{phase.value} ({step}), {seconds:.0f} s: {self._awaited()}"

    def _awaited(self) -> str:
        match self._progress.phase:
            case Phase.ALLOCATING:
                return f"a grant from {self._bebopd}"
            case Phase.FORMING:
                return f"votes from {self._who()}"
            case Phase.LOADING:
                return f"{_files(self._plan.objects)} to be sent to {self._who()}"
            case Phase.STARTING:
                return f"ranks to be at their entry on {self._who()}"
            case Phase.RESETTING:
                return f"the reset of {self._tree.unconfirmed_names}"
            case Phase.RELEASING:
                return f"{self._bebopd} to confirm that the nodes are free"
        return f"the end of the job on {self._who()}"

    def _who(self) -> str:
        return self._progress.waiting.who(otherwise=self._tree.nodes[0].name)


def _files(objects: tuple[ShippedObject, ...]) -> str:
    """The names and the size of the objects that are sent to nodes."""
    shipped = [each for each in objects if each.digest]
    names = ", ".join(each.path.decode(errors="replace") or "arguments" for each in shipped[:3])
    more = f" and {len(shipped) - 3} more" if len(shipped) > 3 else ""
    return f"{names}{more} ({sum(each.size for each in shipped) / 1e6:.1f} MB)"
