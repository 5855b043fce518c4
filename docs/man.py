"""The pages of docs/ as man pages: ``python docs/man.py DIRECTORY``.

MyST reads a page and docutils writes it as roff. What lies between is here: a page begins as man
pages do (NAME, SYNOPSIS, DESCRIPTION), a table of two columns is a list of terms, and a link to
another page names that page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.writers.manpage import Writer
from myst_parser.docutils_ import Parser

DOCS = Path(__file__).parent
SECTIONS = {  # page: the man page's name and section
    "yod": ("yod", "1"),
    "yodjob": ("yodjob", "1"),
    "yodctl": ("yodctl", "1"),
    "pingd": ("pingd", "1"),
    "yod-agent": ("yod-agent", "1"),
    "yod-cr": ("yod-cr", "1"),
    "ensemble": ("yod-ensemble", "1"),
    "yod-pilot": ("yod-pilot", "1"),
    "allocations": ("yod-allocations", "7"),
    "batch": ("yod-batch", "7"),
    "slurm": ("yod-slurm", "7"),
    "hosts": ("yod-hosts", "7"),
    "admin": ("yod-admin", "7"),
    "hooks": ("yod-hooks", "7"),
    "queues": ("yod-queues", "7"),
    "checkpoint": ("yod-checkpoint", "7"),
    "bebopd": ("bebopd", "8"),
    "pct": ("pct", "8"),
    "yod-server": ("yod-server", "8"),
    "yod.conf": ("yod.conf", "5"),
}
STRICT = {"report_level": 2, "halt_level": 2, "myst_all_links_external": True}


def write_all(directory: Path, version: str) -> list[Path]:
    """Write every man page to ``man1``, ``man7`` or ``man8`` below a directory.

    Returns:
        The files.
    """
    found = []
    for page, (name, section) in SECTIONS.items():
        path = directory / f"man{section}" / f"{name}.{section}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(man_page(page, version))
        found.append(path)
    return found


def man_page(page: str, version: str) -> str:
    """A page of docs/ in roff, whatever the width of the terminal."""
    tree = publish_doctree(
        (DOCS / f"{page}.md").read_text(), parser=Parser(), settings_overrides=STRICT
    )
    for link in list(tree.findall(nodes.reference)):
        link.replace_self(_named(link, page))
    for table in list(tree.findall(nodes.table)):
        if (terms := _terms(table)) is not None:
            table.replace_self(terms)
    _begin(tree, page, version)
    tree += _section("See also", nodes.paragraph("", ", ".join(_others(page)) + "."))
    for title in tree.findall(nodes.title):
        if title.parent.parent is tree:
            title.replace_self(nodes.title("", title.astext().upper()))
    text = publish_from_doctree(tree, writer=Writer(), settings_overrides=STRICT)
    return text.decode().replace(".SH Name\n", ".SH NAME\n", 1)


def _others(page: str) -> list[str]:
    return [f"{name}({section})" for key, (name, section) in SECTIONS.items() if key != page]


def _named(link: nodes.reference, page: str) -> list[nodes.Node]:
    """What stands in place of a link: its text, and the page where that is another one."""
    text = list(link.children)
    target = Path(link.get("refuri", "").partition("#")[0]).stem
    if target == page or target not in SECTIONS:
        return text
    name, section = SECTIONS[target]
    if link.astext() == name:
        return [nodes.strong("", name), nodes.Text(f"({section})")]
    return [*text, nodes.Text(", "), nodes.strong("", name), nodes.Text(f"({section})")]


def _terms(table: nodes.table) -> nodes.definition_list | None:
    """A table of two columns as terms with their meanings; None: it has more."""
    rows = [[*row.children] for body in table.findall(nodes.tbody) for row in body]
    if any(len(row) != 2 for row in rows):
        return None
    items = nodes.definition_list()
    for term, meaning in rows:
        inline = [part for paragraph in term for part in paragraph.children]
        items += nodes.definition_list_item(
            "", nodes.term("", "", *inline), nodes.definition("", *meaning.children)
        )
    return items


def _section(title: str, *children: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title("", title), *children, ids=[title.lower()])


def _begin(tree: nodes.document, page: str, version: str) -> None:
    """Put name, synopsis and description before the first section of a page."""
    name, section = SECTIONS[page]
    body = tree.children[0] if isinstance(tree.children[0], nodes.section) else tree
    parts = [part for part in body.children if not isinstance(part, nodes.title)]
    first = next(
        (at for at, part in enumerate(parts) if isinstance(part, nodes.section)), len(parts)
    )
    purpose, *rest = parts[:first]
    sentence, _, more = purpose.astext().partition(". ")
    synopsis = [part for part in rest[:1] if isinstance(part, nodes.literal_block)]
    description = [nodes.paragraph("", more)] if more else []
    description += rest[len(synopsis) :]
    tree.clear()
    fields: dict[str, Any] = {"manual_section": section, "version": f"yod {version}"}
    tree += nodes.title("", name)
    tree += nodes.subtitle("", re.sub(r"\s+", " ", sentence).rstrip("."))
    tree += nodes.docinfo(
        "",
        *[
            nodes.field(
                "", nodes.field_name("", key), nodes.field_body("", nodes.paragraph("", value))
            )
            for key, value in fields.items()
        ],
    )
    if synopsis:
        tree += _section("Synopsis", *synopsis)
    if description:
        tree += _section("Description", *description)
    tree += parts[first:]


if __name__ == "__main__":
    write_all(Path(sys.argv[1]), "" if len(sys.argv) < 3 else sys.argv[2])
