"""A rank's place as scripts for the reference write it: dictionaries whose keys are attributes."""

from __future__ import annotations

from typing import Any, ClassVar


class _Words(dict[str, Any]):
    """Only what has been given is kept; else an attribute has its default."""

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, from_dict: dict[str, Any] | None = None, **entries: Any) -> None:
        super().__init__(from_dict or {}, **entries)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no key {name!r}")
        return self._defaults[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class ResourceOccupation(_Words):
    """A core or a GPU, by its number, and how much of it is taken."""

    _defaults: ClassVar[dict[str, Any]] = {"index": 0, "occupation": 1.0}


RO = ResourceOccupation


class Slot(_Words):
    """What a rank is to have of one node: see :mod:`yod.pilot.model.chosen`."""

    _defaults: ClassVar[dict[str, Any]] = {
        "cores": (),
        "gpus": (),
        "lfs": 0,
        "mem": 0,
        "node_index": 0,
        "node_name": "",
        "version": 1,
    }
