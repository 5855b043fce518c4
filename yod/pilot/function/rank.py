"""The program of a worker of a raptor: ``python -m yod.pilot.function.rank RAPTOR FILE CLASS``.

It runs as each rank of a task. The worker's object is made once. A thread receives, so that a call
that is not wanted any more can be ended while it runs: the process begins anew then.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from importlib import import_module, util
from typing import TYPE_CHECKING, Any, NoReturn

from native import limits
from native.errors import UsageError, YodError
from native.frames import Frames
from yod.pilot.function import codec
from yod.pilot.function.worker import Worker
from yod.pilot.link.link import connect
from yod.pilot.wire.calls import Call, Drop, Here, decode_call
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    import _socket

SOCKET = "calls.sock"  # in the pilot's sandbox
MODULE = "yod.pilot.function.rank"
_DEFAULT = "yod.pilot.raptor"
_OUTPUT, _ERROR = 1, 2


class Rank(Worker):
    """One rank.

    Args:
        target: whose methods are called.
    """

    def __init__(self, end: _socket.socket, bytes_max: int, target: object) -> None:
        super().__init__(end, bytes_max)
        self.target = target
        self._first = dict(os.environ)  # calls have variables of their own
        self._came: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._number: int | None = None  # of the call that runs
        self._lock = threading.Lock()

    def serve(self, here: Here) -> NoReturn:
        """Do all calls that come, until the process ends."""
        self._send(here)
        threading.Thread(target=self._listen, name="calls", daemon=True).start()
        while True:
            call = self._came.get()
            answer = self._do(call)
            with self._lock:
                self._number = None
            self._send(answer)

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
        os._exit(0)  # the pilot has gone, or the raptor has ended; a call may be running

    def _begin_anew(self) -> NoReturn:
        os.chdir(self._home)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], self._first)


def target_of(raptor: str, path: str, name: str) -> Any:
    """The object of a worker.

    Raises:
        UsageError: there is no such file or class.
    """
    if path:
        spec = util.spec_from_file_location("raptor_worker", path)
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
    return made(raptor)


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
        target = target_of(raptor, path, name)
        end = connect(os.path.join(os.environ["RP_PILOT_SANDBOX"], SOCKET))
        most = limits.load(dict(os.environ)).call_bytes
    except YodError as error:
        os.write(said, f"a worker of {raptor}: {error}\n".encode())
        return 1
    end.settimeout(None)
    Rank(end, most, target).serve(Here(0, int(rank), os.getpid(), raptor, task))


if __name__ == "__main__":
    sys.exit(main())
