"""Imports msgspec without what it imports for values and formats that no message has.

That is a third of the time that msgspec takes: ``uuid`` alone asks which platform this
is. For the command only: a user's program that imports :mod:`yod.api` may want them.
"""

from __future__ import annotations

import sys


class _Absent:
    """Has the names that msgspec takes from the modules that it stands in for."""

    class UUID:
        pass

    class SafeUUID:
        unknown = None

    class Decimal:
        pass


def import_msgspec() -> None:
    """Import it, unless that has been done.

    A release of msgspec that needs more than is here is left to be imported as usual.
    Of ``datetime`` it takes the types that are written in C, and the module in Python is
    only the same in Python.
    """
    if "msgspec" in sys.modules:
        return
    names = {"uuid", "decimal", "textwrap", "datetime", "msgspec.inspect"} - sys.modules.keys()
    try:
        import _datetime  # type: ignore[import-not-found]

        for name in names:
            sys.modules[name] = _datetime if name == "datetime" else _Absent  # type: ignore[assignment]
        import msgspec  # noqa: F401
    except (ImportError, AttributeError):
        pass
    finally:
        for name in names:
            sys.modules.pop(name, None)


import_msgspec()
