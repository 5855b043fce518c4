"""Imports msgspec without what it imports for values and formats that no message has.

That is half of the time that msgspec takes: ``uuid`` alone asks which platform this is.
For the command only: a user's program that imports :mod:`yod.api` may want them.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

TYPE_CHECKING = False  # typing is imported below, and without re
if TYPE_CHECKING:
    from typing import Any

ABSENT = (
    *("uuid", "decimal", "textwrap"),
    *("msgspec.inspect", "msgspec.json", "msgspec.toml", "msgspec.yaml"),
)
SCHEMA = "msgspec._json_schema"


class _Absent:
    """Has the names that msgspec takes from the modules that it stands in for."""

    class UUID:
        pass

    class SafeUUID:
        unknown = None

    class Decimal:
        pass


class _SchemaLater:
    """What msgspec.json takes from msgspec._json_schema, which is imported for a schema only.

    A launch in a partition reads a JSON file; the schemas would take most of that time.
    """

    @staticmethod
    def schema(*arguments: Any, **options: Any) -> Any:
        return _json_schema().schema(*arguments, **options)

    @staticmethod
    def schema_components(*arguments: Any, **options: Any) -> Any:
        return _json_schema().schema_components(*arguments, **options)


def _json_schema() -> Any:
    if sys.modules[SCHEMA] is _SchemaLater:  # type: ignore[comparison-overlap]
        del sys.modules[SCHEMA]
        __import__(SCHEMA)
    return sys.modules[SCHEMA]


class _PatternLater:
    """A pattern that is compiled when it is first searched for: few launches decode a name."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: Any = None

    def search(self, text: str) -> object:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled.search(text)


def _core_of_re() -> SimpleNamespace:
    """The types of :mod:`re`, which typing names, and what msgspec keeps for patterns."""
    import _sre  # type: ignore[import-not-found]

    empty = _sre.compile("", 0, [1], 0, {}, ())  # 1: it matches
    return SimpleNamespace(Pattern=type(empty), Match=type(empty.match("")), compile=_PatternLater)


def _any_reference(*arguments: object, **options: object) -> None:
    """In place of typing.ForwardRef, which would set up the compiler.

    msgspec makes one while it is imported, to see which arguments it takes.
    """


def import_msgspec() -> None:
    """Import it, unless that has been done.

    A release of msgspec or Python that needs more than is here imports it as usual.
    """
    if "msgspec" in sys.modules:
        return
    names = {"re", "datetime", *ABSENT} - sys.modules.keys()
    reference = None
    try:
        import _datetime  # type: ignore[import-not-found]

        stand_ins = {"re": _core_of_re(), "datetime": _datetime}
        for name in names:
            sys.modules[name] = stand_ins.get(name, _Absent)
        import typing

        reference = typing.ForwardRef
        typing.ForwardRef = _any_reference  # type: ignore[assignment, misc]
        import msgspec

        for name in ("inspect", "json", "toml", "yaml"):
            if getattr(msgspec, name, None) is _Absent:
                delattr(msgspec, name)  # so that it can be imported
        sys.modules.setdefault(SCHEMA, _SchemaLater)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError, RuntimeError):
        pass
    finally:
        if reference is not None:
            typing.ForwardRef = reference  # type: ignore[misc]
        for name in names:
            sys.modules.pop(name, None)


import_msgspec()
