"""The processes of brokers: each has a keeper, and hears us on its standard input.

The process of a job with a script begins as a small program that starts the script, and then
becomes the broker (`native/script/script.c`): a script does not wait for the start of Python.
Where the site has hooks that prepare a node, it waits for those of all nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import msgpack

from native import auth
from native.errors import PeerProtocolError, UsageError
from native.frames import Frames, framed
from native.host import programs, userdirs
from native.host.keyfile import user_key_line
from native.ids import PortalId
from native.loop.reactor import Reactor
from native.port.address import facing
from native.wire import codec
from native.wire import keeper as wire
from native.wire.base import Message
from native.wire.batch import OUTCOME, OUTCOME_MAX_BYTES, SERVING, Given, Serving
from pct.brokers import (
    BeginBroker,
    BrokerEnds,
    BrokerEvent,
    BrokerGone,
    BrokerServes,
    BrokerStarted,
)
from pct.host.kept.processes import NOT_STARTED, KeptProcesses, Place
from pct.host.spawn.spawner import NATIVE, Spawner
from pct.host.streams import InputPipe
from pct.script import Here, encode, environment_of, script_task, task_of

_RANK = 0
STARTER = os.path.join(NATIVE, "script", "yod-script")
_INIT = os.path.join(NATIVE, "init", "yod-init")
_BY_PYTHON = "-"  # what follows is a command of ours, for which it finds the interpreter
_TOLD_BYTES = OUTCOME_MAX_BYTES // 2  # of what it says on standard error, the last
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE")


class BrokerProcess:
    """One broker, from its start until nothing of it is left.

    Args:
        handle: takes what happens; a :class:`pct.brokers.BrokerGone` is the last.
        place: the control group that it is in; None: it has none of its own.
    """

    def __init__(
        self,
        action: BeginBroker,
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[BrokerEvent], None],
        place: Place | None = None,
    ) -> None:
        self._job_id = action.job_id
        self._reactor = reactor
        self._handle = handle
        key = os.urandom(auth.KEY_BYTES)
        starts = _script(action, key)  # empty: no script
        self._given = starts + framed(_given(action, key if starts else b""))
        self._input: InputPipe | None = None
        self._frames = Frames(OUTCOME_MAX_BYTES)
        self._outcome = b""
        self._said = b""  # on standard error, and what is no frame
        self._wait_status = NOT_STARTED
        self._trouble = ""
        self._kept = KeptProcesses(
            _spec(action, has_script=bool(starts)),
            reactor,
            spawner,
            report=self._report,
            read=self._read,
            lost=self._lost,
            done=self._ended,
            take_input=self._begin_input,
            place=place,
        )

    def tell(self, message: Message) -> None:
        """Pass a message on to it."""
        data = framed(codec.encode(message))
        if self._input is None:  # behind what it is given
            self._given += data
        else:
            self._input.write(data)

    def kill(self) -> None:
        """Kill it, and everything below it."""
        self._kept.kill()

    def kill_keeper(self) -> None:
        """Kill its keeper, which has not ended what is below it."""
        self._kept.kill_keeper()

    def left(self) -> set[int]:
        """Its processes that are there, and what a lost keeper has left."""
        return self._kept.left()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._kept.close()
        if self._input is not None:
            self._input.close()

    def _begin_input(self, fd: int) -> None:
        self._input = InputPipe(self._reactor, fd, lambda count: None)
        self._input.write(self._given)

    def _read(self, _number: int, stream: int, data: bytes) -> None:
        try:
            frames = self._frames.add(data) if stream == 1 else []
        except PeerProtocolError as error:
            frames, data = [], str(error).encode()
            self._kept.kill()
        for frame in frames:
            self._take(frame)
        if stream == 2 or self._frames.is_broken:
            self._said = (self._said + data)[-_TOLD_BYTES:]

    def _take(self, frame: bytes) -> None:
        """A frame of the broker's, which is as its owner has made it."""
        kind, data = frame[:1], frame[1:]
        if kind == OUTCOME:
            self._outcome = data
        elif kind == SERVING:
            with suppress(*codec.NONSENSE):
                serving = msgpack.decode(data, type=Serving)
                self._handle(BrokerServes(self._job_id, serving.address, serving.key))

    def _report(self, report: wire.Report) -> None:
        match report:
            case wire.RankStarted():
                self._handle(BrokerStarted(self._job_id))
            case wire.ExecFailed():
                self._trouble = report.explain()
            case wire.RankEnded(_, wait_status):
                self._wait_status = wait_status
                self._kept.kill()
                self._handle(BrokerEnds(self._job_id))

    def _lost(self, why: str) -> None:
        if self._wait_status == NOT_STARTED:  # else it has ended before its keeper
            self._trouble = self._trouble or why
        self._handle(BrokerEnds(self._job_id))

    def _ended(self) -> None:
        if self._input is not None:
            self._input.close()
        said = self._outcome or self._said
        is_started = not self._trouble and self._wait_status >= 0
        status = self._wait_status if is_started else NOT_STARTED
        outcome = said if is_started else self._trouble.encode()[-_TOLD_BYTES:]
        self._handle(BrokerGone(self._job_id, status, outcome))


def _script(action: BeginBroker, key: bytes) -> bytes:
    """The encoded task for yod-script.

    Empty: there is no script, or it cannot be started, and the broker reports why.
    """
    try:
        task = task_of(action.start)
        if not task.script:
            return b""
        node = action.grant.nodes[0]
        here = Here(
            host=facing(str(PortalId(node.nid, node.pid))),
            key=user_key_line(key, action.start.uid),
            key_name=userdirs.key_name(str(action.job_id)),
            now=time.time(),
            is_held=action.holds_script or bool(task.checkpoints),
            container=_container(environment_of(task)) if task.checkpoints else (),
        )
        places = (*userdirs.state_places(environment_of(task)), userdirs.ALLOCATIONS)
        directories = [os.path.join(*places[: count + 1]) for count in range(len(places))]
        return encode(script_task(action.start, task, action.grant, directories, here))
    except (*codec.NONSENSE, ValueError, UsageError):
        return b""


def _container(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """What runs a script that may be written down. Its broker says so where there is no criu."""
    from native.host.backends import criu  # few scripts are

    return os.fsencode(_INIT), os.fsencode(criu.find(environment) or "criu")


def _given(action: BeginBroker, key: bytes) -> bytes:
    start = action.start
    given = Given(
        job_id=start.job_id,
        name=start.name,
        time_s=start.time_s,
        grant=codec.encode(action.grant),
        task=start.task,
        bebopd=str(action.bebopd),
        key=key,
    )
    return msgpack.encode(given)


def _spec(action: BeginBroker, *, has_script: bool) -> wire.KeeperSpec:
    command = programs.command_line("yodjob-cold")
    starter: tuple[str, ...] = ()
    if has_script:
        starter = (STARTER, _BY_PYTHON) if len(command) == 1 else (STARTER,)
    words = tuple(map(os.fsencode, (*starter, *command, "broker")))
    environment = (f"{name}={os.environ[name]}" for name in _INHERITED if name in os.environ)
    return wire.KeeperSpec(
        job_id=action.job_id,
        uid=action.start.uid,
        gid=action.start.gid,
        groups=action.start.groups,
        umask=0o022,
        limits=(),
        environment=tuple(map(os.fsencode, environment)),
        programs=(wire.ProgramSpec(words[0], words, b"/"),),
        ranks=(wire.RankSpec(_RANK, 0, (), wants_stdin=True, wants_pmi=False),),
        is_alone=True,
    )
