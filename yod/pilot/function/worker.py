"""The program of a worker: ``python -m yod.pilot.function.worker PATH NUMBER``.

It connects to who listens at PATH, takes one call after another, and ends when the connection does.
What a call prints, also its child processes, is in the worker's own output file until the call is
over; so it is not lost when the worker is.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from native import limits
from native.errors import YodError
from native.frames import Frames
from yod.pilot.function import codec, preset
from yod.pilot.link.link import connect
from yod.pilot.wire.calls import Answer, Begin, Call, Here, decode_call, frame
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    import _socket

TAIL_BYTES = 1024
_READ_BYTES = 1 << 16  # more would be a mapping of its own each time
_OUTPUT, _ERROR = 1, 2


class Worker:
    """One worker.

    Args:
        bytes_max: of a packed result.
    """

    def __init__(self, end: _socket.socket, bytes_max: int) -> None:
        self.target: object = None  # whose methods are called by their names
        self._end = end
        self._code = 0  # that the present call has told
        self._bytes_max = bytes_max
        self._home = os.getcwd()
        self._is_own = tuple(stat.S_ISREG(os.fstat(stream).st_mode) for stream in (_OUTPUT, _ERROR))

    def run(self, here: Here) -> None:
        """Do all calls that come."""
        self._send(here)
        frames = Frames(MESSAGE_BYTES_MAX)
        while data := self._receive():
            for body in frames.add(data):
                call = decode_call(body)
                if isinstance(call, Call):
                    self._send(self._do(call))
                elif isinstance(call, Begin):
                    _begin(call.payload)

    def _receive(self) -> bytes:
        try:
            data: bytes = self._end.recv(_READ_BYTES)
        except OSError:  # the host of the caller has gone
            return b""
        return data

    def _send(self, message: Here | Answer) -> None:
        with suppress(OSError):  # the caller has gone; receiving tells
            self._end.sendall(frame(message))

    def _do(self, call: Call) -> Answer:
        self._code = 0
        before = {name: os.environ.get(name) for name in call.variables}
        began = time.time()
        try:
            if call.directory:
                os.makedirs(call.directory, exist_ok=True)
                os.chdir(call.directory)
            os.environ.update(call.variables)
            missing = _unpack_files(call)
            value, exception, detail = (b"", missing, "") if missing else self._call(call)
        except OSError as error:
            value, exception, detail = b"", f"{call.directory}: {error.strerror}", ""
        ended = time.time()
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
        tails, failure = self._collect(call)
        if call.directory:
            os.chdir(self._home)
        if failure and not exception:
            value, exception = b"", failure
        code = 0 if not exception else self._code or 1
        files, left = self._pack_files(call)
        return Answer(
            call.number, value, exception, detail, *tails, began, ended, code, files, left
        )

    def _call(self, call: Call) -> tuple[bytes, str, str]:
        """The packed result, or what has been raised, packed and as texts."""
        try:
            function, args, kwargs = codec.unpack_call(call.payload)
            meant = self._meant(function)
            args, kwargs = self._given(meant, args, kwargs)
            result = meant(*args, **kwargs)
            if hasattr(result, "__await__"):
                import asyncio

                result = asyncio.run(_awaited(result))
            result = self._value(function, result)
        except BaseException as error:  # also what ends a program: the worker goes on
            return self._raised(error)
        try:
            value = codec.dumps(result)
        except Exception as error:
            error.add_note("The result of the call cannot be packed.")
            return self._raised(error)
        if len(value) > self._bytes_max:
            return self._raised(
                YodError(
                    f"the result has {len(value)} bytes, and at most {self._bytes_max} are taken"
                    " (YOD_CALL_BYTES); write it to a file instead"
                )
            )
        return value, "", ""

    def _meant(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is called, where a call names something of the worker's."""
        if isinstance(function, codec.Method) and self.target is not None:
            found: Callable[..., Any] = getattr(self.target, function.name)
            return found
        return function

    def _value(self, function: Callable[..., Any], returned: Any) -> Any:
        """The value of a call that has returned this."""
        return returned

    def _given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a call, with what the worker adds."""
        return args, preset.filled_in(function, args, kwargs)

    def _raised(self, error: BaseException) -> tuple[bytes, str, str]:
        import traceback

        code = getattr(error, "returncode", getattr(error, "code", 0))  # of a program; sys.exit
        self._code = code & 0xFF if isinstance(code, int) else 0
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename == __file__:
            own = own.tb_next  # the worker's own frames tell nothing
        try:
            told, detail = (
                repr(error),
                "".join(traceback.format_exception(error.with_traceback(own))),
            )
        except Exception:  # its own repr raises
            told = detail = type(error).__name__
        try:
            value = codec.dumps(error.with_traceback(None))
        except Exception:
            value = b""
        if len(value) > self._bytes_max:
            value = b""
        return value, told[: self._bytes_max], detail[-self._bytes_max :]

    # -- output -----------------------------------------------------------------

    def _pack_files(self, call: Call) -> tuple[bytes, str]:
        """What a call has left, where its directory is carried; or why that stays there."""
        if not call.carries:
            return b"", ""
        from yod.pilot.files.parcel import TooLarge, parcel_of, remove

        try:
            files = parcel_of(call.directory, self._bytes_max)
        except TooLarge as error:
            return b"", f"what it has left is {error}"
        except OSError as error:
            return b"", f"what it has left: {error.filename or call.directory}: {error.strerror}"
        if not call.keeps:
            remove(call.directory)
        return files, ""

    def _collect(self, call: Call) -> tuple[tuple[str, str], str]:
        """Move what a call has printed to where it belongs: both ends of it, and a failure."""
        with suppress(Exception):  # they may have been replaced
            sys.stdout.flush()
            sys.stderr.flush()
        if not call.output:
            return ("", ""), ""
        tails, failure, seen = [], "", set()
        for stream, name in ((_OUTPUT, call.output), (_ERROR, call.error)):
            tail = b""
            try:
                if self._is_own[stream - 1] and os.fstat(stream).st_size:
                    is_more = name in seen or bool(call.ranks)  # whose ranks share the files
                    tail = _move(stream, os.path.join(call.directory, name), is_more)
                    seen.add(name)
            except OSError as error:
                failure = f"its output cannot be written: {error.strerror}"
            tails.append(tail.decode(errors="replace"))
        return (tails[0], tails[1]), failure


def _begin(payload: bytes) -> None:
    """Get ready for calls; whoever cannot ends."""
    try:
        function, args, kwargs = codec.unpack_call(payload)
        preset.take(function(*args, **kwargs))
    except Exception as error:  # the application's
        import traceback

        traceback.print_exc()
        sys.exit(f"init_function: {type(error).__name__}: {error}")


def _unpack_files(call: Call) -> str:
    """Put the files of a call where they belong; why that cannot be done; empty: it is."""
    if not call.files:
        return ""
    from yod.pilot.files.parcel import take_parcel

    failure = take_parcel(call.files, call.directory)
    return failure and f"its input: {failure}"


async def _awaited(result: object) -> object:
    return await result  # type: ignore[misc]


def _parts(fd: int) -> Iterator[bytes]:
    at = 0
    while data := os.pread(fd, _READ_BYTES, at):
        at += len(data)
        yield data


def _move(stream: int, path: str, is_more: bool) -> bytes:
    """Move what a stream has to a file; the end of it."""
    how = os.O_APPEND if is_more else os.O_TRUNC
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o666)
    tail = b""
    try:
        for data in _parts(stream):
            tail = (tail + data)[-TAIL_BYTES:]
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
    finally:
        os.close(fd)
        os.ftruncate(stream, 0)
    return tail


def main() -> int:
    """Run one worker until its caller has gone."""
    path, number = sys.argv[1], int(sys.argv[2])
    try:
        import cloudpickle  # noqa: F401

        own = limits.load(dict(os.environ))
        end = connect(path)
    except ImportError:
        print(f"functions need cloudpickle, which this node lacks: {codec.EXTRA}", file=sys.stderr)
        return 1
    except YodError as error:
        print(f"a worker for functions: {error}", file=sys.stderr)
        return 1
    end.settimeout(None)
    rank = int(os.environ.get("RP_RANK", "0"))
    here = Here(number, rank, os.getpid(), is_apart=not os.path.exists(path))
    Worker(end, own.call_bytes).run(here)
    return 0


if __name__ == "__main__":
    sys.exit(main())
