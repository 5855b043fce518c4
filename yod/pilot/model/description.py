"""Descriptions of pilots and tasks: dictionaries whose keys are attributes as well.

Only what has been given is kept, so a description of three keys takes the room of three.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from native.errors import UsageError
from yod.pilot.model import modes
from yod.pilot.model.chosen import plain, read_slots
from yod.pilot.model.keys import ONE_OR_MORE, PILOT_KEYS, TASK_KEYS, TASK_OLD, Key, check_key


class Description(dict[str, Any]):
    """A dictionary with the keys of one kind of description, checked by :meth:`verify`."""

    _keys: ClassVar[dict[str, Key]] = {}
    _old: ClassVar[dict[str, str]] = {}
    _what = "description"

    def __init__(self, from_dict: dict[str, Any] | None = None, **entries: Any) -> None:
        super().__init__(from_dict or {}, **entries)
        for name in self._old.keys() & self.keys():
            self[self._old[name]] = self.pop(name)

    def __missing__(self, name: str) -> Any:
        """What has not been given: by an older name, or the default."""
        new = self._old.get(name, name)
        if new in self:
            return self[new]
        if new not in self._keys:
            raise KeyError(name)
        return getattr(self, new)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        name = self._old.get(name, name)
        key = self._keys.get(name)
        if key is None:
            raise AttributeError(f"{type(self).__name__} has no key {name!r}")
        if name not in self:
            if isinstance(key.default, dict):
                self[name] = {}  # scripts fill it in
            elif isinstance(key.default, tuple):
                self[name] = []
            else:
                return key.default
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[self._old.get(name, name)] = value

    def __delattr__(self, name: str) -> None:
        self.pop(self._old.get(name, name), None)

    def as_dict(self) -> dict[str, Any]:
        """A dictionary with what has been given."""
        return dict(self)

    def copy(self) -> Self:
        """Another description with the same entries."""
        return type(self)(dict(self))

    def value(self, name: str) -> Any:
        """The value of a key, or its default; nothing is added."""
        found = self.get(name)
        return self._keys[name].default if found is None else found

    def verify(self) -> None:
        """Check every entry.

        Raises:
            UsageError: one is wrong; the text has its key.
        """
        uid = self.get("uid")
        where = f"{self._what} {uid}" if uid else self._what
        for name in self.keys() & ONE_OR_MORE:
            if isinstance(self[name], str | int | float):
                self[name] = [self[name]]
        for name, value in self.items():
            check_key(name, value, self._keys, where)
        self._check_whole(where)

    def _check_whole(self, where: str) -> None:
        """What concerns several keys."""


class TaskDescription(Description):
    """What a task is to run, with what, and where its files are."""

    _keys = TASK_KEYS
    _old = TASK_OLD
    _what = "task"

    @property
    def kind(self) -> str:
        """Its mode, as the long word."""
        mode: str = self.value("mode")
        return modes.SHORT.get(mode, mode)

    @property
    def is_queue(self) -> bool:
        """It is a raptor that is a queue at its agent, and no program."""
        return self.kind == modes.RAPTOR_MASTER and not self.get("executable")

    def _check_whole(self, where: str) -> None:
        kind = self.kind
        if modes.is_registered(kind) and not self.get("raptor_id"):
            raise UsageError(
                f"{where}: 'mode' is {kind!r}, which is none of {', '.join(modes.MODES)}; with a"
                " 'raptor_id' it may be one that a worker has registered"
            )
        needed = {
            modes.TASK_EXECUTABLE: "executable",
            modes.TASK_SERVICE: "executable",
            modes.TASK_PROC: "executable",
            modes.TASK_FUNCTION: "function",
            modes.TASK_METHOD: "method",
            modes.TASK_EVAL: "code",
            modes.TASK_EXEC: "code",
            modes.TASK_SHELL: "command",
        }.get(kind)
        if kind == modes.TASK_METHOD and self.get("function"):
            return
        if needed and not self.get(needed):
            raise UsageError(f"{where}: {needed!r} is missing, which the mode {kind} needs")
        uid = self.get("uid") or ""
        if "/" in uid or uid in (".", ".."):
            raise UsageError(f"{where}: 'uid' is {uid!r}, which cannot name a directory")
        self._check_placed(where)
        own = self.value("sandbox")
        if self.value("cleanup") and own and ({"", ".", ".."} & set(own.split("/"))):
            raise UsageError(
                f"{where}: 'cleanup' would remove 'sandbox', {own!r}, which is to be a directory"
                " below the pilot's, without . and .."
            )

    def _check_placed(self, where: str) -> None:
        if self.value("pre_exec_sync") and self.value("use_mpi") is False:
            raise UsageError(
                f"{where}: 'pre_exec_sync' is for ranks that find one another, 'use_mpi' is False"
            )
        if not self.get("slots"):
            return
        chosen = read_slots(self["slots"])
        self["slots"] = plain(chosen)
        cores = len(chosen.slots[0].cores)
        for name, count in (("ranks", len(chosen.slots)), ("cores_per_rank", cores)):
            if self.get(name) not in (None, count):
                raise UsageError(
                    f"{where}: 'slots' are for {name} {count}, and {name!r} is {self[name]}"
                )
            self[name] = count
        if self.value("use_mpi") is False and len({(s.node, s.name) for s in chosen.slots}) > 1:
            raise UsageError(f"{where}: 'slots' are on several nodes, and 'use_mpi' is False")


class PilotDescription(Description):
    """How much a pilot holds, where, and for how long."""

    _keys = PILOT_KEYS
    _what = "pilot"

    def _check_whole(self, where: str) -> None:
        if not self.value("runtime"):
            raise UsageError(f"{where}: 'runtime' is 0; it is to be some minutes")
        if self.value("backup_nodes") and (self.value("cores") or not self.value("nodes")):
            raise UsageError(f"{where}: 'backup_nodes' are for a pilot that asks for 'nodes'")
