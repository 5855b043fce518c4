"""Batch jobs on their way in, where a site's submit hooks change or refuse them. Pure.

The hooks of a job run one after another, each with what those before it have made of the request.
One that fails, takes too long or says nothing that can be read refuses the job: a rule of the
site's that cannot be asked is not one that is met.

The request is a JSON object, with the names of the options of ``yodjob submit``; the answer is
nothing, ``{"change": {...}}`` or ``{"refuse": "why"}``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, json
from msgspec.structs import asdict, replace

from allocator.batch.hooks import RunHook, TakeJob
from allocator.jobs.grants import Owner
from native import nodelist
from native.errors import Refusal
from native.ids import PortalId, Principal
from native.limits import Limits
from native.machine import Action, Log, Send
from native.text import shown
from native.wire import codec
from native.wire.alloc import Refused
from native.wire.base import Dependency, Terms, clipped
from native.wire.batch import Submit

ANSWER_MAX_BYTES = 64 * 1024
SAID_MAX = 500  # characters of a hook's own words that a user sees

_TERMS = (
    *("queue", "account", "licences", "nice", "constraint", "requeue_on", "requeue_lost"),
    *("switches", "switches_s", "exclude"),
)
_OWN = ("name", "time_s", "is_exclusive", "is_held", "begins", "deadline")
CHANGED = (*_TERMS, *_OWN)  # what a hook may change: not what the script was written for


class _Asked(Struct):
    """A job, and the hooks that are left."""

    source: PortalId
    principal: Principal
    message: Submit
    hooks: deque[str]


class _Answer(Struct, forbid_unknown_fields=True):
    """What a hook says."""

    change: dict[str, Any] = {}
    refuse: str | None = None


class Hooked:
    """The jobs that hooks look at, and those that wait for that.

    Args:
        owner_of: a user, by uid; None: there is none, so that bebopd will refuse the job.
        hooks: their names, in the order in which they run.
    """

    def __init__(
        self, limits: Limits, owner_of: Callable[[int], Owner | None], hooks: Sequence[str]
    ) -> None:
        self._limits = limits
        self._owner_of = owner_of
        self._hooks = tuple(hooks)
        self._running: dict[int, _Asked] = {}
        self._waiting: deque[_Asked] = deque()
        self._last = 0

    def become(self, hooks: Sequence[str]) -> None:
        """Go by these hooks, in their order; jobs that are on their way keep theirs."""
        self._hooks = tuple(hooks)

    def submitted(self, source: PortalId, principal: Principal, message: Submit) -> list[Action]:
        """A user hands a job in."""
        asked = _Asked(source, principal, message, deque(self._hooks))
        if not self._hooks:
            return self._next(asked)
        if len(self._running) < self._limits.submit_hooks_count:
            return self._next(asked)
        own = sum(each.principal.uid == principal.uid for each in self._waiting)
        most, most_each = self._limits.waiting_count, self._limits.waiting_each_count
        if len(self._waiting) >= most or own >= most_each:
            text = "too many jobs wait for the submit hooks of this partition"
            return [Send(source, Refused(Refusal.BUSY, text))]
        self._waiting.append(asked)
        return []

    def ended(self, number: int, hook: str, error: str, output: bytes) -> list[Action]:
        """A hook has ended.

        Args:
            error: how it has failed; empty: it has not.
            output: what it has written.
        """
        asked = self._running.pop(number)
        actions = self._judged(asked, hook, error, output)
        while self._waiting and len(self._running) < self._limits.submit_hooks_count:
            actions += self._next(self._waiting.popleft())
        return actions

    def _judged(self, asked: _Asked, hook: str, error: str, output: bytes) -> list[Action]:
        try:
            if error:
                raise ValueError(error)
            answer = _read(output)
            if answer.refuse is not None:
                text = f"{hook}: {_words(answer.refuse) or 'refused'}"
                return self._refuse(asked, Refusal.NOT_PERMITTED, text)
            asked.message = changed(asked.message, answer.change)
        except ValueError as raised:
            text = f"submit hook {hook} failed: {_words(str(raised))}"
            return [*self._refuse(asked, Refusal.BUSY, text), Log(text)]
        return self._next(asked)

    def _refuse(self, asked: _Asked, code: Refusal, text: str) -> list[Action]:
        uid = asked.principal.uid
        return [Send(asked.source, Refused(code, text)), Log(f"refused uid {uid}: {text}")]

    def _next(self, asked: _Asked) -> list[Action]:
        if not asked.hooks:
            return [TakeJob(asked.source, asked.principal, asked.message)]
        self._last += 1
        self._running[self._last] = asked
        owner = self._owner_of(asked.principal.uid)
        name = owner.name if owner else str(asked.principal.uid)
        request = as_json(asked.message, asked.principal.uid, name)
        return [RunHook(self._last, asked.hooks.popleft(), request)]


def as_json(message: Submit, uid: int, user: str) -> bytes:
    """A job as hooks see it."""
    spec, terms = message.spec.unpacked(), message.terms
    needs = {} if spec.needs is None else asdict(spec.needs)
    needs.pop("binding", None)
    fields: dict[str, object] = {
        "user": user,
        "uid": uid,
        "slots": spec.slots,
        "size": spec.size,
        "list": nodelist.format_nodes(spec.nodes),
        "node_count": spec.node_count,
        "per_node": spec.per_node,
        "cores": spec.cores,
        **needs,
        **{name: getattr(message, name) for name in _OWN},
        **{name: getattr(terms, name) for name in _TERMS},
        "licences": dict(terms.licences),
        "after": _after(message.after),
        "array": "" if message.array is None else message.array.text,
        "is_test": message.is_test,
    }
    return json.encode(fields)


def changed(message: Submit, change: dict[str, Any]) -> Submit:
    """A job with what a hook has changed.

    Raises:
        ValueError: it may not change that, or not so.
    """
    if not change:
        return message
    if unknown := sorted(change.keys() - set(CHANGED)):
        raise ValueError(f"it may not change {shown(unknown[0])}, only {', '.join(CHANGED)}")
    change = dict(change)
    if isinstance(licences := change.get("licences"), dict):
        change["licences"] = tuple(licences.items())
    try:
        terms = {name: change.pop(name) for name in _TERMS if name in change}
        made = replace(message, **change, terms=replace(message.terms, **terms))
        of_terms = msgspec.convert(msgspec.to_builtins(made.terms), Terms)
    except msgspec.MsgspecError as error:
        raise ValueError(f"what it changes cannot be: {error}") from None
    made = replace(made, terms=of_terms)
    if text := codec.why_refused(made):
        raise ValueError(f"what it changes cannot be: {text}")
    return made


def _read(output: bytes) -> _Answer:
    if len(output) > ANSWER_MAX_BYTES:
        raise ValueError(f"it has said more than {ANSWER_MAX_BYTES} bytes")
    if not output.strip():
        return _Answer()
    try:
        return json.decode(output, type=_Answer)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its answer is none: {error}") from None


def _words(text: str) -> str:
    """A hook's own words, on one line."""
    return clipped(shown(" ".join(text.split())), SAID_MAX)


def _after(after: Dependency) -> list[str]:
    singleton = ["singleton"] if after.is_singleton else []
    return [*(each.text(str(each.job_id)) for each in after.on), *singleton]
