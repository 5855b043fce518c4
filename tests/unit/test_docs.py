"""The pages of docs/ name files and functions that exist, and every option of a command."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import allocator.command.cli
import ensemble.cli
import partition.commands.every
import partition.pingd
import pct.command.cli
import yod.cli
import yod.pilot.command
from native.options import of_click

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("allocator", "bench", "docs", "ensemble", "examples", "native", "partition", "pct"),
    *("tests", "yod"),
)
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
_CODE = re.compile(r"`([^`\n]+)`")
_PLACE = re.compile(rf"((?:{'|'.join(FOLDERS)})/(?:[\w.-]+/)*(?:[\w-]+\.[\w.]+)?)(?::(\w+))?")


def places(page: Path) -> list[tuple[str, str]]:
    """Path and name of each ``path`` and ``path:name`` in a page."""
    found = (_PLACE.fullmatch(code) for code in _CODE.findall(page.read_text()))
    return [(place[1], place[2] or "") for place in found if place]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_what_is_there(page):
    for path, name in places(page):
        assert (ROOT / path).exists(), f"{page.name}: `{path}`: no such file"
        if name:
            text = (ROOT / path).read_text()
            assert re.search(rf"\b{name}\b", text), f"{page.name}: `{path}` has no {name}"


def test_the_index_of_decisions_has_every_decision_with_its_date():
    text = (ROOT / "docs" / "DECISIONS.md").read_text()
    index, _, rest = text.partition("\n## ")
    listed = re.findall(r"^\| (\d{4}-\d\d-\d\d) \| \[(.+)\]\(#(.+)\) \|$", index, re.M)
    made = re.findall(r"^## (.+)\n\n\*(\d{4}-\d\d-\d\d)\.\* \*Context\.\* ", f"## {rest}", re.M)
    assert len(made) == rest.count("\n## ") + 1, "a decision begins with its date and context"
    assert [(date, title) for date, title, _ in listed] == [(date, title) for title, date in made]
    for _, title, anchor in listed:
        assert anchor == re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


_YODJOB = partition.commands.every.command
_CONTEXT = click.Context(_YODJOB)
COMMANDS_OF_YODJOB = {
    name: found
    for name in _YODJOB.list_commands(_CONTEXT)
    if (found := _YODJOB.get_command(_CONTEXT, name)) is not None
}

OPTIONS = {
    "bebopd": of_click(allocator.command.cli.command.params),
    "pct": of_click(pct.command.cli.command.params),
    "pingd": of_click(partition.pingd.command.params),
    "yod": yod.cli.OPTIONS,
    "ensemble": of_click(ensemble.cli.command.params),
    "yod-pilot": [
        option
        for each in yod.pilot.command.command.commands.values()
        for option in of_click(each.params)
    ],
    "yodjob": [option for each in COMMANDS_OF_YODJOB.values() for option in of_click(each.params)],
}


def test_the_page_of_yodjob_has_every_subcommand():
    text = (ROOT / "docs" / "yodjob.md").read_text()
    for name, command in COMMANDS_OF_YODJOB.items():
        if command.hidden:  # for our own daemons
            continue
        assert re.search(rf"^    yodjob {name}\b", text, re.M) and f"`{name}`" in text


@pytest.mark.parametrize("name", OPTIONS)
def test_the_page_of_a_command_has_its_options(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    for option in OPTIONS[name]:
        first = option.spellings[0]
        assert re.search(rf"[`{{]{first}\b", text), f"docs/{name}.md: no word about {first}"
