"""The processes of brokers: each has a keeper, and hears us on its standard input."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import msgpack

from native.errors import PeerProtocolError
from native.frames import Frames, framed
from native.host import programs
from native.loop.reactor import Reactor
from native.wire import codec
from native.wire import keeper as wire
from native.wire.base import Message
from native.wire.batch import OUTCOME, OUTCOME_MAX_BYTES, SERVING, Given, Serving
from pct.brokers import BeginBroker, BrokerEvent, BrokerGone, BrokerServes, BrokerStarted
from pct.host.keeper import Keeper
from pct.host.spawn.spawner import Spawner
from pct.host.streams import InputPipe, OutputPipe

_NOT_STARTED = -1
_RANK = 0
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
        self._given = framed(_given(action))
        self._input: InputPipe | None = None
        self._outputs: dict[int, OutputPipe] = {}
        self._frames = Frames(OUTCOME_MAX_BYTES)
        self._outcome = b""
        self._said = b""  # on standard error, and what is no frame
        self._wait_status = _NOT_STARTED
        self._trouble = ""
        self._is_empty = False
        self._keeper = Keeper.start(
            _spec(action),
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


def _given(action: BeginBroker) -> bytes:
    start = action.start
    given = Given(
        job_id=start.job_id,
        name=start.name,
        time_s=start.time_s,
        grant=codec.encode(action.grant),
        task=start.task,
        bebopd=str(action.bebopd),
    )
    return msgpack.encode(given)


def _spec(action: BeginBroker) -> wire.KeeperSpec:
    words = tuple(map(os.fsencode, (*programs.command_line("yodjob"), "broker")))
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
