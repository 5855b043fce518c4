"""Where the program `criu` is."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "YOD_CRIU"
_ALSO = ("/usr/sbin", "/sbin")  # what users have not in PATH, and root may have not


def find(environment: Mapping[str, str]) -> str:
    """The absolute path of criu; empty: there is none."""
    path = environment.get("PATH", os.defpath)
    if name := environment.get(VARIABLE):
        places = [""] if os.path.dirname(name) else path.split(os.pathsep)
    else:
        name, places = "criu", [*path.split(os.pathsep), *_ALSO]
    for place in places:
        found = os.path.join(place, name)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return os.path.abspath(found)
    return ""
