"""Calls and their results as bytes: cloudpickle, beside the directories that modules come from.

A function of a module that can be imported is packed by its name, any other one with its code.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, msgpack

from native.errors import UsageError, YodError
from native.text import shown
from yod.pilot.model import modes
from yod.pilot.model.description import TaskDescription

_MARK = "yod-call:"  # in front of a call that is given as a text
EXTRA = "pip install 'yod[pilot]'"
# Keys that need a process of the task's own, and what to do instead.
_REFUSED = ("pre_exec", "post_exec", "pre_launch", "post_launch", "named_env")


class _Packed(Struct, array_like=True):
    """A call.

    Attributes:
        paths: directories of modules, beside those of the installation.
        call: the pickled function, arguments and named arguments.
    """

    paths: list[str]
    call: bytes


_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))  # plain pickle knows them

_encoder = msgpack.Encoder()
_decoder: msgpack.Decoder[_Packed] = msgpack.Decoder(_Packed)

_added: list[str] = []  # to the path of modules, by the last call

Whole = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


class _Values:
    """Results of several ranks, each packed."""

    def __init__(self, packed: list[bytes]) -> None:
        self.packed = packed


class Method:
    """Stands for a method of the worker's object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Only a worker of a raptor knows it."""
        raise UsageError(f"this worker has no method {self.name!r}")


class Paths:
    """The directories from which this process imports, but for those of the installation."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._own: list[str] = []
        places = sysconfig.get_paths()
        self._installed = tuple({places[name] for name in ("stdlib", "purelib", "platlib")})

    def own(self) -> list[str]:
        """They, as absolute paths."""
        if self._seen != sys.path:
            self._seen = list(sys.path)
            every = [os.path.abspath(path) for path in self._seen]
            self._own = [
                path
                for path in dict.fromkeys(every)
                if os.path.isdir(path) and not path.startswith(self._installed)
            ]
        return self._own


_paths = Paths()


def demand() -> None:
    """Check that functions can be packed.

    Raises:
        YodError: cloudpickle is not there.
    """
    dumps(())


def dumps(value: object) -> bytes:
    """Anything as bytes.

    Raises:
        YodError: cloudpickle is not there.
        Exception: whatever packing raises.
    """
    if type(value) in _ATOMS:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    try:
        import cloudpickle
    except ImportError:
        raise YodError(f"functions need cloudpickle, which is not there: {EXTRA}") from None
    packed: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return packed


def pack_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bytes:
    """A call.

    Raises:
        Exception: whatever packing raises.
    """
    return _encoder.encode(_Packed(_paths.own(), dumps((function, args, kwargs))))


def pack_refusal(reason: str) -> bytes:
    """A call that raises an error with a reason."""
    from yod.pilot.function.source import refuse

    return _encoder.encode(_Packed([], pickle.dumps((refuse, (reason,), {}))))


def unpack_call(payload: bytes) -> Whole:
    """A call; from now on modules are also found where its caller finds them.

    Raises:
        Exception: whatever unpacking raises.
    """
    packed = _decoder.decode(payload)
    global _added
    if packed.paths != _added:
        known = set(sys.path)
        sys.path += [path for path in packed.paths if path not in known]
        _added = packed.paths
    try:
        whole: Whole = pickle.loads(packed.call)
    except ModuleNotFoundError as error:
        missing = [path for path in packed.paths if not os.path.isdir(path)]
        if missing:
            error.add_note(
                f"This node lacks {', '.join(missing)}; after"
                f" cloudpickle.register_pickle_by_value({error.name}) the module's functions travel"
                " with the call."
            )
        raise
    return whole


def unpack_value(value: bytes) -> Any:
    """What a call has returned.

    Raises:
        Exception: whatever unpacking raises.
    """
    found = pickle.loads(value)
    if isinstance(found, _Values):
        return [pickle.loads(each) for each in found.packed]
    return found


def pack_values(values: list[bytes]) -> bytes:
    """Packed results of several ranks as one, which is unpacked as a list of them."""
    return pickle.dumps(_Values(values), pickle.HIGHEST_PROTOCOL)


def as_text(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call as a text, which a description takes as its function."""
    return _MARK + base64.b64encode(pack_call(function, args, kwargs)).decode("ascii")


def pack(description: Mapping[str, Any], where: str, bytes_max: int) -> bytes:
    """The call of a task.

    Args:
        where: for messages.
        bytes_max: of what is packed.

    Raises:
        UsageError: it cannot be packed, or not run as a function; the text has the key.
    """
    for key in _REFUSED:
        if description.get(key):
            raise UsageError(
                f"{where}: {key!r} is refused for a function: it runs in a worker that is there"
                " already; use an executable, or do it in the function"
            )
    try:
        payload = _payload(description, where)
    except YodError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise UsageError(f"{where}: the call cannot be packed: {shown(told)}") from None
    if len(payload) > bytes_max:
        raise UsageError(f"{where}: {too_long(len(payload), bytes_max)}")
    return payload


def too_long(size: int, most: int) -> str:
    """What is said of a call that is too long."""
    return (
        f"the packed call has {size} bytes, and at most {most} are taken (YOD_CALL_BYTES); give it"
        " the path of a file instead"
    )


def _payload(description: Mapping[str, Any], where: str) -> bytes:
    mode = description.get("mode", "")
    kind = modes.SHORT.get(mode, mode)
    if kind == modes.TASK_EVAL:
        from yod.pilot.function.source import evaluate

        return pack_call(evaluate, (description["code"],), {})
    if kind in (modes.TASK_PROC, modes.TASK_SHELL):
        from yod.pilot.function.source import run
        from yod.pilot.model.command import words_of

        return pack_call(run, (words_of(TaskDescription(dict(description))),), {})
    if kind == modes.TASK_EXEC:
        from yod.pilot.function.source import execute

        return pack_call(execute, (description["code"],), {})
    if modes.is_registered(kind):
        from yod.pilot.function.registered import Registered

        return pack_call(Registered(kind), ({"description": dict(description)},), {})
    function = description.get("function")
    if kind == modes.TASK_METHOD:
        function = Method(description.get("method") or str(function))
    elif isinstance(function, str) and description.get("raptor_id") and _MARK not in function:
        function = Method(function)
    if isinstance(function, str) and function.startswith(_MARK):
        return base64.b64decode(function.removeprefix(_MARK))
    if not callable(function):
        raise UsageError(
            f"{where}: 'function' is {shown(repr(function))}; it is to be a function, or a call"
            " made by PythonTask"
        )
    return pack_call(function, description.get("args") or (), description.get("kwargs") or {})
