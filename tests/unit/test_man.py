"""The pages of docs/ as man pages. tests/system has man itself."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.unit.test_docs import OPTIONS

ROOT = Path(__file__).parents[2]


def _module(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


man = _module(ROOT / "docs" / "man.py")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Each page without changes of the font, and with plain hyphens."""
    return {
        page: re.sub(r"\\f[BPRI]", "", man.man_page(page, "1.2.3")).replace("\\-", "-")
        for page in man.SECTIONS
    }


def test_every_command_that_a_person_starts_has_a_page():
    commands = re.findall(r'^    "([\w-]+)": "[\w.]+",$', (ROOT / "setup.py").read_text(), re.M)
    assert set(commands) - {"yod-cold", "yodjob-cold"} <= {
        name for name, _ in man.SECTIONS.values()
    }


@pytest.mark.parametrize("page", man.SECTIONS)
def test_a_page_begins_with_its_name_and_what_it_is_for(pages, page):
    name, section = man.SECTIONS[page]
    text = pages[page]
    assert re.search(rf'^\.TH "{name}" "{section}" "" "yod 1\.2\.3"', text, re.M)
    assert re.search(rf"^\.SH NAME\n{name} +\\?- \S.*[^.]$", text, re.M)
    if section in "18":
        assert re.search(rf"^\.SH SYNOPSIS\n(\.\S.*\n)*{name}\b", text, re.M)


@pytest.mark.parametrize("page", OPTIONS)
def test_a_page_has_each_option_of_its_command_as_a_term_or_in_its_synopsis(pages, page):
    terms = "\n".join(re.findall(r"^\.(?:TP|B)\n?(.*)", pages[page], re.M))
    terms += pages[page].partition(".SH DESCRIPTION")[0]
    for option in OPTIONS[page]:
        assert re.search(rf"(?<![\w-]){option.spellings[0]}\b", terms), option.spellings


def test_a_link_to_another_page_names_it_as_man_pages_do(pages):
    assert "yod-batch(7)" in pages["yod"].partition(".SH SEE ALSO")[0]
    assert "](" not in pages["yod"]
