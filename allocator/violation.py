"""Messages that their sender may not send. Pure."""

from __future__ import annotations

from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.machine import Action, Log, Send
from native.wire import batch, load
from native.wire.alloc import NodeRequest, Refused, Release
from native.wire.base import Message
from native.wire.nodes import AskNodeEvents, EndJobs, Order
from native.wire.status import Announce, Progress, Rejected, Watch

OF_RESET = (load.Completions, load.Released)
_ASKED = (batch.Submit, batch.Ask, batch.History, batch.AskEvents, batch.AskReach)
_ORDERED = (batch.Cancel, batch.SignalScript, batch.LimitTime, batch.Suspend, batch.Hold)
OF_BATCH = (*_ASKED, *_ORDERED, batch.Prioritise, batch.Requeue)
OF_JOBS = (*OF_BATCH, EndJobs)
TOLD = (batch.Steps, Progress)
_ANSWERED = (NodeRequest, Release, Order, AskNodeEvents, Watch, batch.Steps, *OF_JOBS)


def violation(source: PortalId, principal: Principal, message: Message) -> list[Action]:
    """Log such a message, and answer it where its sender waits for an answer."""
    if principal.kind is PrincipalKind.PARTITION and isinstance(message, OF_RESET):
        return []  # a PCT tells of a job that we had it reset
    text = f"{type(message).__name__} is not for this peer ({principal.kind.name}) to send"
    actions: list[Action] = [Log(f"{source}: {text}")]
    match message:
        case _ if isinstance(message, _ANSWERED):
            actions.append(Send(source, Refused(Refusal.NOT_PERMITTED, text)))
        case Announce():
            actions.append(Send(source, Rejected("a PCT needs the partition's key")))
    return actions
