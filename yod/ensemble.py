"""For servers and clients of a study that ``yod-ensemble`` runs: docs/ensemble.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ensemble.library.server import LauncherLostError, Server, State, Update

if TYPE_CHECKING:
    from ensemble.library.client import Client
    from ensemble.library.fields import Field, Fields
    from ensemble.library.moments import Moments

_WITH_NUMPY = {"Client": "client", "Field": "fields", "Fields": "fields", "Moments": "moments"}


def __getattr__(name: str) -> Any:
    """What needs numpy, when it is used."""
    if name not in _WITH_NUMPY:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from importlib import import_module

    return getattr(import_module(f"ensemble.library.{_WITH_NUMPY[name]}"), name)


__all__ = [
    "Client",
    "Field",
    "Fields",
    "LauncherLostError",
    "Moments",
    "Server",
    "State",
    "Update",
]
