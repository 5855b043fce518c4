"""The program of a worker of a raptor: ``python -m yod.pilot.function.rank RAPTOR FILE CLASS``.

It runs as each rank of a task. The worker's object is made once. A thread receives, so that a call
that is not wanted any more can be ended while it runs: the process begins anew then. A rank of an
MPI world cannot, since it leaves the world with that: it ends, and the others with it.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, util
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import structs

from native import limits
from native.errors import UsageError, YodError
from native.frames import Frames
from yod.pilot.function import codec
from yod.pilot.function.registered import Registered, Told, dispatcher_of, value_of
from yod.pilot.function.together import with_communicator
from yod.pilot.function.worker import Worker
from yod.pilot.link.link import connect
from yod.pilot.wire.calls import Answer, Call, Drop, Here, decode_call
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    import _socket

SOCKET = "calls.sock"  # in the pilot's sandbox
MODULE = "yod.pilot.function.rank"
_DEFAULT = "yod.pilot.raptor"
_OUTPUT, _ERROR = 1, 2
_DROPPED = 143  # as a program that SIGTERM has ended


class Rank(Worker):
    """One rank.

    Args:
        target: whose methods are called.
        world: the communicator of all ranks; None: they have none.
    """

    def __init__(
        self, end: _socket.socket, bytes_max: int, target: object, rank: int, world: Any = None
    ) -> None:
        super().__init__(end, bytes_max)
        self.target = target
        self._rank = rank
        self._world = world
        self._first = dict(os.environ)  # calls have variables of their own
        self._came: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._number: int | None = None  # of the call that runs
        self._lock = threading.Lock()
        self._ranks: tuple[int, ...] = ()  # that have the present call
        self._communicator: Any = None  # of them

    def serve(self, here: Here) -> None:
        """Do all calls that come, until the connection ends."""
        self._send(here)
        threading.Thread(target=self._listen, name="calls", daemon=True).start()
        while (call := self._came.get()) is not None:
            answer = self._do(call)
            with self._lock:
                self._number = None
            self._send(answer)

    def _do(self, call: Call) -> Answer:
        self._ranks = call.ranks or (self._rank,)
        index = str(self._ranks.index(self._rank))
        variables, directory = {**call.variables, "RP_RANK": index}, call.directory
        if call.carries and len(self._ranks) > 1:  # others of its ranks may be on this node
            directory = variables["RP_TASK_SANDBOX"] = f"{directory}.{index}"
        answer = super()._do(structs.replace(call, variables=variables, directory=directory))
        own, self._communicator = self._communicator, None
        if own is not None and not answer.exception:
            own.Free()  # after a failure something may still be on its way in it
        return answer

    def _meant(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, Registered):
            return dispatcher_of(self.target, function.mode)
        return super()._meant(function)

    def _value(self, function: Callable[..., Any], returned: Any) -> Any:
        return value_of(returned) if isinstance(function, Registered) else returned

    def _raised(self, error: BaseException) -> tuple[bytes, str, str]:
        value, told, detail = super()._raised(error)
        return value, told, error.detail if isinstance(error, Told) else detail

    def _given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        args, kwargs = super()._given(function, args, kwargs)
        if self._world is None and len(self._ranks) == 1:
            return args, kwargs
        return with_communicator(function, args, kwargs, self._make_communicator)

    def _make_communicator(self) -> Any:
        """That of the ranks of the present call. All of them come here."""
        if self._world is None:
            raise UsageError("a communicator needs a worker whose class is an MPIWorker")
        if self._communicator is None:
            group = self._world.group.Incl(self._ranks)
            self._communicator = self._world.Create_group(group)
            group.Free()
        return self._communicator

    def _listen(self) -> None:
        frames = Frames(MESSAGE_BYTES_MAX)
        while data := self._receive():
            for body in frames.add(data):
                told = decode_call(body)
                with self._lock:
                    if isinstance(told, Call):
                        self._number = told.number
                        self._came.put(told)
                    elif isinstance(told, Drop) and told.number == self._number:
                        self._begin_anew()
        with self._lock:  # the pilot has gone, or the raptor has ended
            if self._number is not None:
                os._exit(0)  # a call may run for ever
            self._came.put(None)

    def _begin_anew(self) -> NoReturn:
        if self._world is not None:
            os._exit(_DROPPED)
        os.chdir(self._home)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], self._first)


def load(path: str, name: str) -> Any:
    """A class of a file; of our own ones where there is no file.

    Args:
        path: of the file; where it is not there, one of its name may be in the task's sandbox.

    Raises:
        UsageError: there is no such file or class.
    """
    if path and not os.path.exists(path) and os.path.exists(os.path.basename(path)):
        path = os.path.abspath(os.path.basename(path))
    if path:
        spec = util.spec_from_file_location("raptor_file", path)
        if spec is None or spec.loader is None:
            raise UsageError(f"raptor_file {path}: it is no Python file")
        module = util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except OSError as error:
            raise UsageError(f"raptor_file {path}: {error.strerror}") from None
    else:
        module = import_module(_DEFAULT)
    made = getattr(module, name, None)
    if made is None:
        raise UsageError(f"raptor_class {name}: {path or _DEFAULT} has no such class")
    return made


def _made(target: Callable[[str], object], raptor: str) -> object:
    """The object of a class.

    Raises:
        UsageError: it cannot be made; the text has the traceback.
    """
    try:
        return target(raptor)
    except Exception:  # the application's
        import traceback

        raise UsageError(traceback.format_exc().strip()) from None


def world_of(target: object, ranks: int) -> Any:
    """The communicator of all ranks of a worker, if its class wants one; else None.

    Args:
        ranks: how many it has.

    Raises:
        YodError: it cannot have one.
    """
    if not getattr(target, "wants_world", False):
        return None
    try:
        from mpi4py import MPI
    except ImportError:
        raise YodError("an MPIWorker needs mpi4py: pip install 'yod[mpi]'") from None
    world = MPI.COMM_WORLD
    if world.size != ranks:
        raise UsageError(
            f"its {ranks} ranks do not find one another: submit the worker with 'use_mpi': True"
        )
    return world


def main() -> int:
    """Run one rank."""
    raptor, path, name = sys.argv[1:4]
    rank, task = os.environ["RP_RANK"], os.environ["RP_TASK_ID"]
    for stream, kind in ((_OUTPUT, "out"), (_ERROR, "err")):  # ranks of a task share its files
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        fd = os.open(f"{task}.{rank}.{kind}", flags, 0o666)
        if stream == _ERROR:
            said = os.dup(_ERROR)
        os.dup2(fd, stream)
        os.close(fd)
    try:
        codec.demand()
        target = _made(load(path, name), raptor)
        world = world_of(target, int(os.environ["RP_RANKS"]))
        socket = os.path.join(os.environ["RP_PILOT_SANDBOX"], SOCKET)
        end = connect(socket)
        most = limits.load(dict(os.environ)).call_bytes
    except YodError as error:
        os.write(said, f"a worker of {raptor}: {error}\n".encode())
        return 1
    end.settimeout(None)
    own = Rank(end, most, target, int(rank), world)
    own.serve(Here(0, int(rank), os.getpid(), raptor, task, not os.path.exists(socket)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
