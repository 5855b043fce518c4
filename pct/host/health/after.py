"""What looks after a node beside its jobs: its store, and its health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from native.hooks import Hook
from native.limits import Limits
from native.loop.reactor import Reactor
from pct.events import HealthChecked
from pct.health import Health
from pct.host.health.looks import looks
from pct.host.health.rogues import Job, look
from pct.host.health.touching import Touching
from pct.host.health.watch import HealthWatch
from pct.host.spawn.spawner import Spawner
from pct.host.store import Store
from pct.rare_events import RoguesSeen


def look_after(
    reactor: Reactor,
    spawner: Spawner,
    store: Store,
    directories: Sequence[str],
    limits: Limits,
    handle: Callable[[HealthChecked | RoguesSeen], None],
    *,
    checks: tuple[Hook, ...],
    is_idle: Callable[[], bool] | None,
    name: str,
    batch_job: Job | None,
) -> list[Touching | HealthWatch]:
    """Look after a node from now on; gives what is to be closed in the end.

    Args:
        directories: of the store.
        handle: takes what has been seen.
        checks: the site's.
        is_idle: tells whether no job is on the node; None: only its store is looked after.
        name: of the node.
        batch_job: of which the node is, and which may leave processes behind; None: of none.
    """
    touching = Touching(
        reactor,
        directories,
        limits.store_answer_s,
        pause=store.pause,
        tell=lambda trouble: handle(HealthChecked(trouble, is_lost=bool(trouble))),
    )
    store.wait = touching.want if limits.store_answer_s else None
    if is_idle is None or not limits.health_s:
        return [touching]
    watch = HealthWatch(
        Health(checks, limits, reactor.monotonic(), has_rogues=batch_job is not None),
        reactor,
        spawner,
        look=partial(touching.looks, partial(looks, directories, limits)),
        is_idle=is_idle,
        name=name,
        tell=lambda trouble: handle(HealthChecked(trouble)),
        look_for_rogues=lambda: iter(()) if batch_job is None else look(batch_job),
        tell_rogues=lambda text: handle(RoguesSeen(text)),
    )
    return [touching, watch]
