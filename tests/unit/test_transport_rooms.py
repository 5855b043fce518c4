"""The rooms of the C transport, and what may include what: the table in docs/ARCHITECTURE.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "native/transport/src"
PAGE = ROOT / "docs/ARCHITECTURE.md"
CORE = {"endpoint", "connection", "near"}  # the page says why these are a circle


def headers() -> dict[str, str]:
    """The room of each header."""
    return {path.name: path.parent.name for path in SOURCES.glob("*/*.h")}


def includes() -> dict[str, dict[str, list[str]]]:
    """Room, other room, and the files that include its headers."""
    room_of = headers()
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted(SOURCES.glob("*/*.[ch]")):
        for header in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE):
            room = room_of.get(header)
            if room not in (None, path.parent.name):
                rooms = found.setdefault(path.parent.name, {})
                rooms.setdefault(str(room), []).append(f"{path.name} includes {header}")
    return found


def allowed() -> dict[str, set[str]]:
    """The table of the page."""
    section = PAGE.read_text().partition("### What may call what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    rooms = {room for room, _ in rows}
    table = {room: set(re.findall(r"`(\w+)`", cell)) for room, cell in rows}
    return {room: rooms - {room} if cell == "all others" else table[room] for (room, cell) in rows}


def test_every_room_of_the_transport_is_in_the_table():
    assert set(allowed()) == {path.name for path in SOURCES.iterdir() if path.is_dir()}


def test_a_room_includes_headers_only_of_rooms_that_the_table_names():
    table = allowed()
    wrong = [
        line
        for room, others in includes().items()
        for other, lines in others.items()
        if other not in table[room]
        for line in lines
    ]
    assert not wrong


def test_the_table_names_no_room_that_is_not_included():
    used = includes()
    assert {r: names - set(used.get(r, {})) for r, names in allowed().items() if r != "api"} == {
        room: set() for room in allowed() if room != "api"
    }


def test_only_the_three_rooms_of_the_core_include_one_another_in_a_circle():
    table = allowed()
    outside = {room: names - CORE for room, names in table.items() if room not in CORE}
    assert not any(names - {"pure"} - CORE for room, names in table.items() if room in CORE)
    while leaves := {room for room in outside if not outside[room] & outside.keys()}:
        for room in leaves:
            del outside[room]
    assert not outside
