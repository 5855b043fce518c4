"""The processes of brokers: each has a keeper, and hears us on its standard input.

The process of a job with a script begins as a small program that starts the script, and then
becomes the broker (`native/script/script.c`): a script does not wait for the start of Python.
Where the site has hooks that prepare a node, it waits for those of all nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

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
from pct.brokers import BeginBroker, BrokerEvent, BrokerGone, BrokerServes, BrokerStarted
from pct.host.keeper import Keeper
from pct.host.spawn.spawner import NATIVE, Spawner
from pct.host.streams import InputPipe, OutputPipe
from pct.script import Here, encode, environment_of, script_task, task_of

_NOT_STARTED = -1
_RANK = 0
STARTER = os.path.join(NATIVE, "script", "yod-script")
_BY_PYTHON = "-"  # what follows is a command of ours, for which it finds the interpreter
_TOLD_BYTES = OUTCOME_MAX_BYTES // 2  # of what it says on standard error, the last
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE")


class BrokerProcess:
    """One broker, from its start until nothing of it is left.

    Args:
        handle: takes what happens; a :class:`pct.brokers.BrokerGone` is the last.
    """

    def __init__(
        self,
        action: BeginBroker,
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[BrokerEvent], None],
    ) -> None:
        self._job_id = action.job_id
        self._spawner = spawner
        self._reactor = reactor
        self._handle = handle
        key = os.urandom(auth.KEY_BYTES)
        starts = _script(action, key)  # empty: no script
        self._given = starts + framed(_given(action, key if starts else b""))
        self._input: InputPipe | None = None
        self._outputs: dict[int, OutputPipe] = {}
        self._frames = Frames(OUTCOME_MAX_BYTES)
        self._outcome = b""
        self._said = b""  # on standard error, and what is no frame
        self._wait_status = _NOT_STARTED
        self._trouble = ""
        self._is_empty = False
        self._keeper = Keeper.start(
            _spec(action, has_script=bool(starts)),
            spawner,
            reactor,
            self._report,
            self._take_streams,
            on_not_started=self._not_started,
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
        self._keeper.end()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._keeper.close()
        if self._input is not None:
            self._input.close()
        for output in self._outputs.values():
            output.close()

    def _take_streams(
        self, rank: int, stdin: int | None, stdout: int, stderr: int, client: int | None
    ) -> None:
        assert stdin is not None and client is None
        self._input = InputPipe(self._reactor, stdin, lambda count: None)
        self._input.write(self._given)
        for stream, fd in ((1, stdout), (2, stderr)):
            self._outputs[stream] = OutputPipe(self._reactor, fd, partial(self._read, stream))

    def _read(self, stream: int, data: bytes) -> None:
        if not data:
            del self._outputs[stream]
            self._look_at_end()
        try:
            frames = self._frames.add(data) if stream == 1 else []
        except PeerProtocolError as error:
            frames, data = [], str(error).encode()
            self._keeper.end()
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
                self._keeper.end()
            case wire.KeeperLost(reason):
                self._trouble = self._trouble or reason
                self._spawner.kill_orphans(self._ended)
            case wire.KeeperEmpty():
                self._ended()

    def _not_started(self, why: str) -> None:
        self._trouble = why
        self._ended()

    def _ended(self) -> None:
        """No process is left; what the pipes hold now is the last."""
        self._is_empty = True
        for output in list(self._outputs.values()):
            output.finish()
        self._look_at_end()

    def _look_at_end(self) -> None:
        if not self._is_empty or self._outputs:
            return
        if self._input is not None:
            self._input.close()
        said = self._outcome or self._said
        is_started = not self._trouble and self._wait_status >= 0
        status = self._wait_status if is_started else _NOT_STARTED
        outcome = said if is_started else self._trouble.encode()[-_TOLD_BYTES:]
        # Its last words are told when the loop has none of its callbacks on the way.
        self._reactor.call_soon(partial(self._handle, BrokerGone(self._job_id, status, outcome)))


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
            is_held=action.holds_script,
        )
        places = (*userdirs.state_places(environment_of(task)), userdirs.ALLOCATIONS)
        directories = [os.path.join(*places[: count + 1]) for count in range(len(places))]
        return encode(script_task(action.start, task, action.grant, directories, here))
    except (*codec.NONSENSE, ValueError, UsageError):
        return b""


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
    command = programs.command_line("yodjob")
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
