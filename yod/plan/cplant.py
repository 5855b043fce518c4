"""The exit status of Cplant's yod (``--exit=cplant``). Pure; imported when it is asked for.

Source: yod(1), "RETURN VALUES".
"""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown

OPTION = "--exit"
NEVER_STARTED = 2


def check(value: str) -> None:
    """Look at the value of the option.

    Raises:
        UsageError: it asks for something else.
    """
    if value != "cplant":
        raise UsageError(f"{OPTION} {shown(value)}: only cplant is known")


def status_of(status: int, has_begun: bool) -> int:
    """Cplant's status.

    Args:
        status: ours.
        has_begun: the ranks were let go.
    """
    if not status:
        return 0
    return 1 if has_begun else NEVER_STARTED
