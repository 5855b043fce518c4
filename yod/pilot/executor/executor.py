"""``concurrent.futures.Executor`` over a pilot: docs/pilot.md."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from functools import partial
from typing import Any

from native import limits
from native.errors import UsageError, YodError
from native.text import shown
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.pmgr import PilotManager
from yod.pilot.client.session import Session
from yod.pilot.client.tmgr import TaskManager
from yod.pilot.executor.calling import HERE, Asked, Calling
from yod.pilot.executor.later import futures_in, resolved, when_all
from yod.pilot.executor.wants import keys_of_pilot, wants_of
from yod.pilot.function import codec, preset
from yod.pilot.model.description import PilotDescription

_DAY_MINUTES = 1440.0
_CHUNKS = 8  # of a `map` for each core
_CHUNK_MOST = 1000
_LOOK_S = 1.0


class Executor(futures.Executor):
    """Calls functions in the slots of a pilot, in workers that stay.

    Args:
        max_workers: cores that calls may take at a time. Default: all of the pilot's.
        pilot: one that is there, or several; it is not ended. Default: one of its own, which begins
            now and is ended by :meth:`shutdown`.
        resource_dict: what a call needs that says nothing else: docs/pilot.md.
        restart_limit: a call whose worker dies is given back so often.
        init_function: called once in each worker; arguments that it returns, by their names, are
            those of calls that have such parameters and do not give them.
        base: the directory below which the directory of an own session is.
        keys: of :class:`PilotDescription`, for an own pilot. On this host its ``runtime`` is a day.
            Also those of executorlib's executors; ``max_cores`` is ``max_workers``.

    Raises:
        UsageError: a key is wrong.
        YodError: the session or the pilot cannot begin.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        pilot: Pilot | list[Pilot] | None = None,
        resource_dict: Mapping[str, Any] | None = None,
        restart_limit: int = 0,
        init_function: Callable[[], Mapping[str, Any] | None] | None = None,
        base: str = "",
        **keys: Any,
    ) -> None:
        keys = keys_of_pilot(keys)
        most_cores = keys.pop("max_cores", None)
        max_workers = most_cores if max_workers is None else max_workers
        if max_workers is not None and max_workers < 1:
            raise UsageError(f"max_workers is {max_workers}; it is to be at least 1")
        self._defaults = {"restart_limit": restart_limit, **(resource_dict or {})}
        self._wants = wants_of(self._defaults)
        self._most = max_workers or 0
        self._lock = threading.Lock()
        self._is_shut = False
        self._later: set[futures.Future[Any]] = set()  # those that wait for others, until done
        self._cancels = False
        self._quiet = threading.Event()
        if pilot is not None and keys:
            raise UsageError(f"{', '.join(keys)}: the pilot is there already")
        codec.demand()
        most = limits.load(dict(os.environ)).call_bytes
        first = b"" if init_function is None else _packed(init_function, (), {}, most)
        self._last = threading.Thread(target=self._end, name="executor")
        self._own: Session | None = None
        if pilot is None:
            pilot = self._begin(base, max_workers, keys)
        pilots = list(pilot) if isinstance(pilot, list) else [pilot]
        self._pilots = pilots
        self._session = pilots[0].pmgr.session
        self._tmgr = TaskManager(self._session)
        self._tmgr.add_pilots(pilots)
        uid = self._session.next_uid("executor", 4)
        self._calling = self._session.loop.call(
            lambda: Calling(self._session, self._tmgr, pilots, uid, self._most, first)
        )
        self._tmgr.when_closed(self._closed)

    @property
    def path(self) -> str:
        """The directory of its session."""
        return self._session.path

    def submit(  # type: ignore[override]
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        resource_dict: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> futures.Future[Any]:
        """Call a function. Arguments that are futures, or lists of them, are waited for.

        Args:
            resource_dict: what this call needs, beside what all need.

        Raises:
            UsageError: the call cannot be packed, or asks for what there is not.
            RuntimeError: the executor has been shut down.
        """
        wants = self._wants
        if resource_dict:
            wants = wants_of(self._defaults, resource_dict)
        if self._most and wants.kind.size > self._most:
            raise UsageError(
                f"the call wants {wants.kind.size} cores, and max_workers is {self._most}"
            )
        others = futures_in(args, kwargs)
        payload = b"" if others else self._pack(fn, args, kwargs)
        asked = Asked(payload, wants, futures.Future())
        with self._lock:
            if self._is_shut or self._session.is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._session.loop.check()
            if others:
                self._later.add(asked.future)
            else:
                self._session.loop.post(partial(self._calling.ask, asked))
        if others:
            asked.future.add_done_callback(self._later.discard)
            when_all(others, partial(self._ask_now, asked, fn, args, kwargs))
        return asked.future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        resource_dict: Mapping[str, Any] | None = None,
    ) -> Iterator[Any]:
        """Call a function for each item, in chunks, and give the results in the order of the items.

        Args:
            chunksize: how many calls travel together. Default: an eighth of a core's share.
        """
        items = list(zip(*iterables, strict=False))
        if chunksize is None:
            chunksize = max(1, min(_CHUNK_MOST, len(items) // (self._cores() * _CHUNKS)))
        if chunksize < 1:
            raise UsageError(f"chunksize is {chunksize}; it is to be at least 1")
        chunks = [items[at : at + chunksize] for at in range(0, len(items), chunksize)]
        each = partial(_each, fn)
        asked = [self.submit(each, chunk, resource_dict=resource_dict) for chunk in chunks]
        until = None if timeout is None else timeout + time.monotonic()
        return _results(asked, until)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; those that are there are done. Calling twice is harmless.

        Args:
            wait: until they are, and everything of the executor has ended.
            cancel_futures: those that have not begun are not done.
        """
        with self._lock:
            is_first = not self._is_shut
            self._is_shut = True
        if is_first:
            self._cancels = cancel_futures
            for future in list(self._later) if cancel_futures else ():
                future.cancel()
            self._last.start()
        if wait and not self._session.loop.is_here:  # a callback of a future cannot wait
            self._last.join()

    # -- its beginning and its end ----------------------------------------------

    def _begin(self, base: str, cores: int | None, keys: dict[str, Any]) -> Pilot:
        """A pilot of its own."""
        if cores and not {"cores", "nodes"} & keys.keys():
            keys = {"cores": cores, **keys}
        description = PilotDescription(keys)
        if description.value("resource") == HERE and "runtime" not in keys:
            description["runtime"] = _DAY_MINUTES
        description.verify()
        self._own = Session(base=base)
        self._own.goes_on = False  # what it has asked for is nobody else's
        try:
            pilot: Pilot = PilotManager(self._own).submit_pilots(description)
        except BaseException:
            self._own.close()
            raise
        return pilot

    def _closed(self) -> None:
        """The session is being closed: nothing will be done any more. In its thread."""
        self._calling.close()
        self._quiet.set()

    def _end(self) -> None:
        """Wait until all calls are done, and end what there is for them."""
        loop = self._session.loop
        try:
            while self._later and not self._quiet.is_set():
                loop.check()
                futures.wait(list(self._later), _LOOK_S)
            loop.post(partial(self._calling.finish, self._quiet.set, cancels=self._cancels))
            while not self._quiet.wait(_LOOK_S):
                loop.check()
            if self._own is not None:
                self._own.close()
            elif not self._session.is_closed:
                self._tmgr.wait_tasks()
                loop.call(self._calling.close)
        except YodError:
            pass  # the session's thread has failed, and whoever asks hears of it

    def _ask_now(
        self, asked: Asked, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """What a call has waited for is there."""
        try:
            if self._session.is_closed:
                raise RuntimeError("the session has been closed")
            asked.payload = self._pack(fn, *resolved(args, kwargs))
        except Exception as error:  # that of a call that it has waited for
            if asked.future.set_running_or_notify_cancel():
                asked.future.set_exception(error)
            return
        self._session.loop.post(partial(self._calling.ask, asked))

    def _cores(self) -> int:
        told = sum(pilot.cores or pilot.description.value("cores") for pilot in self._pilots)
        return self._most or told or len(os.sched_getaffinity(0))

    def _pack(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bytes:
        return _packed(fn, args, kwargs, self._session.limits.call_bytes)


def _packed(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], most: int
) -> bytes:
    try:
        payload = codec.pack_call(function, args, kwargs)
    except Exception as error:  # whatever the application's classes raise
        told = f"{type(error).__name__}: {error}"
        raise UsageError(f"the call cannot be packed: {shown(told)}") from error
    if len(payload) > most:
        raise UsageError(codec.too_long(len(payload), most))
    return payload


def _each(function: Callable[..., Any], items: list[Any]) -> tuple[list[Any], Exception | None]:
    """The results of a chunk, up to the first call that raises. In a worker."""
    results: list[Any] = []
    function = preset.ready(function, items[0]) if items else function
    for item in items:
        try:
            results.append(function(*item))
        except Exception as error:
            return results, error
    return results, None


def _results(asked: list[futures.Future[Any]], until: float | None) -> Iterator[Any]:
    """The results of all calls of all chunks; who stops asking does not want the rest."""
    asked.reverse()
    try:
        while asked:
            left = None if until is None else until - time.monotonic()
            results, error = asked.pop().result(left)
            yield from results
            if error is not None:
                raise error
    finally:
        for future in asked:
            future.cancel()
