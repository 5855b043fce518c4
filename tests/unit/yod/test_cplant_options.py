"""Each option of Cplant's yod is an option of ours, or the page says why it is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from native import options
from native.errors import UsageError
from yod import cli
from yod.elsewhere import TABLE

PAGE = Path(__file__).parents[3] / "docs/yod.md"

# All that `yod -help` and `yod -vhelp` of Cplant 2.0 knew; with a value.
OF_CPLANT = {
    **dict.fromkeys(("-sz", "-size", "-list", "-l", "-file", "-d", "-comm", "-nid", "-pid"), True),
    **dict.fromkeys(("-debug", "-strace", "-straceoptions", "-stracenodes", "-sleep"), True),
    **dict.fromkeys(("-alloc", "-attach", "-bt", "-g", "-batch", "-interactive", "-kill"), False),
    **dict.fromkeys(("-nice", "-quiet", "-D", "-timing", "-show", "-xxx", "-Log"), False),
    **dict.fromkeys(("-Debug", "-NOBUF", "-x", "-help", "-vhelp"), False),
}
# These mean something else here: its `-x` was for tests, ours leaves nodes out.
OTHERWISE = {"-x"}

_OPTION = re.compile(r"(?<![\w-])-[A-Za-z]\w*")


def section() -> str:
    """What the page says to users of Cplant's yod."""
    text = PAGE.read_text().partition("\n## For users of Cplant's yod\n")[2]
    return text.partition("\n## ")[0]


def rows(text: str) -> dict[str, str]:
    """option -> what is said of it, of the rows of a table."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        first, _, rest = line.strip("| ").partition(" | ")
        if line.startswith("| `") and rest:
            found |= dict.fromkeys(_OPTION.findall(re.sub(r"\(.*?\)", "", first)), rest)
    return found


def taken() -> dict[str, bool]:
    """spelling -> whether it has a value, of the options of ours."""
    return {name: option.takes_value for option in cli.OPTIONS for name in option.spellings}


def test_every_option_of_the_original_is_taken_or_has_a_reason_in_the_table():
    text = section()
    here, _, not_here = text.partition("These are not here")
    ours = {name: takes_value for name, takes_value in taken().items() if name not in OTHERWISE}
    said, reasons = rows(here), rows(not_here)
    for name, takes_value in OF_CPLANT.items():
        if name in ours:
            assert ours[name] == takes_value, f"{name} has a value in one of both only"
            assert name in said, f"{name}: docs/yod.md does not say that it is the same"
            assert name not in reasons, f"{name}: docs/yod.md says that it is not here"
        else:
            assert (said | reasons).get(name), f"{name}: docs/yod.md has no reason"


def test_the_tables_name_no_option_that_the_original_had_not():
    here, _, not_here = section().partition("These are not here")
    named = {**rows(here), **rows(not_here)}
    assert named.keys() <= OF_CPLANT.keys()


@pytest.mark.parametrize("name", sorted(OF_CPLANT.keys() - taken().keys()))
def test_one_that_is_none_here_is_refused_with_a_word_about_it(name):
    with pytest.raises(UsageError) as caught:
        options.parse([name, "program"], cli.OPTIONS, cli.explain_option)
    assert TABLE[name.lstrip("-")] in str(caught.value)
