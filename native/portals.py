"""The Portals 4 interface for Python programs."""

from __future__ import annotations

from native.endpoint import InUseError, NoSpaceError, PtlError, Rc

__all__ = ["InUseError", "NoSpaceError", "PtlError", "Rc"]
