"""The file of results: sections that begin with a first-level heading, one per measurement."""

from __future__ import annotations

import re
from pathlib import Path


def write(path: Path, section: str) -> None:
    """Put a section into the file, in place of the one with its heading or at the end.

    Args:
        path: the file; made if it is not there.
        section: Markdown whose first line is its only first-level heading.
    """
    old = path.read_text() if path.exists() else ""
    sections = [part for part in re.split(r"(?m)^(?=# )", old) if part.strip()]
    heading = section.partition("\n")[0]
    new = section.rstrip("\n") + "\n"
    at = [part.partition("\n")[0] for part in sections]
    if heading in at:
        sections[at.index(heading)] = new
    else:
        sections.append(new)
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in sections))
