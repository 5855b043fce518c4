"""A detached job where no partition is up: the process that holds its slots stays behind.

It is ``yodjob alloc`` without a user, in an embedded partition, and has a yod as its tenant. The
job is ``local.N``.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import msgpack

from native.errors import YodError
from native.host.rlimits import write_whole
from native.limits import Limits
from native.loop.reactor import Reactor
from native.waitstatus import exit_status
from partition.batch.detached import Detached
from partition.broker.driver import hold
from partition.broker.wanted import Wanted
from partition.find.discover import EMBEDDED
from partition.submit.alone import Alone, Told

_LOOPBACK = "127.0.0.1"


def run() -> int:
    """Be that process."""
    with open(0, "rb", closefd=False) as given:
        alone = msgpack.decode(given.read(), type=Alone)
    told = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1):
        os.dup2(null, stream)

    def tell(said: Told) -> None:
        nonlocal told
        if told >= 0:
            write_whole(told, msgpack.encode(said))
            os.close(told)
            told = -1

    def make(reactor: Reactor, limits: Limits, on_end: Callable[[int], None]) -> Detached:
        return Detached(
            alone.task,
            _LOOPBACK,
            reactor,
            limits,
            on_serving=lambda job_id, serving: tell(Told(job_id=job_id)),
            on_end=lambda wait_status: on_end(exit_status(wait_status)),
        )

    errors: list[str] = []
    wanted = Wanted(alone.spec, (alone.name,), wait_s=0.0)
    try:
        status = hold(
            wanted,
            os.environ,
            partition=EMBEDDED,
            is_quiet=True,
            make_tenant=make,
            on_tell=lambda line: errors.append(line.text),
        )
    except YodError as error:
        errors.append(str(error))
        status = error.exit_status
    tell(Told(error="; ".join(errors) or "it did not begin"))
    return max(0, status)
