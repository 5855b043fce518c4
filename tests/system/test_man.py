"""man shows the pages of this installation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S
from tests.unit.test_man import man

SECTIONS = sorted(man.SECTIONS.values())


def shown(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MANROFFSEQ": "", "MAN_KEEP_FORMATTING": "", "COLUMNS": "80"}
    environment.pop("MANPATH", None)
    return subprocess.run(
        ["man", *arguments], env=environment, text=True, capture_output=True, timeout=LIMIT_S
    )


@pytest.mark.parametrize(("name", "section"), SECTIONS)
def test_man_finds_a_page_beside_the_command_and_has_nothing_to_say_against_it(name, section):
    where = Path(shown("-w", section, name).stdout.strip())
    assert where.parent.parent.parent.parent == Path(sys.prefix), where
    page = shown("--warnings", section, name)
    assert (page.returncode, page.stderr) == (0, "")
    assert page.stdout.startswith(f"{name}({section})")
