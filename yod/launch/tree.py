"""The PCTs of a job as yod reaches them.

yod talks to the root PCT, which passes messages on down the tree and answers for
all. Only a reset goes to each PCT directly: the tree may be broken then.
"""

from __future__ import annotations

import signal
from collections.abc import Collection

from native.ids import PortalId
from native.machine import Action, Send
from native.wire import alloc, group, load
from native.wire.base import JobEnd, Message
from native.wire.placed import JobNodes

NAMES_MAX = 6  # nodes named in one line


class Tree:
    """The granted nodes: which is the root, and which have not confirmed the end of the job.

    Attributes:
        grant: None until bebopd has granted nodes.
        unconfirmed: PCT -> node, of those that may still host something of the job.
        sent_signals: signals that yod has sent to ranks to end them.
        is_suspended: a command has had the ranks stopped, and nothing has continued them since.
        rescued: places of lost nodes whose shares of a checkpoint others drain while the job ends;
            None: none are.
        rescue_s: they have so long for that.
        rescue_attempt: the checkpoint, as in ``checkpoint.begin``.
    """

    def __init__(self) -> None:
        self.grant: alloc.Grant | None = None
        self.unconfirmed: dict[PortalId, int] = {}
        self.sent_signals: set[int] = set()
        self.is_suspended = False
        self.rescued: tuple[int, ...] | None = None
        self.rescue_s = 0.0
        self.rescue_attempt = 0

    def place(self, grant: alloc.Grant) -> None:
        """The nodes have been granted."""
        self.grant = grant
        nodes = grant.nodes
        self.unconfirmed = dict(zip(nodes.addresses(), nodes.numbers(), strict=True))

    @property
    def nodes(self) -> JobNodes:
        """The nodes of the job, the root first."""
        assert self.grant is not None
        return self.grant.nodes

    @property
    def job_id(self) -> int:
        """The job's id."""
        assert self.grant is not None
        return self.grant.job_id

    @property
    def attempt(self) -> int:
        """How often it was placed before."""
        assert self.grant is not None
        return self.grant.attempt

    @property
    def root(self) -> PortalId:
        """The root PCT."""
        return self.nodes.address(0)

    @property
    def unconfirmed_names(self) -> str:
        """The first few nodes that have not confirmed the end."""
        missing = set(self.unconfirmed.values())
        names = [node.name for node in self.nodes if node.node in missing]
        return ", ".join(names[:NAMES_MAX])

    def send(self, message: Message) -> list[Action]:
        """Send a message to the root."""
        return [Send(self.root, message)]

    def signal(self, number: int) -> list[Action]:
        """Send all ranks a signal that is to end them, and continues them if they are stopped."""
        self.is_suspended = False
        self.sent_signals.add(number)
        if number == signal.SIGTERM:  # a rank's terminal hangs up before it
            self.sent_signals.add(signal.SIGHUP)
        return self.send(load.Signal(self.job_id, number))

    def all_done(self, is_complete: bool) -> list[Action]:
        """End the job; ``is_complete``: no rank is left that this would kill."""
        if not is_complete:
            self.sent_signals.add(signal.SIGKILL)
        return self.send(load.AllDone(self.job_id))

    def rescue(self, node: int, within_s: float, attempt: int) -> list[Action]:
        """A node is lost: the job ends behind what the others drain of a checkpoint."""
        self.rescued = (list(self.nodes.numbers()).index(node),)
        self.rescue_s, self.rescue_attempt = within_s, attempt
        return self.send(group.Rescue(self.job_id, self.rescued))

    def end_rescue(self) -> None:
        """The nodes are not waited for any more: a reset tells them."""
        if self.rescued is not None:
            self.rescued, self.rescue_s = (), 0.0

    def reset(self) -> list[Action]:
        """Tell each PCT that has not confirmed the end to kill what is left."""
        self.sent_signals.add(signal.SIGKILL)
        reset = load.Reset(self.job_id, self.attempt)
        messages: list[Message] = [reset]
        if self.rescued is not None:
            messages = [group.Rescue(self.job_id, self.rescued), reset]
        return [Send(peer, message) for peer in self.unconfirmed for message in messages]

    def release(self, end: JobEnd | None, lost: Collection[int] = ()) -> alloc.Release:
        """What bebopd is told when the nodes are not needed any more.

        Args:
            end: how the job has ended; None: it is not told.
            lost: nodes that are lost, as far as is known.
        """
        left = tuple(sorted(set(self.unconfirmed.values()).intersection(lost)))
        return alloc.Release(self.job_id, end, self.attempt, left)

    def waits_for_others(self, lost: Collection[int]) -> bool:
        """Whether some node has not confirmed the end that is none of these."""
        return not set(lost).issuperset(self.unconfirmed.values())

    def confirm(self, nodes: Collection[int]) -> None:
        """On these nodes nothing of the job is left."""
        freed = frozenset(nodes)
        self.unconfirmed = {
            peer: node for peer, node in self.unconfirmed.items() if node not in freed
        }

    def lose(self, peer: PortalId) -> int | None:
        """A peer is out of reach.

        Returns:
            The node that cannot confirm the end any more; None: it has, or is not ours.
        """
        return self.unconfirmed.pop(peer, None)
