"""What profiles say of files that are staged."""

from __future__ import annotations

from collections.abc import Iterable

from yod.pilot.files.attempt import Attempt
from yod.pilot.profile.writer import Row


def rows_of_staging(uid: str, tried: Iterable[Attempt], *, is_input: bool) -> list[Row]:
    """What is written of files."""
    way = "in" if is_input else "out"
    rows: list[Row] = []
    for directive, failure, began, ended in tried:
        did = directive.uid or str(directive.source)
        rows.append((f"staging_{way}_start", uid, "", did, began))
        event = f"staging_{way}_fail" if failure else f"staging_{way}_stop"
        rows.append((event, uid, "", did, ended))
    return rows
