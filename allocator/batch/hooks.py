"""What is done with a batch job on its way in, where a site has submit hooks. Pure."""

from __future__ import annotations

from native.ids import PortalId, Principal
from native.machine import Action
from native.wire.batch import Submit


class RunHook(Action, frozen=True):
    """Run a hook for a request; :class:`allocator.batch.hooked.Hooked` hears of its end."""

    number: int
    hook: str
    request: bytes


class TakeJob(Action, frozen=True):
    """All hooks have let a job pass."""

    source: PortalId
    principal: Principal
    message: Submit
